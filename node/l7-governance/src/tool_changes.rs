//! A tool is not what it was: what people were asked about it is over, and no yes to further calls of it counts any more.

use althing_execution::definition::Unfit;
use althing_execution::tools::ToolError;
use althing_store::{Batch, Durability, WriteError};
use serde_json::Value;

use crate::answers::outlined;
use crate::consultation;
use crate::governance::{Governance, put_over};
use crate::leaves;
use crate::machine::consent::{StandingYes, ToolChange};

/// Ends what people were asked about a tool as it was before, and agreed to: on disk, and on record. Where that fails it stays, calls of
/// the tool are denied all the same, and the next one tries it again.
pub(crate) async fn end_consents(governance: &Governance, change: &ToolChange<'_>) {
    let now = governance.book().now();
    if !now.asks.has_pending_of(change) && !now.standing.has_any_of(change) {
        return;
    }
    if let Err(error) = end(governance, change).await {
        tracing::error!(tool = change.action, %error, "what people were asked about a tool that changed could not be ended");
    }
}

/// Whether a call was not made since its tool is not the one that was bound.
pub(crate) fn is_changed(outcome: Result<&Value, &ToolError>) -> bool {
    matches!(outcome, Err(ToolError::Unfit { unfit: Unfit::Changed(_) | Unfit::Unsteady(_), .. }))
}

async fn end(governance: &Governance, change: &ToolChange<'_>) -> Result<(), WriteError> {
    let _writing = governance.writing().lock().await;
    let mut next = (*governance.book().now()).clone();
    let mut batch = Batch::new();
    // A yes that was used is not one that waits.
    consultation::take_used(governance, &mut next, &mut batch);
    let (over, yeses) = (next.asks.redefine(change), next.standing.redefine(change));
    put_over(governance, &next, &over, &mut batch);
    for yes in &yeses {
        next.put_standing(&yes.id, &mut batch);
        put_entry(governance, yes, &mut batch);
    }
    governance.write(batch, Durability::Synced).await?;
    consultation::forsake(governance, &over);
    governance.book().publish(next);
    Ok(())
}

/// The entry of the end of a standing yes.
fn put_entry(governance: &Governance, yes: &StandingYes, batch: &mut Batch) {
    let before = outlined(yes);
    let leaf = leaves::over_standing(yes, (&before, "over, since the tool is another one"), governance.now_ms());
    match governance.audit().entry_at_least(leaf) {
        Ok(entry) => {
            batch.append(entry);
        }
        Err(error) => tracing::error!(%error, "the end of a standing yes has no entry in the audit log"),
    }
}
