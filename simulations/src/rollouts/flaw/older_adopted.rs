//! The follower takes the state of the leader whenever it is told something, also what was before what it knows.

use super::Flaw;

pub(super) struct OlderState;

impl Flaw for OlderState {
    fn name(&self) -> &'static str {
        "older-adopted"
    }

    fn adopts_all(&self) -> bool {
        true
    }
}
