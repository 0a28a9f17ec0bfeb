//! Asks a registry over HTTP, and believes only what it proves.
//!
//! **In**: the address of a registry, and the key of its log. **Out**: verified releases, and the checkpoint they were
//! verified under.
//!
//! Invariants
//! - Nothing is taken from a registry but what its publisher signed and its log proves.
//! - A checkpoint is accepted only if its log goes on from the one that was accepted before.
//! - Each answer is bounded in bytes and time.
//!
//! This crate must never know where checkpoints are kept, or what releases are used for.

mod attestations;
mod error;
mod http;
mod names;
mod organisation;
mod organisation_watch;
mod published;
mod receipt;
mod twins;
mod versions;

use std::time::Duration;

use althing_fetch::{Fetch, Limits, Method};
use althing_protocol::inquiry::Inquiry;
use althing_protocol::limits::SUBMISSION_BYTES_MAX;
use althing_protocol::object::{self, Authored, Kind};
use althing_protocol::record::Contact;
use althing_protocol::registry::{Bundle, Presence, ReleaseEvidence, Submission, VerifiedRelease, Version};
use althing_protocol::tlog::{Checkpoint, Head, NoteKey, TreeError};
use althing_protocol::{AgentId, Digest, KeyLog, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use http::{Http, read};

pub use attestations::{AttestationPage, AttestationQuery};
pub use error::RegistryError;
pub use names::{NameError, Reference};
pub use organisation::{
    BuildMachine, ListedStaged, ListedWaiting, Pending, Resolved, ShownAgent, ShownClaim, ShownDomain, ShownProof,
    StagedRelease, check_approved,
};
pub use organisation_watch::{LogReader, Said, WATCHED_ENTRIES_MAX, Watched};
pub use published::NamedThing;
pub use receipt::Accepted;
pub use versions::{ListedVersion, chosen, passed_over, quarantined, yanked};

/// Of an answer that is JSON or text.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Nodes of one answer.
const HOSTS_MAX: usize = 32;
/// How long an answer may take.
const TIME_MAX: Duration = Duration::from_secs(10);
/// How long sending or fetching a bundle may take.
const BUNDLE_TIME_MAX: Duration = Duration::from_secs(60);

/// A registry that is asked.
#[derive(Debug, Clone)]
pub struct RegistryClient {
    http: Http,
    key: NoteKey,
}

/// An agent, as a registry lists it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ListedAgent {
    /// Its id.
    pub id: String,
    /// Its versions, the lowest first.
    pub versions: Vec<ListedVersion>,
    /// Agents of other publishers that were there before, and whose names look like its own.
    #[serde(default, deserialize_with = "twins::agents")]
    pub twins: Vec<AgentId>,
}

/// A release of which a registry says that it is revoked.
#[derive(Debug, Clone, Deserialize)]
pub struct ListedRevocation {
    /// The index of the mark in the log.
    pub entry: u64,
    /// The agent.
    pub agent: String,
    /// The version.
    pub version: String,
}

#[derive(Deserialize)]
struct About {
    network: String,
}

#[derive(Deserialize)]
struct Agents {
    agents: Vec<ListedAgent>,
}

#[derive(Deserialize)]
struct Revocations {
    revoked: Vec<ListedRevocation>,
}

#[derive(Deserialize)]
struct Hosts {
    hosts: Vec<ListedHost>,
}

#[derive(Deserialize)]
struct ListedHost {
    contact: String,
}

impl RegistryClient {
    /// A client of the registry at `url`, whose operator gave `key`.
    ///
    /// # Errors
    /// [`RegistryError::Address`].
    pub fn new(fetch: Fetch, url: &str, key: NoteKey) -> Result<RegistryClient, RegistryError> {
        Ok(RegistryClient { http: Http::new(fetch, url)?, key })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> &str {
        self.http.address()
    }

    /// The key of its log.
    #[must_use]
    pub fn key(&self) -> &NoteKey {
        &self.key
    }

    /// The network whose agents it says that it keeps.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn network(&self) -> Result<String, RegistryError> {
        Ok(self.http.json::<About>("").await?.network)
    }

    /// Its newest checkpoint, whose log goes on from `before`.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn checkpoint(&self, before: Option<&Checkpoint>) -> Result<Checkpoint, RegistryError> {
        let note = self.http.text("checkpoint").await?;
        let now = Checkpoint::open(&note, &self.key)?;
        match before {
            Some(before) => self.newer(before, now).await,
            None => Ok(now),
        }
    }

    /// The newer one of two checkpoints of one log.
    ///
    /// # Errors
    /// [`RegistryError::Forked`] if there is no such log, and those of asking for the proof.
    pub async fn newer(&self, before: &Checkpoint, now: Checkpoint) -> Result<Checkpoint, RegistryError> {
        let (old, new) = (before.head, now.head);
        let (first, second) = if old.size <= new.size { (old, new) } else { (new, old) };
        if first == second {
            return Ok(now);
        }
        let hashes = if first.size == 0 || first.size == second.size {
            Vec::new()
        } else {
            match self.growth(first, second).await {
                Err(RegistryError::Refused { .. }) if new.size < old.size => {
                    return Err(RegistryError::WentBack { old: old.size, new: new.size });
                }
                hashes => hashes?,
            }
        };
        if let Err(error) = second.check_extends(&first, &hashes) {
            return Err(forked(before, &now, error));
        }
        Ok(if old.size <= new.size { now } else { before.clone() })
    }

    async fn growth(&self, old: Head, new: Head) -> Result<Vec<Digest>, RegistryError> {
        let text = self.http.text(&format!("consistency/{}/{}", old.size, new.size)).await?;
        let hash = |line: &str| STANDARD.decode(line).ok().and_then(|bytes| bytes.try_into().ok());
        let hashes: Option<Vec<Digest>> = text.lines().map(hash).collect();
        hashes.ok_or_else(|| RegistryError::Answer { what: "proof", why: "a line is no hash".to_owned() })
    }

    /// Sends statements; gives the checkpoint under which the registry proves that it accepted all of them.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn submit(&self, submission: &Submission, kinds: &[Kind]) -> Result<Checkpoint, RegistryError> {
        Ok(self.submit_for_proofs(submission, kinds).await?.checkpoint)
    }

    /// Sends statements; gives each with the proof that the registry accepted it.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn submit_for_proofs(&self, submission: &Submission, kinds: &[Kind]) -> Result<Accepted, RegistryError> {
        let sent = ("application/cbor", submission.encode());
        let limits = Limits { bytes: 2 * SUBMISSION_BYTES_MAX, time: TIME_MAX };
        let receipt = self.http.exchange(Method::POST, "submissions", sent, limits).await?;
        Accepted::verified(&receipt, (submission, kinds), &self.key)
    }

    /// An agent, as the registry lists it.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn agent(&self, agent: &AgentId) -> Result<ListedAgent, RegistryError> {
        let listed: Agents = self.http.json(&format!("agents/{agent}")).await?;
        let id = agent.to_string();
        Ok(listed.agents.into_iter().find(|one| one.id == id).unwrap_or(ListedAgent { id, ..ListedAgent::default() }))
    }

    /// The versions of an agent, as the registry lists them.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn versions(&self, agent: &AgentId) -> Result<Vec<ListedVersion>, RegistryError> {
        Ok(self.agent(agent).await?.versions)
    }

    /// Agents after `after`, as the registry lists them: a page.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn agents(&self, after: Option<&str>) -> Result<Vec<ListedAgent>, RegistryError> {
        let path = after.map_or_else(|| "agents".to_owned(), |after| format!("agents?after={after}"));
        Ok(self.http.json::<Agents>(&path).await?.agents)
    }

    /// Revocations whose marks have an index of at least `from`: a page.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn revoked(&self, from: u64) -> Result<Vec<ListedRevocation>, RegistryError> {
        Ok(self.http.json::<Revocations>(&format!("revoked?from={from}")).await?.revoked)
    }

    /// A release, verified by the log of its publisher's keys that was `accepted` before, if any was.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn release_under(
        &self,
        network: &str,
        agent: &AgentId,
        version: &Version,
        accepted: Option<&KeyLog>,
    ) -> Result<VerifiedRelease, RegistryError> {
        let limits = Limits { bytes: SUBMISSION_BYTES_MAX, time: TIME_MAX };
        let bytes = self.http.get(&format!("agents/{agent}/{version}"), limits).await?;
        let shown = ReleaseEvidence::decode(&bytes)?;
        let evidence = match accepted {
            Some(accepted) => shown.under(accepted),
            None => shown,
        };
        Ok(evidence.verify(network, agent, version, &self.key)?)
    }

    /// A release, verified by the log of its publisher's keys that the registry shows.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn release(
        &self,
        network: &str,
        agent: &AgentId,
        version: &Version,
    ) -> Result<VerifiedRelease, RegistryError> {
        self.release_under(network, agent, version, None).await
    }

    /// The bundle of a release.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn bundle(&self, agent: &AgentId, version: &Version, wanted: Bundle) -> Result<Vec<u8>, RegistryError> {
        let bytes = usize::try_from(wanted.bytes).unwrap_or(usize::MAX);
        let limits = Limits { bytes, time: BUNDLE_TIME_MAX };
        let path = format!("agents/{agent}/{version}/bundle");
        let bundle = self.http.get(&path, limits).await?;
        if digest(&bundle) == wanted.digest { Ok(bundle) } else { Err(RegistryError::Bundle) }
    }

    /// Sends the bundle of a release that was accepted.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn keep_bundle(&self, agent: &AgentId, version: &Version, bytes: Vec<u8>) -> Result<(), RegistryError> {
        let path = format!("agents/{agent}/{version}/bundle");
        let limits = Limits { bytes: TEXT_BYTES_MAX, time: BUNDLE_TIME_MAX };
        self.http.exchange(Method::PUT, &path, ("application/octet-stream", bytes), limits).await?;
        Ok(())
    }

    /// Purges a release of whoever signed in that is not for everybody: it is gone from the registry's disk.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn purge(&self, agent: &AgentId, version: &Version) -> Result<(), RegistryError> {
        let limits = Limits { bytes: TEXT_BYTES_MAX, time: BUNDLE_TIME_MAX };
        let sent = ("text/plain", Vec::new());
        self.http.exchange(Method::DELETE, &format!("agents/{agent}/{version}"), sent, limits).await?;
        Ok(())
    }

    /// Tells the registry where a node is and what it hosts.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn host(&self, presence: &Presence) -> Result<(), RegistryError> {
        let limits = Limits { bytes: TEXT_BYTES_MAX, time: TIME_MAX };
        self.http.exchange(Method::POST, "hosts", ("application/cbor", presence.encode()), limits).await?;
        Ok(())
    }

    /// Where nodes can be dialled that may host what is looked for, as they signed it. It is a hint: only what the node itself
    /// shows proves anything.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn hosts(&self, network: &str, inquiry: &Inquiry, now_ms: u64) -> Result<Vec<Contact>, RegistryError> {
        let agent = inquiry.agent.as_ref().map(AgentId::to_string);
        let given = [
            ("agent", agent.as_deref()),
            ("capability", inquiry.capability.as_deref()),
            ("action", inquiry.action.as_deref()),
            ("target", inquiry.target.as_deref()),
        ];
        let url = self.http.asking("hosts", &given)?;
        let limits = Limits { bytes: TEXT_BYTES_MAX, time: TIME_MAX };
        let bytes = self.http.ask(Method::GET, &url, ("text/plain", Vec::new()), limits).await?;
        let answer: Hosts = read(&bytes)?;
        let contact = |host: &ListedHost| {
            let bytes = STANDARD.decode(&host.contact).ok()?;
            let contact: Authored<Contact> = object::open(&bytes, network, "").ok()?;
            contact.in_force(now_ms).ok()?;
            Some(contact.body)
        };
        Ok(answer.hosts.iter().take(HOSTS_MAX).filter_map(contact).collect())
    }
}

fn forked(before: &Checkpoint, now: &Checkpoint, error: TreeError) -> RegistryError {
    RegistryError::Forked {
        old: before.head.size,
        new: now.head.size,
        error,
        before: before.note().to_owned(),
        now: now.note().to_owned(),
    }
}
