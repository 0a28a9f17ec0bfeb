//! Somebody is erased: what lies beside the audit log of them, and what is remembered besides to ask people and to try policies.

use althing_policy::{EntityName, Kind};
use althing_store::{Batch, Durability, Range};

use crate::audit::EraseOrder;
use crate::config::{ASKS, DECISIONS, STANDING};
use crate::consultation;
use crate::decisions::{self, DecisionRecord};
use crate::error::EraseError;
use crate::governance::{Governance, put_over};
use crate::leaves::{self, OwnerChange};

/// Decisions that are read at once.
const ROWS: usize = 32;
/// What stands in place of a reason that was erased.
const ERASED: &str = "erased with what it was about";

/// What there was of somebody who is erased: of a name that is misspelt there is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PersonErasure {
    /// Bodies beside the audit log.
    pub bodies: bool,
    /// Questions to people about their calls, what was agreed to last, or a standing yes of theirs.
    pub consents: bool,
    /// What decisions that are remembered were about, and why they were made.
    pub decisions: bool,
}

/// Erases what is kept of calls on behalf of somebody: the bodies beside the audit log, the arguments of what people were
/// asked and of what was agreed to last, each standing yes, and the arguments of decisions that are remembered. What waits
/// for people on their behalf ends. No file of the store has any of it afterwards. Says what there was.
///
/// # Errors
/// [`EraseError`]: it may be done in part, and is harmless to do again.
pub async fn erase_person(governance: &Governance, order: EraseOrder) -> Result<PersonErasure, EraseError> {
    let consents = erase_consents(governance, &order.subject).await?;
    let decisions = erase_decisions(governance, &order.subject).await?;
    let families = [ASKS, STANDING, DECISIONS];
    governance.ports().store.scrub(families.into_iter().map(|family| (family, Vec::new())).collect()).await?;
    let bodies = governance.audit().erase(order).await?;
    Ok(PersonErasure { bodies, consents, decisions })
}

async fn erase_consents(governance: &Governance, person: &str) -> Result<bool, EraseError> {
    let _writing = governance.writing().lock().await;
    let mut batch = Batch::large();
    let mut next = (*governance.book().now()).clone();
    // A yes that was used is not one that waits.
    consultation::take_used(governance, &mut next, &mut batch);
    let erasure = next.erase(person, &mut batch);
    put_over(governance, &next, &erasure.over, &mut batch);
    for _ in &erasure.standing {
        let what = OwnerChange { what: "standing yes", agent: None, before: "", after: "erased" };
        let leaf = leaves::owner_changed(what, governance.people_now().0.owner(), governance.now_ms());
        match governance.audit().entry_at_least(leaf) {
            Ok(rows) => {
                batch.append(rows);
            }
            Err(error) => tracing::error!(%error, "the end of a standing yes has no entry in the audit log"),
        }
    }
    governance.write(batch, Durability::Synced).await?;
    let is_found = erasure.is_found || !erasure.over.is_empty() || !erasure.standing.is_empty();
    consultation::forsake(governance, &erasure.over);
    governance.book().publish(next);
    Ok(is_found)
}

async fn erase_decisions(governance: &Governance, person: &str) -> Result<bool, EraseError> {
    // Held so that none is on its way from memory to the disk.
    let _writing = governance.writing().lock().await;
    let mut is_found = governance.decision_log().change_waiting(|record| erase_record(record, person));
    let mut range = Range::all(ROWS);
    loop {
        let rows = governance.ports().store.scan(DECISIONS, range.clone())?;
        let Some((last, _)) = rows.last().cloned() else { return Ok(is_found) };
        let mut batch = Batch::new();
        for (key, row) in rows {
            let Some(mut record) = decisions::decode(&row) else {
                // Nobody can say that it is not theirs.
                batch.delete(DECISIONS, key);
                continue;
            };
            if erase_record(&mut record, person) {
                is_found = true;
                let row = minicbor::to_vec(&record).expect("writing to a vector cannot fail");
                batch.put(DECISIONS, key, row);
            }
        }
        governance.write(batch, Durability::Synced).await?;
        range = range.after(last);
    }
}

/// Erases with what something was to be done on behalf of somebody, and why it was decided so, which may repeat some of it; says
/// whether there was any.
fn erase_record(record: &mut DecisionRecord, person: &str) -> bool {
    let is_theirs = record.person.as_deref() == Some(person)
        || record.principal == EntityName::new(Kind::Person, person).to_string();
    if !is_theirs {
        return false;
    }
    let has_reason = !record.reason.is_empty() && record.reason != ERASED;
    if has_reason {
        ERASED.clone_into(&mut record.reason);
    }
    record.arguments.take().is_some() || has_reason
}
