//! A proof of equivocation holds for whoever verifies it, names the node that it is kept against, and that node is none that
//! keeps to the rules: not after crashes, elections, or entries that were sent again.

use super::{Invariant, Seen};

pub(super) struct Accused;

impl Invariant for Accused {
    fn name(&self) -> &'static str {
        "no-honest-node-is-accused"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        for (keeper, against, proven) in &seen.evidence.accused {
            if proven != &Some(*against) {
                return Err(format!("{keeper} keeps a proof against {against}, which proves: {proven:?}"));
            }
            if seen.evidence.honest.contains(against) {
                return Err(format!("{keeper} keeps a proof that {against} equivocated, which keeps to the rules"));
            }
        }
        Ok(())
    }
}
