//! A turn that ends where somebody is asked about its next call: its task rests, its journal stays, and it goes on when that was
//! answered, or when the time for it is over.

use std::time::Duration;

use a2a::TaskState;
use althing_execution::tools::TurnRest;
use tokio::time::sleep;

use crate::machine::record::Record;
use crate::machine::session::TurnId;
use crate::machine::task;
use crate::tasks::begin;
use crate::tasks::closing;
use crate::tasks::counting;
use crate::tasks::live::LiveTask;
use crate::tasks::runner::TaskRunner;

/// Between two attempts, where there is no room for a turn yet, its version is not there, or its group does not answer.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Between two times that is asked whether a turn may go on to which somebody must consent.
pub(super) const CONSENT_RETRY: Duration = Duration::from_secs(60);

/// Ends a turn whose next call somebody is asked about. Its task rests as it was when the turn began: what the agent said since
/// is said again when it goes on.
pub(super) async fn park(runner: &TaskRunner, live: &LiveTask, rest: &TurnRest) {
    if let Some(journal) = &live.request.journal {
        journal.leave().await;
    }
    let (reader, id) = (runner.clone(), live.id.clone());
    let read = runner.apart(move || reader.store().read(&id)).await;
    let Ok(Ok(Some(mut record))) = read else {
        tracing::error!(task = live.id, "a task whose turn is to go on later cannot be read");
        closing::fail(runner, live, "this node cannot read the task any more; send the message again".to_owned()).await;
        return;
    };
    record.add_label(live.record().label);
    record.ask = Some(rest.ask.clone());
    let said = closing::status_message(rest.to.clone());
    let event = task::set_status(&mut record.task, TaskState::AuthRequired, Some(said), runner.now());
    let notes = runner.store().push().plan(&live.id, Some(&event), runner.now_ms());
    if let Err(error) = closing::write(runner, &record, notes).await {
        tracing::error!(task = live.id, %error, "a task whose turn is to go on later cannot be written");
        closing::fail_unwritten(live, runner).await;
        return;
    }
    tracing::info!(
        agent = live.agent.name(),
        task = live.id,
        ask = rest.ask,
        "a turn waits until somebody has answered"
    );
    let name = record.agent.clone();
    runner.store().journals().await_agent(name.clone(), live.id.clone());
    live.change(|now| {
        now.record = record;
        now.close(live.answer.outcome());
        Some(event)
    })
    .await;
    counting::rest(runner, live);
    closing::end_kept(runner, live, TaskState::AuthRequired);
    watch(runner, name, live.id.clone());
}

/// Whether the turn of an unfinished task waits until somebody has answered.
pub(super) fn is_parked(runner: &TaskRunner, id: &str) -> bool {
    runner.store().summary(id).is_some_and(|summary| summary.is_parked())
}

/// Goes on with the turn of a task that rests, when what it waits for was answered.
pub(super) fn watch(runner: &TaskRunner, agent: String, id: String) {
    let (weak, asks, ending) = (runner.weak(), runner.asks().get().cloned(), runner.ending().clone());
    let (reader, named) = (runner.clone(), id.clone());
    tokio::spawn(async move {
        let read = reader.apart({
            let reader = reader.clone();
            move || reader.store().read(&named)
        });
        let ask = read.await.ok().and_then(Result::ok).flatten().and_then(|record| record.ask);
        // A node that ends is not kept up by what it waits for.
        drop(reader);
        let answered = match (asks, ask) {
            (Some(asks), Some(ask)) => asks.waits(&ask),
            _ => None,
        };
        match answered {
            Some(answered) => tokio::select! {
                biased;
                () = ending.cancelled() => return,
                () = answered => {}
            },
            // It was answered before; or nobody knows of it, and then it is not asked about again and again at once.
            None => sleep(RETRY).await,
        }
        let Some(runner) = weak() else { return };
        let Some(resumer) = runner.resumer(&agent) else { return };
        (resumer.go_on)(runner, agent, id).await;
    });
}

/// The turn of a task that rests does not go on. Gives the turn, whose journal is deleted ([`forget`]) when that is on disk, and not
/// before: without its rows it would be made again.
pub(super) fn give_up(record: &mut Record) -> Option<TurnId> {
    let begin = record.read_begin().and_then(Result::ok);
    (record.begin, record.ask) = (None, None);
    begin::turn(record, &begin?)
}

/// Fails the task of a turn that does not go on.
pub(super) async fn fail(runner: &TaskRunner, live: &LiveTask, reason: String) {
    closing::fail(runner, live, reason).await;
    counting::tell_rested(runner, &live.id).await;
}

/// Deletes the journal of a turn that does not go on, and has nobody asked for it any more.
pub(super) async fn forget(runner: &TaskRunner, record: &Record, turn: &TurnId) {
    if let Some(asks) = runner.asks().get() {
        asks.withdraw(&record.task.id);
    }
    let journals = runner.store().journals();
    journals.give_up(&record.agent, &record.task.id);
    counting::tell_rested(runner, &record.task.id).await;
    // What cannot be deleted is deleted when the node starts again.
    if let Err(error) = journals.delete(&turn.prefix()).await {
        tracing::warn!(task = record.task.id, %error, "the journal of a turn that does not go on cannot be read");
    }
}
