//! A member that starts again skips entries of its log.

use althing_coordination::RAFT_LOG;
use althing_coordination::consensus::wire::{self, EntryRecord, Payload};
use althing_protocol::PublicKey;
use althing_store::{Family, Rows};

use super::Flaw;

/// Of so many entries one is skipped.
const EVERY: u64 = 5;

pub(super) struct EntrySkipped;

impl Flaw for EntrySkipped {
    fn name(&self) -> &'static str {
        "entry-skipped"
    }

    fn on_read(&self, _: PublicKey, family: Family, rows: &mut Rows) {
        if family != RAFT_LOG {
            return;
        }
        for (_, value) in rows {
            let Ok(entry) = minicbor::decode::<EntryRecord>(value) else { continue };
            if entry.at.index.is_multiple_of(EVERY) && matches!(entry.payload, Payload::Batch(..)) {
                *value = wire::write(&EntryRecord { payload: Payload::Blank, ..entry });
            }
        }
    }
}
