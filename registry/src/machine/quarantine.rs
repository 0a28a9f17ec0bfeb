//! Quarantine: the operator of a registry hides an agent, or one version, in that registry. Nothing is said of it by its
//! publisher: nodes that have it go on with it.

use std::collections::BTreeMap;

use althing_protocol::AgentId;
use althing_protocol::cbor;
use althing_protocol::registry::{Salt, Version};
use minicbor::{Decode, Encode};

use super::{Machine, Refusal};

/// Bytes of a record.
const RECORD_BYTES_MAX: usize = 1 << 10;
/// Bytes of a reason.
const REASON_BYTES_MAX: usize = 512;

/// An agent, or one of its versions, that is hidden or shown again. It is on the operator's word.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Quarantine {
    /// The agent.
    #[n(0)]
    pub agent: AgentId,
    /// The version; none means all, also those that are released later.
    #[n(1)]
    pub version: Option<Version>,
    /// Why it is hidden; none shows it again.
    #[n(2)]
    pub reason: Option<String>,
    /// Random, so that nobody finds by trying out what the digest in the log is of.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub salt: Salt,
}

impl Quarantine {
    /// The bytes whose digest is in the log.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads a record; none if these bytes are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Quarantine> {
        cbor::check(bytes, RECORD_BYTES_MAX).ok()?;
        let read: Quarantine = minicbor::decode(bytes).ok()?;
        (read.encode() == bytes).then_some(read)
    }
}

/// What is hidden, and why.
#[derive(Debug, Clone, Default)]
pub(super) struct Quarantined(BTreeMap<(AgentId, Option<Version>), String>);

impl Quarantined {
    fn apply(&mut self, record: &Quarantine) {
        let key = (record.agent.clone(), record.version.clone());
        match &record.reason {
            Some(reason) => self.0.insert(key, reason.clone()),
            None => self.0.remove(&key),
        };
    }

    /// Why a version is hidden by itself, not with all of its agent.
    pub(super) fn alone(&self, agent: &AgentId, version: &Version) -> Option<&String> {
        self.0.get(&(agent.clone(), Some(version.clone())))
    }

    /// Why all of an agent is hidden.
    pub(super) fn whole(&self, agent: &AgentId) -> Option<&String> {
        self.0.get(&(agent.clone(), None))
    }
}

impl Machine {
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
        let is_fine =
            |text: &String| (1..=REASON_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
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

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;

    #[test]
    fn a_record_has_one_encoding() {
        let agent = AgentId::new(PublisherId::from_digest([1; 32]), "billing").expect("a name");
        for (version, reason) in [(None, None), (Some("1.0.0".parse().expect("a version")), Some("malware".to_owned()))]
        {
            let record = Quarantine { agent: agent.clone(), version, reason, salt: [9; 16] };
            let bytes = record.encode();
            assert_eq!(Quarantine::decode(&bytes), Some(record));
            assert_eq!(Quarantine::decode(&[&bytes[..], &[0]].concat()), None);
        }
    }
}
