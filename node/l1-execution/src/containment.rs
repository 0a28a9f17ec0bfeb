//! How a program is contained, and what it was refused, as people are told.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_keeper::{Level, Refusal};
use althing_td::{Demand, Sandbox};

/// Refusals that are kept of one program; its keeper tells as many.
const REFUSALS_MAX: usize = 64;

/// How a program is contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containment {
    /// The level.
    pub level: Level,
    /// Why it is no higher one; empty where there is none, or its file says so.
    pub why: String,
    /// Whether its file turns the sandbox off.
    pub is_off: bool,
    /// What it was refused so far, each once.
    pub refused: Vec<Refusal>,
    /// Whether it was refused more than that.
    pub more_refused: bool,
}

impl Containment {
    /// Of a program that runs.
    #[must_use]
    pub fn of(sandbox: &Sandbox, level: Level, why: String) -> Containment {
        let is_off = sandbox.demand == Demand::None;
        Containment { level, why, is_off, refused: Vec::new(), more_refused: false }
    }

    /// The same, with what the program was refused by now.
    #[must_use]
    pub fn with(self, refusals: &Refusals) -> Containment {
        let refusals = refusals.held();
        Containment { refused: refusals.named.clone(), more_refused: refusals.more, ..self }
    }
}

/// What a program was refused, as its keeper names it: more is added while the program runs. Copies are of the same program.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<Refused>>);

#[derive(Debug, Default)]
struct Refused {
    named: Vec<Refusal>,
    more: bool,
}

impl Refusals {
    /// Adds one; whether it is new, and named.
    pub fn add(&self, refusal: Refusal) -> bool {
        let mut refused = self.held();
        if refused.named.contains(&refusal) {
            return false;
        }
        let is_named = refused.named.len() < REFUSALS_MAX;
        if is_named {
            refused.named.push(refusal);
        } else {
            refused.more = true;
        }
        is_named
    }

    /// Notes that there are more than are told.
    pub(crate) fn add_more(&self) {
        self.held().more = true;
    }

    fn held(&self) -> MutexGuard<'_, Refused> {
        self.0.lock().expect("no holder of refusals panics")
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_off, self.level, self.why.as_str()) {
            (true, _, _) => write!(f, "off (sandbox: none)"),
            (_, Level::Namespaces, _) => write!(f, "contained"),
            (_, Level::Landlock, "") => write!(f, "contained (Landlock only)"),
            (_, Level::Landlock, why) => write!(f, "contained (Landlock only: {why})"),
            (_, Level::None, "") => write!(f, "not contained"),
            (_, Level::None, why) => write!(f, "not contained: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use althing_keeper::Access;

    use super::*;

    #[test]
    fn what_a_program_was_refused_is_kept_in_bounds() {
        let refusals = Refusals::default();
        let contained = || Containment::of(&Sandbox::default(), Level::Namespaces, String::new()).with(&refusals);
        assert!(contained().refused.is_empty());
        let of = |n: usize| Refusal { access: Access::Read, path: format!("/{n}"), write: None };
        (0..REFUSALS_MAX).for_each(|n| assert!(refusals.clone().add(of(n))));
        assert!(!refusals.add(of(0)), "each once");
        assert_eq!((contained().refused.len(), contained().more_refused), (REFUSALS_MAX, false));
        assert!(!refusals.add(of(REFUSALS_MAX)));
        assert_eq!((contained().refused.last(), contained().more_refused), (Some(&of(REFUSALS_MAX - 1)), true));
    }

    #[test]
    fn people_are_told_how_a_program_is_contained_and_why_not_better() {
        let best = Sandbox::default();
        let off = Sandbox { demand: Demand::None, ..Sandbox::default() };
        let why = "this machine makes no user namespaces";
        let cases = [
            (&best, Level::Namespaces, "", "contained"),
            (&best, Level::Landlock, why, "contained (Landlock only: this machine makes no user namespaces)"),
            (&best, Level::Landlock, "", "contained (Landlock only)"),
            (&best, Level::None, why, "not contained: this machine makes no user namespaces"),
            (&best, Level::None, "", "not contained"),
            (&off, Level::None, why, "off (sandbox: none)"),
        ];
        for (sandbox, level, why, told) in cases {
            assert_eq!(Containment::of(sandbox, level, why.to_owned()).to_string(), told);
        }
    }
}
