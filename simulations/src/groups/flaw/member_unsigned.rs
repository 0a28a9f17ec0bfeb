//! A change of the log's members is accepted that no owner signed.

use althing_coordination::RAFT_LOG;
use althing_coordination::consensus::wire::{self, EntryRecord, Payload};
use althing_protocol::PublicKey;
use althing_store::{Batch, MemoryStore};

use super::{Changed, Flaw};

/// The number of the stranger's key.
const STRANGER: u32 = 77;

pub(super) struct MemberUnsigned;

impl Flaw for MemberUnsigned {
    fn name(&self) -> &'static str {
        "member-unsigned"
    }

    fn on_write(&self, _: PublicKey, batch: Batch, _: &MemoryStore) -> Changed {
        let mut changed = Batch::new();
        for (family, key, value) in batch.changes() {
            match value {
                None => changed.delete(family, key),
                Some(value) if family == RAFT_LOG => changed.put(family, key, with_stranger(value)),
                Some(value) => changed.put(family, key, value),
            };
        }
        Changed::nothing(changed)
    }
}

fn with_stranger(value: &[u8]) -> Vec<u8> {
    match minicbor::decode::<EntryRecord>(value) {
        Ok(EntryRecord { at, payload: Payload::Members(voters, mut learners) }) if at.index > 0 => {
            learners.push(crate::key(STRANGER).public());
            wire::write(&EntryRecord { at, payload: Payload::Members(voters, learners) })
        }
        _ => value.to_vec(),
    }
}
