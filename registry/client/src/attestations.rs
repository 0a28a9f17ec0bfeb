//! Attestations, as a registry shows them.

use althing_fetch::{Limits, Method};
use althing_protocol::limits::SUBMISSION_BYTES_MAX;
use althing_protocol::registry::{Attestations, Subject, VerifiedAttestation, Version};
use althing_protocol::tlog::Checkpoint;
use althing_protocol::{AgentId, KeyLog, PublisherId};

use crate::{RegistryClient, RegistryError, TIME_MAX};

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

/// What a registry proved of what was asked for.
#[derive(Debug, Clone, Default)]
pub struct AttestationPage {
    /// Those that hold, the newest first.
    pub attested: Vec<VerifiedAttestation>,
    /// How many were shown that do not hold, or are of something else.
    pub refused: usize,
    /// The checkpoint of all proofs, if there are any.
    pub checkpoint: Option<Checkpoint>,
    /// The entry before which the next page begins, if there is one.
    pub before: Option<u64>,
}

impl AttestationQuery {
    /// Whether an attestation is what was asked for, and finds something.
    fn is_answered_by(&self, verified: &VerifiedAttestation) -> bool {
        let body = &verified.attestation.body;
        let of = match body.subject() {
            Some(Subject::Agent(agent, version)) => {
                let wanted = self.version.is_none() || version.is_none() || version == self.version;
                wanted && self.agent.as_ref() == Some(&agent)
            }
            Some(Subject::Blueprint(blueprint)) => {
                self.agent.is_none() && self.model.as_ref().is_none_or(|model| *model == blueprint.model)
            }
            None => false,
        };
        of && !body.finding().is_null()
            && self.by.is_none_or(|by| by == body.by)
            && self.name.as_ref().is_none_or(|name| *name == body.name)
    }
}

impl RegistryClient {
    /// Attestations that hold at `now_ms`: a page. `accepted` gives the log of a signer's keys that was accepted before.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn attestations(
        &self,
        network: &str,
        query: &AttestationQuery,
        now_ms: u64,
        accepted: impl Fn(PublisherId) -> Option<KeyLog>,
    ) -> Result<AttestationPage, RegistryError> {
        let given = [
            ("agent", query.agent.as_ref().map(AgentId::to_string)),
            ("version", query.version.as_ref().map(Version::to_string)),
            ("model", query.model.clone()),
            ("by", query.by.map(|by| by.to_string())),
            ("name", query.name.clone()),
            ("before", query.before.map(|before| before.to_string())),
        ];
        let given: Vec<(&str, Option<&str>)> = given.iter().map(|(name, value)| (*name, value.as_deref())).collect();
        let url = self.http.asking("attestations", &given)?;
        let limits = Limits { bytes: SUBMISSION_BYTES_MAX, time: TIME_MAX };
        let bytes = self.http.ask(Method::GET, &url, ("text/plain", Vec::new()), limits).await?;
        let shown = Attestations::decode(&bytes)?;
        let mut page = AttestationPage { before: shown.before, ..AttestationPage::default() };
        for one in shown.verify(network, self.key(), now_ms, accepted)? {
            match one {
                Ok(one) if query.is_answered_by(&one) => {
                    page.checkpoint = Some(one.checkpoint.clone());
                    page.attested.push(one);
                }
                _ => page.refused += 1,
            }
        }
        Ok(page)
    }
}
