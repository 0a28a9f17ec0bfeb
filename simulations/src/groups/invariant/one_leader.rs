//! Election safety: in each term one node at most claims to lead.

use super::{Invariant, Seen};

pub(super) struct OneLeader;

impl Invariant for OneLeader {
    fn name(&self) -> &'static str {
        "one-leader-in-a-term"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        match seen.evidence.leaders.iter().find(|(_, leaders)| leaders.len() > 1) {
            Some((term, leaders)) => Err(format!("in term {term} these led: {leaders:?}")),
            None => Ok(()),
        }
    }
}
