//! Tasks whose turns are to go on, and whose agents are not here: for how long they wait is on disk, so that a node which starts
//! again and again gives them up a day after they began to wait, as one does that stays up.

use std::time::Duration;

use tokio::time::sleep;

use crate::machine::session::DOUBT_MS_MAX;
use crate::tasks::resume;
use crate::tasks::runner::TaskRunner;
use crate::tasks::waits;

/// From the start of a node until it first looks which tasks wait: its agents have been added by then.
pub(super) const FIRST_LOOK: Duration = Duration::from_secs(5 * 60);
/// From one look to the next, milliseconds, at most.
const LOOK_MS: u64 = 60 * 60 * 1_000;

/// Fails the tasks whose agents have not been added a day after they began to wait for that.
pub(super) fn give_up_later(runner: &TaskRunner) {
    if runner.store().journals().waiting().is_empty() {
        return;
    }
    let (weak, ending) = (runner.weak(), runner.ending().clone());
    tokio::spawn(async move {
        let mut pause = Some(FIRST_LOOK);
        while let Some(next) = pause.take() {
            tokio::select! {
                biased;
                () = ending.cancelled() => return,
                () = sleep(next) => {}
            }
            let Some(runner) = weak() else { return };
            pause = look(&runner).await;
        }
    });
}

/// Notes since when tasks wait, and fails those that have waited for a day. Gives after what time to look again; none if no task
/// waits any more.
async fn look(runner: &TaskRunner) -> Option<Duration> {
    let (now_ms, journals) = (runner.now_ms(), runner.store().journals());
    let mut next_ms = LOOK_MS;
    for (agent, id) in journals.all_unfinished() {
        let Some(summary) = runner.store().summary(&id).filter(|summary| summary.goes_on()) else {
            journals.give_up(&agent, &id);
            continue;
        };
        // It waits for an answer, and its agent is here.
        if summary.is_parked() && runner.host().agent(agent.as_str()).is_some() {
            if summary.waits_ms.is_some() {
                waits::note(runner, &id, None).await;
            }
            continue;
        }
        let waited_ms = summary.waits_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        if waited_ms < DOUBT_MS_MAX {
            next_ms = next_ms.min(DOUBT_MS_MAX - waited_ms);
            if summary.waits_ms.is_none() {
                waits::note(runner, &id, Some(now_ms)).await;
            }
        } else if let Some(attempt) = journals.attempt(&agent, &id)
            && resume::give_up(runner, &id).await
        {
            attempt.made();
        }
    }
    (!journals.waiting().is_empty()).then(|| Duration::from_millis(next_ms))
}
