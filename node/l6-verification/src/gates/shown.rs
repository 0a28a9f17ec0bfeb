//! What may be shown of one output.

use a2a::{Artifact, Message, Part, PartContent, TaskState};
use althing_execution::agent::Made;

/// The output without what no schema describes: the metadata of events, of artifacts and of parts, names and words of progress.
pub(super) fn described(made: Made) -> Made {
    match made {
        Made::Annotated(made, _) => described(*made),
        Made::Artifact { artifact, append, last } => {
            let parts = artifact.parts.into_iter().map(bare).collect();
            let artifact =
                Artifact { parts, name: None, description: None, metadata: None, extensions: None, ..artifact };
            Made::Artifact { artifact, append, last }
        }
        Made::Status(TaskState::Working, _) => Made::Status(TaskState::Working, None),
        Made::Status(state, message) => Made::Status(state, message.map(bare_message)),
        Made::Reply(message) => Made::Reply(bare_message(message)),
        Made::Begun { state, .. } => Made::Begun { state, metadata: None },
        made @ Made::Remember(_) => made,
    }
}

fn bare(part: Part) -> Part {
    Part { filename: None, metadata: None, ..part }
}

fn bare_message(message: Message) -> Message {
    let parts = message.parts.into_iter().map(bare).collect();
    Message { parts, metadata: None, extensions: None, ..message }
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

/// Bytes of what it says.
pub(super) fn bytes(made: &Made) -> usize {
    let of_parts = |parts: &[Part]| parts.iter().map(part_bytes).sum();
    match made {
        Made::Annotated(made, _) => bytes(made),
        Made::Artifact { artifact, .. } => of_parts(&artifact.parts),
        Made::Status(_, Some(message)) | Made::Reply(message) => of_parts(&message.parts),
        Made::Status(_, None) | Made::Remember(_) | Made::Begun { .. } => 0,
    }
}

fn part_bytes(part: &Part) -> usize {
    match &part.content {
        PartContent::Text(text) | PartContent::Url(text) => text.len(),
        PartContent::Raw(bytes) => bytes.len(),
        PartContent::Data(data) => data.to_string().len(),
    }
}
