//! How a task is told to callers: as much of it as fits an answer, or the task and then its events.

use a2a::{SendMessageResponse, StreamResponse, Task};
use althing_call::{OperationError, Reply};
use futures::StreamExt as _;
use tokio::sync::mpsc;

use crate::machine::task::{self, ANSWER_BYTES_MAX};

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

/// A stream of the task as it is, then its events.
pub(super) fn stream(
    task: Task,
    events: mpsc::Receiver<StreamResponse>,
    told: impl Fn(StreamResponse) -> Result<StreamResponse, OperationError> + Send + 'static,
) -> Reply {
    let later =
        futures::stream::unfold(events, |mut events| async { events.recv().await.map(|event| (event, events)) });
    let task = task::fit(task, ANSWER_BYTES_MAX - WRAPPING);
    let all = futures::stream::iter([StreamResponse::Task(task)]).chain(later);
    Reply::Events(
        all.map(move |event| {
            serde_json::to_vec(&told(event)?).map_err(|error| OperationError::internal(error.to_string()))
        })
        .boxed(),
    )
}
