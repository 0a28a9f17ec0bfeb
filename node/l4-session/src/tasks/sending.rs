//! SendMessage and SendStreamingMessage: what their sender is answered.

use std::sync::Arc;

use a2a::{SendMessageResponse, StreamResponse};
use althing_call::{CallMetadata, Consent, OperationError, Reply};
use futures::StreamExt as _;
use tokio::sync::mpsc;

use crate::machine::record::Scope;
use crate::machine::task;
use crate::tasks::accept::{Accepted, Start};
use crate::tasks::first_response::{FirstResponse, Outcome};
use crate::tasks::live::{LiveTask, too_many_listeners};
use crate::tasks::replies::{sent, stream};
use crate::tasks::resume;
use crate::tasks::runner::{HostedAgent, internal};
use crate::tasks::service::TaskService;

impl TaskService {
    /// Sends a message, and answers with the task when it is idle, or at once if that was asked for. What needs somebody's
    /// `consent` is answered with the task as it rests.
    ///
    /// # Errors
    /// Why the message is not accepted, or the agent's own error.
    pub async fn send(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
        consent: Option<Consent>,
    ) -> Result<Reply, OperationError> {
        let configuration = request.configuration.clone();
        let at_once = configuration.as_ref().and_then(|c| c.return_immediately).unwrap_or(false);
        let history_length = configuration.and_then(|c| c.history_length);
        // Once the task's id is disclosed, clients that hang up no longer cancel the turn.
        let before = move |live: &Arc<LiveTask>| {
            live.keep_alive();
            (at_once && live.disclose(), live.state.subscribe())
        };
        let start = Start { waits: !at_once, consent, id: None };
        let begun = self.runner.begin(agent, scope, request, metadata, start, before).await?;
        let (live, (named, mut state)) = match begun {
            Accepted::New(live, prepared) => (live, prepared),
            Accepted::DuplicateRunning(live) => {
                let prepared = before(&live);
                (live, prepared)
            }
            Accepted::Duplicate(id) => {
                if !at_once {
                    resume::until_begun(&self.runner, &id).await;
                }
                if let Some(live) = self.runner.live().running(&id).filter(|_| !at_once) {
                    let _ = live.state.subscribe().wait_for(task::is_idle).await;
                }
                let record = self.runner.read(agent, scope, &id)?;
                metadata.answer.add_label(record.label);
                return sent(record.task, history_length);
            }
        };
        let is_told = named && self.runner.keep_shown(&live).await.map_err(internal)?;
        if !is_told {
            // The sender lives in `live`, which is held here: waiting cannot fail.
            let _ = state.wait_for(task::is_idle).await;
        }
        // Whoever sent the message again is told the same.
        metadata.answer.add_all(live.said());
        if !is_told {
            match live.answer.outcome() {
                Some(Outcome::Reply(message)) => return Reply::json(&SendMessageResponse::Message(message)),
                Some(Outcome::Refused(error)) => return Err(error),
                None => {}
            }
        }
        sent(live.record().task, history_length)
    }

    /// Sends a message, and answers with the task and its events. What needs somebody's `consent` is answered with the task as
    /// it rests, and nothing more.
    ///
    /// # Errors
    /// Why the message is not accepted, or the agent's own error.
    pub async fn send_streaming(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
        consent: Option<Consent>,
    ) -> Result<Reply, OperationError> {
        let history_length = request.configuration.as_ref().and_then(|c| c.history_length);
        let start = Start { waits: self.runner.may_reply(agent), consent, id: None };
        let answer = metadata.answer.clone();
        let open = move |live: &Arc<LiveTask>| live.open(&answer);
        let begun = self.runner.begin(agent, scope, request, metadata, start, open).await?;
        let (live, waiting) = match begun {
            Accepted::New(live, waiting) => (live, waiting),
            Accepted::DuplicateRunning(live) => {
                if live.shows() {
                    // Whether there is a task to tell of, its first response says.
                    let _ = self.runner.keep_shown(&live).await.map_err(internal)?;
                }
                let waiting = live.open(&metadata.answer);
                (live, waiting)
            }
            Accepted::Duplicate(id) => {
                resume::until_begun(&self.runner, &id).await;
                let Some(live) = self.runner.live().running(&id) else {
                    // It is idle: there are no further events.
                    let record = self.runner.read(agent, scope, &id)?;
                    metadata.answer.add_label(record.label);
                    return Ok(stream(task::view(record.task, history_length, true), mpsc::channel(1).1, Ok));
                };
                let (task, events) = live.listen(false, &metadata.answer).ok_or_else(|| too_many_listeners(&id))?;
                return Ok(stream(task::view(task, history_length, true), events, Ok));
            }
        };
        let first = waiting.first_response().await;
        match first.ok_or_else(|| OperationError::internal("the turn ended without a response"))? {
            FirstResponse::Task(task, events) => {
                Ok(stream(task::view(task, history_length, true), events, move |event| live.for_sender(event)))
            }
            FirstResponse::Reply(message) => {
                let event = serde_json::to_vec(&StreamResponse::Message(message));
                let event = event.map_err(|error| OperationError::internal(error.to_string()));
                Ok(Reply::Events(futures::stream::iter([event]).boxed()))
            }
            FirstResponse::Refused(error) => Err(error),
        }
    }
}
