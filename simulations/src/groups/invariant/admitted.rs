//! The members of the log are nodes that the owners admitted, by an entry before. The first entry names the founder alone.

use super::{Invariant, Seen};

pub(super) struct Admitted;

impl Invariant for Admitted {
    fn name(&self) -> &'static str {
        "members-are-admitted"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        for (index, members) in seen.evidence.memberships() {
            let admitted = seen.replay.admitted_before(index);
            let is_founding = index == 0 && members.len() == 1;
            if let Some(stranger) = members.iter().find(|node| !is_founding && !admitted.contains(node)) {
                return Err(format!("the entry {index} makes {stranger} a member of the log, whom nobody admitted"));
            }
        }
        Ok(())
    }
}
