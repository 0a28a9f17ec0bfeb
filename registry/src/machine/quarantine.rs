//! Quarantine: the operator of a registry hides an agent, or one version, in that registry. Nothing is said of it by its
//! publisher: nodes that have it go on with it.

use althing_protocol::registry::{Quarantine, Version};
use althing_protocol::{AgentId, hidden_in};

use super::{Refusal, RegistryState};

const REASON_BYTES_MAX: usize = 512;

impl RegistryState {
    /// Whether a record of a quarantine says anything new.
    ///
    /// # Errors
    /// [`Refusal::NoReleases`], [`Refusal::NoRelease`] and [`Refusal::Reason`].
    pub fn judge_quarantine(&self, record: &Quarantine) -> Result<bool, Refusal> {
        let Quarantine { agent, version, reason, .. } = record;
        let versions = self.agent(agent).ok_or_else(|| Refusal::NoReleases(agent.clone()))?;
        if let Some(version) = version
            && versions.get(version).is_none()
        {
            return Err(Refusal::NoRelease { agent: agent.clone(), version: version.clone() });
        }
        let is_fine = |text: &String| {
            let is_seen = !text.chars().any(char::is_control) && hidden_in(text).is_none();
            (1..=REASON_BYTES_MAX).contains(&text.len()) && is_seen
        };
        if !reason.as_ref().is_none_or(is_fine) {
            return Err(Refusal::Reason { max: REASON_BYTES_MAX });
        }
        let known = match version {
            Some(version) => self.quarantined.alone(agent, version),
            None => self.quarantined.whole(agent),
        };
        Ok(known != reason.as_ref())
    }

    /// Hides what a record says, or shows it again.
    pub(super) fn apply_quarantine(&mut self, index: u64, record: &Quarantine) {
        self.quarantined.apply(record);
        let Some(versions) = self.agents.get_mut(&record.agent) else { return };
        let whole = self.quarantined.whole(&record.agent);
        for (version, released) in versions.iter_mut() {
            released.quarantine = whole.or_else(|| self.quarantined.alone(&record.agent, version)).cloned();
        }
        self.show(index, &record.agent);
    }

    /// Why the operator hides a release from now on, if an earlier record says so.
    pub(super) fn quarantine_of(&self, agent: &AgentId, version: &Version) -> Option<String> {
        self.quarantined.whole(agent).or_else(|| self.quarantined.alone(agent, version)).cloned()
    }
}
