//! What happens in a run.

use althing_execution::journal::Effect;
use althing_protocol::Label;

use super::handoff::HandoffPlan;

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The messages that are sent, each of which begins a turn.
    pub turns: Vec<TurnPlan>,
    /// How the lives of the node end, one after another; the one after these ends by itself.
    pub ends: Vec<LifeEnd>,
    /// Whether the owner of the node gives up what is in doubt, in place of looking whether it took place.
    pub gives_up: bool,
    /// Who is let loose.
    pub adversary: Option<&'static str>,
    /// How work goes from one agent to another.
    pub handoff: HandoffPlan,
}

/// What one message makes an agent do.
#[derive(Debug, Clone)]
pub struct TurnPlan {
    /// When its message is sent, milliseconds after the beginning of the run.
    pub at_ms: u64,
    /// What the agent does, in order.
    pub steps: Vec<StepPlan>,
    /// Whether its journal has no room for all that.
    pub is_too_long: bool,
}

/// A step of a turn.
#[derive(Debug, Clone)]
pub struct StepPlan {
    /// What it is.
    pub what: Deed,
    /// What it does if it is made twice.
    pub effect: Effect,
    /// What it is called with: some steps of a turn have the same.
    pub of: u64,
    /// Bytes of its result besides a number.
    pub bytes: usize,
    /// The label of its result.
    pub label: Option<Label>,
    /// Whether the agent makes a checkpoint before it.
    pub checkpoint: bool,
    /// Milliseconds before it.
    pub before_ms: u64,
    /// Milliseconds until the call is made, and as many until its result is there.
    pub call_ms: u64,
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// A call of a tool that counts.
    Call,
    /// A note is made.
    Note,
    /// All notes are read.
    Notes,
}

/// How a life of the node ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeEnd {
    /// When.
    pub at: Moment,
    /// What is lost with it.
    pub loss: Loss,
}

/// When a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// At that write to its disk, from 1.
    Write {
        /// Which one.
        number: u64,
        /// Whether it is made.
        is_made: bool,
    },
    /// After so many milliseconds.
    Time(u64),
}

/// What is lost with the end of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The process: what it had written stays.
    Process,
    /// The power: what was not synced is lost, too.
    Power,
}
