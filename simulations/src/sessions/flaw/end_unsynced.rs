//! The end of a task is told before it is on disk for good.

use super::{DiskWrite, Flaw};

pub(super) struct UnsyncedEnd;

impl Flaw for UnsyncedEnd {
    fn name(&self) -> &'static str {
        "end-unsynced"
    }

    fn on_write(&self, writing: DiskWrite) -> DiskWrite {
        if writing.is_of_task(true) { writing.buffered() } else { writing }
    }
}
