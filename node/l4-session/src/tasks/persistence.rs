//! When a task is on disk for the first time: before its agent is given the message, or only before somebody is told of the
//! task.
//!
//! The first is for agents that can act: after a crash their task says that it failed, and the message, sent again, is not
//! acted on twice. A turn of an agent that cannot act ([`is_confined`](althing_execution::Host::is_confined)) leaves nothing
//! behind, so that its task is written when it is shown, when it takes long, or with its end; and never if the answer is none.

use std::time::Duration;

/// A task that nobody was shown is written after this time: whoever lists tasks wants to see what goes on for long.
pub(super) const PERSISTED_AFTER: Duration = Duration::from_millis(100);

/// Whether a task is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PersistenceState {
    /// It will be, before anybody is told of it.
    NotYet,
    /// It is.
    Yes,
    /// Its turn left no task.
    Never,
}
