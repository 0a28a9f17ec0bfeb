//! Releases that were staged: a build machine hands in what its publisher may sign. Nothing of it is in the log, and nobody
//! sees it but those who may approve it.

use althing_protocol::limits::AGENT_NAME_MAX;
use althing_protocol::registry::{Role, Version};
use althing_protocol::{AgentId, Digest, PublisherId, digest};
use althing_store::{Batch, Durability, Range};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::error::{STAGED_MAX, StageError};
use super::rows::{STAGED, STAGED_BUNDLES};
use super::{KEPT_BUNDLE_BYTES_MAX, Registry, RequestError, Visitor};

/// Bytes of an id.
const ID_BYTES: usize = 16;

/// What a build machine hands in.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The agent.
    pub agent: AgentId,
    /// Its version.
    pub version: Version,
    /// Its description, which nobody signed.
    pub description: Vec<u8>,
    /// What it runs from.
    pub bundle: Vec<u8>,
    /// The digest of that, as the build machine knows it.
    pub digest: Digest,
}

/// A release that was staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Its id, hex.
    pub id: String,
    /// The agent.
    pub agent: AgentId,
    /// Its version.
    pub version: Version,
    /// Its description.
    pub description: Vec<u8>,
    /// The digest of its bundle.
    pub digest: Digest,
    /// How many bytes that has.
    pub bytes: u64,
    /// When it was staged, Unix milliseconds.
    pub at_ms: u64,
}

/// A staged release on disk.
#[derive(Encode, Decode)]
#[cbor(map)]
struct Row {
    #[n(0)]
    agent: AgentId,
    #[n(1)]
    version: Version,
    #[n(2)]
    description: ByteVec,
    #[cbor(n(3), with = "minicbor::bytes")]
    digest: Digest,
    #[n(4)]
    bytes: u64,
    #[n(5)]
    at_ms: u64,
}

/// What build machines staged in a registry.
pub struct Staging<'a>(pub(super) &'a Registry);

impl Staging<'_> {
    /// Keeps a release for approval; gives its id. It is on disk when this completes. The same again is no error.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn stage(&self, visitor: Visitor, stage: Stage) -> Result<String, RequestError> {
        let Stage { agent, version, description, bundle, digest: said } = stage;
        let publisher = agent.publisher();
        let may = match visitor {
            Visitor::Stages(of) => of == publisher,
            Visitor::Publisher(who) => who == publisher || self.stages(who, &agent),
            Visitor::Anybody | Visitor::Reads(_) => false,
        };
        if !may {
            return Err(StageError::NotYours(agent).into());
        }
        if bundle.is_empty() || bundle.len() > KEPT_BUNDLE_BYTES_MAX {
            return Err(StageError::Bytes(bundle.len()).into());
        }
        if digest(&bundle) != said {
            return Err(StageError::Digest.into());
        }
        check_description(&agent, &version, &description)?;
        if self.0.seen().machine.agent(&agent).is_some_and(|versions| versions.get(&version).is_some()) {
            return Err(StageError::Released(agent, version).into());
        }
        let bytes = bundle.len() as u64;
        let row = Row { agent, version, description: description.into(), digest: said, bytes, at_ms: (self.0.clock)() };
        let id = id_of(&row);
        let key = key(publisher, &id);
        if self.0.store.read(STAGED, &key)?.is_none() {
            let _adding = self.0.staging.lock().await;
            let waiting = self.0.store.scan(STAGED, Range::prefix(publisher.as_bytes().to_vec(), STAGED_MAX))?.len();
            if waiting >= STAGED_MAX {
                return Err(StageError::Full.into());
            }
            let mut batch = Batch::new();
            batch.put(STAGED, key.clone(), minicbor::to_vec(&row).expect("writing to a vector cannot fail"));
            batch.put(STAGED_BUNDLES, key, bundle);
            self.0.store.write(batch, Durability::Synced).await?;
        }
        Ok(hex(&id))
    }

    /// Staged releases of a publisher's agents.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn staged(&self, who: PublisherId) -> Result<Vec<Staged>, RequestError> {
        let rows = self.0.store.scan(STAGED, Range::prefix(who.as_bytes().to_vec(), STAGED_MAX))?;
        Ok(rows.iter().filter_map(|(key, row)| read(key, row)).collect())
    }

    /// A staged release of a publisher's agents, with its bundle.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn staged_one(&self, who: PublisherId, id: &str) -> Result<(Staged, Vec<u8>), RequestError> {
        let none = || StageError::None(id.chars().take(2 * ID_BYTES).collect());
        let key = key(who, &unhex(id).ok_or_else(none)?);
        let row = self.0.store.read(STAGED, &key)?.ok_or_else(none)?;
        let bundle = self.0.store.read(STAGED_BUNDLES, &key)?.ok_or_else(none)?;
        Ok((read(&key, &row).ok_or_else(none)?, bundle))
    }

    /// Takes a staged release away: it was approved, or is not wanted.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn unstage(&self, who: PublisherId, id: &str) -> Result<(), RequestError> {
        self.staged_one(who, id)?;
        let none = || StageError::None(id.chars().take(2 * ID_BYTES).collect());
        let key = key(who, &unhex(id).ok_or_else(none)?);
        let mut batch = Batch::new();
        batch.delete(STAGED, key.clone());
        batch.delete(STAGED_BUNDLES, key);
        Ok(self.0.store.write(batch, Durability::Synced).await?)
    }

    /// Whether the organisation's roster lets somebody stage its agent.
    fn stages(&self, who: PublisherId, agent: &AgentId) -> bool {
        let now_ms = (self.0.clock)();
        let seen = self.0.seen();
        let held = seen.machine.organisations().roster(agent.publisher());
        let of = |role| {
            held.is_some_and(|held| held.roster.in_force(now_ms).is_ok() && held.roster.allows(who, role, agent))
        };
        of(Role::Stage) || of(Role::Approve)
    }
}

fn check_description(agent: &AgentId, version: &Version, description: &[u8]) -> Result<(), StageError> {
    let wrong = |reason: String| StageError::Description(reason);
    let td = althing_td::Description::parse(description).map_err(|error| wrong(error.to_string()))?;
    let (id, said) = (td.id().unwrap_or_default(), td.version().unwrap_or_default());
    if id != agent.to_string() || said != version.to_string() {
        let (id, said) = (short(id), short(said));
        return Err(wrong(format!("it is of {id} {said}, and {agent} {version} was to be staged")));
    }
    Ok(())
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(2 * AGENT_NAME_MAX).collect()
}

/// The same content has the same id, whenever it is staged.
fn id_of(row: &Row) -> Vec<u8> {
    let whole = minicbor::to_vec((&row.agent, &row.version, &row.description, ByteVec::from(row.digest.to_vec())));
    digest(&whole.expect("writing to a vector cannot fail"))[..ID_BYTES].to_vec()
}

fn key(publisher: PublisherId, id: &[u8]) -> Vec<u8> {
    [publisher.as_bytes().as_slice(), id].concat()
}

fn read(key: &[u8], row: &[u8]) -> Option<Staged> {
    let Row { agent, version, description, digest, bytes, at_ms } = minicbor::decode(row).ok()?;
    let id = hex(key.get(32..)?);
    Some(Staged { id, agent, version, description: description.to_vec(), digest, bytes, at_ms })
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.len().is_multiple_of(2) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    if digits { (0..text.len()).step_by(2).map(byte).collect() } else { None }
}
