//! Messages that were accepted before: a client that gets no answer sends them again, and nothing is done twice.

use std::sync::Arc;

use althing_call::{CallMetadata, OperationError, Refusal};

use crate::machine::answers;
use crate::machine::record::Scope;
use crate::machine::task;
use crate::tasks::in_flight::InFlightGuard;
use crate::tasks::live::LiveTask;
use crate::tasks::parking;
use crate::tasks::runner::{HostedAgent, TaskRunner, internal};

/// The result of accepting a message.
pub(crate) enum Accepted<T> {
    /// It began a turn.
    New(Arc<LiveTask>, T),
    /// It was accepted before; its turn runs, or has just ended.
    DuplicateRunning(Arc<LiveTask>),
    /// It was accepted before, into this task.
    Duplicate(String),
}

/// A message from a caller to an agent, which may have been sent before.
#[derive(Clone, Copy)]
pub(super) struct SentMessage<'a> {
    pub agent: &'a HostedAgent,
    pub scope: Scope,
    pub message: &'a a2a::Message,
}

impl SentMessage<'_> {
    /// Waits until no other message of that id, from that caller to that agent, is being accepted.
    pub async fn in_flight_alone(self, runner: &TaskRunner) -> InFlightGuard {
        let SentMessage { agent, scope, message } = self;
        runner.in_flight().acquire((scope, agent.name().to_owned(), message.message_id.clone())).await
    }

    /// What there is of a message that was accepted before, or that its task cannot take before somebody has answered.
    ///
    /// # Errors
    /// `ALREADY_DONE` of one that was answered, of which no task is kept; another message of the same id; its task moved.
    pub fn taken_before<T>(
        self,
        runner: &TaskRunner,
        metadata: &CallMetadata,
    ) -> Result<Option<Accepted<T>>, OperationError> {
        if let Some(taken) = self.find_duplicate(runner)? {
            return Ok(Some(taken));
        }
        let SentMessage { agent, scope, message } = self;
        // It goes on when somebody has answered, and with no message before that.
        if let Some(id) = message.task_id.as_ref().filter(|id| runner.is_own_task(agent, scope, id))
            && runner.live().running(id).is_none()
            && parking::is_parked(runner, id)
        {
            return Ok(Some(Accepted::Duplicate(id.clone())));
        }
        self.check_unanswered(runner, metadata)?;
        Ok(None)
    }

    /// Finds the earlier result of a message that was accepted before: a client that gets no answer sends it again, and the
    /// work must not be done twice.
    fn find_duplicate<T>(self, runner: &TaskRunner) -> Result<Option<Accepted<T>>, OperationError> {
        let SentMessage { agent, scope, message } = self;
        // In this order: a turn that ends is in the store before it is live no more.
        let began = runner.live().began_by(agent.name(), scope, &message.message_id);
        let began = match began {
            None if !agent.is_told_again => runner.store().began_by(agent.name(), scope, &message.message_id),
            began => began,
        };
        for id in began.iter().chain(&message.task_id) {
            // Looked up first: a turn that ends meanwhile may leave no task, and its answer is needed then.
            let running = runner.live().running(id);
            if agent.is_told_again && !running.as_ref().is_some_and(|live| works_on(live, &message.message_id)) {
                continue;
            }
            let found = runner.read(agent, scope, id);
            if let Err(moved) = &found
                && matches!(moved.refusal, Refusal::TaskMoved { .. })
            {
                return Err(moved.clone());
            }
            let Ok(record) = found else {
                // It left no task meanwhile: what answers it is the answer.
                match running.filter(|live| live.is_of(&message.message_id) && live.record().scope == scope) {
                    Some(ended) => return Ok(Some(Accepted::DuplicateRunning(ended))),
                    // A missing task is reported below.
                    None => continue,
                }
            };
            match task::compare_message(&record.task, message) {
                task::Duplicate::No => {}
                task::Duplicate::Same => {
                    let of_it = running.or_else(|| runner.live().running(id));
                    let of_it = of_it.filter(|live| live.is_of(&message.message_id));
                    return Ok(Some(of_it.map_or_else(|| Accepted::Duplicate(id.clone()), Accepted::DuplicateRunning)));
                }
                task::Duplicate::Different if agent.is_told_again => {}
                task::Duplicate::Different => return Err(OperationError::message_id_reused(&message.message_id, id)),
            }
        }
        Ok(None)
    }

    /// Refuses a message under a key that was answered, where no task of it is kept.
    fn check_unanswered(self, runner: &TaskRunner, metadata: &CallMetadata) -> Result<(), OperationError> {
        let SentMessage { agent, scope, message } = self;
        let id = &message.message_id;
        if agent.is_told_again || !answers::is_key(id) {
            return Ok(());
        }
        let name = answers::name_of(agent.name(), &String::from(scope), id);
        let known = runner.store().answers().get(&name, runner.now_ms()).map_err(|error| internal(error.into()))?;
        let Some(known) = known else { return Ok(()) };
        if !known.is_of(message) {
            return Err(OperationError::message_id_reused(id, "that is not kept any more"));
        }
        metadata.answer.add_label(known.label);
        Err(OperationError::already_done(id, known.answer))
    }
}

/// Whether a turn is that of a message, and nobody was told yet that it is over.
pub(super) fn works_on(live: &LiveTask, message_id: &str) -> bool {
    live.is_of(message_id) && !task::is_idle(&live.record().task.status.state)
}
