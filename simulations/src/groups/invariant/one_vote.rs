//! In each term a node votes for one candidate at most, also when it starts again in between.

use super::{Invariant, Seen};

pub(super) struct OneVote;

impl Invariant for OneVote {
    fn name(&self) -> &'static str {
        "one-vote-in-a-term"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        match seen.evidence.votes.iter().find(|(_, candidates)| candidates.len() > 1) {
            Some(((voter, term), candidates)) => Err(format!("in term {term} {voter} voted for {candidates:?}")),
            None => Ok(()),
        }
    }
}
