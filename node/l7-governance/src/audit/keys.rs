//! Keys of bodies: one for each subject, and more where they were made at once. Who burns them erases the bodies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use althing_communication::Entropy;
use althing_protocol::{Digest, digest};
use althing_store::{Batch, Range, ReadError, Store};

use super::error::{AuditFault, AuditUnavailable};
use super::families::KEYS;
use super::rows::{KeyName, burned, damaged, key_row, keys_of};

/// Subjects whose keys are in memory.
const SUBJECTS_MAX: usize = 1_024;
/// Keys of a subject that are read at once.
const KEYS_MAX: usize = 256;

/// A key of a subject.
#[derive(Clone)]
pub(super) struct BodyKey {
    pub name: KeyName,
    pub secret: [u8; 32],
    /// Whether it was seen in the store.
    is_stored: bool,
}

/// Where the keys are, and those that may be on their way there.
pub(super) struct SubjectKeys {
    store: Arc<dyn Store>,
    entropy: Entropy,
    known: Mutex<KnownKeys>,
}

#[derive(Default)]
struct KnownKeys {
    current: BTreeMap<Digest, BodyKey>,
    /// Subjects that are being erased: no key of theirs in the store is used again.
    burning: BTreeSet<Digest>,
}

/// The digest by which rows name a subject.
pub(super) fn subject_digest(subject: Option<&str>) -> Digest {
    digest(&[&b"althing audit subject\n"[..], subject.unwrap_or_default().as_bytes()].concat())
}

impl SubjectKeys {
    pub(super) fn new(store: Arc<dyn Store>, entropy: Entropy) -> SubjectKeys {
        SubjectKeys { store, entropy, known: Mutex::default() }
    }

    /// The key for new bodies about a subject. Until it was seen in the store, each batch that needs it writes it.
    pub(super) fn current(&self, subject: &Digest, batch: &mut Batch) -> Result<BodyKey, AuditUnavailable> {
        let mut known = self.known.lock().expect("no holder panics");
        let KnownKeys { current, burning } = &mut *known;
        let mut key = match current.get(subject) {
            Some(key) if key.is_stored => return Ok(key.clone()),
            Some(key) => key.clone(),
            None => {
                make_room(current)?;
                let stored = if burning.contains(subject) { None } else { self.stored(subject)? };
                stored.unwrap_or_else(|| self.random(subject))
            }
        };
        if !key.is_stored {
            key.is_stored = self.store.read(KEYS, &key_row(&key.name))?.is_some();
        }
        if !key.is_stored {
            batch.put(KEYS, key_row(&key.name), key.secret);
        }
        current.insert(*subject, key.clone());
        Ok(key)
    }

    /// The secret of a key; none of one that was burned.
    pub(super) fn secret(&self, name: &KeyName) -> Result<Option<[u8; 32]>, AuditFault> {
        if self.is_burned(name)? {
            return Ok(None);
        }
        let Some(row) = self.store.read(KEYS, &key_row(name))? else { return Ok(None) };
        let secret = row.try_into().map_err(|_| damaged("the key", name))?;
        Ok(Some(secret))
    }

    pub(super) fn is_burned(&self, name: &KeyName) -> Result<bool, ReadError> {
        Ok(self.store.read(KEYS, &burned(name))?.is_some())
    }

    /// Begins to burn a subject's keys: gives the rows that do it, and no new body is sealed with one of them.
    pub(super) fn burn(&self, subject: &Digest) -> Result<Batch, AuditFault> {
        let mut known = self.known.lock().expect("no holder panics");
        known.burning.insert(*subject);
        let mut names: BTreeSet<KeyName> = known.current.remove(subject).map(|key| key.name).into_iter().collect();
        drop(known);
        let prefix = keys_of(subject);
        let mut range = Range::prefix(prefix.clone(), KEYS_MAX);
        loop {
            let rows = self.store.keys(KEYS, range.clone())?;
            let Some(last) = rows.last().cloned() else { break };
            for row in rows {
                let name = row.get(b"key/".len()..).and_then(|name| KeyName::try_from(name).ok());
                names.insert(name.ok_or_else(|| damaged("the key", &row))?);
            }
            range = range.after(last);
        }
        let mut batch = Batch::new();
        for name in names {
            // Also where it is not in the store yet: a batch that is on its way may bring it.
            batch.delete(KEYS, key_row(&name)).put(KEYS, burned(&name), b"");
        }
        Ok(batch)
    }

    /// Says that the rows of [`SubjectKeys::burn`] were written, or will not be.
    pub(super) fn end_burning(&self, subject: &Digest) {
        self.known.lock().expect("no holder panics").burning.remove(subject);
    }

    fn stored(&self, subject: &Digest) -> Result<Option<BodyKey>, ReadError> {
        let rows = self.store.scan(KEYS, Range::prefix(keys_of(subject), KEYS_MAX))?;
        for (row, secret) in rows {
            let name = row.get(b"key/".len()..).and_then(|name| KeyName::try_from(name).ok());
            let (Some(name), Ok(secret)) = (name, <[u8; 32]>::try_from(secret)) else { continue };
            if !self.is_burned(&name)? {
                return Ok(Some(BodyKey { name, secret, is_stored: true }));
            }
        }
        Ok(None)
    }

    fn random(&self, subject: &Digest) -> BodyKey {
        let mut name = [0; 48];
        name[..32].copy_from_slice(subject);
        self.entropy.fill(&mut name[32..]);
        BodyKey { name, secret: self.entropy.bytes(), is_stored: false }
    }
}

/// Makes room for one more: those that are in the store are read from there again.
fn make_room(current: &mut BTreeMap<Digest, BodyKey>) -> Result<(), AuditUnavailable> {
    if current.len() >= SUBJECTS_MAX {
        current.retain(|_, key| !key.is_stored);
    }
    if current.len() >= SUBJECTS_MAX { Err(AuditUnavailable::Subjects(SUBJECTS_MAX)) } else { Ok(()) }
}
