//! What agents keep beyond their tasks: values under keys, and passages of texts that are found by likeness.
//!
//! **In**: texts, values, questions, each from one agent, in the namespace that its contract names. **Out**: the same,
//! and for each passage where it is from, the hash of its source, and when it was kept.
//!
//! **Invariants**: a namespace is read and written by its owner and by those whom the owner's contract names, and by
//! nobody else; what was acknowledged is on disk; what has passed its retention is never handed out, and the next sweep
//! takes it off the disk's rows; a namespace never holds more than its quota.

mod embed;
mod error;
mod grounding;
mod handle;
mod machine;
mod rows;
mod server;
mod space;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use althing_protocol::contract;
use althing_protocol::{digest, hex};
use althing_store::{Range, Store};

use crate::secrets::{self, SecretLookup};
use althing_store::seal::{NONCE_BYTES, SALT_BYTES, Seal};
pub use embed::{EmbedError, Embedder, EmbedderError};
pub use error::MemoryError;
pub(crate) use grounding::{Rule, release};
pub use handle::Memory;
pub use machine::PASSAGE_BYTES_MAX;
use rows::{Entry, Header, Name, Sealed};
pub use rows::{Gone, MEMORY};
pub use server::{MemoryServer, Offered, SERVER};
use space::{Forget, Space};

/// Milliseconds since 1970, from whoever knows them.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;
/// Fills bytes with randomness.
pub type Entropy = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Who kept what the node's operator kept: no agent has this name.
pub const OPERATOR: &str = "the operator";
/// The longest key, bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// The longest value, bytes.
pub const VALUE_BYTES_MAX: usize = 256 << 10;
/// The longest name of a source, bytes.
pub const SOURCE_BYTES_MAX: usize = 512;
/// The longest text that is kept at once, bytes.
pub const TEXT_BYTES_MAX: usize = 256 << 10;
/// The longest question, bytes; what is beyond is not looked at.
pub const QUESTION_BYTES_MAX: usize = 8 << 10;
/// Passages that a question is answered with.
pub const RECALLED_MAX: usize = 32;
/// Keys that are listed at once.
pub const KEYS_MAX: usize = 1_000;
/// Namespaces of one node.
const NAMESPACES_MAX: usize = 10_000;

/// A passage that resembles a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalled {
    /// By which it is cited.
    pub id: String,
    /// Where it is from.
    pub source: String,
    /// SHA-256 of the whole source, hexadecimal.
    pub source_hash: String,
    /// Its place in the source, from 0.
    pub place: u32,
    /// What it says.
    pub text: String,
    /// Who kept it: an agent of the node, or [`OPERATOR`].
    pub by: String,
    /// When it was kept, milliseconds since 1970.
    pub kept_ms: u64,
    /// Cosine with the question, 0 to 1; 1 where it was asked for by its id.
    pub likeness: f32,
}

/// A namespace, for its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// Its name.
    pub namespace: String,
    /// The agent that it belongs to.
    pub owner: String,
    /// Those that may use it too.
    pub share_with: Vec<String>,
    /// Seconds after which a row is gone.
    pub retention_s: Option<u64>,
    /// Bytes that may be kept.
    pub quota_bytes: u64,
    /// The secret that encrypts it.
    pub encryption_secret: Option<String>,
    /// What made its vectors.
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

/// A namespace that agents use now, and what makes its vectors.
struct Open {
    space: Weak<Space>,
    embedder: Weak<Embedder>,
}

impl Memories {
    /// Memory in that store, which has the family [`MEMORY`].
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: WallClock, entropy: Entropy, secrets: SecretLookup) -> Memories {
        Memories { store, clock, entropy, secrets, open: Mutex::default() }
    }

    /// The memory of an agent, under the terms of its contract; they hold when it was [adopted](Memory::adopt). Makes a
    /// key of a secret, which takes some ten milliseconds on purpose.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn open(&self, agent: &str, terms: &contract::Memory, embedder: Arc<Embedder>) -> Result<Memory, MemoryError> {
        let namespace = terms.namespace.clone().unwrap_or_else(|| agent.to_owned());
        let wanted = |sealed| Header {
            owner: agent.to_owned(),
            share_with: terms.share_with.clone(),
            retention_s: terms.retention_s,
            quota_bytes: terms.quota_bytes,
            embedder: embedder.name(),
            sealed,
        };
        let known = match self.alive(&namespace) {
            Some((space, _)) => Some(space.header()),
            None => self.header(&namespace)?,
        };
        let space = match known {
            Some(was) => self.register(&namespace, was, false),
            None => self.register(&namespace, wanted(self.new_seal(terms.encryption_secret.as_deref())?), true),
        };
        // As it is now, whoever was first.
        let was = space.header();
        // Who names no namespace means its own, and not one that somebody else shares under its name.
        if terms.namespace.is_none() && was.owner != agent {
            return Err(not_shared(&namespace, agent, &was));
        }
        allowed(&namespace, agent, &was)?;
        same_terms(&namespace, &was, terms, &embedder)?;
        self.unlock(&space)?;
        let pending = (was.owner == agent).then(|| wanted(was.sealed));
        let mut open = self.opened();
        if let Some(open) = open.get_mut(&namespace) {
            open.embedder = Arc::downgrade(&embedder);
        }
        drop(open);
        let recall = usize::try_from(terms.recall).unwrap_or(RECALLED_MAX);
        Ok(Memory { space, embedder, recall, agent: Some(agent.to_owned()), pending })
    }

    /// A namespace for whoever operates the node, as it is.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn operate(&self, namespace: &str) -> Result<Memory, MemoryError> {
        let (space, embedder) = self.space(namespace)?;
        self.unlock(&space)?;
        let embedder = embedder.unwrap_or(Arc::new(Embedder::Words));
        let made = space.header().embedder;
        if made != embedder.name() {
            return Err(MemoryError::Embedding(format!(
                "the namespace {namespace:?} is embedded by {made}, which is asked while an agent of it runs"
            )));
        }
        Ok(Memory { space, embedder, recall: RECALLED_MAX, agent: None, pending: None })
    }

    /// All namespaces.
    ///
    /// # Errors
    /// [`MemoryError::Read`], [`MemoryError::Damaged`].
    pub fn list(&self) -> Result<Vec<Overview>, MemoryError> {
        let mut all = BTreeMap::new();
        for namespace in self.names()? {
            if let Some(header) = self.header(&namespace)? {
                all.insert(namespace, header);
            }
        }
        let alive = self
            .opened()
            .iter()
            .filter_map(|(name, open)| Some((name.clone(), open.space.upgrade()?.header())))
            .collect::<Vec<_>>();
        all.extend(alive);
        let overview = |(namespace, header): (String, Header)| Overview {
            namespace,
            owner: header.owner,
            share_with: header.share_with,
            retention_s: header.retention_s,
            quota_bytes: header.quota_bytes,
            encryption_secret: header.sealed.map(|sealed| sealed.secret),
            embedder: header.embedder,
        };
        Ok(all.into_iter().map(overview).collect())
    }

    /// Takes away what has passed its time, in all namespaces; how many rows did. Needs no key.
    ///
    /// # Errors
    /// The last that occurred; the other namespaces are swept all the same.
    pub async fn sweep(&self) -> Result<usize, MemoryError> {
        let (mut swept, mut failed) = (0, None);
        for namespace in self.names()? {
            let swept_here = match self.space(&namespace) {
                Ok((space, _)) => space.sweep().await,
                Err(error) => Err(error),
            };
            match swept_here {
                Ok(rows) => swept += rows,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(swept), Err)
    }

    /// Takes away a namespace with all that is in it; needs no key, and no header that can be read.
    ///
    /// # Errors
    /// [`MemoryError::Unknown`], or of the store.
    pub async fn remove(&self, namespace: &str) -> Result<(), MemoryError> {
        let space = match self.space(namespace) {
            Ok((space, _)) => space,
            Err(MemoryError::Damaged(_)) => self.register(namespace, Header::default(), false),
            Err(error) => return Err(error),
        };
        space.remove().await
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Open>> {
        self.open.lock().expect("no holder of the namespaces panics")
    }

    fn alive(&self, namespace: &str) -> Option<(Arc<Space>, Option<Arc<Embedder>>)> {
        let open = self.opened();
        let open = open.get(namespace)?;
        Some((open.space.upgrade()?, open.embedder.upgrade()))
    }

    /// The one that works on a namespace, which is there already or is made: there are never two.
    fn register(&self, namespace: &str, header: Header, new: bool) -> Arc<Space> {
        let mut open = self.opened();
        open.retain(|_, open| open.space.strong_count() > 0);
        if let Some(space) = open.get(namespace).and_then(|open| open.space.upgrade()) {
            return space;
        }
        let ports = (self.clock.clone(), self.entropy.clone());
        let space = Arc::new(Space::new(namespace.to_owned(), self.store.clone(), ports, header, new));
        open.insert(namespace.to_owned(), Open { space: Arc::downgrade(&space), embedder: Weak::new() });
        space
    }

    /// A namespace that is there, with or without its key.
    fn space(&self, namespace: &str) -> Result<(Arc<Space>, Option<Arc<Embedder>>), MemoryError> {
        if let Some(alive) = self.alive(namespace) {
            return Ok(alive);
        }
        let header = self.header(namespace)?.ok_or_else(|| MemoryError::Unknown(namespace.to_owned()))?;
        Ok((self.register(namespace, header, false), None))
    }

    fn names(&self) -> Result<Vec<String>, MemoryError> {
        let rows = self.store.scan(MEMORY, Range::prefix(*b"h", NAMESPACES_MAX))?;
        Ok(rows.into_iter().filter_map(|(key, _)| String::from_utf8(key[1..].to_vec()).ok()).collect())
    }

    fn header(&self, namespace: &str) -> Result<Option<Header>, MemoryError> {
        let bytes = self.store.read(MEMORY, &rows::header_key(namespace))?;
        bytes.map(|bytes| rows::header(namespace, &bytes)).transpose()
    }

    fn new_seal(&self, secret: Option<&str>) -> Result<Option<Sealed>, MemoryError> {
        let Some(name) = secret else { return Ok(None) };
        let (mut salt, mut nonce) = ([0; SALT_BYTES], [0; NONCE_BYTES]);
        (self.entropy)(&mut salt);
        (self.entropy)(&mut nonce);
        let check = Seal::new(&secrets::lookup(&self.secrets, name)?, &salt).check(nonce);
        Ok(Some(Sealed { secret: name.to_owned(), salt: salt.to_vec(), check }))
    }

    /// Gives a namespace the key that its header speaks of.
    fn unlock(&self, space: &Space) -> Result<(), MemoryError> {
        let header = space.header();
        let Some(Sealed { secret, salt, check }) = &header.sealed else { return Ok(()) };
        let salt = salt.as_slice().try_into().map_err(|_| MemoryError::Damaged(space.namespace.clone()))?;
        // Also where it has one: another secret is refused.
        let seal = Seal::new(&secrets::lookup(&self.secrets, secret)?, &salt);
        if !seal.fits(check) {
            return Err(MemoryError::WrongKey { namespace: space.namespace.clone(), secret: secret.clone() });
        }
        space.unlock(seal);
        Ok(())
    }
}

fn allowed(namespace: &str, agent: &str, header: &Header) -> Result<(), MemoryError> {
    let shared = header.owner == agent || header.share_with.iter().any(|name| name == agent);
    if shared { Ok(()) } else { Err(not_shared(namespace, agent, header)) }
}

fn not_shared(namespace: &str, agent: &str, header: &Header) -> MemoryError {
    MemoryError::NotShared { namespace: namespace.to_owned(), owner: header.owner.clone(), agent: agent.to_owned() }
}

/// Of what is kept already the encryption and the vectors cannot change.
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
