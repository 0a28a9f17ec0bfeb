//! The commands to an executor's thread.

use std::sync::Arc;

use super::cell::AgentCell;
use super::fiber::Fiber;
use super::machine::Params;

/// A command to an executor.
pub(super) enum Command {
    Add {
        place: usize,
        params: Params,
        fiber: Box<dyn Fiber>,
        cell: Arc<AgentCell>,
    },
    ReplaceFiber {
        place: usize,
        fiber: Box<dyn Fiber>,
    },
    Arrive {
        place: usize,
    },
    /// The task keeps its place, and does not run again.
    Suspend {
        place: usize,
    },
    Remove {
        place: usize,
        done: tokio::sync::oneshot::Sender<()>,
    },
    Stop,
}
