//! How a task is told to callers: as much of it as fits an answer, or the task and then its events.

use a2a::{SendMessageResponse, StreamResponse, Task};
use althing_call::{OperationError, Reply};
use futures::StreamExt as _;

use crate::machine::task::{self, ANSWER_BYTES_MAX};
use crate::tasks::events::TaskEvents;

/// Bytes of an answer beside the task in it.
pub(super) const WRAPPING: usize = 4 << 10;

/// An answer to SendMessage that is a task.
pub(super) fn sent(task: Task, history_length: Option<i32>) -> Result<Reply, OperationError> {
    let task = task::view(task, history_length, true);
    Reply::json(&SendMessageResponse::Task(task::fit(task, ANSWER_BYTES_MAX - WRAPPING)))
}

/// A task with as much of its history as was requested and fits.
pub(super) fn shown(task: Task, history_length: Option<i32>) -> Result<Reply, OperationError> {
    Reply::json(&task::fit(task::view(task, history_length, true), ANSWER_BYTES_MAX))
}

/// A stream of the task as it is, then its events; an error at the end where these go on elsewhere, or later.
pub(super) fn stream(
    task: Task,
    events: TaskEvents,
    told: impl Fn(StreamResponse) -> Result<StreamResponse, OperationError> + Send + 'static,
) -> Reply {
    let later = futures::stream::unfold(events, |mut events| async move {
        let next = match events.recv().await {
            Some(event) => Ok(event),
            None => Err(events.take_left()?),
        };
        Some((next, events))
    });
    let task = task::fit(task, ANSWER_BYTES_MAX - WRAPPING);
    let all = futures::stream::iter([Ok(StreamResponse::Task(task))]).chain(later);
    Reply::Events(
        all.map(move |event| {
            serde_json::to_vec(&told(event?)?).map_err(|error| OperationError::internal(error.to_string()))
        })
        .boxed(),
    )
}
