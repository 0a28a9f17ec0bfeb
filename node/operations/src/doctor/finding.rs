//! What a diagnosis consists of.

use std::fmt::Display;

use althing_failure::Remedy;

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `L1` to `L7`.
    pub layer: &'static str,
    /// Nothing is wrong there.
    pub fine: bool,
    /// What was checked, or what is wrong and why.
    pub what: String,
    /// What to do about it, as far as no step of a face does it; empty if nothing is wrong, or there is nothing to note.
    pub remedy: String,
    /// The step that does it, or goes on from there.
    pub next: Option<Remedy>,
}

impl Finding {
    /// The same, with the step that does it.
    pub fn then(self, step: impl Into<Remedy>) -> Finding {
        Finding { next: Some(step.into()), ..self }
    }
}

/// Nothing is wrong there.
pub fn fine(layer: &'static str, what: impl Into<String>) -> Finding {
    Finding { layer, fine: true, what: what.into(), remedy: String::new(), next: None }
}

/// Nothing is wrong, but something can be done.
pub fn note(layer: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { layer, fine: true, what: what.into(), remedy: remedy.into(), next: None }
}

/// Something is wrong there, and what to do about it.
pub fn wrong(layer: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { layer, fine: false, what: what.into(), remedy: remedy.into(), next: None }
}

/// So many of what has that name in the singular: `1 agent`, `2 agents`.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, name: &str) -> String {
    let ending = if number == N::from(1) { "" } else { "s" };
    format!("{number} {name}{ending}")
}

/// The word that fits so many: `is` or `are`, `runs` or `run`.
#[must_use]
pub fn fitting<N: PartialEq + From<u8>>(number: N, of_one: &'static str, of_more: &'static str) -> &'static str {
    if number == N::from(1) { of_one } else { of_more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_all_other_numbers_are_many() {
        assert_eq!([0_u64, 1, 2].map(|number| counted(number, "agent")), ["0 agents", "1 agent", "2 agents"]);
        assert_eq!(counted(1_usize, "turn"), "1 turn");
        assert_eq!([0_u64, 1, 2].map(|number| fitting(number, "is", "are")), ["are", "is", "are"]);
    }
}
