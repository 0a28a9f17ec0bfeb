//! Attestations: signs what the owner found, and reads what others did.

use althing_protocol::object::{self, Kind};
use althing_protocol::registry::{Attestation, Release, Standing, Subject, VerifiedAttestation, Version};
use althing_protocol::{AgentId, Digest, KeyLog, PublisherId, hex};
use althing_registry_client::{AttestationQuery, RegistryClient};
use serde_json::Value;

use super::requirement::{AttestedRow, satisfied, wanted};
use super::{Registries, RegistriesError};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// Pages that are read of one agent.
const PAGES_MAX: usize = 4;
/// Signers whose findings are asked for one by one.
const FIRST_MAX: usize = 32;

/// What the owner attests.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Of what.
    pub subject: Subject,
    /// What kind of finding.
    pub name: String,
    /// The finding; null takes back what the owner found before.
    pub finding: Value,
    /// For how many days it is in force.
    pub days: u32,
    /// The digest of the content of the release that the owner looked at, hexadecimal; none: of the one that the registry shows.
    pub content: Option<String>,
    /// Which registry; the only one if none is named.
    pub registry: Option<String>,
}

/// What the owner attested.
#[derive(Debug, Clone)]
pub struct Attested {
    /// The signed bytes.
    pub signed: Vec<u8>,
    /// The digest of the content of the release that it is of; none if it is not of a version.
    pub content: Option<Digest>,
    /// The registry.
    pub registry: String,
}

/// A release, with what was found of it.
#[derive(Debug, Clone)]
pub struct ShownRelease {
    /// The agent.
    pub agent: AgentId,
    /// The version.
    pub version: Version,
    /// The registry.
    pub registry: String,
    /// Its standing.
    pub standing: Standing,
    /// Why, if a mark says so.
    pub reason: Option<String>,
    /// When the registry accepted it, Unix milliseconds.
    pub accepted_ms: u64,
    /// The digest of its content: of its bundle, or of its description where it has none.
    pub content: Digest,
    /// Bytes of what it runs from; none: it has nothing to run.
    pub bundle_bytes: Option<u64>,
    /// Its description.
    pub description: Value,
    /// Agents of other publishers that were there before, and whose names look like its own, as the registry says.
    pub twins: Vec<AgentId>,
    /// What was found of it.
    pub attested: Vec<AttestedRow>,
}

/// Attests in registries, and reads attestations.
pub struct Attesting<'a>(pub(super) &'a Registries);

impl Attesting<'_> {
    /// Signs what the owner found, and waits until the registry proves that it has it.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn attest(&self, claim: &Claim) -> Result<Attested, RegistriesError> {
        let at = self.0.named(claim.registry.as_deref())?;
        let client = self.0.client(&at)?;
        let content = match &claim.subject {
            Subject::Agent(agent, Some(version)) => {
                let client = self.0.organising().visitor(&client).await;
                let verified = self.0.release(&client, agent, version).await?;
                self.0.accept(&at, &client, verified.checkpoint).await?;
                Some(looked_at(claim.content.as_deref(), &verified.release.body)?)
            }
            Subject::Agent(_, None) | Subject::Blueprint(_) => None,
        };
        let signed = self.signed(claim, content)?;
        self.0.receipt_book().send((&at, &client), Kind::Attestation, signed.clone(), None).await?;
        Ok(Attested { signed, content, registry: at })
    }

    /// Signs what the owner found of something else than a version, of which a registry must show what it is made of.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub fn sign(&self, claim: &Claim) -> Result<Vec<u8>, RegistriesError> {
        self.signed(claim, None)
    }

    fn signed(&self, claim: &Claim, content: Option<Digest>) -> Result<Vec<u8>, RegistriesError> {
        self.0.identity.check_authority()?;
        let now_ms = self.0.identity.clock().now_ms();
        let until_ms = now_ms.saturating_add(u64::from(claim.days) * DAY_MS);
        let owner = self.0.identity.owner();
        let subject = claim.subject.clone();
        let mut body = Attestation::of(owner.id(), subject, &claim.name, &claim.finding, now_ms, until_ms);
        body.content = content;
        Ok(object::sign(body, self.0.identity.network(), "", &owner.key)?.bytes)
    }

    /// The agent and version that `echo@1.2.0` means.
    ///
    /// # Errors
    /// [`RegistriesError::NoVersion`], and those of ids and versions.
    pub fn release_named(&self, release: &str) -> Result<(AgentId, Version), RegistriesError> {
        let (agent, version) =
            release.rsplit_once('@').ok_or_else(|| RegistriesError::NoVersion(release.to_owned()))?;
        Ok((self.0.agent(agent)?, version.parse()?))
    }

    /// A release, verified, with what was found of it.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn show(&self, release: &str, registry: Option<&str>) -> Result<ShownRelease, RegistriesError> {
        let (agent, version) = self.release_named(release)?;
        let at = self.0.named(registry)?;
        let client = self.0.client(&at)?;
        match self.show_as(&at, &client, &agent, &version).await {
            // A registry hears who asks only where what is asked for is not for everybody.
            Err(absent) if absent.is_absence() => match self.0.organising().visiting(&client).await {
                Ok(client) => self.show_as(&at, &client, &agent, &version).await,
                Err(_) => Err(absent),
            },
            shown => shown,
        }
    }

    async fn show_as(
        &self,
        at: &str,
        client: &RegistryClient,
        agent: &AgentId,
        version: &Version,
    ) -> Result<ShownRelease, RegistriesError> {
        let verified = self.0.release(client, agent, version).await?;
        self.0.accept(at, client, verified.checkpoint.clone()).await?;
        let query = AttestationQuery {
            agent: Some(agent.clone()),
            version: Some(version.clone()),
            ..AttestationQuery::default()
        };
        let attested = self.read(at, client, query, &verified.release.body).await?;
        Ok(ShownRelease {
            agent: agent.clone(),
            version: version.clone(),
            registry: at.to_owned(),
            standing: verified.standing,
            reason: verified.reason,
            accepted_ms: verified.accepted_ms,
            content: verified.release.body.content(),
            bundle_bytes: verified.release.body.bundle.map(|bundle| bundle.bytes),
            description: serde_json::from_slice(&verified.description.body.td).unwrap_or_default(),
            twins: twins(client, agent).await,
            attested,
        })
    }

    /// What was found of an agent, of all its versions.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn of_agent(&self, agent: &str, registry: Option<&str>) -> Result<Vec<AttestedRow>, RegistriesError> {
        let at = self.0.named(registry)?;
        let client = self.0.organising().visitor(&self.0.client(&at)?).await;
        let query = AttestationQuery { agent: Some(self.0.agent(agent)?), ..AttestationQuery::default() };
        Ok(self.verified(&at, &client, query).await?.iter().map(row).collect())
    }

    /// What was found of models on machines, by the name of the finding; gives the registry too. What those of `first` found is
    /// asked for by itself, so that no number of strangers crowds it out.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn of_models(
        &self,
        name: &str,
        model: Option<&str>,
        first: &[PublisherId],
        registry: Option<&str>,
    ) -> Result<(String, Vec<VerifiedAttestation>), RegistriesError> {
        let at = self.0.named(registry)?;
        let client = self.0.client(&at)?;
        let (name, model) = (Some(name.to_owned()), model.map(str::to_owned));
        let first = &first[..first.len().min(FIRST_MAX)];
        let anybody = AttestationQuery { name, model, ..AttestationQuery::default() };
        let mut attested: Vec<VerifiedAttestation> = Vec::new();
        for by in first.iter().map(|by| Some(*by)).chain([None]) {
            let found = self.verified(&at, &client, AttestationQuery { by, ..anybody.clone() }).await?;
            let is_new = |one: &VerifiedAttestation| by.is_some() || !first.contains(&one.attestation.body.by);
            attested.extend(found.into_iter().filter(is_new));
        }
        Ok((at, attested))
    }

    /// Attestations that hold of this release: the newest, some pages at most. What was found of another release that calls
    /// itself this version, in another registry, does not count.
    async fn read(
        &self,
        at: &str,
        client: &RegistryClient,
        query: AttestationQuery,
        release: &Release,
    ) -> Result<Vec<AttestedRow>, RegistriesError> {
        let of_it = |one: &&VerifiedAttestation| one.attestation.body.is_of(release);
        Ok(self.verified(at, client, query).await?.iter().filter(of_it).map(row).collect())
    }

    /// Attestations that hold.
    async fn verified(
        &self,
        at: &str,
        client: &RegistryClient,
        mut query: AttestationQuery,
    ) -> Result<Vec<VerifiedAttestation>, RegistriesError> {
        let (network, now_ms) = (self.0.identity.network(), self.0.identity.clock().now_ms());
        let known = |by: PublisherId| self.0.identity.keys_of(by).map(|log| KeyLog::clone(&log));
        let mut all = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = client.attestations(network, &query, now_ms, known).await?;
            if page.refused > 0 {
                tracing::warn!(registry = at, refused = page.refused, "a registry shows attestations that do not hold");
            }
            if let Some(checkpoint) = page.checkpoint {
                self.0.accept(at, client, checkpoint).await?;
            }
            all.extend(page.attested);
            match page.before.filter(|before| query.before.is_none_or(|asked| *before < asked)) {
                Some(before) => query.before = Some(before),
                None => break,
            }
        }
        Ok(all)
    }

    /// Checks that a release has what must be attested of it before it is installed here; gives what counts.
    pub(super) async fn check(
        &self,
        at: &str,
        client: &RegistryClient,
        release: &Release,
        named: Option<&str>,
    ) -> Result<Vec<AttestedRow>, RegistriesError> {
        let (agent, version) = (&release.agent, &release.version);
        let mut attested = Vec::new();
        for (name, by) in wanted(&self.0.requirements, agent, named) {
            let query = AttestationQuery {
                agent: Some(agent.clone()),
                version: Some(version.clone()),
                by: Some(by),
                name: Some(name),
                ..AttestationQuery::default()
            };
            attested.extend(self.read(at, client, query, release).await?);
        }
        let now_ms = self.0.identity.clock().now_ms();
        satisfied(&self.0.requirements, (agent, named), &attested, now_ms).map_err(|lack| {
            RegistriesError::NotAttested { agent: agent.clone(), version: version.clone(), lack: Box::new(lack) }
        })
    }
}

/// Agents that look like one, for people: a registry that keeps them back hides nothing that is proven.
pub(super) async fn twins(client: &RegistryClient, agent: &AgentId) -> Vec<AgentId> {
    client.agent(agent).await.map(|listed| listed.twins).unwrap_or_default()
}

/// The digest of the content of a release, if it is the one that the owner looked at.
fn looked_at(wanted: Option<&str>, shown: &Release) -> Result<Digest, RegistriesError> {
    let content = shown.content();
    match wanted {
        Some(wanted) if !wanted.eq_ignore_ascii_case(&hex(&content)) => Err(RegistriesError::OtherContent {
            agent: Box::new(shown.agent.clone()),
            version: shown.version.clone(),
            shown: hex(&content),
            wanted: wanted.to_owned(),
        }),
        _ => Ok(content),
    }
}

fn row(verified: &VerifiedAttestation) -> AttestedRow {
    let body = &verified.attestation.body;
    AttestedRow {
        name: body.name.clone(),
        by: body.by,
        version: body.version.as_ref().map(Version::to_string),
        finding: body.finding(),
        made_ms: body.not_before_ms.min(verified.accepted_ms),
        accepted_ms: verified.accepted_ms,
        until_ms: body.not_after_ms,
    }
}
