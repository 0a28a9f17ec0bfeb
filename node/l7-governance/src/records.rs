//! What is recorded beside calls: agents that start and end, their turns, and what their owner changes.

use althing_execution::{EndedTurn, GivenWork, ToldCall, TurnRecorder};
use althing_protocol::audit::{AuditOutcome, AuditStage};
use althing_protocol::{AgentRef, Digest};
use althing_store::{Batch, Durability};

use crate::audit::LeafDraft;
use crate::config::SETTINGS;
use crate::error::RecordError;
use crate::governance::{Governance, person_of};
use crate::leaves::{self, OwnerChange, RunFacts};

/// What an agent that starts was bound by.
#[derive(Debug, Clone, Copy, Default)]
pub struct BoundBy<'a> {
    /// The digest of its contract, where it has one.
    pub contract: Option<Digest>,
    /// The hash of its manifest, hexadecimal; empty where that is not known.
    pub binding: &'a str,
}

/// Whether an agent may start: its start could be recorded.
///
/// # Errors
/// [`RecordError`].
pub async fn check(governance: &Governance) -> Result<(), RecordError> {
    Ok(governance.audit().probe().await?)
}

/// An agent starts: recorded before anybody may call it.
///
/// # Errors
/// [`RecordError`]: it must not run.
pub async fn start(governance: &Governance, agent: &AgentRef, by: BoundBy<'_>) -> Result<(), RecordError> {
    let facts = RunFacts { agent, contract: by.contract, binding: by.binding, at_ms: governance.now_ms() };
    let draft = facts.leaf(AuditStage::Started, None, governance.people().owner());
    let leaf = governance.audit().entry(draft)?;
    // On disk with the next write that waits for the disk, which is before its first effect.
    Ok(governance.write(leaf, Durability::Buffered).await?)
}

/// An agent ended that had started.
pub async fn end(governance: &Governance, agent: &AgentRef) {
    let facts = RunFacts { agent, contract: None, binding: "", at_ms: governance.now_ms() };
    let draft = facts.leaf(AuditStage::Ended, Some(AuditOutcome::Done), governance.people().owner());
    at_least(governance, draft, "the end of an agent").await;
}

/// The owner changed something. It is on disk before this completes.
///
/// # Errors
/// [`RecordError`]: it must not be done.
pub async fn change(governance: &Governance, change: OwnerChange<'_>) -> Result<(), RecordError> {
    let leaf = change_rows(governance, change)?;
    Ok(governance.write(leaf, Durability::Synced).await?)
}

/// The rows by which a change of the owner's is on record: whoever writes them together with the change has recorded it.
///
/// # Errors
/// [`RecordError`]: it must not be done.
pub fn change_rows(governance: &Governance, change: OwnerChange<'_>) -> Result<Batch, RecordError> {
    let draft = leaves::owner_changed(change, governance.people().owner(), governance.now_ms());
    Ok(governance.audit().entry(draft)?)
}

/// The same of what must be done whether it can be recorded or not.
#[must_use]
pub fn change_rows_in_any_case(governance: &Governance, change: OwnerChange<'_>) -> Batch {
    let draft = leaves::owner_changed(change, governance.people().owner(), governance.now_ms());
    governance.audit().entry_at_least(draft).unwrap_or_else(|error| {
        tracing::error!(what = change.what, %error, "a change of the owner's has no entry in the audit log");
        Batch::new()
    })
}

/// The same of what must be done whether it can be recorded or not: on disk with the next write that waits for the disk.
pub async fn change_in_any_case(governance: &Governance, change: OwnerChange<'_>) {
    let draft = leaves::owner_changed(change, governance.people().owner(), governance.now_ms());
    at_least(governance, draft, "a change of the owner's").await;
}

/// What the owner has configured of something: recorded where it is not what it was when it was recorded last. `unsaid` is what held
/// before it was looked at for the first time.
///
/// # Errors
/// [`RecordError`].
pub async fn setting(governance: &Governance, what: &str, unsaid: &str, text: &str) -> Result<(), RecordError> {
    let row = governance.ports().store.read(SETTINGS, what.as_bytes())?;
    let before = match &row {
        Some(row) => String::from_utf8_lossy(row),
        None => unsaid.into(),
    };
    // Where nothing held before, nothing is to be remembered of that.
    if before == text && (row.is_some() || unsaid.is_empty()) {
        return Ok(());
    }
    let mut batch = Batch::new();
    batch.put(SETTINGS, what.as_bytes(), text.as_bytes());
    if before != text {
        let change = OwnerChange { what, agent: None, before: &before, after: text };
        let draft = leaves::owner_changed(change, governance.people().owner(), governance.now_ms());
        batch.append(governance.audit().entry_at_least(draft)?);
    }
    Ok(governance.write(batch, Durability::Synced).await?)
}

/// Records what is not done, or is over: on disk with the next write that waits for the disk. Says whether it is on record.
pub(crate) async fn at_least(governance: &Governance, draft: LeafDraft, what: &str) -> bool {
    let written = match governance.audit().entry_at_least(draft) {
        Ok(leaf) => governance.write(leaf, Durability::Buffered).await.map_err(RecordError::from),
        Err(error) => Err(RecordError::from(error)),
    };
    if let Err(error) = &written {
        tracing::error!(what, %error, "no entry in the audit log");
    }
    written.is_ok()
}

/// Records the turns of a node's agents.
pub struct TurnRecords(pub Governance);

impl TurnRecorder for TurnRecords {
    fn ended(&self, turn: &EndedTurn<'_>) -> Batch {
        let TurnRecords(governance) = self;
        governance.book().end_task(turn.task);
        let did = governance.turns().take(turn.task);
        let is_recorded = did == Some(true) && turn.verdicts.is_empty();
        let is_only_an_answer = !turn.has_task && did.is_none();
        if is_recorded || is_only_an_answer {
            return Batch::new();
        }
        let person = person_of(governance, turn.principals);
        let draft = leaves::ended_turn(turn, (&person, governance.policies().digest()), governance.now_ms());
        governance.audit().entry(draft).unwrap_or_else(|error| {
            tracing::error!(task = turn.task, %error, "a turn has no entry in the audit log");
            Batch::new()
        })
    }

    fn told(&self, call: &ToldCall<'_>) -> Batch {
        let TurnRecords(governance) = self;
        let person = person_of(governance, call.principals);
        let draft = leaves::told_call(call, (&person, governance.policies().digest()), governance.now_ms());
        governance.audit().entry_at_least(draft).unwrap_or_else(|error| {
            tracing::error!(task = call.task, %error, "what was said of a call has no entry in the audit log");
            Batch::new()
        })
    }

    fn given(&self, work: &GivenWork<'_>) -> Batch {
        let TurnRecords(governance) = self;
        let person = person_of(governance, work.principals);
        let draft = leaves::given_work(work, (&person, governance.policies().digest()), governance.now_ms());
        governance.audit().entry_at_least(draft).unwrap_or_else(|error| {
            tracing::error!(task = work.task, %error, "what came of handing work over has no entry in the audit log");
            Batch::new()
        })
    }
}
