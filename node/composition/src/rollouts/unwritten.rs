//! Decisions that hold although they could not be written: a version that is better not used is not used, whatever the disk does, and
//! they are written as soon as that can be.

use althing_store::Durability;

use super::divided::AgentRollout;
use super::error::RolloutError;
use super::node_rollouts::Rollouts;
use super::open_decision::OpenDecision;
use super::records::Turnover;
use super::rows;
use crate::error::NodeError;

impl Rollouts {
    /// Ends a rollout: the version that everybody had before has all new calls from now on, also where that cannot be written.
    ///
    /// # Errors
    /// [`RolloutError::Order`], and [`RolloutError::Unwritten`], of what holds all the same.
    pub(super) async fn abort(&self, divided: &AgentRollout, why: &str) -> Result<(), NodeError> {
        {
            let _deciding = divided.deciding.lock().await;
            let mut versions = divided.versions();
            versions.abort().map_err(RolloutError::from)?;
            divided.note_unwritten(Some(OpenDecision::of(&versions, "aborting", why.to_owned())));
            divided.set(versions);
        }
        let written = self.write_again(divided).await;
        written.map_err(|error| RolloutError::Unwritten { agent: divided.name.clone(), why: error.to_string() }.into())
    }

    /// Writes what holds, and is not on disk yet.
    ///
    /// # Errors
    /// Those of the store: it is to be tried again.
    pub(super) async fn write_again(&self, divided: &AgentRollout) -> Result<(), NodeError> {
        let _deciding = divided.deciding.lock().await;
        let Some(decision) = divided.unwritten() else { return Ok(()) };
        let mut batch = rows::decision(self.store(), &divided.name, &divided.versions())?;
        // What is better not used is not used, also where nothing can be recorded.
        batch.append(self.records().rows_in_any_case(&turnover(&decision, divided)));
        self.store().write(batch, Durability::Synced).await?;
        divided.note_unwritten(None);
        Ok(())
    }
}

fn turnover<'a>(decision: &'a OpenDecision, divided: &'a AgentRollout) -> Turnover<'a> {
    let OpenDecision { what, from, to, why } = decision;
    Turnover { divided, what, from: *from, to: *to, why }
}
