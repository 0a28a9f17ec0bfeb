//! What organisations have a say in: who sees a release, and who may approve it.

use althing_protocol::registry::{Reach, Subject, Version};
use althing_protocol::{AgentId, PublisherId};

use super::RegistryState;
use super::released::Released;

/// Whether everybody may know that a publisher has something to do here: it may publish, or its keys or its name in a roster
/// are here.
#[must_use]
pub(crate) fn knows(machine: &RegistryState, publisher: PublisherId, now_ms: u64) -> bool {
    machine.admits(publisher, now_ms).is_ok()
        || machine.key_log(publisher).is_some()
        || machine.organisations.has_member(publisher, |_| true, now_ms)
}

impl RegistryState {
    /// Whether a reader sees a release at `now_ms`. What is hidden looks like what is not there.
    #[must_use]
    pub fn sees(&self, reader: Option<PublisherId>, agent: &AgentId, released: &Released, now_ms: u64) -> bool {
        let is_own = reader == Some(agent.publisher());
        (is_own || released.quarantine.is_none()) && self.would_see(reader, agent, released, now_ms)
    }

    /// Whether a reader sees a release unless the registry's operator hides it.
    #[must_use]
    pub fn would_see(&self, reader: Option<PublisherId>, agent: &AgentId, released: &Released, now_ms: u64) -> bool {
        let publisher = agent.publisher();
        released.is_approved
            && match (released.audience.reach, reader) {
                (Reach::Public, _) => true,
                (_, None) => false,
                (_, Some(reader)) if reader == publisher => true,
                (Reach::Organisation, Some(reader)) => self.organisations.reads(reader, publisher, now_ms),
                (Reach::Listed, Some(reader)) => released.audience.readers.contains(&reader),
            }
    }

    /// Releases that wait for approvals, and that `who` may approve.
    pub fn waiting(&self, who: PublisherId, now_ms: u64) -> impl Iterator<Item = (&AgentId, &Version, &Released)> {
        let of = move |(agent, _): &&(AgentId, Version)| self.organisations.approves(who, agent, now_ms);
        let released = |(agent, version)| Some((agent, version, self.agents.get(agent)?.get(version)?));
        self.unapproved.iter().filter(of).map(|(agent, version)| (agent, version)).filter_map(released)
    }

    /// Takes over what is known of somebody else's agent.
    pub(super) fn bring(&mut self, whole: &RegistryState, agent: &AgentId) {
        self.organisations.bring(&whole.organisations, agent.publisher());
        if let Some(versions) = whole.agents.get(agent) {
            self.agents.entry(agent.clone()).or_insert_with(|| versions.clone());
        }
    }

    /// Whether a reader sees what an attestation is of.
    #[must_use]
    pub fn sees_subject(&self, reader: Option<PublisherId>, subject: &Subject, now_ms: u64) -> bool {
        let Subject::Agent(agent, version) = subject else { return true };
        let versions = self.agent(agent).into_iter().flat_map(|versions| versions.iter());
        let mut meant = versions.filter(|(one, _)| version.as_ref().is_none_or(|version| version == *one));
        meant.any(|(_, released)| self.sees(reader, agent, released, now_ms))
    }
}
