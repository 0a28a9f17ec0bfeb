//! Which gates the outputs of a turn pass.

use std::sync::Arc;

use althing_protocol::{AgentRef, Contract};

use crate::agent::OutputGate;
use crate::memory::{GroundingGate, Memory, Rule};

/// A turn whose outputs may have to pass gates.
#[derive(Clone, Copy)]
pub struct GatedTurn<'a> {
    /// The agent, in the version that runs.
    pub agent: &'a AgentRef,
    /// What it is promised and held to.
    pub contract: &'a Contract,
    /// Its memory, if its contract has one.
    pub memory: Option<&'a Memory>,
    /// The A2A id of its task.
    pub task: &'a str,
    /// The number of the turn in its task, from 1.
    pub number: usize,
    /// Whether the runtime is the node's own, which adds data about its work to the answer.
    pub notes: bool,
    /// Whether the agent itself words its failures.
    pub own_failures: bool,
}

/// Makes the gates of a turn when it begins, in the order in which its outputs pass them. Without any, outputs are shown as they
/// are emitted.
pub type MakeOutputGates = Arc<dyn Fn(&GatedTurn<'_>) -> Vec<Box<dyn OutputGate>> + Send + Sync>;

/// The gates that contracts ask for: grounding, where `memory.require_grounding` is set.
#[must_use]
pub fn contract_output_gates() -> MakeOutputGates {
    Arc::new(|turn: &GatedTurn<'_>| grounding(turn).into_iter().collect())
}

fn grounding(turn: &GatedTurn<'_>) -> Option<Box<dyn OutputGate>> {
    let is_wanted = turn.contract.memory.as_ref().is_some_and(|memory| memory.require_grounding);
    let memory = turn.memory.filter(|_| is_wanted)?.clone();
    let rule =
        Rule { turn: turn.number, begun_ms: memory.now_ms(), notes: turn.notes, own_failures: turn.own_failures };
    Some(Box::new(GroundingGate::new(memory, rule)))
}
