//! What a node still has of what was decided: the decisions that it remembers, and its audit log.

use std::collections::BTreeSet;

use althing_protocol::audit::{AuditLeaf, AuditStage, BodyRole, OpenBody};
use althing_protocol::{Digest, digest};

use super::past::{PastTurn, hash_of};
use crate::audit::{AuditFault, AuditFilter, AuditRecord, RecordBody};
use crate::decisions::{DECISIONS_MAX, DecisionRecord, NewestDecisions};
use crate::governance::Governance;

/// Entries of the agent in the audit log that are looked at, the newest ones.
const ENTRIES_MAX: usize = 1_000;

/// What is known of what was decided.
pub(super) struct Evidence {
    /// The decisions that are remembered, each with its number, the newest first.
    pub(super) records: Vec<(u64, DecisionRecord)>,
    /// What cannot be read of this.
    pub(super) fault: Option<String>,
    /// What the audit log has of calls.
    pub(super) entries: Vec<CallEntry>,
    /// When policies changed last, Unix milliseconds, where none are in force; nothing where some are, or nobody knows.
    pub(super) changed_ms: Option<u64>,
}

/// An entry of the audit log about a call.
pub(super) struct CallEntry {
    pub(super) leaf: AuditLeaf,
    /// The hash of the call's arguments.
    pub(super) arguments: String,
}

impl Evidence {
    /// What there is of these turns.
    pub(super) async fn of(governance: &Governance, turns: &[PastTurn<'_>]) -> Evidence {
        let most = usize::try_from(DECISIONS_MAX).unwrap_or(usize::MAX);
        let (records, fault) = match governance.decisions(most) {
            Ok(NewestDecisions { records, damaged: 0 }) => (records, None),
            Ok(NewestDecisions { records, damaged }) => {
                (records, Some(format!("of the decisions that are remembered {damaged} cannot be read")))
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        match (entries(governance, turns).await, changed_ms(governance).await) {
            (Ok(entries), Ok(changed_ms)) => Evidence { records, fault, entries, changed_ms },
            (Err(error), _) | (_, Err(error)) => {
                let fault = fault.or(Some(format!("the audit log cannot be read: {error}")));
                Evidence { records, fault, entries: Vec::new(), changed_ms: None }
            }
        }
    }
}

/// The entries of the turns' calls, as far as it is known of which call each is.
async fn entries(governance: &Governance, turns: &[PastTurn<'_>]) -> Result<Vec<CallEntry>, AuditFault> {
    let traces: BTreeSet<Digest> = turns.iter().filter_map(|turn| Some(digest(turn.trace?.as_bytes()))).collect();
    let Some((first, last)) = turns.first().zip(turns.last()).filter(|_| !traces.is_empty()) else {
        return Ok(Vec::new());
    };
    let filter = AuditFilter {
        agent: Some(first.agent.id.clone()),
        from_ms: Some(first.after_ms),
        until_ms: Some(last.ended_ms.saturating_add(1)),
        ..AuditFilter::default()
    };
    let page = governance.audit().query(&filter, ENTRIES_MAX).await?;
    let is_of_call = |record: &&AuditRecord| {
        let is_decision = matches!(record.leaf.stage, AuditStage::Intent | AuditStage::Denied);
        is_decision && record.leaf.trace.is_some_and(|trace| traces.contains(&trace))
    };
    let mut entries = Vec::new();
    for record in page.records.iter().filter(is_of_call) {
        let AuditRecord { leaf, bodies, .. } = governance.audit().record_at(record.log, record.index)?;
        let arguments = bodies.iter().find_map(body_hash);
        entries.extend(arguments.map(|arguments| CallEntry { leaf, arguments }));
    }
    Ok(entries)
}

/// When policies changed last; 0 where they never did. Nothing where some are in force, or that is further back than is looked.
async fn changed_ms(governance: &Governance) -> Result<Option<u64>, AuditFault> {
    if governance.policies().is_loaded() {
        return Ok(None);
    }
    let action = Some("policies".to_owned());
    let filter = AuditFilter { stage: Some(AuditStage::Changed), action, ..AuditFilter::default() };
    let page = governance.audit().query(&filter, 1).await?;
    let changed_ms = page.records.first().map(|record| record.leaf.at_ms);
    Ok(changed_ms.or(page.next.is_none().then_some(0)))
}

/// The hash of the arguments, where a body is those.
fn body_hash(body: &RecordBody) -> Option<String> {
    match body {
        RecordBody::Whole(OpenBody { role: BodyRole::Arguments, body, .. }) => hash_of(std::str::from_utf8(body).ok()?),
        RecordBody::Whole(_) | RecordBody::Salt { .. } | RecordBody::Absent(_) => None,
    }
}
