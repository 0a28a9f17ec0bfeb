//! What a description has if a query selects anything in it.

use crate::term::Terms;

/// What must be there. It is necessary, and need not be enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Nothing that is known of.
    Nothing,
    /// A term.
    Term(u64),
    /// All of these.
    All(Vec<Need>),
    /// One of these; none of them where nothing can be selected.
    One(Vec<Need>),
}

impl Need {
    /// What needs all of these.
    pub(crate) fn all(needs: impl IntoIterator<Item = Need>) -> Need {
        let mut all = Vec::new();
        for need in needs {
            match need {
                Need::Nothing => {}
                Need::All(more) => all.extend(more),
                need if all.contains(&need) => {}
                need => all.push(need),
            }
        }
        match all.len() {
            0 => Need::Nothing,
            1 => all.swap_remove(0),
            _ => Need::All(all),
        }
    }

    /// What needs one of these.
    pub(crate) fn one(needs: impl IntoIterator<Item = Need>) -> Need {
        let mut one = Vec::new();
        for need in needs {
            match need {
                Need::Nothing => return Need::Nothing,
                Need::One(more) => one.extend(more),
                need => one.push(need),
            }
        }
        if one.len() == 1 { one.swap_remove(0) } else { Need::One(one) }
    }

    /// Whether a description with these terms may have it.
    #[must_use]
    pub fn may_hold(&self, terms: &Terms) -> bool {
        match self {
            Need::Nothing => true,
            Need::Term(term) => terms.may_have(*term),
            Need::All(all) => all.iter().all(|need| need.may_hold(terms)),
            Need::One(one) => one.iter().any(|need| need.may_hold(terms)) || *terms == Terms::Any,
        }
    }
}
