//! SendMessage and SendStreamingMessage: what their sender is answered.

use std::sync::Arc;

use a2a::{SendMessageResponse, StreamResponse, TaskState};
use althing_call::{CallMetadata, Consent, OperationError, Reply};
use futures::StreamExt as _;
use tokio::sync::watch;

use crate::machine::record::Scope;
use crate::machine::task;
use crate::tasks::accept::Start;
use crate::tasks::duplicates::{Accepted, SentMessage};
use crate::tasks::events::TaskEvents;
use crate::tasks::first_response::{FirstResponse, Outcome};
use crate::tasks::live::{AnswerWaiter, LiveTask, too_many_listeners};
use crate::tasks::replies::{sent, stream};
use crate::tasks::resume;
use crate::tasks::runner::{HostedAgent, TaskRunner, internal};
use crate::tasks::service::TaskService;

/// What a sender wants to be told.
#[derive(Clone, Copy)]
struct SendTerms {
    /// The task as soon as there is one, not when it is idle.
    at_once: bool,
    history_length: Option<i32>,
}

impl SendTerms {
    fn of(request: &a2a::SendMessageRequest) -> SendTerms {
        let configuration = request.configuration.as_ref();
        let at_once = configuration.and_then(|asked| asked.return_immediately).unwrap_or(false);
        SendTerms { at_once, history_length: configuration.and_then(|asked| asked.history_length) }
    }

    /// Joins whoever waits for a turn: whether the task's id was told at once, and the states of the task. Once it is disclosed,
    /// clients that hang up no longer cancel the turn.
    fn attend(self, live: &LiveTask) -> (bool, watch::Receiver<TaskState>) {
        live.keep_alive();
        (self.at_once && live.disclose(), live.state.subscribe())
    }
}

/// Who sent a message to an agent, with what answers its call.
#[derive(Clone, Copy)]
struct MessageSender<'a> {
    agent: &'a HostedAgent,
    scope: Scope,
    terms: SendTerms,
    metadata: &'a CallMetadata,
}

impl MessageSender<'_> {
    /// What they are answered when their message is accepted.
    async fn sent(
        self,
        runner: &TaskRunner,
        accepted: Accepted<(bool, watch::Receiver<TaskState>)>,
    ) -> Result<Reply, OperationError> {
        let MessageSender { agent, scope, terms, metadata } = self;
        let SendTerms { at_once, history_length } = terms;
        let (live, (named, mut state)) = match accepted {
            Accepted::New(live, prepared) => (live, prepared),
            Accepted::DuplicateRunning(live) => {
                let prepared = terms.attend(&live);
                (live, prepared)
            }
            Accepted::Duplicate(id) => {
                if !at_once {
                    resume::until_begun(runner, &id).await;
                }
                if let Some(live) = runner.live().running(&id).filter(|_| !at_once) {
                    let _ = live.state.subscribe().wait_for(task::is_idle).await;
                }
                let record = runner.read(agent, scope, &id)?;
                metadata.answer.add_label(record.label);
                return sent(record.task, history_length);
            }
        };
        let is_told = named && runner.keep_shown(&live).await.map_err(internal)?;
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

    /// The same, where they want events.
    async fn streamed(self, runner: &TaskRunner, accepted: Accepted<AnswerWaiter>) -> Result<Reply, OperationError> {
        let MessageSender { agent, scope, terms: SendTerms { history_length, .. }, metadata } = self;
        let (live, waiting) = match accepted {
            Accepted::New(live, waiting) => (live, waiting),
            Accepted::DuplicateRunning(live) => {
                if live.shows() {
                    // Whether there is a task to tell of, its first response says.
                    let _ = runner.keep_shown(&live).await.map_err(internal)?;
                }
                let waiting = live.open(&metadata.answer);
                (live, waiting)
            }
            Accepted::Duplicate(id) => {
                resume::until_begun(runner, &id).await;
                let Some(live) = runner.live().running(&id) else {
                    // It is idle: there are no further events.
                    let record = runner.read(agent, scope, &id)?;
                    metadata.answer.add_label(record.label);
                    return Ok(stream(task::view(record.task, history_length, true), TaskEvents::none(), Ok));
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
        let terms = SendTerms::of(&request);
        let before = move |live: &Arc<LiveTask>| terms.attend(live);
        let start = Start { waits: !terms.at_once, consent, id: None };
        let begun = self.runner.begin(agent, scope, request, metadata, start, before).await?;
        MessageSender { agent, scope, terms, metadata }.sent(&self.runner, begun).await
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
        let terms = SendTerms::of(&request);
        let start = Start { waits: self.runner.may_reply(agent), consent, id: None };
        let answer = metadata.answer.clone();
        let open = move |live: &Arc<LiveTask>| live.open(&answer);
        let begun = self.runner.begin(agent, scope, request, metadata, start, open).await?;
        MessageSender { agent, scope, terms, metadata }.streamed(&self.runner, begun).await
    }

    /// Whether a message was accepted before, or is kept from its task until somebody has answered: it begins no turn.
    pub async fn was_taken(&self, agent: &HostedAgent, scope: Scope, message: &a2a::Message) -> bool {
        // One that comes at the same time is first, if it is being accepted.
        let sent = SentMessage { agent, scope, message };
        drop(sent.in_flight_alone(&self.runner).await);
        !matches!(sent.taken_before::<()>(&self.runner, &CallMetadata::default()), Ok(None))
    }

    /// Answers a message that was accepted before as [`TaskService::send`] does, or as [`TaskService::send_streaming`] if it
    /// `streams`; none of another message, which is not accepted by this.
    ///
    /// # Errors
    /// What a message that was accepted before is refused for.
    pub async fn send_again(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: &a2a::SendMessageRequest,
        streams: bool,
        metadata: &CallMetadata,
    ) -> Result<Option<Reply>, OperationError> {
        let sent = SentMessage { agent, scope, message: &request.message };
        let sender = MessageSender { agent, scope, terms: SendTerms::of(request), metadata };
        if streams {
            return match sent.taken_before(&self.runner, metadata)? {
                Some(taken) => sender.streamed(&self.runner, taken).await.map(Some),
                None => Ok(None),
            };
        }
        match sent.taken_before(&self.runner, metadata)? {
            Some(taken) => sender.sent(&self.runner, taken).await.map(Some),
            None => Ok(None),
        }
    }
}
