//! What a reader is shown of attestations: those of what the reader sees.

use althing_protocol::limits::ATTESTATIONS_SHOWN_MAX;
use althing_protocol::registry::{AttestationEvidence, Attestations, Subject, Version};
use althing_protocol::{AgentId, PublisherId};

use super::releases::Reader;
use super::{Registry, RequestError};

/// Bytes from which on a page ends.
const PAGE_BYTES: usize = 1 << 20;

/// Which attestations are asked for: those of an agent, or else those of models on machines.
#[derive(Debug, Clone, Default)]
pub struct AttestationQuery {
    /// Of this agent.
    pub agent: Option<AgentId>,
    /// Of this version, or of all versions.
    pub version: Option<Version>,
    /// Of this model.
    pub model: Option<String>,
    /// By this signer.
    pub by: Option<PublisherId>,
    /// Of this name.
    pub name: Option<String>,
    /// With entries before this one.
    pub before: Option<u64>,
}

impl AttestationQuery {
    fn matches(&self, by: PublisherId, subject: &Subject, name: &str) -> bool {
        let of = match subject {
            Subject::Agent(_, of) => of.is_none() || self.version.is_none() || *of == self.version,
            Subject::Blueprint(of) => self.model.as_ref().is_none_or(|model| *model == of.model),
        };
        of && self.by.is_none_or(|wanted| wanted == by) && self.name.as_ref().is_none_or(|wanted| wanted == name)
    }
}

/// The attestations of a registry, as a reader sees them.
pub struct Attesting<'a>(pub(super) &'a Registry);

impl Attesting<'_> {
    /// A page of attestations, the newest first.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn page(&self, query: &AttestationQuery, reader: Reader) -> Result<Attestations, RequestError> {
        let (indexes, mut more) = {
            let (seen, now_ms) = (self.0.seen(), (self.0.clock)());
            let before = query.before.unwrap_or(u64::MAX);
            let all = seen.machine.attestations().newest(query.agent.as_ref(), before, now_ms);
            let shown = all.filter(|(_, by, subject, name)| {
                query.matches(*by, subject, name) && seen.machine.sees_subject(reader, subject, now_ms)
            });
            let mut indexes: Vec<(u64, PublisherId)> =
                shown.map(|(index, by, ..)| (index, by)).take(ATTESTATIONS_SHOWN_MAX + 1).collect();
            let more = indexes.len() > ATTESTATIONS_SHOWN_MAX;
            indexes.truncate(ATTESTATIONS_SHOWN_MAX);
            (indexes, more)
        };
        let newest = indexes.iter().map(|(index, _)| *index).max();
        let checkpoint = self.0.witnessing().over(newest.unwrap_or_default());
        let (mut page, mut bytes) = (Attestations::default(), 0);
        for (index, by) in &indexes {
            if bytes >= PAGE_BYTES {
                more = true;
                break;
            }
            let one = AttestationEvidence {
                key_log: self.0.key_log(*by),
                attestation: self.0.logged_at(*index, &checkpoint)?,
            };
            bytes += one.key_log.iter().map(|event| event.len()).sum::<usize>()
                + one.attestation.statement.len()
                + one.attestation.proof.len();
            page.shown.push(one);
        }
        page.before = indexes.get(page.shown.len().wrapping_sub(1)).map(|(index, _)| *index).filter(|_| more);
        Ok(page)
    }

    /// Whether a reader sees what an attestation is of.
    pub(super) fn sees(&self, subject: &Subject, reader: Reader) -> bool {
        self.0.seen().machine.sees_subject(reader, subject, (self.0.clock)())
    }
}
