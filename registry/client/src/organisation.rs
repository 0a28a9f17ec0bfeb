//! Organisations: signing in, domains, names, and releases that wait for approval.

use althing_fetch::{Fetch, Limits, Method};
use althing_protocol::limits::SUBMISSION_BYTES_MAX;
use althing_protocol::object;
use althing_protocol::registry::{
    NameEvidence, ReleaseEvidence, Role, Roster, SignIn, VerifiedName, VerifiedRelease, Version, Visit,
};
use althing_protocol::{AgentId, KeyLog, SecretKey};
use serde::Deserialize;
use serde_json::json;

use crate::http::{Http, read};
use crate::{BUNDLE_TIME_MAX, Reference, RegistryClient, RegistryError, TEXT_BYTES_MAX, TIME_MAX};

/// Bytes of a staged release as JSON: a bundle in base64, and a description.
const STAGED_BYTES_MAX: usize = 6 << 20;

/// A domain, as a registry shows it. Who holds it is its word, fixed in its log.
#[derive(Debug, Clone, Deserialize)]
pub struct ShownDomain {
    /// The domain.
    pub domain: String,
    /// Who holds it.
    pub organisation: String,
    /// By what that is proven: `well-known`, `dns`, or `operator`.
    pub by: String,
    /// Whether the proof counts now.
    pub proven: bool,
    /// When it was found last, Unix milliseconds.
    pub found_ms: u64,
    /// Who waits for it.
    #[serde(default)]
    pub claim: Option<ShownClaim>,
    /// Other domains there that look like it.
    #[serde(default)]
    pub twins: Vec<String>,
    /// The organisation's agents.
    #[serde(default)]
    pub agents: Vec<ShownAgent>,
}

/// An organisation that waits for a domain.
#[derive(Debug, Clone, Deserialize)]
pub struct ShownClaim {
    /// Which one.
    pub organisation: String,
    /// Where the domain names it.
    pub by: String,
    /// Since when, Unix milliseconds.
    pub since_ms: u64,
}

/// An agent of an organisation.
#[derive(Debug, Clone, Deserialize)]
pub struct ShownAgent {
    /// Its name there.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Its highest version.
    #[serde(default)]
    pub newest: Option<String>,
}

/// What a registry found when it looked for the proof of a domain.
#[derive(Debug, Clone, Deserialize)]
pub struct ShownProof {
    /// The domain.
    pub domain: String,
    /// Whether it names the organisation.
    pub proven: bool,
    /// Where.
    #[serde(default)]
    pub by: Option<String>,
    /// Why not.
    #[serde(default)]
    pub why: Option<String>,
}

/// A release that a build machine staged.
#[derive(Debug, Clone, Deserialize)]
pub struct ListedStaged {
    /// Its id.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The version.
    pub version: String,
    /// The digest of the bundle, hexadecimal.
    pub digest: String,
    /// Bytes of the bundle.
    pub bytes: u64,
    /// When it was staged, Unix milliseconds.
    pub at_ms: u64,
}

/// A release that waits for more approvals.
#[derive(Debug, Clone, Deserialize)]
pub struct ListedWaiting {
    /// The agent.
    pub agent: String,
    /// The version.
    pub version: String,
    /// Those beside its publisher who approve it.
    pub approved_by: Vec<String>,
    /// How many must.
    pub wanted: u8,
}

/// What waits for the approval of somebody.
#[derive(Debug, Clone, Deserialize)]
pub struct Pending {
    /// What build machines staged; its publisher signs it first.
    pub staged: Vec<ListedStaged>,
    /// What its publisher released, and others have to approve.
    pub waiting: Vec<ListedWaiting>,
}

/// A staged release, whole. Nobody signed it.
#[derive(Debug, Clone, Deserialize)]
pub struct StagedRelease {
    /// The agent.
    pub agent: String,
    /// The version.
    pub version: String,
    /// The digest of the bundle that the build machine sent, hexadecimal.
    pub digest: String,
    /// The Thing Description.
    pub description: String,
    /// The bundle, base64.
    pub bundle: String,
}

#[derive(Deserialize)]
struct SignInToken {
    token: String,
}

#[derive(Deserialize)]
struct StagedId {
    id: String,
}

/// A name that was verified, and domains that look like its own.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The name.
    pub name: VerifiedName,
    /// Domains that the registry knows and that look like this one.
    pub twins: Vec<String>,
}

/// Of the answer to a proof: the registry asks the domain meanwhile.
const PROOF: Limits = Limits { bytes: TEXT_BYTES_MAX, time: BUNDLE_TIME_MAX };

/// What signs in: a visit, and by which keys it counts.
fn shown(visit: Vec<u8>, log: &KeyLog) -> SignIn {
    SignIn { key_log: log.to_bytes().into_iter().map(Into::into).collect(), visit: visit.into() }
}

impl RegistryClient {
    /// The same, as the holder of a token.
    ///
    /// # Errors
    /// [`RegistryError::Clear`].
    pub fn with_token(self, token: String) -> Result<RegistryClient, RegistryError> {
        Ok(RegistryClient { http: self.http.with_token(token)?, ..self })
    }

    /// Signs in as a publisher; gives a client that sees what the publisher may see, for some minutes.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn sign_in(
        &self,
        network: &str,
        (key, log): (&SecretKey, &KeyLog),
        now_ms: u64,
    ) -> Result<RegistryClient, RegistryError> {
        self.http.check_bearer()?;
        let visit = object::sign(Visit::new(log.publisher(), now_ms), network, &self.key.to_string(), key);
        let visit = visit.map_err(|error| RegistryError::SignIn(error.to_string()))?;
        let (sign_in, limits) = (shown(visit.bytes, log).encode(), Limits { bytes: TEXT_BYTES_MAX, time: TIME_MAX });
        let body = self.http.exchange(Method::POST, "sessions", ("application/cbor", sign_in), limits).await?;
        self.clone().with_token(read::<SignInToken>(&body)?.token)
    }

    /// A domain, as the registry shows it.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn domain(&self, domain: &str) -> Result<ShownDomain, RegistryError> {
        self.http.json(&format!("names/{domain}")).await
    }

    /// Lets the registry look for the proof of the domain that the roster of whoever signed in names.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn prove(&self) -> Result<ShownProof, RegistryError> {
        read(&self.http.exchange(Method::POST, "domains/prove", ("text/plain", Vec::new()), PROOF).await?)
    }

    /// The agent that an organisation means by a name, verified against its roster and the evidence of its domain.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn resolve(&self, network: &str, reference: &Reference, now_ms: u64) -> Result<Resolved, RegistryError> {
        let (domain, name) = (&reference.domain, &reference.name);
        let limits = Limits { bytes: SUBMISSION_BYTES_MAX, time: TIME_MAX };
        let bytes = self.http.get(&format!("names/{domain}/{name}"), limits).await?;
        let name = NameEvidence::decode(&bytes)?.verify(network, (domain, name), &self.key, now_ms)?;
        // A hint for people; a registry that keeps it back hides nothing that is proven.
        let twins = self.domain(domain.as_str()).await.map(|shown| shown.twins).unwrap_or_default();
        let twins = twins.into_iter().filter(|twin| twin.parse::<althing_protocol::registry::Domain>().is_ok());
        Ok(Resolved { name, twins: twins.take(8).collect() })
    }

    /// What waits for the approval of whoever signed in.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn pending(&self) -> Result<Pending, RegistryError> {
        self.http.json("staged").await
    }

    /// A staged release, whole.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn staged(&self, id: &str) -> Result<StagedRelease, RegistryError> {
        let limits = Limits { bytes: STAGED_BYTES_MAX, time: BUNDLE_TIME_MAX };
        read(&self.http.get(&format!("staged/{id}"), limits).await?)
    }

    /// Takes a staged release away.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn unstage(&self, id: &str) -> Result<(), RegistryError> {
        let limits = Limits { bytes: TEXT_BYTES_MAX, time: TIME_MAX };
        self.http.exchange(Method::DELETE, &format!("staged/{id}"), ("text/plain", Vec::new()), limits).await?;
        Ok(())
    }

    /// Stages a release, as somebody whom the organisation's roster lets stage; gives its id.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn stage(&self, release: &StagedRelease) -> Result<String, RegistryError> {
        stage(&self.http, release).await
    }

    /// A release that waits for approvals, with what was signed so far; only its publisher's part is verified.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn waiting(
        &self,
        network: &str,
        agent: &AgentId,
        version: &Version,
    ) -> Result<VerifiedRelease, RegistryError> {
        let limits = Limits { bytes: SUBMISSION_BYTES_MAX, time: TIME_MAX };
        let bytes = self.http.get(&format!("staged/{agent}/{version}"), limits).await?;
        Ok(ReleaseEvidence::decode(&bytes)?.verify(network, agent, version, &self.key)?)
    }
}

/// A build machine: it has a token for staging, and no key with which it could verify or sign anything.
#[derive(Debug, Clone)]
pub struct BuildMachine(Http);

impl BuildMachine {
    /// At the registry at `url`, whose operator made the token.
    ///
    /// # Errors
    /// [`RegistryError::Address`], [`RegistryError::Clear`].
    pub fn new(fetch: Fetch, url: &str, token: String) -> Result<BuildMachine, RegistryError> {
        Ok(BuildMachine(Http::new(fetch, url)?.with_token(token)?))
    }

    /// Stages a release; gives its id. The same again has the same id.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn stage(&self, release: &StagedRelease) -> Result<String, RegistryError> {
        stage(&self.0, release).await
    }
}

async fn stage(http: &Http, release: &StagedRelease) -> Result<String, RegistryError> {
    let StagedRelease { agent, version, digest, description, bundle } = release;
    let body = json!({
        "agent": agent, "version": version, "digest": digest, "description": description, "bundle": bundle,
    });
    let limits = Limits { bytes: TEXT_BYTES_MAX, time: BUNDLE_TIME_MAX };
    let sent = ("application/json", body.to_string().into_bytes());
    Ok(read::<StagedId>(&http.exchange(Method::POST, "staged", sent, limits).await?)?.id)
}

/// Checks that a release has as many approvals as the organisation wants now that gives it its name (P-178).
///
/// # Errors
/// [`RegistryError::NotApproved`].
pub fn check_approved(release: &VerifiedRelease, roster: &Roster) -> Result<(), RegistryError> {
    let agent = &release.release.body.agent;
    // Who approved it then may have left since; who never might does not count.
    let of_then = release.roster.as_ref().map(|of| &of.body).filter(|of| of.organisation == roster.organisation);
    let counted = of_then.unwrap_or(roster);
    let approved = release.approvers.iter().filter(|by| counted.allows(**by, Role::Approve, agent)).count();
    if approved < usize::from(roster.approvals) {
        return Err(RegistryError::NotApproved { agent: agent.clone(), approved, wanted: roster.approvals });
    }
    Ok(())
}
