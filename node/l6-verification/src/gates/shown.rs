//! What may be shown of one output.

use a2a::{Artifact, Message, Part, TaskState};
use althing_execution::agent::{Made, UNWORDED_FAILURE};
use althing_protocol::{digest, hex};

use crate::machine::answer::essence;
use crate::machine::rules::shows_media;

/// Bytes of the hash that stands for an id.
const ID_BYTES: usize = 16;

/// The output without what no gate judges: the metadata of events, of artifacts and of parts, names, words of progress and of a
/// failure, and media types but for those that the contract permits. `own_ids`: whether the ids are the agent's own, for which a hash
/// stands then, the same for the same id.
pub(super) fn judged(made: Made, own_ids: bool, permitted: &[String]) -> Made {
    match made {
        Made::Annotated(made, _) => judged(*made, own_ids, permitted),
        Made::Artifact { artifact, append, last } => {
            let artifact = Artifact {
                artifact_id: id(artifact.artifact_id, own_ids),
                name: None,
                description: None,
                parts: bare_parts(artifact.parts, permitted),
                metadata: None,
                extensions: None,
            };
            Made::Artifact { artifact, append, last }
        }
        Made::Status(TaskState::Working, _) => Made::Status(TaskState::Working, None),
        Made::Status(state, message) => {
            // A question is no answer: no gate judges it.
            let permitted: &[String] = if state == TaskState::Completed { permitted } else { &[] };
            let told = message.map(|message| bare_message(message, own_ids, permitted));
            let told = if is_failure(&state) { told.map(unworded) } else { told };
            Made::Status(state, told)
        }
        Made::Reply(message) => Made::Reply(bare_message(message, own_ids, permitted)),
        Made::Begun { state, .. } => Made::Begun { state, metadata: None },
        made @ Made::Remember(_) => made,
    }
}

/// What an agent says of its failure; none where it says nothing.
pub(super) fn words_of_failure(made: &Made) -> Option<&str> {
    match made {
        Made::Annotated(made, _) => words_of_failure(made),
        Made::Status(state, Some(message)) if is_failure(state) => message.text(),
        _ => None,
    }
}

fn is_failure(state: &TaskState) -> bool {
    matches!(state, TaskState::Failed | TaskState::Rejected | TaskState::Canceled)
}

fn id(id: String, own_ids: bool) -> String {
    if own_ids { hex(&digest(id.as_bytes())[..ID_BYTES]) } else { id }
}

fn bare_parts(parts: Vec<Part>, permitted: &[String]) -> Vec<Part> {
    let bare = |part: Part| {
        let media_type = part.media_type.as_deref().map(essence).filter(|media| shows_media(permitted, media));
        Part { content: part.content, filename: None, media_type, metadata: None }
    };
    parts.into_iter().map(bare).collect()
}

fn bare_message(message: Message, own_ids: bool, permitted: &[String]) -> Message {
    let Message { message_id, context_id, task_id, role, parts, .. } = message;
    Message {
        message_id: id(message_id, own_ids),
        context_id,
        task_id,
        role,
        parts: bare_parts(parts, permitted),
        metadata: None,
        extensions: None,
        reference_task_ids: None,
    }
}

fn unworded(message: Message) -> Message {
    Message { parts: vec![Part::text(UNWORDED_FAILURE)], ..message }
}

/// Whether it is the status of a task, and no part of an answer: with its end an agent may say one.
pub(super) fn is_status(made: &Made) -> bool {
    match made {
        Made::Annotated(made, _) => is_status(made),
        Made::Status(TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired, _) => true,
        made => matches!(made, Made::Status(state, _) if is_failure(state)),
    }
}

/// These outputs, with one more before what ends the turn.
pub(super) fn before_end(mut outputs: Vec<Made>, more: Option<Made>) -> Vec<Made> {
    if let Some(more) = more {
        let end = outputs.iter().position(is_end).unwrap_or(outputs.len());
        outputs.insert(end, more);
    }
    outputs
}

/// Whether it is progress, with metadata: without, it is shown.
pub(super) fn is_progress(made: &Made) -> bool {
    match made {
        Made::Annotated(made, _) => is_progress(made),
        made => matches!(made, Made::Status(TaskState::Working, _)),
    }
}

/// Whether the turn ends with it.
pub(super) fn is_end(made: &Made) -> bool {
    match made {
        Made::Annotated(made, _) => is_end(made),
        Made::Status(state, _) => *state != TaskState::Working,
        Made::Reply(_) => true,
        Made::Artifact { .. } | Made::Remember(_) | Made::Begun { .. } => false,
    }
}
