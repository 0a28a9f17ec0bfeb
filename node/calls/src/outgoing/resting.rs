//! What is said of a message that is not sent before somebody consents.

use a2a::{Message, Part, Role, SendMessageResponse, StreamResponse, Task, TaskState, TaskStatus};
use althing_call::{CallRequest, OperationError, Refusal, Reply};
use althing_protocol::Label;
use althing_session::Remote;
use futures::StreamExt as _;

/// The answer to a message that is refused. Where it needs somebody's consent, and continues a task that waits for its caller, the
/// task rests and says to what, as it does where its host asks for that. Nothing was sent: what continues it later is decided on
/// anew. No other refusal is changed, and a message that would begin a task has none that could rest. `word` gives the id of the
/// message in the task's status, and the time in Unix milliseconds.
pub(super) fn resting(
    call: &CallRequest,
    remote: &Remote,
    word: impl FnOnce() -> (String, u64),
    refused: OperationError,
) -> Result<Reply, OperationError> {
    let Refusal::ConsentRequired { to } = &refused.refusal else { return Err(refused) };
    let operation = call.operation();
    let task = call.request.params.task_id().filter(|_| operation.is_message());
    let known = task.and_then(|id| remote.last_known(&call.target.agent, id));
    let waits = |task: &Task| matches!(task.status.state, TaskState::InputRequired | TaskState::AuthRequired);
    let Some((Task { id, context_id, .. }, label)) = known.filter(|(task, _)| waits(task)) else {
        return Err(refused);
    };
    let (message_id, now_ms) = word();
    let mut message = Message::new(Role::Agent, vec![Part::text(to.clone())]);
    (message.message_id, message.task_id, message.context_id) =
        (message_id, Some(id.clone()), Some(context_id.clone()));
    let timestamp = i64::try_from(now_ms).ok().and_then(chrono::DateTime::from_timestamp_millis);
    let status = TaskStatus { state: TaskState::AuthRequired, message: Some(message), timestamp };
    let task = Task { id, context_id, status, artifacts: None, history: None, metadata: None };
    call.metadata.answer.add_label(Some(label.unwrap_or(Label::UNLABELLED)));
    if !operation.streams() {
        return Reply::json(&SendMessageResponse::Task(task));
    }
    let event = serde_json::to_vec(&StreamResponse::Task(task));
    let event = event.map_err(|error| OperationError::internal(error.to_string()))?;
    Ok(Reply::Events(futures::stream::iter([Ok(event)]).boxed()))
}
