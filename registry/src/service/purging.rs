//! Purging what is not for everybody: its statements and its bundle are gone from the disk, and the log stays whole.
//!
//! One write takes all of it away and adds the entry that says so; then the files of the store are written anew without it.
//! Whoever is interrupted between the two finds a row that says so, and does the second when the registry is opened.

use althing_protocol::registry::{EntryKind, Version};
use althing_protocol::{AgentId, Digest};
use althing_store::{Batch, Durability, Family, Range};

use super::rows::{self, BUNDLES, META, STAGED, STAGED_BUNDLES, UNSCRUBBED};
use super::write_batch::{PendingWrite, PurgeOf};
use super::{Registry, RequestError};
use crate::machine::{PurgedBy, Refusal};

/// Purges that wait to be scrubbed, read at once.
const UNSCRUBBED_MAX: usize = 256;

/// Takes releases away.
pub struct Purging<'a>(pub(super) &'a Registry);

impl Purging<'_> {
    /// Purges a release that is not for everybody, with its marks, its approvals and its bundle. When it completes, they are
    /// gone from the files of the store. Once more is no error.
    ///
    /// # Errors
    /// See [`RequestError`]. After an error of writing it may be done, and is completed by doing it again.
    pub async fn purge(&self, agent: &AgentId, version: &Version, by: PurgedBy) -> Result<(), RequestError> {
        let known = {
            let seen = self.0.seen();
            let released = seen.machine.agent(agent).and_then(|versions| versions.get(version));
            match released {
                None if seen.machine.is_purged(agent, version) => None,
                None => return Err(RequestError::NoVersion(agent.clone(), version.clone())),
                Some(released) => Some(released.index),
            }
        };
        if let Some(index) = known {
            let entry = self.0.statement(index)?.0;
            if !matches!(entry.kind, EntryKind::Salted(_)) {
                let (agent, version) = (agent.clone(), version.clone());
                return Err(Refusal::NotPurgeable { agent, version }.into());
            }
            let purge = PurgeOf { agent: agent.clone(), version: version.clone(), by };
            self.0.commit(|answer| PendingWrite::Purge(Box::new(purge), answer)).await?;
        }
        self.scrub().await
    }

    /// Takes away a bundle that no release names.
    pub(super) async fn take_bundle(&self, bundle: Digest) -> Result<(), RequestError> {
        if self.0.seen().machine.names_bundle(&bundle) {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.delete(BUNDLES, bundle);
        self.0.store.write(batch, Durability::Synced).await?;
        Ok(self.0.store.scrub(vec![(BUNDLES, bundle.to_vec())]).await?)
    }

    /// Writes the files of the store anew without what was purged. What was staged lies there too, as others handed it in.
    pub(super) async fn scrub(&self) -> Result<(), RequestError> {
        let waiting = self.0.store.scan(META, Range::prefix(UNSCRUBBED, UNSCRUBBED_MAX))?;
        if waiting.is_empty() {
            return Ok(());
        }
        let (mut gone, mut done): (Vec<(Family, Vec<u8>)>, _) = (Vec::new(), Batch::new());
        for (key, row) in waiting {
            gone.extend(rows::gone(&row));
            done.delete(META, key);
        }
        gone.extend([(STAGED, Vec::new()), (STAGED_BUNDLES, Vec::new())]);
        self.0.store.scrub(gone).await?;
        Ok(self.0.store.write(done, Durability::Synced).await?)
    }
}
