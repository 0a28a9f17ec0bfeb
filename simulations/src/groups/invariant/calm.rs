//! Where nothing disturbs the members, nobody is elected: from 5 s after everything has healed they stay in one term.

use super::{Invariant, Seen};

pub(super) struct Calm;

impl Invariant for Calm {
    fn name(&self) -> &'static str {
        "the-undisturbed-elect-nobody"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        let terms = &seen.evidence.served.calm_terms;
        if terms.len() == 1 { Ok(()) } else { Err(format!("nothing disturbed them, and their terms were {terms:?}")) }
    }
}
