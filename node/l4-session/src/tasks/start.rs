//! Starts the turn of a task that was accepted, or that goes on where its node ended.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use althing_call::traced;
use futures::FutureExt as _;
use tokio::time::Instant;

use crate::tasks::closing;
use crate::tasks::counting;
use crate::tasks::doubt;
use crate::tasks::handoffs;
use crate::tasks::live::LiveTask;
use crate::tasks::runner::TaskRunner;
use crate::tasks::turn;

/// Starts the turn of a live task, once none of its calls is in doubt.
pub(super) fn start(runner: &TaskRunner, live: &Arc<LiveTask>) {
    let (runner, live) = (runner.clone(), live.clone());
    let binding = runner.host().binding(&live.agent).map(|binding| binding.hash).unwrap_or_default();
    let span = tracing::info_span!(
        "turn",
        otel.kind = "internal",
        althing.binding.hash = &*binding,
        "error.type" = tracing::field::Empty,
        otel.status_description = tracing::field::Empty,
    );
    tokio::spawn(Box::pin(async move {
        let begun = Instant::now();
        let turn = async {
            match doubt::wait(&runner, &live).await {
                Ok(()) => {
                    if let Some(relay) = turn::run(&runner, &live).await {
                        // Rarely needed, and large.
                        Box::pin(handoffs::run(&runner, &live, relay)).await;
                    }
                }
                Err(ended) => turn::end(&runner, &live, Err(ended)).await,
            }
        };
        let turn = tracing::Instrument::instrument(turn, span.clone());
        // The task of a turn that panics is set to failed.
        if let Err(panic) = AssertUnwindSafe(turn).catch_unwind().await {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            traced::fail(&span, "panic");
            live.course.broke_down();
            closing::fail_panicked(&runner, &live, said).await;
        }
        let failed = matches!(live.lock().record.task.status.state, a2a::TaskState::Failed);
        runner.figures().count(live.agent.name(), begun.elapsed(), failed);
        counting::count_success(&runner, &live);
        counting::tell(&runner, &live).await;
    }));
}
