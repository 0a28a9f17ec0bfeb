//! Journals of turns that stopped, and could go on anew: they are deleted when the time for that is over.

use std::time::Duration;

use tokio::time::sleep;

use crate::machine::session::RESTART_MS_MAX;
use crate::tasks::runner::TaskRunner;

/// Deletes the journals of turns that stopped, when their time is over; of those that stopped before the node began, a day after
/// that at the latest.
pub(super) fn expire_later(runner: &TaskRunner) {
    if !runner.store().journals().has_expiring() {
        return;
    }
    let weak = runner.weak();
    tokio::spawn(async move {
        sleep(Duration::from_millis(RESTART_MS_MAX)).await;
        let Some(runner) = weak() else { return };
        runner.store().journals().expire(runner.now_ms()).await;
    });
}
