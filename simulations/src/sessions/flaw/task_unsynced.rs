//! A task is acknowledged before it is on disk for good.

use super::{DiskWrite, Flaw};

pub(super) struct UnsyncedTask;

impl Flaw for UnsyncedTask {
    fn name(&self) -> &'static str {
        "task-unsynced"
    }

    fn on_write(&self, writing: DiskWrite) -> DiskWrite {
        if writing.is_of_task(false) { writing.buffered() } else { writing }
    }
}
