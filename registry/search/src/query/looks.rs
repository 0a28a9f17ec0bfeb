//! Which members of a description a query looks at.

use super::read::{self, Expression, Operand, Segment, Selector};

/// What a query over the list of all descriptions looks at in each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looks {
    /// The members of the description; it selects the same in one that has no others.
    pub members: Vec<String>,
    /// Whether it selects the description itself, or nothing.
    pub is_whole: bool,
}

/// What a query looks at; none if that may be anything. The query is valid.
#[must_use]
pub fn looks(query: &str) -> Option<Looks> {
    let segments = read::query(query)?;
    let (first, rest) = segments.split_first()?;
    let [selector] = first.selectors.as_slice() else { return None };
    if first.is_descendant {
        return None;
    }
    let mut members = Vec::new();
    match selector {
        Selector::Wildcard => {}
        Selector::Filter(filter) => expression(filter, &mut members)?,
        Selector::Name(_) | Selector::Element => return None,
    }
    if !rest.is_empty() {
        begins_with_names(rest, &mut members)?;
    }
    members.sort_unstable();
    members.dedup();
    Some(Looks { members, is_whole: rest.is_empty() })
}

/// Takes the members by which a path begins; none if it may begin by any. What follows looks into these members.
fn begins_with_names(path: &[Segment], members: &mut Vec<String>) -> Option<()> {
    let first = path.first().filter(|first| !first.is_descendant)?;
    for selector in &first.selectors {
        let Selector::Name(name) = selector else { return None };
        members.push(name.clone());
    }
    Some(())
}

fn expression(filter: &Expression, members: &mut Vec<String>) -> Option<()> {
    match filter {
        Expression::Or(inner) | Expression::And(inner) => inner.iter().try_for_each(|inner| expression(inner, members)),
        Expression::Not(inner) => expression(inner, members),
        Expression::Holds(one) => operand(one, members),
        Expression::Compare(one, _, other) => {
            operand(one, members)?;
            operand(other, members)
        }
    }
}

fn operand(one: &Operand, members: &mut Vec<String>) -> Option<()> {
    match one {
        Operand::Path(path) => begins_with_names(path, members),
        Operand::Root => None,
        Operand::Literal(_) => Some(()),
        Operand::Function(_, arguments) => arguments.iter().try_for_each(|argument| expression(argument, members)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_looks_at_the_members_that_it_names() {
        let of = |query| looks(query).map(|looks| (looks.members.join(" "), looks.is_whole));
        let found = |members: &str, is_whole| Some((members.to_owned(), is_whole));
        assert_eq!(of("$[?@.title=='x']"), found("title", true));
        assert_eq!(of("$[?!@['b'].c && (1 < @.a || @.b)].id"), found("a b id", false));
        assert_eq!(of("$[?length(@.a[0]) == 1]"), found("a", true));
        assert_eq!(of("$[?count(@.a..*) > 1 && search(@.b, 'x')]['c','d'].*"), found("a b c d", false));
        assert_eq!(of("$[?@.a[?@.b == 1]]"), found("a", true));
        assert_eq!(of("$[*].a"), found("a", false));
        for other in ["$..a", "$[?@ == 1]", "$[?@.*]", "$[?count(@.*) == 1]", "$[?@..a]", "$[*].*", "$[?@[0]]", "$[0]"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
