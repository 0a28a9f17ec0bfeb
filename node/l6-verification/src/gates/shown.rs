//! What may be shown of one output.

use a2a::{Artifact, Message, Part, PartContent, TaskState};
use althing_execution::agent::{Made, UNWORDED_FAILURE};
use althing_protocol::{digest, hex};

use crate::machine::answer::essence;

/// Bytes of the hash that stands for an id.
const ID_BYTES: usize = 16;

/// The output without what no gate judges: the metadata of events, of artifacts and of parts, names, words of progress and of a
/// failure. `own_ids`: whether the ids are the agent's own, for which a hash stands then, the same for the same id.
pub(super) fn judged(made: Made, own_ids: bool) -> Made {
    match made {
        Made::Annotated(made, _) => judged(*made, own_ids),
        Made::Artifact { artifact, append, last } => {
            let artifact = Artifact {
                artifact_id: id(artifact.artifact_id, own_ids),
                name: None,
                description: None,
                parts: artifact.parts.into_iter().map(bare).collect(),
                metadata: None,
                extensions: None,
            };
            Made::Artifact { artifact, append, last }
        }
        Made::Status(TaskState::Working, _) => Made::Status(TaskState::Working, None),
        Made::Status(state, message) => {
            let told = message.map(|message| bare_message(message, own_ids));
            let told = if is_failure(&state) { told.map(unworded) } else { told };
            Made::Status(state, told)
        }
        Made::Reply(message) => Made::Reply(bare_message(message, own_ids)),
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

fn bare(part: Part) -> Part {
    let Part { content, media_type, .. } = part;
    // What encoding a file has is said nowhere else.
    let is_file = matches!(content, PartContent::Raw(_) | PartContent::Url(_));
    let media_type = if is_file { media_type } else { media_type.map(|media| essence(&media)) };
    Part { content, filename: None, media_type, metadata: None }
}

fn bare_message(message: Message, own_ids: bool) -> Message {
    let Message { message_id, context_id, task_id, role, parts, .. } = message;
    Message {
        message_id: id(message_id, own_ids),
        context_id,
        task_id,
        role,
        parts: parts.into_iter().map(bare).collect(),
        metadata: None,
        extensions: None,
        reference_task_ids: None,
    }
}

fn unworded(message: Message) -> Message {
    Message { parts: vec![Part::text(UNWORDED_FAILURE)], ..message }
}

/// Whether it is the status of a task, and no part of an answer.
pub(super) fn is_status(made: &Made) -> bool {
    match made {
        Made::Annotated(made, _) => is_status(made),
        made => matches!(made, Made::Status(..)),
    }
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
