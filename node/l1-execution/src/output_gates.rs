//! Which gates the outputs of a turn pass.

use std::sync::Arc;
use std::time::Duration;

use a2a::Artifact;
use althing_protocol::{AgentRef, Contract};
use althing_td::Effect;

use crate::agent::{AgentError, Output, OutputGate, Turn};
use crate::finding_counts::FindingCounts;
use crate::memory::Memory;
use crate::run_notes::RunNotes;
use crate::tools::Tools;
use crate::verdicts::TurnVerdicts;

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
    /// The artifacts that the task had when the turn began, as callers see them.
    pub artifacts: &'a [Artifact],
    /// Whether the runtime is the node's own, which adds data about its work to the answer.
    pub notes: bool,
    /// Whether the agent itself words its failures.
    pub own_failures: bool,
    /// The tools that its contract names; in a gate they are called as system calls of the turn.
    pub tools: &'a Arc<Tools>,
    /// How long the turn may take, if it has a limit.
    pub within: Option<Duration>,
    /// Where gates tell what they refuse of it, if its task is kept.
    pub verdicts: Option<&'a TurnVerdicts>,
    /// Where what is found of the turns of this version is counted.
    pub findings: &'a Arc<FindingCounts>,
    /// What the turn does, as it is noted.
    pub run: &'a RunNotes,
    /// Whether it is a message to a hard real-time agent, which its next job answers.
    pub is_hard: bool,
    /// Whether a model makes the answer, which says whether it was cut.
    pub is_model: bool,
}

impl Tools {
    /// What a tool (`server/tool`) does outside if it is called once more, as the node or else the agent's file says it.
    #[must_use]
    pub fn effect_of(&self, tool: &str) -> Effect {
        self.effects().of(tool)
    }
}

/// What is counted of a turn whose answer a gate refused.
pub const ANSWER_REFUSED: &str = "answer-refused";

/// Runs a turn whose outputs pass gates; and once more, as often as a gate says, with what it refused.
pub(crate) async fn judged<F: Future<Output = Result<(), AgentError>>>(
    turn: Turn,
    out: Output,
    may_repeat: impl Fn() -> bool,
    findings: &FindingCounts,
    run: impl Fn(Turn, Output) -> F,
) -> Result<(), AgentError> {
    out.admit(&turn.message)?;
    let task = turn.task_id.clone();
    // Tests and shadows count for nothing: their tasks are not kept, and nobody could look at them.
    let is_kept = turn.parameters.verdicts.is_some();
    if !out.may_repair() {
        let ended = Box::pin(run(turn, out.clone())).await;
        let (released, is_refused) = release(&out, ended).await;
        if is_refused && is_kept {
            findings.add(ANSWER_REFUSED, &task);
        }
        return released;
    }
    let (mut attempt, mut is_counted) = (turn.clone(), false);
    loop {
        // Boxed, or the future of each turn would have room for one more.
        let ended = Box::pin(run(attempt, out.clone())).await;
        let (released, is_refused) = release(&out, ended).await;
        // However often it is repaired, it is one answer.
        if is_refused && is_kept && !is_counted {
            findings.add(ANSWER_REFUSED, &task);
            is_counted = true;
        }
        let Err(error) = released else { return Ok(()) };
        match out.repair().filter(|_| may_repeat()) {
            Some(repair) => attempt = Turn { message: repair.beside(turn.message.clone()), ..turn.clone() },
            None => return Err(error),
        }
    }
}

/// Shows what the gates release of a turn that ended so; and whether they refuse its answer.
async fn release(out: &Output, ended: Result<(), AgentError>) -> (Result<(), AgentError>, bool) {
    let is_done = ended.is_ok();
    let released = out.release(ended).await;
    let is_refused = is_done && matches!(released, Err(AgentError::GateRefused(_)));
    (released, is_refused)
}

/// Makes the gates of a turn when it begins, in the order in which its outputs pass them. Without any, outputs are shown as they
/// are emitted.
pub type MakeOutputGates = Arc<dyn Fn(&GatedTurn<'_>) -> Vec<Box<dyn OutputGate>> + Send + Sync>;
