//! A task whose work is given away: it goes on, and ends with the result of the task that the work became. Whoever follows it
//! sees one task.

mod cancellation;
mod judgement;

use std::sync::Arc;
use std::time::Duration;

use a2a::{Message, Part, Role, SendMessageResponse, StreamResponse, Task, TaskState};
use althing_call::{Operation, OperationError, Refusal, Reply};
use althing_execution::AgentError;
use althing_execution::agent::{Made, Metadata};
use althing_protocol::object::{HandoffReason, HandoffVerdict};
use althing_protocol::{Label, hex};
use althing_store::{Batch, Durability};
use futures::StreamExt as _;
use serde_json::json;

use super::asking::{self, ask, hear};
use super::relays::Relay;
use super::rows::OutRow;
use super::state::Handoffs;
use super::way::HandoffWay;
use super::wire::{self, HANDOFF_EXTENSION, SignedHandoff};
use crate::machine::handoff::{Action, CommitError, End, RETRY_FIRST_MS, RETRY_MAX_MS, Refusal as Why, Sender, Stage};
use crate::machine::task;
use crate::tasks::closing;
use crate::tasks::live::LiveTask;
use crate::tasks::runner::TaskRunner;
use crate::tasks::store::TaskStoreError;
use crate::tasks::turn;

/// Runs a turn whose work is given away, to the end of that.
pub(in crate::tasks) async fn run(runner: &TaskRunner, live: &LiveTask, relay: Relay) {
    let Relay { row, sender, kept, label, started } = relay;
    if let Some(started) = started {
        // Whoever gave the work away may have gone.
        let _ = started.send(());
    }
    let Some(way) = runner.store().handoffs().way.get().cloned() else {
        // Nothing is given away, nor followed, without one.
        return turn::end(runner, live, Err(AgentError::Failed("there is no way to other agents".to_owned()))).await;
    };
    let mut relay = RelayRun { runner, live, way, row, label, sender, kept };
    match relay.finish().await {
        Ok(()) | Err(Stop::Over) => turn::end(runner, live, Ok(())).await,
        Err(Stop::Ended(error)) => turn::end(runner, live, Err(error)).await,
        // It is followed again when the node is up again.
        Err(Stop::Node) => turn::leave(runner, live).await,
    }
}

/// Why work is not followed to its result.
enum Stop {
    /// The task ends so.
    Ended(AgentError),
    /// It was cancelled, and has the result that came before that.
    Over,
    /// The node is being stopped.
    Node,
}

impl From<AgentError> for Stop {
    fn from(error: AgentError) -> Stop {
        Stop::Ended(error)
    }
}

/// What a commit is answered.
enum CommitReply {
    /// The work has begun, or is done, as that task.
    Begun(String),
    /// It has not, and never will by that acceptance.
    Refused(CommitError),
    /// Nothing that counts.
    Nothing,
}

/// Work of a task that is given away.
struct RelayRun<'a> {
    runner: &'a TaskRunner,
    live: &'a LiveTask,
    way: Arc<dyn HandoffWay>,
    row: OutRow,
    label: Option<Label>,
    sender: Sender,
    /// Whether the recipient keeps the handoff, so that the next commit need not bring it.
    kept: bool,
}

impl RelayRun<'_> {
    /// Has the work begin, and the task end as it ends; what ends the task is applied to it.
    async fn finish(&mut self) -> Result<(), Stop> {
        let working = Made::Status(TaskState::Working, None);
        let begun = Made::Begun { state: TaskState::Working, metadata: None };
        let is_begun = self.live.lock().begun;
        self.live.lock().ending = None;
        self.apply(if is_begun { working } else { begun }).await?;
        match self.commit().await? {
            End::Given { task } => {
                self.tell(&task).await?;
                self.follow(&task).await
            }
            End::Kept(why) => self.rest(&self.returned(&why)).await,
            End::Duplicate { original } => {
                let other = wire::id_text(&original);
                let why = format!("{} has the work by another handoff, {other}", self.row.signed.body.recipient);
                Err(AgentError::Failed(why).into())
            }
            End::InDoubt { task } => Err(AgentError::Failed(self.doubt(&task)).into()),
        }
    }

    /// Makes it known by whom the work is done, and as which task.
    async fn tell(&self, task: &str) -> Result<(), Stop> {
        let recipient = &self.row.signed.body.recipient;
        let origin = json!({
            "handoff": wire::id_text(&self.row.signed.body.handoff_id),
            "recipient": recipient.to_string(),
            "task": task,
        });
        let said = closing::status_message(format!("handed over to {recipient}, where it goes on as task {task}"));
        let status = Made::Status(TaskState::Working, Some(said));
        self.apply(status.annotated(Some(Metadata::from([(HANDOFF_EXTENSION.to_owned(), origin)])))).await
    }

    fn returned(&self, why: &Why) -> String {
        let recipient = &self.row.signed.body.recipient;
        let why = match why {
            Why::Rejected { message, .. } => message.clone(),
            Why::NoAnswer => "it did not answer while the handoff was in force".to_owned(),
        };
        format!("the work came back from {recipient}, which did not begin it ({why}); send a message to go on with it")
    }

    fn doubt(&self, task: &str) -> String {
        let recipient = &self.row.signed.body.recipient;
        tracing::warn!(task = self.live.id, acceptance = hex(&self.row.answer), "a handoff was accepted and is denied");
        format!(
            "IN_DOUBT: {recipient} accepted the work as task {task} and remembers nothing of it: it may have done it, or not. Its \
             signed acceptance is in this node's log"
        )
    }

    /// Leaves the task to its own agent, until somebody sends a message.
    async fn rest(&self, why: &str) -> Result<(), Stop> {
        let said = closing::status_message(why.to_owned());
        self.apply(Made::Status(TaskState::InputRequired, Some(said))).await
    }

    async fn apply(&self, made: Made) -> Result<(), Stop> {
        Ok(turn::apply(self.runner, self.live, made).await?)
    }

    /// Has the work begin; gives how the handoff ends.
    async fn commit(&mut self) -> Result<End, Stop> {
        let mut action = self.sender.tick(self.runner.now_ms());
        loop {
            self.keep().await?;
            action = match action {
                Action::Commit { acceptance } => match self.ask_to_begin(acceptance).await {
                    CommitReply::Begun(task) => self.sender.commit_answer(acceptance, Ok(task), self.runner.now_ms()),
                    CommitReply::Refused(why) => self.sender.commit_answer(acceptance, Err(why), self.runner.now_ms()),
                    CommitReply::Nothing => self.sender.sent(self.runner.now_ms()),
                },
                Action::Offer => self.offer_again().await,
                Action::Write => self.sender.written(self.runner.now_ms()),
                Action::Wait { until_ms } => {
                    self.wait(until_ms).await?;
                    self.sender.tick(self.runner.now_ms())
                }
                Action::End(end) => return Ok(end),
            };
        }
    }

    /// Writes how far it is, where that changed: what is committed must be found again.
    async fn keep(&mut self) -> Result<(), Stop> {
        let same = |one: &Stage, other: &Stage| match (one, other) {
            (Stage::Committing { acceptance, .. }, Stage::Committing { acceptance: other, .. }) => acceptance == other,
            (Stage::Renewing { .. }, Stage::Renewing { .. }) => true,
            (one, other) => one == other,
        };
        if same(self.sender.stage(), &self.row.stage) {
            return Ok(());
        }
        self.row.stage = self.sender.stage().clone();
        let mut batch = Batch::large();
        self.row.put(&mut batch);
        if batch.is_empty() {
            return Ok(());
        }
        let handoffs: &Handoffs = self.runner.store().handoffs();
        let written = handoffs.store.write(batch, Durability::Synced).await.map_err(TaskStoreError::from);
        Ok(written.map_err(|error| AgentError::Failed(error.to_string()))?)
    }

    fn signed(&self) -> SignedHandoff<'_> {
        let network = &*self.runner.signer().network;
        SignedHandoff { signed: &self.row.signed, digest: &self.sender.digest, network }
    }

    async fn send_commit(&self, acceptance: u64, is_kept: bool) -> Result<SendMessageResponse, OperationError> {
        let request = wire::commit(self.signed(), acceptance, is_kept)?;
        asking::send(&self.way, &self.row.signed.body, request, self.label).await
    }

    async fn ask_to_begin(&mut self, acceptance: u64) -> CommitReply {
        // That it is kept is believed once: what is sent again may come to a node that has started since.
        let is_kept = std::mem::take(&mut self.kept);
        let mut response = self.send_commit(acceptance, is_kept).await;
        if is_kept && response.as_ref().is_err_and(|error| error.refusal == Refusal::InvalidParams) {
            response = self.send_commit(acceptance, false).await;
        }
        let response = match response {
            Ok(SendMessageResponse::Task(task)) => return CommitReply::Begun(task.id),
            Ok(response) => response,
            Err(error) => {
                tracing::debug!(task = self.live.id, %error, "the recipient of a handoff was not asked to begin");
                return CommitReply::Nothing;
            }
        };
        match hear(&self.way, self.signed(), &response).await {
            // Another host of the recipient knows nothing of what this one accepted.
            Ok(heard) if heard.host != self.row.host => CommitReply::Nothing,
            Ok(heard) => match heard.verdict {
                HandoffVerdict::AlreadyDone { task } => CommitReply::Begun(task),
                HandoffVerdict::Rejected { reason: HandoffReason::NotAccepted, .. } => {
                    CommitReply::Refused(CommitError::NotAccepted)
                }
                HandoffVerdict::Rejected { reason: HandoffReason::TooLate, .. } => {
                    CommitReply::Refused(CommitError::TooLate)
                }
                _ => CommitReply::Nothing,
            },
            Err(why) => {
                tracing::debug!(task = self.live.id, why, "an answer to a commit does not count");
                CommitReply::Nothing
            }
        }
    }

    /// Offers work whose commit was refused.
    async fn offer_again(&mut self) -> Action {
        let answered = match asking::offer(&self.way, self.signed(), self.label).await {
            Ok(response) => hear(&self.way, self.signed(), &response).await,
            Err(error) => Err(error.message),
        };
        match answered {
            Ok(heard) => {
                if matches!(heard.verdict, HandoffVerdict::Accepted { .. }) {
                    (self.row.host, self.row.answer, self.kept) = (heard.host, heard.bytes, heard.kept);
                }
                self.sender.answer(heard.verdict, self.runner.now_ms())
            }
            Err(why) => {
                tracing::debug!(task = self.live.id, why, "a handoff is not answered");
                self.sender.sent(self.runner.now_ms())
            }
        }
    }

    /// Waits, unless the task is cancelled, or the node is being stopped.
    async fn wait(&self, until_ms: u64) -> Result<(), Stop> {
        let left = Duration::from_millis(until_ms.saturating_sub(self.runner.now_ms()));
        tokio::select! {
            biased;
            () = self.runner.ending().cancelled() => Err(Stop::Node),
            () = self.live.cancel.cancelled() => Err(match self.sender.stage() {
                Stage::Committing { task, .. } => self.call_off(task).await,
                // What was committed before was refused, and nothing is committed any more.
                _ => AgentError::Cancelled.into(),
            }),
            () = tokio::time::sleep(left) => Ok(()),
        }
    }

    /// Asks for an operation on the recipient's task.
    async fn ask_of(&self, operation: Operation, task: &str) -> Result<Reply, OperationError> {
        let params = match operation {
            Operation::GetTask => json!({ "id": task, "historyLength": 0 }),
            _ => json!({ "id": task }),
        };
        let request = asking::request(operation, &params)?;
        let (reply, answer) = ask(&self.way, &self.row.signed.body, request, self.label).await?;
        self.live.said().add_all(&answer);
        Ok(reply)
    }

    async fn task(&self, task: &str) -> Result<Task, OperationError> {
        let Reply::One(body) = self.ask_of(Operation::GetTask, task).await? else {
            return Err(OperationError::invalid_agent_response("it showed a task as a stream"));
        };
        serde_json::from_slice(&body).map_err(|error| OperationError::invalid_agent_response(error.to_string()))
    }

    /// Follows the recipient's task to its end, and applies its result.
    async fn follow(&self, task: &str) -> Result<(), Stop> {
        let mut wait_ms = RETRY_FIRST_MS;
        loop {
            let found = match self.unless_stopped(task, self.task(task)).await? {
                Some(found) => found,
                None => return Err(self.cancelled(task).await),
            };
            match found {
                Ok(found) if found.status.state.is_terminal() => return self.result(found).await,
                Ok(found) => {
                    self.tell_question(&found).await?;
                    match self.unless_stopped(task, self.changed(task, &found)).await? {
                        Some(true) => {
                            wait_ms = RETRY_FIRST_MS;
                            continue;
                        }
                        Some(false) => {}
                        None => return Err(self.cancelled(task).await),
                    }
                }
                Err(error) if error.refusal == Refusal::TaskNotFound => {
                    let recipient = &self.row.signed.body.recipient;
                    let why = format!("{recipient} has no task {task} any more, as which it had the work");
                    return Err(AgentError::Failed(why).into());
                }
                Err(error) => tracing::debug!(task, %error, "the task of a handoff cannot be seen"),
            }
            let pause = tokio::time::sleep(Duration::from_millis(wait_ms));
            wait_ms = (2 * wait_ms).min(RETRY_MAX_MS);
            if self.unless_stopped(task, pause).await?.is_none() {
                return Err(self.cancelled(task).await);
            }
        }
    }

    /// What comes of `work`; none if the task is cancelled before.
    async fn unless_stopped<T>(&self, task: &str, work: impl Future<Output = T>) -> Result<Option<T>, Stop> {
        tokio::select! {
            biased;
            () = self.runner.ending().cancelled() => {
                tracing::debug!(task, "the task of a handoff is followed again when the node is up again");
                Err(Stop::Node)
            }
            () = self.live.cancel.cancelled() => Ok(None),
            done = work => Ok(Some(done)),
        }
    }

    /// Waits until the recipient's task is over, or asks something else than in `known`; false if it cannot be followed.
    async fn changed(&self, task: &str, known: &Task) -> bool {
        let Ok(Reply::Events(mut events)) = self.ask_of(Operation::SubscribeToTask, task).await else { return false };
        let mut seen = known.status.state.clone();
        while let Some(Ok(event)) = events.next().await {
            let status = match serde_json::from_slice(&event) {
                Ok(StreamResponse::Task(task)) => task.status,
                Ok(StreamResponse::StatusUpdate(update)) => update.status,
                Ok(StreamResponse::ArtifactUpdate(_) | StreamResponse::Message(_)) => continue,
                Err(_) => return false,
            };
            let is_news = status.state != seen && task::is_idle(&status.state);
            if status.state.is_terminal() || is_news {
                return true;
            }
            seen = status.state;
        }
        false
    }

    /// A question of the recipient is told in the task: it is answered at the recipient's.
    async fn tell_question(&self, found: &Task) -> Result<(), Stop> {
        if !task::is_idle(&found.status.state) {
            return Ok(());
        }
        let recipient = &self.row.signed.body.recipient;
        let asked = found.status.message.as_ref().and_then(Message::text).unwrap_or("it waits for a message");
        let said = closing::status_message(format!("{recipient} asks, in its task {}: {asked}", found.id));
        let known = self.live.record().task.status.message;
        if known.as_ref().and_then(Message::text) == said.text() {
            return Ok(());
        }
        self.apply(Made::Status(TaskState::Working, Some(said))).await
    }

    /// The task gets what the recipient made, as far as that may be shown, and ends as its task did.
    async fn result(&self, found: Task) -> Result<(), Stop> {
        let artifacts = found.artifacts.into_iter().flatten();
        let mut made: Vec<Made> =
            artifacts.map(|artifact| Made::Artifact { artifact, append: false, last: true }).collect();
        let message = found.status.message.map(|said| Message { task_id: None, context_id: None, ..said });
        let said = message.or_else(|| match found.status.state {
            TaskState::Completed => None,
            _ => Some(Message::new(Role::Agent, vec![Part::text("the agent that has the work ended it so")])),
        });
        made.push(Made::Status(found.status.state, said));
        for made in self.judged(made).await? {
            self.apply(made).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
