//! Handing a task over to another node, and taking one: what is known of it goes there, and it ends there.

use a2a::{TaskPushNotificationConfig, TaskState};
use althing_call::OperationError;
use althing_protocol::{AgentId, PublicKey};
use althing_store::Durability;

use crate::machine::moves::{self, MoveError, TaskPack};
use crate::machine::record::Record;
use crate::machine::task;
use crate::tasks::closing::status_message;
use crate::tasks::parking;
use crate::tasks::runner::{TaskRunner, unkept};
use crate::tasks::service::TaskService;
use crate::tasks::store::{Encoded, TaskStoreError};

/// Why a turn was stopped whose task goes on elsewhere.
const BY_HANDOVER: &str =
    "interrupted, since the task was handed over to another node; send a message to go on with it";

/// Why a task is not handed over, or not taken.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The agent has no such task here.
    #[error("{agent} has no task {task:?} on this node")]
    NotHere {
        /// The agent that was named with it.
        agent: AgentId,
        /// The id that no task of it has.
        task: String,
    },
    /// The agent is not here to work on it.
    #[error("{agent} is not hosted on this node: add it here first")]
    NotHosted {
        /// The agent that works on the task.
        agent: AgentId,
    },
    /// Another agent has its work.
    #[error("the work of task {task:?} was handed over to another agent: wait for it, or cancel it")]
    Given {
        /// The task that was to move.
        task: String,
    },
    /// The task is to go where it is.
    #[error("the task is on this node already")]
    ToItself,
    /// Another node has it.
    #[error("task {task:?} was handed over to {to} before: ask that node for it")]
    Departed {
        /// The task that was to go to another node as well.
        task: String,
        /// Who has it, or had it next.
        to: PublicKey,
    },
    /// The proof, or what came with it, is not good.
    #[error("the task is not taken: {0}")]
    Move(#[from] MoveError),
    /// What is to be told of it cannot be told from here.
    #[error("the task is not taken, since its push notifications would be lost: {0}")]
    Push(OperationError),
    /// The disk failed.
    #[error(transparent)]
    Store(#[from] TaskStoreError),
}

/// Hands a task over to the node `to`, which hosts its agent: packs it for that node, and redirects every operation on it
/// from then on. A turn that runs is stopped as a message would interrupt it. That the task is gone is on disk before this
/// completes, with all of it: a pack that was lost is packed again, for the same node.
///
/// # Errors
/// [`HandoverError`]; but for a disk that failed, the task is then as it was.
pub async fn freeze(tasks: &TaskService, agent: &AgentId, id: &str, to: PublicKey) -> Result<TaskPack, HandoverError> {
    let (runner, signer) = (&tasks.runner, tasks.runner.signer());
    if to == signer.node() {
        return Err(HandoverError::ToItself);
    }
    let not_here = || HandoverError::NotHere { agent: agent.clone(), task: id.to_owned() };
    // No message begins a turn of it meanwhile.
    let _lock = runner.live().write_lock(id).await;
    if !tasks.is_of(id, agent) {
        return Err(not_here());
    }
    if runner.store().handoffs().is_given(id) {
        return Err(HandoverError::Given { task: id.to_owned() });
    }
    if let Some(running) = runner.live().running(id) {
        running.interrupt(BY_HANDOVER).await;
    }
    let mut record = runner.store().read(id)?.ok_or_else(not_here)?;
    if record.begin.is_some() && !task::is_idle(&record.task.status.state) {
        // Its turn waits for the agent, which has not been added since the node began.
        return Err(HandoverError::NotHosted { agent: agent.clone() });
    }
    let mut parked = None;
    if record.is_parked() {
        // It is stopped as a turn that runs: what it waits for is answered to nobody.
        parked = parking::give_up(&mut record);
        let said = Some(status_message(BY_HANDOVER.to_owned()));
        task::set_status(&mut record.task, TaskState::InputRequired, said, runner.now());
    }
    let departed = record.departed.take();
    // Among whom its caller was here is nothing to its new home.
    record.crowd = None;
    match &departed {
        Some(proof) => {
            let before = moves::read(proof, &signer.network)?.body.to;
            if before != to {
                return Err(HandoverError::Departed { task: id.to_owned(), to: before });
            }
        }
        None => record.fence = record.fence.saturating_add(1),
    }
    let push = runner.store().push().rows(id).map_err(TaskStoreError::from)?;
    let row = Encoded::of(&record)?.into_bytes();
    let pack = moves::pack(signer, agent, to, (&record, row), push)?;
    if departed.is_none() {
        record.departed = Some(moves::text_of(&pack.proof));
        runner.store().write(Encoded::of(&record)?).await?;
        if let Some(turn) = parked {
            parking::forget(runner, &record, &turn).await;
        }
        // Streams of those who wait for its next turn end here: they find it where it is.
        drop(runner.live().take_waiting(id));
    }
    Ok(pack)
}

/// Takes a task of an agent that is hosted here, which the node `from` hands over; gives its id. Once it completes, the task
/// is on disk, and answered here. `from` must be a node that may hand over tasks, as the stream shows on which the pack
/// came: a proof says that the node that signed it let the task go, and not that it had it.
///
/// # Errors
/// [`HandoverError`]: among others of a pack that was taken before, or whose task has moved on since.
pub async fn thaw(
    tasks: &TaskService,
    agent: &AgentId,
    from: PublicKey,
    pack: &TaskPack,
) -> Result<String, HandoverError> {
    let runner = &tasks.runner;
    let record = moves::unpack(pack, agent, from, runner.signer())?;
    let id = record.task.id.clone();
    let mut told = Vec::with_capacity(pack.push.len());
    for row in &pack.push {
        told.push(runner.store().push().arriving(row, &id).await.map_err(HandoverError::Push)?);
    }
    let _lock = runner.live().write_lock(&id).await;
    if runner.live().running(&id).is_some() {
        return Err(MoveError::Here.into());
    }
    moves::may_arrive(runner.store().read(&id)?.as_ref(), &record)?;
    if let Err(error) = keep(runner, &record, told).await {
        runner.store().push().forget([&id]).await;
        return Err(error);
    }
    Ok(id)
}

/// Writes a task that arrived, and whom to tell of it, who are on disk with the task.
async fn keep(
    runner: &TaskRunner,
    record: &Record,
    told: Vec<TaskPushNotificationConfig>,
) -> Result<(), HandoverError> {
    let push = runner.store().push();
    // Of a task that comes back: who was told before it went, and is perhaps not to be told any more.
    push.forget([&record.task.id]).await;
    for config in told {
        let kept = push.set(record.scope, config, Durability::Buffered).await;
        kept.map_err(|error| HandoverError::Push(unkept(error)))?;
    }
    Ok(runner.store().write(Encoded::of(record)?).await?)
}

#[cfg(test)]
mod tests;
