//! Notes on disk since when tasks wait whose turns are to go on, and that they wait no more.

use crate::tasks::runner::TaskRunner;

/// Notes since when a task waits, or that it does not, unless it goes on or has ended since.
pub(super) async fn note(runner: &TaskRunner, id: &str, since_ms: Option<u64>) {
    let _lock = runner.live().write_lock(id).await;
    let waits = runner.store().summary(id).is_some_and(|summary| summary.goes_on());
    if waits && runner.live().running(id).is_none() {
        runner.store().note_wait(id, since_ms).await;
    }
}

/// Notes that a task waits no more: it goes on. The caller holds its lock.
pub(super) async fn end(runner: &TaskRunner, id: &str) {
    if runner.store().summary(id).is_some_and(|summary| summary.waits_ms.is_some()) {
        runner.store().note_wait(id, None).await;
    }
}
