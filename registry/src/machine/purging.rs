//! What purging takes from the state: a release with all that was said of it, and its bundle where no other names that.

use althing_protocol::registry::{Reach, Salt, Version};
use althing_protocol::{AgentId, Digest};

use super::{Purge, PurgedBy, Refusal, RegistryState};

impl RegistryState {
    /// Whether a release names a bundle.
    #[must_use]
    pub fn names_bundle(&self, bundle: &Digest) -> bool {
        self.bundles.contains_key(bundle)
    }

    /// What purging a release of an agent takes away, and the digest of its bundle if no other release names that.
    ///
    /// # Errors
    /// [`Refusal::NoRelease`].
    pub fn judge_purge(
        &self,
        (agent, version): (&AgentId, &Version),
        by: PurgedBy,
        salt: Salt,
    ) -> Result<(Purge, Option<Digest>), Refusal> {
        let (agent, version) = (agent.clone(), version.clone());
        let versions = self.agents.get(&agent);
        let Some((versions, released)) = versions.and_then(|all| Some((all, all.get(&version)?))) else {
            return Err(Refusal::NoRelease { agent, version });
        };
        if released.audience.reach == Reach::Public {
            return Err(Refusal::NotPurgeable { agent, version });
        }
        let bundle = released.bundle.filter(|bundle| self.bundles.get(bundle).is_none_or(|count| *count <= 1));
        let attested = self.attestations.of_release(&agent, &version);
        let (entries, sequence) = (released.entries().chain(attested).collect(), versions.sequence);
        Ok((Purge { agent, version, entries, by, sequence, salt }, bundle))
    }

    /// The first entry whose statement is gone although nothing says that it was purged.
    #[must_use]
    pub fn unexplained(&self) -> Option<u64> {
        self.gone.first().copied()
    }

    /// Whether a version was purged.
    #[must_use]
    pub fn is_purged(&self, agent: &AgentId, version: &Version) -> bool {
        self.agents.get(agent).is_some_and(|versions| versions.purged.contains(version))
    }

    /// Forgets what was purged: after a start its statements are not there, and the state is the same.
    pub(super) fn forget(&mut self, purge: &Purge) {
        let versions = self.agents.entry(purge.agent.clone()).or_default();
        versions.sequence = versions.sequence.max(purge.sequence);
        let (is_new, removed) =
            (versions.purged.insert(purge.version.clone()), versions.versions.remove(&purge.version));
        match &removed {
            Some(released) => self.room.free(purge.agent.publisher(), released.bundle_bytes),
            // Its version stays taken.
            None if is_new => self.room.add(purge.agent.publisher(), 0),
            None => {}
        }
        self.attestations.forget(&purge.agent, &purge.version);
        if let Some(bundle) = removed.and_then(|released| released.bundle)
            && let Some(count) = self.bundles.get_mut(&bundle)
        {
            *count -= 1;
            if *count == 0 {
                self.bundles.remove(&bundle);
            }
        }
        for index in &purge.entries {
            self.revoked.remove(index);
            self.gone.remove(index);
        }
        self.unapproved.remove(&(purge.agent.clone(), purge.version.clone()));
    }
}
