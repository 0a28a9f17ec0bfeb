//! How a program is contained, as people are told.

use std::fmt;

use althing_keeper::Level;
use althing_td::{Demand, Sandbox};

/// How a program is contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containment {
    /// The level.
    pub level: Level,
    /// Why it is no higher one; empty where there is none, or its file says so.
    pub why: String,
    /// Whether its file turns the sandbox off.
    pub is_off: bool,
    /// What it was refused, with what to write so that it is not.
    pub refused: Vec<String>,
}

impl Containment {
    /// Of a program that runs.
    #[must_use]
    pub fn of(sandbox: &Sandbox, level: Level, why: String) -> Containment {
        Containment { level, why, is_off: sandbox.demand == Demand::None, refused: Vec::new() }
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
    use super::*;

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
