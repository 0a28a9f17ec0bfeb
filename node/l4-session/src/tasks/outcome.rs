//! What came of a turn, for whoever counts that.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use a2a::{Message, Task};
use althing_protocol::{AgentId, AgentRef};
use futures::future::BoxFuture;

use crate::tasks::course::TurnCourse;
use crate::tasks::live::TurnRequest;

/// A turn that is over, as another version can be given it again: its message, and on what terms that came.
#[derive(Debug, Clone)]
pub struct TurnCopy {
    pub(super) message: Message,
    pub(super) request: TurnRequest,
}

/// What came of a turn.
#[derive(Debug, Clone)]
pub struct TurnOutcome {
    /// The agent, in the version that was given the message.
    pub agent: AgentRef,
    /// On whose behalf the message came, as the task's owner is written.
    pub caller: String,
    /// The id of the conversation.
    pub context: String,
    /// The id of the message.
    pub message: String,
    /// How it went.
    pub course: TurnCourse,
    /// How it went by what was found of it alone, as a copy of it is judged: without what only turns before it tell.
    pub alone: TurnCourse,
    /// How long its first output took.
    pub first: Option<Duration>,
    /// Its calls of tools that may have changed something, as `server/tool`, in the order in which they ended.
    pub effects: Vec<String>,
    /// For a copy of it, where copies are made: what it was given, and its task as it left that.
    pub copy: Option<Box<(TurnCopy, Task)>>,
}

/// Counts what comes of turns.
pub trait CountOutcomes: Send + Sync + 'static {
    /// Whether turns of an agent are counted: asked at the end of each turn, and answered at once.
    fn counts(&self, agent: &AgentId) -> bool;

    /// Whether copies are made of turns of an agent that are counted: answered at once.
    fn copies(&self, agent: &AgentId) -> bool;

    /// Counts a turn. What that changes holds, and is on disk, when this is over.
    fn count(&self, outcome: TurnOutcome) -> BoxFuture<'_, ()>;
}

/// Who counts, where somebody does.
pub(crate) type Counter = OnceLock<Arc<dyn CountOutcomes>>;
