//! Accepts messages, into a new task or one that they continue, and starts their turns.

use std::sync::Arc;

use althing_call::{CallMetadata, Consent, OperationError};
use althing_communication::{Holder, TrustLevel};
use althing_execution::agent::OwnCard;
use althing_protocol::AgentRef;

use crate::machine::answers;
use crate::machine::record::{Record, Scope, WORKING_BYTES_MAX};
use crate::machine::shares::{Claim, ShareOwner};
use crate::machine::size::stored_bytes;
use crate::machine::task::{self, HISTORY_BYTES_MAX};
use crate::machine::time_limit::time_limit;
use crate::tasks::begin;
use crate::tasks::duplicates::{Accepted, SentMessage};
use crate::tasks::first_write;
use crate::tasks::live::{LiveTask, TurnRequest};
use crate::tasks::persistence::PersistenceState;
use crate::tasks::runner::{HostedAgent, STOPPING, TaskRunner, internal};
use crate::tasks::start;
use crate::tasks::store::{Encoded, TaskStoreError};
use crate::tasks::turn;

/// Why a turn was stopped that a message interrupted.
const BY_MESSAGE: &str = "interrupted by a new message";

/// How the turn of a message starts.
pub(crate) struct Start {
    /// Whether the task may be written later than its agent is given the message: nobody is shown it before.
    pub waits: bool,
    /// What somebody must consent to first: no turn starts until then.
    pub consent: Option<Consent>,
    /// The id of the task that the message begins, if that was said to somebody before.
    pub id: Option<String>,
}

/// Refuses a message to a node that is being stopped.
fn check_open(runner: &TaskRunner) -> Result<(), OperationError> {
    if runner.ending().is_cancelled() { Err(OperationError::busy(STOPPING)) } else { Ok(()) }
}

impl TaskRunner {
    /// Accepts a message into a new task, or into the one that it names. The task is on disk when this returns, unless it
    /// waits for that. One that needs somebody's consent interrupts no turn.
    async fn accept(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
        start: Start,
    ) -> Result<Accepted<()>, OperationError> {
        check_open(self)?;
        let mut asked = TurnRequest::new(&request, metadata, self.may_reply(agent));
        // What the request says counts before what its message says.
        asked.within = time_limit(request.metadata.iter().chain(&request.message.metadata).flatten())?;
        let message = request.message;
        check_modes(agent, &message, || self.own_card(&agent.agent))?;
        let continues = message.task_id.clone();
        let new_id = continues.clone().or(start.id).unwrap_or_else(|| self.new_id());
        // Before any lock: the name in it has to be resolved.
        let push = first_write::push_config(self, request.configuration, &new_id).await?;
        let _lock = match &continues {
            Some(id) => Some(self.live().write_lock(id).await),
            None => None,
        };
        // Held until the task is known.
        let sent = SentMessage { agent, scope, message: &message };
        let _in_flight = sent.in_flight_alone(self).await;
        if let Some(taken) = sent.taken_before(self, metadata)? {
            return Ok(taken);
        }
        (asked.waits, asked.consent) = (start.waits, start.consent);
        let mut record = match continues {
            None => {
                let context_id = message.context_id.clone().unwrap_or_else(|| self.new_id());
                let task = task::submitted(new_id, context_id, message, self.now());
                Record::new(task, agent.name(), scope).given_to(&agent.agent, metadata)
            }
            Some(id) => {
                continued(self, agent, (scope, &id), message, &mut asked).await?.given_to(&agent.agent, metadata)
            }
        };
        let claim = self.claim(&agent.agent, &record, asked.call.holder);
        record.crowd = answers::crowd_of(&claim.owner);
        let begin = begin::begin(self, &agent.agent, &record, &asked);
        record = record.begun_with(begin.as_ref());
        asked.journal = begin.and_then(|begin| begin::journal(self, &agent.agent, &record, begin));
        let encoded = if asked.waits { None } else { Some(Encoded::of(&record).map_err(internal)?) };
        let bytes = encoded.as_ref().map_or_else(|| stored_bytes(&record), Encoded::len);
        if bytes > WORKING_BYTES_MAX {
            let message = "the task would be larger than a task may be; begin another, or send less";
            return Err(OperationError::unsupported(message));
        }
        let live = self.live().begin(&agent.agent, &record, claim, bytes, asked)?;
        if let Some(encoded) = encoded
            && let Err(error) = first_write::keep(self, &record, encoded, push).await
        {
            self.live().finish(&record.task.id, Vec::new);
            return Err(error);
        }
        Ok(Accepted::New(live, ()))
    }

    /// Writes a task that is not on disk yet, before somebody is told of it. False if its turn left none: nobody is told of it
    /// then.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) async fn keep_shown(&self, live: &LiveTask) -> Result<bool, TaskStoreError> {
        let mut persistence = live.persistence.lock().await;
        if *persistence == PersistenceState::NotYet {
            self.store().write(Encoded::of(&live.record())?).await?;
            *persistence = PersistenceState::Yes;
        }
        Ok(*persistence == PersistenceState::Yes)
    }

    /// The claim of a turn on the capacity, and whose share it counts against.
    pub(super) fn claim(&self, agent: &AgentRef, record: &Record, holder: Option<Holder>) -> Claim<ShareOwner> {
        let is_own = self.is_own(record.scope);
        let trust = match holder {
            _ if is_own => TrustLevel::Own,
            holder => holder.map_or(TrustLevel::Stranger, |holder| holder.trust),
        };
        Claim {
            owner: match holder {
                // Keys are free: untrusted peers of one origin share one part.
                Some(holder) if trust == TrustLevel::Stranger => ShareOwner::Crowd(holder.quota_group()),
                _ => ShareOwner::Scope(record.scope.payer()),
            },
            trust,
            agent: record.agent.clone(),
            bytes: task::memory_bytes(&record.task),
            agent_turns_max: self.host().turns_max(agent),
        }
    }

    /// Accepts a message and starts its turn in a task of its own, which goes on if the caller hangs up: else a task could be
    /// on disk, and count as live, without a turn. `before` adds listeners before the turn starts.
    pub(crate) async fn begin<T: Send + 'static>(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
        start: Start,
        before: impl FnOnce(&Arc<LiveTask>) -> T + Send + 'static,
    ) -> Result<Accepted<T>, OperationError> {
        let waits = start.waits && start.consent.is_none() && self.may_wait(agent, &request);
        let consent = start.consent.clone();
        let start = Start { waits, ..start };
        let (runner, agent, metadata) = (self.clone(), agent.clone(), metadata.clone());
        let beginning = async move {
            let live = match runner.accept(&agent, scope, request, &metadata, start).await? {
                Accepted::New(live, ()) => live,
                Accepted::DuplicateRunning(live) => return Ok(Accepted::DuplicateRunning(live)),
                Accepted::Duplicate(id) => return Ok(Accepted::Duplicate(id)),
            };
            let prepared = before(&live);
            match consent {
                // Rarely needed, and large.
                Some(consent) => Box::pin(turn::rest(&runner, &live, consent)).await,
                None => start::start(&runner, &live),
            }
            Ok(Accepted::New(live, prepared))
        };
        if waits {
            // Nothing is written, and the turn starts as soon as the task counts as live.
            return beginning.await;
        }
        // A task that is spawned is moved several times, a box once.
        let begun = tokio::spawn(Box::pin(tracing::Instrument::in_current_span(beginning))).await;
        begun.unwrap_or_else(|error| Err(OperationError::internal(format!("the message was not accepted: {error}"))))
    }

    /// Whether the task of a message may be written later than its agent is given it.
    fn may_wait(&self, agent: &HostedAgent, request: &a2a::SendMessageRequest) -> bool {
        let configuration = request.configuration.as_ref();
        let tells = configuration.is_some_and(|asked| asked.task_push_notification_config.is_some());
        request.message.task_id.is_none() && !tells && self.host().is_confined(&agent.agent)
    }
}

/// The record of the task of that caller and id with its next message; a turn of it that runs is interrupted, where its agent
/// lets messages do so. Called with its lock held.
async fn continued(
    runner: &TaskRunner,
    agent: &HostedAgent,
    (scope, id): (Scope, &str),
    message: a2a::Message,
    asked: &mut TurnRequest,
) -> Result<Record, OperationError> {
    let mut record = runner.read(agent, scope, id)?;
    check_context(&message, &record).and_then(|()| check_own(runner, &record))?;
    if let Some(running) = runner.live().running(id) {
        if !agent.barge_in || asked.consent.is_some() {
            let message = format!("task {id} is being worked on; wait for it, or cancel it");
            return Err(OperationError::unsupported(message));
        }
        // The lock is held, so that of two messages that come at once one interrupts the other.
        running.interrupt(BY_MESSAGE).await;
        record = runner.read(agent, scope, id)?;
    }
    check_idle(&record)?;
    check_room(&message, &record)?;
    asked.before = Some(record.task.status.clone());
    task::continue_with(&mut record.task, message, runner.now()).map_err(|_| over(id))?;
    Ok(record)
}

/// Why a task that is over takes no message.
fn over(id: &str) -> OperationError {
    let message = format!("task {id} is over: send the message without the id of a task, which begins a new one");
    OperationError::unsupported(message)
}

/// Refuses a message for a task whose work was given to another agent.
fn check_own(runner: &TaskRunner, record: &Record) -> Result<(), OperationError> {
    let id = &record.task.id;
    if !runner.store().handoffs().is_given(id) {
        return Ok(());
    }
    let message = format!("the work of task {id} was handed over, and goes on elsewhere; wait for it, or cancel it");
    Err(OperationError::unsupported(message))
}

/// Refuses a message for a task whose turn is about to be resumed.
fn check_idle(record: &Record) -> Result<(), OperationError> {
    if record.begin.is_none() || task::is_idle(&record.task.status.state) {
        return Ok(());
    }
    let id = &record.task.id;
    Err(OperationError::busy(format!(
        "task {id} goes on in a moment, where its node ended; send the message again then"
    )))
}

/// Refuses a message that names another context than that of its task.
fn check_context(message: &a2a::Message, record: &Record) -> Result<(), OperationError> {
    if message.context_id.as_ref().is_none_or(|context| *context == record.task.context_id) {
        return Ok(());
    }
    let (id, context) = (&record.task.id, &record.task.context_id);
    Err(OperationError::invalid_params(format!("task {id} belongs to context {context:?}")))
}

/// Refuses a message for which the history of its task has no room.
fn check_room(message: &a2a::Message, record: &Record) -> Result<(), OperationError> {
    if task::has_room_for(&record.task, message) {
        return Ok(());
    }
    let id = &record.task.id;
    let message = format!("the history of task {id} would pass {HISTORY_BYTES_MAX} bytes; begin another task");
    Err(OperationError::unsupported(message))
}

/// Whether a media type is of a range: names are compared without regard to case, and parameters are no other type (RFC 9110
/// §8.3.1).
fn takes(range: &str, kind: &str) -> bool {
    let name = |text: &str| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (range, kind) = (name(range), name(kind));
    let is_of = |whole: &str| kind.strip_prefix(whole).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'));
    range == kind || range == "*/*" || range.strip_suffix("/*").is_some_and(is_of)
}

/// Refuses media types that neither the agent's description nor its own card names.
fn check_modes(
    agent: &HostedAgent,
    message: &a2a::Message,
    own_card: impl Fn() -> Option<OwnCard>,
) -> Result<(), OperationError> {
    let among = |modes: &[String], kind: &str| modes.iter().any(|mode| takes(mode, kind));
    let taken =
        |kind: &str| among(&agent.input_modes, kind) || own_card().is_some_and(|card| among(&card.input_modes, kind));
    let kinds = message.parts.iter().filter_map(|part| part.media_type.as_deref()).filter(|kind| !kind.is_empty());
    match kinds.into_iter().find(|kind| !taken(kind)) {
        None => Ok(()),
        Some(kind) => Err(OperationError::content_type(format!(
            "{} does not accept {kind:?}; it accepts {}",
            agent.name(),
            agent.input_modes.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{over, takes};

    #[test]
    fn a_task_that_is_over_says_what_to_send_in_words_of_every_face() {
        let told = over("01a2").message;
        assert!(told.contains("task 01a2 is over: send the message without the id of a task"), "{told}");
        assert!(!told.contains("taskId"), "the command line has no such member: {told}");
    }

    #[test]
    fn a_media_type_with_parameters_or_capitals_is_the_same_type() {
        for (range, kind) in [
            ("text/plain", "text/plain; charset=utf-8"),
            ("text/plain", "TEXT/Plain"),
            ("text/plain;charset=utf-8", "text/plain"),
            ("*/*", "image/png"),
            ("image/*", "image/PNG; q=1"),
        ] {
            assert!(takes(range, kind), "{range} {kind}");
        }
        for (range, kind) in [
            ("text/plain", "text/html"),
            ("text/plain", "text/plainer"),
            ("image/*", "image"),
            ("image/*", "imagery/png"),
        ] {
            assert!(!takes(range, kind), "{range} {kind}");
        }
    }
}
