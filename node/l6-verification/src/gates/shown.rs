//! What may be shown of one output.

use a2a::{Artifact, Message, Part, TaskState};
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
