//! The memory of agents beyond their tasks: values under keys, and passages of texts that are found by similarity.
//!
//! **In**: texts, values, questions, each from one agent, in the namespace that its contract names. **Out**: the same,
//! and for each passage its source, the hash of the source, and the time of storing.
//!
//! **Invariants**: only the owner of a namespace and the agents that the owner's contract names read and write it; what was
//! acknowledged is on disk; expired rows are never returned, and the next sweep deletes them; a namespace never exceeds its
//! quota.

pub mod embed;
mod error;
mod handle;
mod machine;
mod namespace;
mod rows;
mod seal;
mod server;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use althing_protocol::contract;
use althing_protocol::{digest, hex};
use althing_store::{Range, Store};
use serde::{Deserialize, Serialize};

pub use crate::entropy::Entropy;
use crate::secrets::{self, SecretLookup};
use althing_store::seal::{NONCE_BYTES, SALT_BYTES, Seal};
pub use embed::{EmbedError, Embedder, EmbedderError};
pub use error::MemoryError;
pub use handle::Memory;
pub use machine::{PASSAGE_BYTES_MAX, citations};
use namespace::{Forget, Namespace};
use rows::{Entry, Header, Name, Sealed};
pub use rows::{MEMORY, Removal};
pub use seal::MemorySeal;
pub use server::{MemoryServer, Offered, SERVER};

/// Gives milliseconds since 1970.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The author of what the node's operator stored: no agent has this name.
pub const OPERATOR: &str = "the operator";
/// The longest key, bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// The longest value, bytes.
pub const VALUE_BYTES_MAX: usize = 256 << 10;
/// The longest name of a source, bytes.
pub const SOURCE_BYTES_MAX: usize = 512;
/// The longest text that is stored at once, bytes.
pub const TEXT_BYTES_MAX: usize = 256 << 10;
/// The longest question, bytes; the rest is ignored.
pub const QUESTION_BYTES_MAX: usize = 8 << 10;
/// The most passages that a question returns.
pub const RECALLED_MAX: usize = 32;
/// Keys of one listing.
pub const KEYS_MAX: usize = 1_000;
/// Namespaces of one node.
const NAMESPACES_MAX: usize = 10_000;

/// A passage that is similar to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recalled {
    /// Its id, by which it is cited.
    pub id: String,
    /// Its source.
    pub source: String,
    /// SHA-256 of the whole source, hexadecimal.
    pub source_hash: String,
    /// Its index in the source, from 0.
    pub place: u32,
    /// Its text.
    pub text: String,
    /// Who stored it: an agent of the node, or [`OPERATOR`].
    pub by: String,
    /// When it was stored, milliseconds since 1970.
    pub kept_ms: u64,
    /// Cosine similarity to the question, 0 to 1; 1 if it was read by its id.
    pub similarity: f32,
}

/// A namespace, for its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// Its name.
    pub namespace: String,
    /// The agent that owns it.
    pub owner: String,
    /// Other agents that may use it.
    pub share_with: Vec<String>,
    /// Seconds after which a row expires.
    pub retention_s: Option<u64>,
    /// The quota, bytes.
    pub quota_bytes: u64,
    /// The secret that encrypts it.
    pub encryption_secret: Option<String>,
    /// The name of the embedder of its vectors.
    pub embedder: String,
}

/// The memory of a node.
pub struct Memories {
    store: Arc<dyn Store>,
    clock: WallClock,
    entropy: Entropy,
    secrets: SecretLookup,
    open: Mutex<BTreeMap<String, Open>>,
}

/// A namespace in use, and its embedder.
struct Open {
    namespace: Weak<Namespace>,
    embedder: Weak<Embedder>,
}

impl Memories {
    /// A memory in a store that has the family [`MEMORY`].
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: WallClock, entropy: Entropy, secrets: SecretLookup) -> Memories {
        Memories { store, clock, entropy, secrets, open: Mutex::default() }
    }

    /// The memory of an agent, under the terms of its contract, which apply once it is [adopted](Memory::adopt). Derives a
    /// key from a secret, which takes about ten milliseconds on purpose.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn open(&self, agent: &str, terms: &contract::Memory, embedder: Arc<Embedder>) -> Result<Memory, MemoryError> {
        let name = terms.namespace.clone().unwrap_or_else(|| agent.to_owned());
        let wanted = |sealed| Header {
            owner: agent.to_owned(),
            share_with: terms.share_with.clone(),
            retention_s: terms.retention_s,
            quota_bytes: terms.quota_bytes,
            embedder: embedder.name(),
            sealed,
        };
        let known = match self.in_use(&name) {
            Some((namespace, _)) => Some(namespace.header()),
            None => self.header(&name)?,
        };
        let namespace = match known {
            Some(was) => self.register(&name, was, false),
            None => self.register(&name, wanted(self.new_seal(terms.encryption_secret.as_deref())?), true),
        };
        // The header of whoever registered it first.
        let was = namespace.header();
        // Without a name in the contract it is the agent's own, never one that another agent shares under that name.
        if terms.namespace.is_none() && was.owner != agent {
            return Err(not_shared(&name, agent, &was));
        }
        check_access(&name, agent, &was)?;
        same_terms(&name, &was, terms, &embedder)?;
        self.unlock(&namespace)?;
        let pending = (was.owner == agent).then(|| wanted(was.sealed));
        let mut open = self.lock();
        if let Some(open) = open.get_mut(&name) {
            open.embedder = Arc::downgrade(&embedder);
        }
        drop(open);
        let recall = usize::try_from(terms.recall).unwrap_or(RECALLED_MAX);
        Ok(Memory { namespace, embedder, recall, agent: Some(agent.to_owned()), pending })
    }

    /// Opens a namespace for the operator of the node.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn operate(&self, name: &str) -> Result<Memory, MemoryError> {
        let (namespace, embedder) = self.namespace(name)?;
        self.unlock(&namespace)?;
        let embedder = embedder.unwrap_or(Arc::new(Embedder::Words));
        let made = namespace.header().embedder;
        if made != embedder.name() {
            return Err(MemoryError::Embedding(format!(
                "the namespace {name:?} is embedded by {made}, which is asked while an agent of it runs"
            )));
        }
        Ok(Memory { namespace, embedder, recall: RECALLED_MAX, agent: None, pending: None })
    }

    /// All namespaces.
    ///
    /// # Errors
    /// [`MemoryError::Read`], [`MemoryError::Damaged`].
    pub fn list(&self) -> Result<Vec<Overview>, MemoryError> {
        let mut all = BTreeMap::new();
        for name in self.names()? {
            if let Some(header) = self.header(&name)? {
                all.insert(name, header);
            }
        }
        let alive = self
            .lock()
            .iter()
            .filter_map(|(name, open)| Some((name.clone(), open.namespace.upgrade()?.header())))
            .collect::<Vec<_>>();
        all.extend(alive);
        let overview = |(name, header): (String, Header)| Overview {
            namespace: name,
            owner: header.owner,
            share_with: header.share_with,
            retention_s: header.retention_s,
            quota_bytes: header.quota_bytes,
            encryption_secret: header.sealed.map(|sealed| sealed.secret),
            embedder: header.embedder,
        };
        Ok(all.into_iter().map(overview).collect())
    }

    /// Deletes expired rows of all namespaces; gives their number. Needs no key.
    ///
    /// # Errors
    /// The last that occurred; the other namespaces are swept nevertheless.
    pub async fn sweep(&self) -> Result<usize, MemoryError> {
        let (mut swept, mut failed) = (0, None);
        for name in self.names()? {
            let swept_here = match self.namespace(&name) {
                Ok((namespace, _)) => namespace.sweep().await,
                Err(error) => Err(error),
            };
            match swept_here {
                Ok(rows) => swept += rows,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(swept), Err)
    }

    /// Deletes a namespace with its content; needs neither its key nor a readable header.
    ///
    /// # Errors
    /// [`MemoryError::Unknown`], or of the store.
    pub async fn remove(&self, name: &str) -> Result<(), MemoryError> {
        let namespace = match self.namespace(name) {
            Ok((namespace, _)) => namespace,
            Err(MemoryError::Damaged(_)) => self.register(name, Header::default(), false),
            Err(error) => return Err(error),
        };
        namespace.remove().await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Open>> {
        self.open.lock().expect("no holder of the namespaces panics")
    }

    fn in_use(&self, name: &str) -> Option<(Arc<Namespace>, Option<Arc<Embedder>>)> {
        let open = self.lock();
        let open = open.get(name)?;
        Some((open.namespace.upgrade()?, open.embedder.upgrade()))
    }

    /// The single [`Namespace`] of that name, created if there is none.
    fn register(&self, name: &str, header: Header, new: bool) -> Arc<Namespace> {
        let mut open = self.lock();
        open.retain(|_, open| open.namespace.strong_count() > 0);
        if let Some(namespace) = open.get(name).and_then(|open| open.namespace.upgrade()) {
            return namespace;
        }
        let ports = (self.clock.clone(), self.entropy.clone());
        let namespace = Arc::new(Namespace::new(name.to_owned(), self.store.clone(), ports, header, new));
        open.insert(name.to_owned(), Open { namespace: Arc::downgrade(&namespace), embedder: Weak::new() });
        namespace
    }

    /// An existing namespace, with or without its key.
    fn namespace(&self, name: &str) -> Result<(Arc<Namespace>, Option<Arc<Embedder>>), MemoryError> {
        if let Some(found) = self.in_use(name) {
            return Ok(found);
        }
        let header = self.header(name)?.ok_or_else(|| MemoryError::Unknown(name.to_owned()))?;
        Ok((self.register(name, header, false), None))
    }

    fn names(&self) -> Result<Vec<String>, MemoryError> {
        let rows = self.store.scan(MEMORY, Range::prefix(*b"h", NAMESPACES_MAX))?;
        Ok(rows.into_iter().filter_map(|(key, _)| String::from_utf8(key[1..].to_vec()).ok()).collect())
    }

    fn header(&self, name: &str) -> Result<Option<Header>, MemoryError> {
        let bytes = self.store.read(MEMORY, &rows::header_key(name))?;
        bytes.map(|bytes| rows::header(name, &bytes)).transpose()
    }

    fn new_seal(&self, secret: Option<&str>) -> Result<Option<Sealed>, MemoryError> {
        let Some(name) = secret else { return Ok(None) };
        let (mut salt, mut nonce) = ([0; SALT_BYTES], [0; NONCE_BYTES]);
        (self.entropy)(&mut salt);
        (self.entropy)(&mut nonce);
        let check = Seal::new(&secrets::lookup(&self.secrets, name)?, &salt).check(nonce);
        Ok(Some(Sealed { secret: name.to_owned(), salt: salt.to_vec(), check }))
    }

    /// Derives and sets the key of an encrypted namespace.
    fn unlock(&self, namespace: &Namespace) -> Result<(), MemoryError> {
        let header = namespace.header();
        let Some(Sealed { secret, salt, check }) = &header.sealed else { return Ok(()) };
        let salt = salt.as_slice().try_into().map_err(|_| MemoryError::Damaged(namespace.name.clone()))?;
        // Even if it has a key: another secret is refused.
        let seal = Seal::new(&secrets::lookup(&self.secrets, secret)?, &salt);
        if !seal.fits(check) {
            return Err(MemoryError::WrongKey { namespace: namespace.name.clone(), secret: secret.clone() });
        }
        namespace.unlock(seal);
        Ok(())
    }
}

fn check_access(namespace: &str, agent: &str, header: &Header) -> Result<(), MemoryError> {
    let shared = header.owner == agent || header.share_with.iter().any(|name| name == agent);
    if shared { Ok(()) } else { Err(not_shared(namespace, agent, header)) }
}

fn not_shared(namespace: &str, agent: &str, header: &Header) -> MemoryError {
    MemoryError::NotShared { namespace: namespace.to_owned(), owner: header.owner.clone(), agent: agent.to_owned() }
}

/// The encryption and the embedder of a namespace cannot change.
fn same_terms(
    namespace: &str,
    was: &Header,
    wanted: &contract::Memory,
    embedder: &Embedder,
) -> Result<(), MemoryError> {
    let encrypted = |secret: Option<&str>| match secret {
        Some(secret) => format!("encrypted with the secret {secret:?}"),
        None => "not encrypted".to_owned(),
    };
    let (old, new) = (was.sealed.as_ref().map(|sealed| sealed.secret.as_str()), wanted.encryption_secret.as_deref());
    if old != new {
        return Err(terms_differ(namespace, &encrypted(old), &encrypted(new)));
    }
    let (old, new) = (&was.embedder, embedder.name());
    if *old != new {
        return Err(terms_differ(namespace, &format!("embedded by {old}"), &format!("embedded by {new}")));
    }
    Ok(())
}

fn terms_differ(namespace: &str, was: &str, wants: &str) -> MemoryError {
    MemoryError::Terms { namespace: namespace.to_owned(), was: was.to_owned(), wants: wants.to_owned() }
}
