//! The state of a task: applies its agent's outputs, and gives the events that follow.

use a2a::{
    Artifact, Message, Part, PartContent, Role, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};
use althing_execution::agent::{Made, Metadata};
use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::machine::size::stored_bytes;

/// Artifacts of one task.
const ARTIFACTS_MAX: usize = 256;
/// Bytes of an answer: what one frame carries.
pub const ANSWER_BYTES_MAX: usize = althing_protocol::limits::ANSWER_BYTES_MAX;
/// Bytes of all artifacts of one task, as JSON, a little more than 4 MiB: with the status message, without the history, it
/// always fits an answer.
pub const ARTIFACT_BYTES_MAX: usize = ANSWER_BYTES_MAX - (192 << 10);
/// Bytes of a status message, as JSON.
pub const STATUS_MESSAGE_BYTES_MAX: usize = 64 << 10;
/// The same as stored: nothing takes more than 9 bytes for 4 of JSON (`0.1,`).
pub const STATUS_MESSAGE_STORED_BYTES_MAX: usize = STATUS_MESSAGE_BYTES_MAX * 5 / 2;
/// Earlier agent messages that a task's history keeps, and their bytes as JSON: beyond that, an intermediate status message
/// is dropped by the next.
const AGENT_MESSAGES_MAX: usize = 256;
const AGENT_MESSAGES_BYTES_MAX: usize = STATUS_MESSAGE_BYTES_MAX;
/// The same as stored.
pub const AGENT_MESSAGES_STORED_BYTES_MAX: usize = STATUS_MESSAGE_STORED_BYTES_MAX;
/// Bytes that a runtime may store for a task's next turn.
pub const REMEMBERED_BYTES_MAX: usize = 64 << 10;
/// Bytes of the reason of a failure; a longer one is cut.
pub const REASON_BYTES_MAX: usize = 4 << 10;
/// Bytes of a task's metadata, as JSON.
pub const METADATA_BYTES_MAX: usize = 64 << 10;
/// The same as stored.
pub const METADATA_STORED_BYTES_MAX: usize = METADATA_BYTES_MAX * 5 / 2;
/// Bytes of a task's history, as JSON.
pub const HISTORY_BYTES_MAX: usize = 2 << 20;

/// Why an output is not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The task is over.
    #[error("the task is over")]
    Over,
    /// The agent sets a state that an agent cannot set.
    #[error("an agent cannot set a task to {0:?}")]
    State(TaskState),
    /// The output does not fit into the task.
    #[error("the task has reached its limit of {0}")]
    TooMuch(String),
}

/// The size of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Bytes of a status message, metadata, or what the runtime stores, as JSON.
    pub message_bytes: usize,
    /// The same as stored.
    pub message_stored_bytes: usize,
    /// Bytes of artifacts and replies, as JSON.
    pub artifact_bytes: usize,
    /// The same as stored.
    pub stored_bytes: usize,
    /// Bytes of memory by which the task grows.
    pub memory_bytes: usize,
}

/// The size of an output. Status messages and metadata replace earlier ones: each has a limit of its own.
#[must_use]
pub fn size(made: &Made) -> Size {
    let answer = |artifact_bytes, stored_bytes, memory_bytes| Size {
        artifact_bytes,
        stored_bytes,
        memory_bytes,
        ..Size::default()
    };
    let word = |message_bytes, message_stored_bytes| Size { message_bytes, message_stored_bytes, ..Size::default() };
    match made {
        Made::Artifact { artifact, .. } => {
            answer(bytes(artifact), stored_bytes(artifact), artifact_memory_bytes(artifact))
        }
        Made::Reply(message) => answer(bytes(message), stored_bytes(message), message_memory_bytes(message)),
        Made::Status(_, Some(message)) => word(bytes(message), stored_bytes(message)),
        Made::Begun { metadata: Some(metadata), .. } => {
            Size { memory_bytes: members_bytes(metadata.iter()), ..word(bytes(metadata), stored_bytes(metadata)) }
        }
        Made::Remember(kept) => word(kept.len(), kept.len()),
        Made::Status(_, None) | Made::Begun { metadata: None, .. } => Size::default(),
        Made::Annotated(made, metadata) => {
            let mut size = size(made);
            if size.artifact_bytes > 0 {
                // It is in the event only, and not stored.
                size.artifact_bytes = size.artifact_bytes.saturating_add(bytes(metadata));
            } else {
                size.message_bytes = size.message_bytes.saturating_add(bytes(metadata));
                size.message_stored_bytes = size.message_stored_bytes.saturating_add(stored_bytes(metadata));
            }
            size
        }
    }
}

/// Whether the output exceeds the limit of status messages, or of what the runtime stores.
#[must_use]
pub fn exceeds_message_limit(made: &Made, size: &Size) -> bool {
    match made {
        Made::Remember(kept) => kept.len() > REMEMBERED_BYTES_MAX,
        _ => {
            size.message_bytes > STATUS_MESSAGE_BYTES_MAX || size.message_stored_bytes > STATUS_MESSAGE_STORED_BYTES_MAX
        }
    }
}

/// Bytes of the value as JSON.
pub fn bytes(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}

/// A new task for `message`.
#[must_use]
pub fn submitted(id: String, context_id: String, mut message: Message, now: DateTime<Utc>) -> Task {
    message.task_id = Some(id.clone());
    message.context_id = Some(context_id.clone());
    Task {
        id,
        context_id,
        status: TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(now) },
        artifacts: None,
        history: Some(vec![message]),
        metadata: None,
    }
}

/// Continues the task with another message: it is submitted again.
///
/// # Errors
/// [`StepError::Over`].
pub fn continue_with(task: &mut Task, mut message: Message, now: DateTime<Utc>) -> Result<(), StepError> {
    if task.status.state.is_terminal() {
        return Err(StepError::Over);
    }
    message.task_id = Some(task.id.clone());
    message.context_id = Some(task.context_id.clone());
    keep_status_message(task);
    task.history.get_or_insert_default().push(message);
    task.status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(now) };
    Ok(())
}

/// Undoes [`continue_with`], after the agent refused the message: restores the status `before`.
pub fn undo_continue(task: &mut Task, before: TaskStatus) {
    let history = task.history.get_or_insert_default();
    history.pop();
    let kept =
        history.last().zip(before.message.as_ref()).is_some_and(|(last, word)| last.message_id == word.message_id);
    if kept {
        history.pop();
    }
    task.status = before;
}

/// Moves the status message into the history: always if the task was idle, otherwise while there is room.
fn keep_status_message(task: &mut Task) {
    let Some(word) = task.status.message.take() else { return };
    let history = task.history.get_or_insert_default();
    if is_idle(&task.status.state) || has_room(history, &word) {
        history.push(word);
    }
}

fn has_room(history: &[Message], word: &Message) -> bool {
    let said = || history.iter().filter(|message| message.role == Role::Agent);
    let bytes = said().chain([word]).map(bytes).fold(0, usize::saturating_add);
    said().count() < AGENT_MESSAGES_MAX && bytes <= AGENT_MESSAGES_BYTES_MAX
}

/// Whether the state is terminal or interrupted (A2A): no turn runs.
#[must_use]
pub fn is_idle(state: &TaskState) -> bool {
    state.is_terminal() || matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// Applies an output of the agent; gives the event.
///
/// # Errors
/// See [`StepError`].
pub fn step(task: &mut Task, made: Made, now: DateTime<Utc>) -> Result<Option<StreamResponse>, StepError> {
    if task.status.state.is_terminal() {
        return Err(StepError::Over);
    }
    match made {
        Made::Remember(_) => Ok(None),
        Made::Reply(message) => Ok(Some(set_status(task, TaskState::Completed, Some(message), now))),
        Made::Begun { state, metadata } => {
            if matches!(state, TaskState::Submitted | TaskState::Working) {
                task.status.state = state;
            }
            merge(&mut task.metadata, metadata).map(|()| None)
        }
        Made::Annotated(made, metadata) => {
            if matches!(*made, Made::Status(..)) {
                merge(&mut task.metadata, Some(metadata.clone()))?;
            }
            Ok(step(task, *made, now)?.map(|event| with_metadata(event, Some(metadata))))
        }
        Made::Status(TaskState::Unspecified | TaskState::Submitted, _) => Err(StepError::State(TaskState::Submitted)),
        Made::Status(state, message) => Ok(Some(set_status(task, state, message, now))),
        Made::Artifact { artifact, append, last } => {
            add(task.artifacts.get_or_insert_default(), artifact.clone(), append)?;
            Ok(Some(StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: task.id.clone(),
                context_id: task.context_id.clone(),
                artifact,
                append: append.then_some(true),
                last_chunk: last.then_some(true),
                metadata: None,
            })))
        }
    }
}

/// Sets the status; gives the event.
pub fn set_status(task: &mut Task, state: TaskState, message: Option<Message>, now: DateTime<Utc>) -> StreamResponse {
    let message = message.map(|mut message| {
        message.task_id = Some(task.id.clone());
        message.context_id = Some(task.context_id.clone());
        message
    });
    keep_status_message(task);
    task.status = TaskStatus { state, message, timestamp: Some(now) };
    StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
        task_id: task.id.clone(),
        context_id: task.context_id.clone(),
        status: task.status.clone(),
        metadata: None,
    })
}

/// Adds the agent's metadata to an event.
pub fn with_metadata(mut event: StreamResponse, metadata: Option<Metadata>) -> StreamResponse {
    match &mut event {
        StreamResponse::StatusUpdate(update) => update.metadata = metadata,
        StreamResponse::ArtifactUpdate(update) => update.metadata = metadata,
        StreamResponse::Task(_) | StreamResponse::Message(_) => {}
    }
    event
}

/// Merges metadata: new members replace those of the same name. Nothing changes if the result is too large.
///
/// # Errors
/// [`StepError::TooMuch`].
pub fn merge(known: &mut Option<Metadata>, new: Option<Metadata>) -> Result<(), StepError> {
    let Some(new) = new else { return Ok(()) };
    let mut merged = known.clone().unwrap_or_default();
    merged.extend(new);
    if bytes(&merged) > METADATA_BYTES_MAX {
        return Err(StepError::TooMuch(format!("{METADATA_BYTES_MAX} bytes of metadata")));
    }
    *known = Some(merged);
    Ok(())
}

/// Adds to the artifacts of one turn what an output makes of them: a piece of an artifact of an earlier turn is one by itself here.
///
/// # Errors
/// [`StepError::TooMuch`].
pub fn collect(artifacts: &mut Vec<Artifact>, made: &Made) -> Result<(), StepError> {
    match made {
        Made::Artifact { artifact, append, last: _ } => add(artifacts, artifact.clone(), *append),
        Made::Annotated(made, _) => collect(artifacts, made),
        Made::Reply(_) | Made::Status(..) | Made::Begun { .. } | Made::Remember(_) => Ok(()),
    }
}

fn add(artifacts: &mut Vec<Artifact>, artifact: Artifact, append: bool) -> Result<(), StepError> {
    let at = artifacts.iter().position(|known| known.artifact_id == artifact.artifact_id);
    match at {
        Some(at) if append => {
            let whole = &mut artifacts[at];
            for part in artifact.parts {
                join(&mut whole.parts, part);
            }
            merge(&mut whole.metadata, artifact.metadata)?;
        }
        Some(at) => artifacts[at] = artifact,
        None if artifacts.len() == ARTIFACTS_MAX => {
            return Err(StepError::TooMuch(format!("{ARTIFACTS_MAX} artifacts")));
        }
        None => artifacts.push(artifact),
    }
    Ok(())
}

/// The id of the artifact that an output is a piece of, if it is one.
#[must_use]
pub fn artifact_id(made: &Made) -> Option<&str> {
    match made {
        Made::Annotated(made, _) => artifact_id(made),
        Made::Artifact { artifact, .. } => Some(&artifact.artifact_id),
        Made::Status(..) | Made::Remember(_) | Made::Begun { .. } | Made::Reply(_) => None,
    }
}

/// Takes an artifact out of the task; gives the event that empties it, since none takes one away. None if there is no such artifact.
pub fn take_back(task: &mut Task, id: &str) -> Option<StreamResponse> {
    let artifacts = task.artifacts.as_mut()?;
    let at = artifacts.iter().position(|artifact| artifact.artifact_id == id)?;
    let artifact_id = artifacts.remove(at).artifact_id;
    if artifacts.is_empty() {
        task.artifacts = None;
    }
    // A2A wants one part at least.
    let parts = vec![Part::text("")];
    Some(StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
        task_id: task.id.clone(),
        context_id: task.context_id.clone(),
        artifact: Artifact { artifact_id, name: None, description: None, parts, metadata: None, extensions: None },
        append: Some(false),
        last_chunk: Some(true),
        metadata: None,
    }))
}

/// Joins text to preceding text, so that an answer streamed in a thousand chunks is one part.
fn join(parts: &mut Vec<a2a::Part>, part: a2a::Part) {
    let plain = |part: &a2a::Part| part.metadata.is_none() && part.filename.is_none();
    match (parts.last_mut(), &part.content) {
        (Some(last), a2a::PartContent::Text(more))
            if plain(last) && plain(&part) && last.media_type == part.media_type =>
        {
            if let a2a::PartContent::Text(text) = &mut last.content {
                text.push_str(more);
                return;
            }
            parts.push(part);
        }
        _ => parts.push(part),
    }
}

/// The task with the last `history_length` messages (all if none is given), and with artifacts if requested.
#[must_use]
pub fn view(mut task: Task, history_length: Option<i32>, artifacts: bool) -> Task {
    if let (Some(length), Some(history)) = (history_length, &mut task.history) {
        let keep = usize::try_from(length).unwrap_or(0);
        history.drain(..history.len().saturating_sub(keep));
        if history.is_empty() {
            task.history = None;
        }
    }
    if !artifacts {
        task.artifacts = None;
    }
    task
}

/// Drops the oldest messages of the history until the task has at most `max` bytes of JSON. A2A lets the server choose the
/// length of the history if the client names none.
#[must_use]
pub fn fit(mut task: Task, max: usize) -> Task {
    let bytes = |value: &Task| serde_json::to_vec(value).map_or(usize::MAX, |json| json.len());
    if bytes(&task) <= max {
        return task;
    }
    let history = task.history.take().unwrap_or_default();
    let mut room = max.saturating_sub(bytes(&task)).saturating_sub(r#","history":[]"#.len());
    let newest = history.iter().rev().take_while(|message| {
        let size = serde_json::to_vec(message).map_or(usize::MAX, |json| json.len()).saturating_add(1);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    let kept = newest.count();
    if kept > 0 {
        task.history = Some(history[history.len() - kept..].to_vec());
    }
    task
}

/// Whether a message repeats an earlier one of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicate {
    /// No earlier message has its id.
    No,
    /// It is the same message, sent again.
    Same,
    /// It is another message with the same id.
    Different,
}

/// Compares a message with the task's history by its id. Ids that it leaves out are those that the node filled in.
#[must_use]
pub fn compare_message(task: &Task, message: &Message) -> Duplicate {
    let mut said = task.history.iter().flatten().filter(|said| said.role != Role::Agent);
    let Some(earlier) = said.find(|said| said.message_id == message.message_id) else { return Duplicate::No };
    let mut again = message.clone();
    again.task_id = again.task_id.or_else(|| earlier.task_id.clone());
    again.context_id = again.context_id.or_else(|| earlier.context_id.clone());
    // Compared as JSON: empty and absent members are equal.
    let same = serde_json::to_value(&again).ok() == serde_json::to_value(earlier).ok();
    if same { Duplicate::Same } else { Duplicate::Different }
}

/// Estimated bytes of memory of a task. JSON length is no measure: a number in a list has 2 bytes there, and here a value's.
#[must_use]
pub fn memory_bytes(task: &Task) -> usize {
    let messages = task.history.iter().flatten().chain(&task.status.message).map(message_memory_bytes);
    let artifacts = task.artifacts.iter().flatten().map(artifact_memory_bytes);
    let task = OBJECT_BYTES + members_bytes(task.metadata.iter().flatten());
    messages.chain(artifacts).fold(task, usize::saturating_add)
}

fn message_memory_bytes(message: &Message) -> usize {
    OBJECT_BYTES + parts_bytes(&message.parts) + members_bytes(message.metadata.iter().flatten())
}

/// Estimated bytes of memory of one artifact.
fn artifact_memory_bytes(artifact: &Artifact) -> usize {
    OBJECT_BYTES + parts_bytes(&artifact.parts) + members_bytes(artifact.metadata.iter().flatten())
}

/// Bytes of an empty message, part or artifact.
const OBJECT_BYTES: usize = 256;
/// Bytes of a JSON value, and of a member's key beside its characters.
const VALUE_BYTES: usize = size_of::<Value>();
const KEY_BYTES: usize = size_of::<String>();

fn parts_bytes(parts: &[Part]) -> usize {
    let bytes = |part: &Part| {
        let content = match &part.content {
            PartContent::Text(text) | PartContent::Url(text) => text.len(),
            PartContent::Raw(bytes) => bytes.len(),
            PartContent::Data(value) => value_bytes(value),
        };
        OBJECT_BYTES + content + members_bytes(part.metadata.iter().flatten())
    };
    parts.iter().map(bytes).sum()
}

fn members_bytes<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>) -> usize {
    members.map(|(key, value)| key.len() + KEY_BYTES + value_bytes(value)).sum()
}

fn value_bytes(value: &Value) -> usize {
    let inside: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + KEY_BYTES + value_bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    VALUE_BYTES + inside
}

/// Whether the history has room for another message.
#[must_use]
pub fn has_room_for(task: &Task, message: &Message) -> bool {
    let bytes = |message: &Message| serde_json::to_vec(message).map_or(usize::MAX, |json| json.len());
    let said = task.history.iter().flatten().chain([message]).map(bytes);
    said.fold(0, usize::saturating_add) <= HISTORY_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_700_000_000_000).expect("a time")
    }

    fn task() -> Task {
        submitted("t".to_owned(), "c".to_owned(), Message::new(Role::User, vec![Part::text("hi")]), now())
    }

    fn piece(text: &str, append: bool) -> Made {
        let artifact = Artifact {
            artifact_id: "a".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
        };
        Made::Artifact { artifact, append, last: false }
    }

    #[test]
    fn pieces_of_an_artifact_become_one_and_each_is_told() {
        let mut task = task();
        for (text, append) in [("one ", false), ("two", true)] {
            let event = step(&mut task, piece(text, append), now()).expect("a step");
            assert!(
                matches!(event, Some(StreamResponse::ArtifactUpdate(update)) if update.artifact.parts[0].as_text() == Some(text))
            );
        }
        let artifacts = task.artifacts.expect("artifacts");
        assert_eq!((artifacts.len(), artifacts[0].parts[0].as_text()), (1, Some("one two")));
    }

    #[test]
    fn an_artifact_that_is_taken_back_is_empty_to_whoever_saw_it() {
        let mut task = task();
        let seen = piece("a lie", false).annotated(Some(Metadata::from([("a".to_owned(), Value::from(1))])));
        assert_eq!((artifact_id(&seen), artifact_id(&Made::Status(TaskState::Working, None))), (Some("a"), None));
        step(&mut task, seen, now()).expect("a step");
        assert_eq!(take_back(&mut task, "b"), None);
        let Some(StreamResponse::ArtifactUpdate(update)) = take_back(&mut task, "a") else { panic!("it was there") };
        assert_eq!((update.artifact.artifact_id.as_str(), update.append), ("a", Some(false)));
        assert_eq!((update.artifact.parts, task.artifacts), (vec![Part::text("")], None));
    }

    #[test]
    fn a_message_is_the_same_when_all_that_it_says_is() {
        let mut first = Message::new(Role::User, vec![Part::text("hi")]);
        first.metadata = Some(Default::default());
        let mut task = submitted("t".to_owned(), "c".to_owned(), first.clone(), now());
        assert_eq!(compare_message(&task, &first), Duplicate::Same);
        let changes: [fn(&mut Message); 4] = [
            |message| message.parts.push(Part::text("more")),
            |message| message.metadata = Some([("a".to_owned(), Value::from(1))].into()),
            |message| message.context_id = Some("another".to_owned()),
            |message| message.reference_task_ids = Some(vec!["x".to_owned()]),
        ];
        for change in changes {
            let mut other = first.clone();
            change(&mut other);
            assert_eq!(compare_message(&task, &other), Duplicate::Different, "{other:?}");
            other.message_id.push('2');
            assert_eq!(compare_message(&task, &other), Duplicate::No);
        }
        let second = Message::new(Role::User, vec![Part::text("and?")]);
        continue_with(&mut task, second.clone(), now()).expect("another message");
        assert_eq!(
            (compare_message(&task, &second), compare_message(&task, &first)),
            (Duplicate::Same, Duplicate::Same)
        );
    }

    #[test]
    fn memory_is_counted_by_what_values_take_and_not_by_their_json() {
        let of = |part: Part| {
            memory_bytes(&submitted("t".to_owned(), "c".to_owned(), Message::new(Role::User, vec![part]), now()))
        };
        let empty = of(Part::text(""));
        assert_eq!(of(Part::text("x".repeat(1_000))), empty + 1_000);
        let numbers = Value::Array(vec![Value::from(1); 1_000]);
        assert!(of(Part::data(numbers.clone())) >= empty + 1_000 * size_of::<Value>(), "2 bytes of JSON each");
        assert!(of(Part::data(serde_json::json!({ "a": { "b": numbers } }))) > of(Part::data(Value::Null)) + 32_000);
    }

    #[test]
    fn nothing_happens_to_a_task_that_is_over() {
        for state in [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected] {
            let mut task = task();
            set_status(&mut task, state, None, now());
            let before = task.clone();
            assert_eq!(step(&mut task, piece("x", false), now()), Err(StepError::Over));
            assert_eq!(step(&mut task, Made::Status(TaskState::Working, None), now()), Err(StepError::Over));
            assert_eq!(continue_with(&mut task, Message::new(Role::User, vec![]), now()), Err(StepError::Over));
            assert_eq!(task, before);
        }
    }

    #[test]
    fn a_task_is_shown_with_as_much_history_as_fits() {
        let mut task = task();
        for number in 0..10 {
            let said = Message::new(Role::User, vec![Part::text(format!("{number}{}", "x".repeat(1_000)))]);
            continue_with(&mut task, said, now()).expect("another message");
        }
        let whole = serde_json::to_vec(&task).expect("JSON").len();
        assert_eq!(fit(task.clone(), whole), task);
        for max in (0..whole).rev().step_by(97) {
            let shown = fit(task.clone(), max);
            let kept = shown.history.as_deref().unwrap_or_default();
            let all = task.history.as_deref().unwrap_or_default();
            assert_eq!(kept, &all[all.len() - kept.len()..], "the newest stay");
            let size = serde_json::to_vec(&shown).expect("JSON").len();
            assert!(size <= max || kept.is_empty(), "{size} of {max}");
        }
    }

    #[test]
    fn a_question_stays_in_the_history_when_it_is_answered() {
        let mut task = task();
        let question = Message::new(Role::Agent, vec![Part::text("which?")]);
        step(&mut task, Made::Status(TaskState::InputRequired, Some(question)), now()).expect("a step");
        continue_with(&mut task, Message::new(Role::User, vec![Part::text("that")]), now()).expect("another message");
        let said: Vec<Option<&str>> = task.history.as_ref().expect("history").iter().map(Message::text).collect();
        assert_eq!(said, [Some("hi"), Some("which?"), Some("that")]);
        assert_eq!(view(task.clone(), Some(1), true).history.map(|history| history.len()), Some(1));
        assert_eq!(view(task, Some(0), true).history, None);
    }

    #[test]
    fn of_a_history_that_is_shown_in_part_the_newest_messages_are_shown() {
        let mut task = task();
        for text in ["one", "two", "three"] {
            continue_with(&mut task, Message::new(Role::User, vec![Part::text(text)]), now()).expect("another message");
        }
        let all = ["hi", "one", "two", "three"];
        for length in 0..6 {
            let shown = view(task.clone(), i32::try_from(length).ok(), true).history.unwrap_or_default();
            let said: Vec<&str> = shown.iter().filter_map(Message::text).collect();
            assert_eq!(said, all[all.len().saturating_sub(length)..], "{length}");
        }
        assert_eq!(view(task.clone(), None, true).history, task.history);
    }

    #[test]
    fn what_an_agent_said_on_the_way_stays_in_the_history_as_far_as_there_is_room() {
        let word = |text: &str| Some(Message::new(Role::Agent, vec![Part::text(text)]));
        let mut task = task();
        for text in ["looking", "looking again"] {
            step(&mut task, Made::Status(TaskState::Working, word(text)), now()).expect("a step");
        }
        step(&mut task, Made::Status(TaskState::Working, None), now()).expect("a step");
        set_status(&mut task, TaskState::Completed, word("done"), now());
        let said: Vec<Option<&str>> = task.history.as_ref().expect("history").iter().map(Message::text).collect();
        assert_eq!(said, [Some("hi"), Some("looking"), Some("looking again")]);
        assert_eq!(task.status.message.as_ref().and_then(Message::text), Some("done"));
        let mut task = super::tests::task();
        for _ in 0..2 * AGENT_MESSAGES_MAX {
            step(&mut task, Made::Status(TaskState::Working, word("x")), now()).expect("a step");
        }
        assert_eq!(task.history.as_ref().map(Vec::len), Some(1 + AGENT_MESSAGES_MAX));
        let mut task = super::tests::task();
        for _ in 0..10 {
            let long = word(&"x".repeat(AGENT_MESSAGES_BYTES_MAX / 4));
            step(&mut task, Made::Status(TaskState::Working, long), now()).expect("a step");
        }
        assert_eq!(task.history.as_ref().map(Vec::len), Some(1 + 3));
    }

    #[test]
    fn a_message_that_is_taken_back_leaves_the_history_as_it_was() {
        for (state, long) in
            [(TaskState::InputRequired, false), (TaskState::Working, false), (TaskState::Working, true)]
        {
            let mut task = task();
            let text = if long { "x".repeat(AGENT_MESSAGES_BYTES_MAX) } else { "which?".to_owned() };
            set_status(&mut task, state, Some(Message::new(Role::Agent, vec![Part::text(text)])), now());
            let before = task.clone();
            continue_with(&mut task, Message::new(Role::User, vec![Part::text("that")]), now())
                .expect("another message");
            undo_continue(&mut task, before.status.clone());
            assert_eq!(task, before);
        }
    }
}
