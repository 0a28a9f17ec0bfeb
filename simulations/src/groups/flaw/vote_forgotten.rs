//! A vote is not written to disk before it is given.

use althing_coordination::RAFT_STATE;
use althing_protocol::PublicKey;
use althing_store::{Batch, MemoryStore};

use super::{Changed, Flaw, kept};

/// The letter of the vote in [`RAFT_STATE`].
const VOTE: u8 = b'v';

pub(super) struct VoteForgotten;

impl Flaw for VoteForgotten {
    fn name(&self) -> &'static str {
        "vote-forgotten"
    }

    fn on_write(&self, _: PublicKey, batch: Batch, _: &MemoryStore) -> Changed {
        Changed::nothing(kept(&batch, |family, key, _| family != RAFT_STATE || key.last() != Some(&VOTE)))
    }
}
