//! Messages that are taken: into a new task, or into one that goes on; and the turn that each begins.

use std::sync::Arc;

use althing_communication::{Holder, TrustLevel};
use althing_execution::agent::OwnCard;

use crate::error::OperationError;
use crate::machine::record::{Record, Scope, WORKING_BYTES_MAX};
use crate::machine::shares::{Claim, Whose};
use crate::machine::task::{self, HISTORY_BYTES_MAX};
use crate::operation::CallMetadata;
use crate::tasks::live::{Asked, Live};
use crate::tasks::runner::{HostedAgent, TaskRunner, internal};
use crate::tasks::store::Encoded;
use crate::tasks::turn;

/// What a message came to.
pub(crate) enum Taken<T> {
    /// A turn.
    New(Arc<Live>, T),
    /// It was taken before, and its turn runs, or has just ended.
    Again(Arc<Live>),
    /// It was taken before, into this task.
    Before(String),
}

impl TaskRunner {
    /// What the message came to before, if it was taken before. Whoever is not answered sends a message again, and
    /// must not have the work done twice.
    fn taken_before<T>(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        message: &a2a::Message,
    ) -> Result<Option<Taken<T>>, OperationError> {
        let began = self.store().began_by(agent.id.name(), scope, &message.message_id);
        for id in began.iter().chain(&message.task_id) {
            // Looked for first: a turn that ends meanwhile may leave no task behind, and then its answer is wanted.
            let running = self.live().running(id);
            // A task that is not there is answered for below.
            let Ok(record) = self.read(agent, scope, id) else { continue };
            match task::heard(&record.task, message) {
                task::Heard::Never => {}
                task::Heard::Same => {
                    let of_it = running.or_else(|| self.live().running(id));
                    let of_it = of_it.filter(|live| live.is_of(&message.message_id));
                    return Ok(Some(of_it.map_or_else(|| Taken::Before(id.clone()), Taken::Again)));
                }
                task::Heard::Other => return Err(OperationError::message_id_reused(&message.message_id, id)),
            }
        }
        Ok(None)
    }

    /// Takes a message: into a new task, or into the one that it names. The task is on disk when this returns.
    async fn accept(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
    ) -> Result<Taken<()>, OperationError> {
        let mut asked = Asked::new(&request, metadata, self.may_reply(agent));
        let message = request.message;
        check_modes(agent, &message, || self.own_card(&agent.id))?;
        if request.configuration.is_some_and(|c| c.task_push_notification_config.is_some()) {
            return Err(OperationError::push_not_supported());
        }
        let continues = message.task_id.clone();
        let _gate = match &continues {
            Some(id) => Some(self.live().gate(id).await),
            None => None,
        };
        // Until what it began is known to all.
        let arrival = (scope, agent.id.name().to_owned(), message.message_id.clone());
        let _taking = self.arrivals().take(arrival).await;
        if let Some(taken) = self.taken_before(agent, scope, &message)? {
            return Ok(taken);
        }
        let record = match continues {
            None => {
                let context_id = message.context_id.clone().unwrap_or_else(|| self.new_id());
                let task = task::submitted(self.new_id(), context_id, message, self.now());
                Record { task, agent: agent.id.name().to_owned(), scope, remembered: None }
            }
            Some(id) => {
                let mut record = self.read(agent, scope, &id)?;
                if message.context_id.as_ref().is_some_and(|context| *context != record.task.context_id) {
                    let message = format!("task {id} belongs to context {:?}", record.task.context_id);
                    return Err(OperationError::invalid_params(message));
                }
                if let Some(running) = self.live().running(&id) {
                    if !agent.barge_in {
                        let message = format!("task {id} is being worked on; wait for it, or cancel it");
                        return Err(OperationError::unsupported(message));
                    }
                    // The gate is held, so that of two messages that come at once one interrupts the other.
                    running.interrupt().await;
                    record = self.read(agent, scope, &id)?;
                }
                if !task::takes(&record.task, &message) {
                    let message = format!("what was said in task {id} passes {HISTORY_BYTES_MAX} bytes; begin another");
                    return Err(OperationError::unsupported(message));
                }
                asked.before = Some(record.task.status.clone());
                let over = |_| OperationError::unsupported(format!("task {id} is over; send a message without taskId"));
                task::continued(&mut record.task, message, self.now()).map_err(over)?;
                record
            }
        };
        let encoded = Encoded::of(&record).map_err(internal)?;
        if encoded.len() > WORKING_BYTES_MAX {
            let message = "the task would hold more than one may; begin another, or send less";
            return Err(OperationError::unsupported(message));
        }
        let claim = self.claim(&record, asked.call.holder);
        let live = self.live().begin(&record, claim, encoded.len(), asked)?;
        if let Err(error) = self.store().write(encoded).await {
            self.live().put_to_rest(&record.task.id, Vec::new);
            return Err(internal(error));
        }
        Ok(Taken::New(live, ()))
    }

    /// What a turn of the task takes, and of whose share.
    fn claim(&self, record: &Record, holder: Option<Holder>) -> Claim<Whose> {
        let is_own = self.is_own(record.scope);
        let nearness = match holder {
            _ if is_own => TrustLevel::Own,
            holder => holder.map_or(TrustLevel::Stranger, |holder| holder.trust),
        };
        Claim {
            whose: match holder {
                // Keys are free: strangers of one origin have one share.
                Some(holder) if nearness == TrustLevel::Stranger => Whose::Crowd(holder.quota_group()),
                _ => Whose::Scope(record.scope),
            },
            nearness,
            agent: record.agent.clone(),
            bytes: task::held_bytes(&record.task),
            agent_turns_max: self.host().turns_max(&record.agent),
        }
    }

    /// Takes a message and starts its turn, to the end of both even when whoever asked goes away meanwhile: else a task
    /// could be on disk, and counted as alive, with nobody to work on it. `before` the turn starts listeners are added.
    pub(crate) async fn begin<T: Send + 'static>(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
        before: impl FnOnce(&Arc<Live>) -> T + Send + 'static,
    ) -> Result<Taken<T>, OperationError> {
        let (runner, agent, metadata) = (self.clone(), agent.clone(), metadata.clone());
        let beginning = async move {
            let live = match runner.accept(&agent, scope, request, &metadata).await? {
                Taken::New(live, ()) => live,
                Taken::Again(live) => return Ok(Taken::Again(live)),
                Taken::Before(id) => return Ok(Taken::Before(id)),
            };
            let prepared = before(&live);
            runner.start(&live);
            Ok(Taken::New(live, prepared))
        };
        let begun = tokio::spawn(tracing::Instrument::in_current_span(beginning)).await;
        begun.unwrap_or_else(|error| Err(OperationError::internal(format!("the message was not taken: {error}"))))
    }

    fn start(&self, live: &Arc<Live>) {
        let (runner, live) = (self.clone(), live.clone());
        let binding = live.record().agent.clone();
        let binding = runner.host().binding(&binding).map(|binding| binding.hash).unwrap_or_default();
        let span = tracing::info_span!("turn", otel.kind = "internal", althing.binding.hash = &*binding);
        tokio::spawn(async move {
            let (running, of) = (runner.clone(), live.clone());
            let turn = tracing::Instrument::instrument(async move { turn::run(&running, &of).await }, span);
            // A turn that panics is no reason to leave its task alive.
            if let Err(error) = tokio::spawn(turn).await {
                turn::broke(&runner, &live, &error.to_string()).await;
            }
        });
    }
}

/// What neither its description nor its own card names is not taken.
fn check_modes(
    agent: &HostedAgent,
    message: &a2a::Message,
    own_card: impl Fn() -> Option<OwnCard>,
) -> Result<(), OperationError> {
    let among = |modes: &[String], kind: &str| modes.iter().any(|mode| mode == kind || mode == "*/*");
    let taken =
        |kind: &str| among(&agent.input_modes, kind) || own_card().is_some_and(|card| among(&card.input_modes, kind));
    let kinds = message.parts.iter().filter_map(|part| part.media_type.as_deref()).filter(|kind| !kind.is_empty());
    match kinds.into_iter().find(|kind| !taken(kind)) {
        None => Ok(()),
        Some(kind) => Err(OperationError::content_type(format!(
            "{} does not take {kind:?}; it takes {}",
            agent.id.name(),
            agent.input_modes.join(", ")
        ))),
    }
}
