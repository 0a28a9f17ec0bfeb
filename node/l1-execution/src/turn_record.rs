//! What is recorded of turns that ended.

use althing_protocol::audit::{AuditOutcome, AuditVerdict};
use althing_protocol::{AgentId, AgentRef, Label};
use althing_store::Batch;
use serde_json::Value;

/// A turn that ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedTurn<'a> {
    /// The agent, in the version that was given the message.
    pub agent: &'a AgentRef,
    /// Its task, or the one that it would have had.
    pub task: &'a str,
    /// Whether a task is left of it; else a message answered, or a refusal.
    pub has_task: bool,
    /// On whose behalf, the origin first.
    pub principals: &'a [String],
    /// The label of its message, if anything was said of that.
    pub label: Option<Label>,
    /// The label of all that it was given.
    pub label_after: Option<Label>,
    /// The digest of the agent's contract, hexadecimal; empty where it does not run any more.
    pub contract: &'a str,
    /// The hash of the manifest that the agent is bound to, hexadecimal; empty where it does not run any more.
    pub binding: &'a str,
    /// W3C `traceparent`, when it is traced.
    pub trace: Option<&'a str>,
    /// The row of its task; empty where none is left.
    pub row: &'a [u8],
    /// What came of it.
    pub outcome: AuditOutcome,
    /// What gates said in it, ascending, each once.
    pub verdicts: &'a [AuditVerdict],
}

/// What somebody says of a call of which nobody knew whether it took place.
#[derive(Debug, Clone, Copy)]
pub struct ToldCall<'a> {
    /// The agent that made it, in the version that runs its turn.
    pub agent: &'a AgentRef,
    /// The task of that turn.
    pub task: &'a str,
    /// The number of the step in the turn.
    pub step: u32,
    /// What was called, such as `server/tool`.
    pub name: &'a str,
    /// On whose behalf the turn runs, the origin first.
    pub principals: &'a [String],
    /// The label of what it is said to have brought.
    pub label: Option<Label>,
    /// The digest of the agent's contract, hexadecimal; empty where it is not known.
    pub contract: &'a str,
    /// The hash of the manifest that the agent is bound to, hexadecimal; empty where it is not known.
    pub binding: &'a str,
    /// Whether it took place; in doubt for good where it is to be made again.
    pub outcome: AuditOutcome,
    /// What it brought, if it took place.
    pub result: Option<&'a Value>,
    /// Who says so.
    pub by: &'a str,
}

/// Work that an agent gave to another one by a call of which it hears no more: it is stopped before that ends.
#[derive(Debug, Clone, Copy)]
pub struct GivenWork<'a> {
    /// The agent that had the work, in the version of its task.
    pub agent: &'a AgentRef,
    /// The one whose work it is.
    pub task: &'a str,
    /// The id of the handoff.
    pub handoff: &'a str,
    /// Who has the work now.
    pub recipient: &'a AgentId,
    /// The task that it becomes there.
    pub becomes: &'a str,
    /// The label of the work, if anything was said of that.
    pub label: Option<Label>,
    /// On whose behalf the task's turn ran, the origin first; empty where none ran any more.
    pub principals: &'a [String],
    /// The digest of the agent's contract, hexadecimal; empty where it is not known.
    pub contract: &'a str,
    /// The hash of the manifest that the agent is bound to, hexadecimal; empty where it is not known.
    pub binding: &'a str,
    /// Whether it was given away, or stays after all.
    pub outcome: AuditOutcome,
}

/// Records turns.
pub trait TurnRecorder: Send + Sync + 'static {
    /// Rows for the batch in which the end of a turn is written; none where the turn is on record already and no gate said anything,
    /// or where it need not be.
    fn ended(&self, turn: &EndedTurn<'_>) -> Batch;

    /// Rows for the batch in which what somebody says of a call is written.
    fn told(&self, call: &ToldCall<'_>) -> Batch;

    /// Rows for the batch in which it is written that work is given away, or that it stays.
    fn given(&self, work: &GivenWork<'_>) -> Batch;
}
