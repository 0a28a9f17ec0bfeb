//! A call is made before its intent is on disk for good.

use althing_calls::{SESSION_ROWS, TASKS};
use althing_store::Family;

use super::{DiskWrite, Flaw};

pub(super) struct UnsyncedIntent;

impl Flaw for UnsyncedIntent {
    fn name(&self) -> &'static str {
        "intent-unsynced"
    }

    fn on_write(&self, writing: DiskWrite) -> DiskWrite {
        let has = |of: Family| writing.batch.changes().any(|(family, ..)| family == of);
        if has(SESSION_ROWS) && !has(TASKS) { writing.buffered() } else { writing }
    }
}
