//! With what a turn begins: all that it needs to begin again on this node, after that ended.

use std::sync::Arc;

use althing_call::chain;
use althing_protocol::{AgentId, AgentRef, Attributes};

use crate::journal::{RowSeal, TurnJournal};
use crate::machine::answers::payer_of_task;
use crate::machine::record::Record;
use crate::machine::session::{Begin, Payer, SessionId, TurnId, TurnRows};
use crate::tasks::live::TurnRequest;
use crate::tasks::runner::TaskRunner;
use crate::tasks::tenure;

/// Whether turns of an agent that runs here can begin again.
pub(super) fn is_resumable(runner: &TaskRunner, agent: &AgentRef) -> bool {
    runner.host().agent(agent).is_some_and(|agent| agent.is_resumable())
}

/// The rows of a turn of an agent that runs here, by the order in which that makes its calls.
pub(super) fn arranged(runner: &TaskRunner, agent: &AgentRef, rows: TurnRows) -> TurnRows {
    let is_ordered = runner.host().agent(agent).is_none_or(|agent| agent.calls_in_order());
    if is_ordered { rows } else { rows.in_any_order() }
}

/// With what the turn of a task that was accepted begins; none if it cannot begin again, as its agent cannot.
pub(super) fn begin(runner: &TaskRunner, agent: &AgentRef, record: &Record, asked: &TurnRequest) -> Option<Begin> {
    let goes_on = asked.consent.is_none() && !asked.waits;
    if !goes_on || !is_resumable(runner, agent) {
        return None;
    }
    let Attributes { label, session, delegation } = asked.call.attributes.clone();
    let metadata = asked.metadata.as_ref().and_then(|metadata| serde_json::to_vec(metadata).ok());
    Some(Begin {
        task: record.task.id.clone(),
        message: asked.message_id.clone(),
        agent: agent.id.to_string(),
        version: (*agent.version).to_owned(),
        binding: binding(runner, agent),
        epoch: record.fence,
        principals: chain::written(&asked.call.principals),
        extensions: asked.call.extensions.clone(),
        label,
        session: session.map(|session| session.to_vec().into()),
        delegation: delegation.map(Into::into),
        metadata: metadata.map(Into::into),
        modes: asked.accepted_output_modes.clone(),
        history_length: asked.history_length,
        within_ms: asked.within.map(|within| u64::try_from(within.as_millis()).unwrap_or(u64::MAX)),
        began_ms: runner.now_ms(),
        seed: runner.ports().1.bytes(),
        caller: asked.call.holder.map(|holder| holder.peer),
        attempt: asked.call.rights.lease.as_ref().map(tenure::attempt),
    })
}

/// The journal of a turn that begins.
pub(super) fn journal(
    runner: &TaskRunner,
    agent: &AgentRef,
    record: &Record,
    begin: Begin,
) -> Option<Arc<TurnJournal>> {
    let rows = arranged(runner, agent, TurnRows::new(turn(record, &begin)?, begin));
    Some(Arc::new(opened(runner, agent, rows, payer(runner, record))))
}

/// Whose room the journals of a task take: untrusted callers of one origin share it.
pub(super) fn payer(runner: &TaskRunner, record: &Record) -> Payer {
    match runner.is_own(record.scope) {
        true => Payer::Owner,
        false => Payer::Other(payer_of_task(record.crowd.as_deref(), record.scope)),
    }
}

/// The journal of a turn of an agent that has these rows, and takes the room of that payer.
pub(super) fn opened(runner: &TaskRunner, agent: &AgentRef, rows: TurnRows, payer: Payer) -> TurnJournal {
    let (journals, clock) = (runner.store().journals().clone(), runner.ports().0.clone());
    let journal = TurnJournal::new(journals, clock, rows, row_seal(runner, agent)).paid_by(payer);
    let journal = journal.recorded(runner.host().is_recorded(agent)).parkable(runner.asks().get().is_some());
    journal.preempted_by(runner.host().preempted_by(agent))
}

/// The name of a turn that began so; none if that names no agent.
pub(super) fn turn(record: &Record, begin: &Begin) -> Option<TurnId> {
    Some(turn_of(&begin.agent.parse().ok()?, record, begin))
}

/// The same, where the agent that its beginning names was read before.
pub(super) fn turn_of(agent: &AgentId, record: &Record, begin: &Begin) -> TurnId {
    let session = SessionId::of(agent, &String::from(record.scope), &record.task.context_id);
    TurnId::of(session, &begin.task, &begin.message)
}

/// How the rows of an agent's sessions are stored: sealed where its memory is. A version that does not run has the memory of
/// the one that does.
pub(super) fn row_seal(runner: &TaskRunner, agent: &AgentRef) -> RowSeal {
    let host = runner.host();
    let is_here = host.agent(agent).is_some();
    RowSeal::of(if is_here { host.memory_seal(agent) } else { host.memory_seal(agent.name()) })
}

/// The hash of the manifest that an agent is bound to here; empty where it does not run.
pub(super) fn binding(runner: &TaskRunner, agent: &AgentRef) -> String {
    runner.host().binding(agent).map(|binding| binding.hash.to_string()).unwrap_or_default()
}
