//! A turn's journal is deleted before the end of its task is on disk.

use althing_calls::{SESSION_HEADS, SESSION_ROWS};
use althing_store::Batch;

use super::{DiskWrite, Flaw};

pub(super) struct EarlyDeletion;

impl Flaw for EarlyDeletion {
    fn name(&self) -> &'static str {
        "journal-deleted-early"
    }

    fn on_write(&self, writing: DiskWrite) -> DiskWrite {
        if !writing.is_of_task(true) {
            return writing;
        }
        let mut torn = Batch::new();
        for (family, key, value) in writing.batch.changes() {
            if value.is_none() && (family == SESSION_HEADS || family == SESSION_ROWS) {
                torn.delete(family, key);
            }
        }
        DiskWrite { torn: Some(torn), ..writing }
    }
}
