//! The life of a task: what its agent makes of it, step by step, and the events that follow.

use a2a::{
    Artifact, Message, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent,
};
use althing_execution::agent::Made;
use chrono::{DateTime, Utc};

/// Artifacts of one task.
const ARTIFACTS_MAX: usize = 256;
/// Bytes of an answer: what one frame carries.
pub const ANSWER_BYTES_MAX: usize = althing_protocol::limits::BODY_BYTES_MAX;
/// Bytes of all artifacts of one task, as JSON: with the last word, and without its history, it always fits an answer.
pub const ARTIFACT_BYTES_MAX: usize = ANSWER_BYTES_MAX - (192 << 10);
/// Bytes of a message that an agent says with a state, as JSON.
pub const WORD_BYTES_MAX: usize = 64 << 10;
/// Bytes of all that was said in one task, as JSON.
pub const HISTORY_BYTES_MAX: usize = 2 << 20;

/// Why a step is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The task is over.
    #[error("the task is over")]
    Over,
    /// The agent names a state that an agent cannot choose.
    #[error("an agent cannot set a task to {0:?}")]
    State(TaskState),
    /// The agent makes more than a task may hold.
    #[error("the task holds {0}, and takes no more")]
    TooMuch(String),
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

/// The task takes another message and is submitted anew.
///
/// # Errors
/// [`StepError::Over`].
pub fn continued(task: &mut Task, mut message: Message, now: DateTime<Utc>) -> Result<(), StepError> {
    if task.status.state.is_terminal() {
        return Err(StepError::Over);
    }
    message.task_id = Some(task.id.clone());
    message.context_id = Some(task.context_id.clone());
    // What the agent asked is part of what was said.
    let asked = task.status.message.take();
    task.history.get_or_insert_default().extend(asked.into_iter().chain([message]));
    task.status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(now) };
    Ok(())
}

/// True where a turn ends and the task waits: for the person, or for ever.
#[must_use]
pub fn rests(state: &TaskState) -> bool {
    state.is_terminal() || matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// Takes what the agent made; gives the event that tells of it.
///
/// # Errors
/// See [`StepError`].
pub fn step(task: &mut Task, made: Made, now: DateTime<Utc>) -> Result<Option<StreamResponse>, StepError> {
    if task.status.state.is_terminal() {
        return Err(StepError::Over);
    }
    match made {
        Made::Remember(_) => Ok(None),
        Made::Status(TaskState::Unspecified | TaskState::Submitted, _) => Err(StepError::State(TaskState::Submitted)),
        Made::Status(state, message) => Ok(Some(set(task, state, message, now))),
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

/// Sets the status; gives the event that tells of it.
pub fn set(task: &mut Task, state: TaskState, message: Option<Message>, now: DateTime<Utc>) -> StreamResponse {
    let message = message.map(|mut message| {
        message.task_id = Some(task.id.clone());
        message.context_id = Some(task.context_id.clone());
        message
    });
    task.status = TaskStatus { state, message, timestamp: Some(now) };
    StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
        task_id: task.id.clone(),
        context_id: task.context_id.clone(),
        status: task.status.clone(),
        metadata: None,
    })
}

fn add(artifacts: &mut Vec<Artifact>, artifact: Artifact, append: bool) -> Result<(), StepError> {
    let at = artifacts.iter().position(|known| known.artifact_id == artifact.artifact_id);
    match at {
        Some(at) if append => {
            let whole = &mut artifacts[at];
            for part in artifact.parts {
                join(&mut whole.parts, part);
            }
        }
        Some(at) => artifacts[at] = artifact,
        None if artifacts.len() == ARTIFACTS_MAX => {
            return Err(StepError::TooMuch(format!("{ARTIFACTS_MAX} artifacts")));
        }
        None => artifacts.push(artifact),
    }
    Ok(())
}

/// Text that follows text is one part: else an answer of a thousand pieces would have a thousand parts.
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

/// The task as it is shown: the last `history_length` messages (all when not given), artifacts only when wanted.
#[must_use]
pub fn shown(mut task: Task, history_length: Option<i32>, artifacts: bool) -> Task {
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

/// The task with as much of its history, the newest last, as makes it `max` bytes of JSON at most. A2A leaves to the
/// server how much history it shows when not told.
#[must_use]
pub fn fitted(mut task: Task, max: usize) -> Task {
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

/// Has the task room for another message?
#[must_use]
pub fn takes(task: &Task, message: &Message) -> bool {
    let bytes = |message: &Message| serde_json::to_vec(message).map_or(usize::MAX, |json| json.len());
    let said = task.history.iter().flatten().chain([message]).map(bytes);
    said.fold(0, usize::saturating_add) <= HISTORY_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use a2a::{Part, Role};

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
    fn nothing_happens_to_a_task_that_is_over() {
        for state in [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected] {
            let mut task = task();
            set(&mut task, state, None, now());
            let before = task.clone();
            assert_eq!(step(&mut task, piece("x", false), now()), Err(StepError::Over));
            assert_eq!(step(&mut task, Made::Status(TaskState::Working, None), now()), Err(StepError::Over));
            assert_eq!(continued(&mut task, Message::new(Role::User, vec![]), now()), Err(StepError::Over));
            assert_eq!(task, before);
        }
    }

    #[test]
    fn a_task_is_shown_with_as_much_history_as_fits() {
        let mut task = task();
        for number in 0..10 {
            let said = Message::new(Role::User, vec![Part::text(format!("{number}{}", "x".repeat(1_000)))]);
            continued(&mut task, said, now()).expect("another message");
        }
        let whole = serde_json::to_vec(&task).expect("JSON").len();
        assert_eq!(fitted(task.clone(), whole), task);
        for max in (0..whole).rev().step_by(97) {
            let shown = fitted(task.clone(), max);
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
        continued(&mut task, Message::new(Role::User, vec![Part::text("that")]), now()).expect("another message");
        let said: Vec<Option<&str>> = task.history.as_ref().expect("history").iter().map(Message::text).collect();
        assert_eq!(said, [Some("hi"), Some("which?"), Some("that")]);
        assert_eq!(shown(task.clone(), Some(1), true).history.map(|history| history.len()), Some(1));
        assert_eq!(shown(task, Some(0), true).history, None);
    }
}
