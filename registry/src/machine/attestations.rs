//! Attestations: of each signer, subject and name the newest one.

use std::collections::BTreeMap;

use althing_protocol::limits::ATTESTATIONS_OF_SIGNER_MAX;
use althing_protocol::object::Authored;
use althing_protocol::registry::{Attestation, Subject, Version};
use althing_protocol::{AgentId, Digest, PublisherId};

use super::Refusal;

/// An attestation, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attested {
    /// The index of its entry.
    pub index: u64,
    /// The digest of its signed bytes.
    pub statement: Digest,
    sequence: u64,
    not_before_ms: u64,
    not_after_ms: u64,
    /// When this one and those before it are over: until then it is known, so that none of them is taken in its place.
    known_until_ms: u64,
    /// Whether it takes back what its signer found before.
    is_withdrawal: bool,
    /// The entries of those before it.
    before: Vec<u64>,
}

impl Attested {
    fn counts(&self, now_ms: u64) -> bool {
        !self.is_withdrawal && self.not_before_ms <= now_ms && now_ms <= self.not_after_ms
    }
}

/// Entries of attestations that one purge takes away.
const PURGED_MAX: usize = 1_024;

/// Of what, and the name of the finding.
type Finding = (Subject, String);

/// All attestations of a registry.
#[derive(Debug, Clone, Default)]
pub struct HeldAttestations {
    by_signer: BTreeMap<PublisherId, BTreeMap<Finding, Attested>>,
    /// By agent, or of models on machines, the entries in the order of the log.
    by_agent: BTreeMap<Option<AgentId>, BTreeMap<u64, (PublisherId, Finding)>>,
}

fn is_of(subject: &Subject, version: &Version) -> bool {
    matches!(subject, Subject::Agent(_, Some(of)) if of == version)
}

fn agent_of(subject: &Subject) -> Option<AgentId> {
    match subject {
        Subject::Agent(agent, _) => Some(agent.clone()),
        Subject::Blueprint(_) => None,
    }
}

impl HeldAttestations {
    /// Those of an agent, or of models on machines, that count at `now_ms` and whose entries are before `before`; the newest
    /// first.
    pub fn newest(
        &self,
        agent: Option<&AgentId>,
        before: u64,
        now_ms: u64,
    ) -> impl Iterator<Item = (u64, PublisherId, &Subject, &str)> {
        let all = self.by_agent.get(&agent.cloned()).into_iter().flat_map(move |all| all.range(..before).rev());
        all.filter_map(move |(index, (by, finding))| {
            let held = self.by_signer.get(by)?.get(finding)?;
            held.counts(now_ms).then_some((*index, *by, &finding.0, finding.1.as_str()))
        })
    }

    /// The entries of what was found of a version, newest and earlier ones, as far as one purge takes them away.
    pub(super) fn of_release(&self, agent: &AgentId, version: &Version) -> impl Iterator<Item = u64> {
        let all = self.by_agent.get(&Some(agent.clone())).into_iter().flat_map(BTreeMap::values);
        let of = move |(_, finding): &&(PublisherId, Finding)| is_of(&finding.0, version);
        let held = all.filter(of).filter_map(|(by, finding)| self.by_signer.get(by)?.get(finding));
        held.flat_map(|one| one.before.iter().chain([&one.index])).copied().take(PURGED_MAX)
    }

    /// Forgets what was found of a version that was purged.
    pub(super) fn forget(&mut self, agent: &AgentId, version: &Version) {
        let Some(all) = self.by_agent.get_mut(&Some(agent.clone())) else { return };
        all.retain(|_, (by, finding)| {
            let goes = is_of(&finding.0, version);
            if goes && let Some(held) = self.by_signer.get_mut(by) {
                held.remove(finding);
            }
            !goes
        });
    }

    /// Takes over those of a signer, to be judged with.
    pub(super) fn bring(&mut self, from: &HeldAttestations, signer: PublisherId) {
        if let Some(held) = from.by_signer.get(&signer) {
            self.by_signer.entry(signer).or_insert_with(|| held.clone());
        }
    }

    /// Whether the newest one of its kind may be this one; the entry of the same one.
    pub(super) fn judge(
        &self,
        attestation: &Authored<Attestation>,
        finding: &Finding,
        now_ms: u64,
    ) -> Result<Option<u64>, Refusal> {
        let by = attestation.body.by;
        let Some(held) = self.by_signer.get(&by) else { return Ok(None) };
        if let Some(known) = held.get(finding) {
            if known.statement == attestation.digest() {
                return Ok(Some(known.index));
            }
            if attestation.body.sequence <= known.sequence {
                return Err(Refusal::AttestationStale { by, known: known.sequence, given: attestation.body.sequence });
            }
            return Ok(None);
        }
        if held.values().filter(|one| one.known_until_ms >= now_ms).count() >= ATTESTATIONS_OF_SIGNER_MAX {
            return Err(Refusal::AttestationsFull { by, max: ATTESTATIONS_OF_SIGNER_MAX });
        }
        Ok(None)
    }

    /// Applies one that was accepted at `at_ms`: it takes the place of the one before, and those that are over then make room.
    pub(super) fn apply(&mut self, index: u64, attestation: &Authored<Attestation>, at_ms: u64) {
        let body = &attestation.body;
        let Some(subject) = body.subject() else { return };
        let agent = agent_of(&subject);
        let finding = (subject, body.name.clone());
        let held = self.by_signer.entry(body.by).or_default();
        let mut new = Attested {
            index,
            statement: attestation.digest(),
            sequence: body.sequence,
            not_before_ms: body.not_before_ms,
            not_after_ms: body.not_after_ms,
            known_until_ms: body.not_after_ms,
            is_withdrawal: body.finding().is_null(),
            before: Vec::new(),
        };
        let mut gone: Vec<(Option<AgentId>, u64)> = Vec::new();
        if let Some(mut replaced) = held.remove(&finding) {
            gone.push((agent.clone(), replaced.index));
            new.known_until_ms = new.known_until_ms.max(replaced.known_until_ms);
            new.before.append(&mut replaced.before);
            new.before.push(replaced.index);
        }
        held.insert(finding.clone(), new);
        held.retain(|(subject, _), one| {
            let stays = one.known_until_ms >= at_ms || one.index == index;
            if !stays {
                gone.push((agent_of(subject), one.index));
            }
            stays
        });
        for (agent, index) in gone {
            if let Some(all) = self.by_agent.get_mut(&agent) {
                all.remove(&index);
            }
        }
        self.by_agent.entry(agent).or_default().insert(index, (body.by, finding));
    }
}
