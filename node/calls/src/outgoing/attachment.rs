//! The events of a task on another node that breaks off: when that node is there again, so are the events, and whoever follows
//! them does not notice. What was missed is in the task: it is told as updates ([`crate::machine::stream_view`]).

use std::time::Duration;

use a2a::StreamResponse;
use althing_call::{CallRequest, Operation, OperationError, OperationRequest, Refusal, Reply};
use althing_session::STALE;
use althing_session::machine::task::is_idle;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::Calls;
use crate::machine::stream_view::StreamView;

/// How long a node may take to come back, until whoever follows is told that it is gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two attempts.
const RETRY: Duration = Duration::from_secs(1);

type Event = Result<Vec<u8>, OperationError>;
type Events = BoxStream<'static, Event>;

/// A stream of events, and how it is attached to again.
struct Attachment {
    calls: Calls,
    /// What was asked for first.
    asked: CallRequest,
    events: Events,
    /// What was told of the task.
    view: StreamView,
}

/// The same reply, whose events go on when their node does.
pub(super) fn follow(calls: &Calls, asked: CallRequest, reply: Reply) -> Reply {
    match reply {
        Reply::Events(events) => {
            let attachment = Attachment { calls: calls.clone(), asked, events, view: StreamView::default() };
            Reply::Events(stream::unfold(attachment, Attachment::next).boxed())
        }
        one => one,
    }
}

impl Attachment {
    async fn next(mut self) -> Option<(Event, Attachment)> {
        let event = match self.events.next().await? {
            Err(lost) if lost.refusal == Refusal::AgentUnreachable => self.attach(lost).await,
            event => event,
        };
        // What is no event was refused before.
        if let Ok(event) = &event
            && let Ok(event) = serde_json::from_slice::<StreamResponse>(event)
        {
            self.view.note(&event);
        }
        Some((event, self))
    }

    /// The first event of the stream to which it is attached again; the error with which it was lost, where it is not.
    async fn attach(&mut self, lost: OperationError) -> Event {
        self.events = stream::empty().boxed();
        // Nothing follows of a task that rests, and nobody knows which one it is before its first event.
        let Some(task) = self.view.unfinished().map(str::to_owned) else { return Err(lost) };
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            sleep(RETRY).await;
            if let Some((first, events)) = self.attempt(&task).await {
                self.events = stream::iter(self.catch_up(first)).chain(events).boxed();
                return self.events.next().await.unwrap_or(Err(lost));
            }
        }
        Err(lost)
    }

    /// What is told of the task in place of the first event of a stream of it, which begins anew.
    fn catch_up(&self, first: Vec<u8>) -> Vec<Event> {
        let Ok(StreamResponse::Task(task)) = serde_json::from_slice(&first) else { return vec![Ok(first)] };
        let written = |event: StreamResponse| {
            serde_json::to_vec(&event).map_err(|error| OperationError::internal(error.to_string()))
        };
        self.view.catch_up(task).into_iter().map(written).collect()
    }

    async fn attempt(&mut self, task: &str) -> Option<(Vec<u8>, Events)> {
        match self.ask(Operation::SubscribeToTask, task).await {
            Ok(Reply::Events(mut events)) => Some((events.next().await?.ok()?, events)),
            Ok(Reply::One(_)) => None,
            // Its node is not there yet, or the task is over: nobody subscribes to that.
            Err(_) => Some((self.end_of(task).await?, stream::empty().boxed())),
        }
    }

    /// The task as an event, if it rests by now.
    async fn end_of(&mut self, task: &str) -> Option<Vec<u8>> {
        let Ok(Reply::One(task)) = self.ask(Operation::GetTask, task).await else { return None };
        let task: a2a::Task = serde_json::from_slice(&task).ok()?;
        // Where its node does not answer, the task is the one that was known last.
        let is_stale = task.metadata.as_ref().is_some_and(|metadata| metadata.contains_key(STALE));
        if is_stale || !is_idle(&task.status.state) {
            return None;
        }
        serde_json::to_vec(&StreamResponse::Task(task)).ok()
    }

    async fn ask(&mut self, operation: Operation, task: &str) -> Result<Reply, OperationError> {
        let request = OperationRequest::parse(operation, json!({ "id": task }).to_string().into_bytes())?;
        self.calls.walk(CallRequest { request, ..self.asked.clone() }).await
    }
}
