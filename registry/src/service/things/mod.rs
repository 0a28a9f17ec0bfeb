//! The directory of Things: writes them to the log, and gives them back as they were sent.

mod body;
mod description_cache;
mod error;
mod list;

use std::sync::Arc;

use althing_protocol::registry::{Entry, Version};
use althing_protocol::{AgentId, digest};
use serde_json::Value;

pub(super) use description_cache::DescriptionCache;
pub(crate) use error::Fault;
pub use error::ThingError;
pub use list::{Order, Page, Paged};
pub(super) use list::{Pick, Picked, Stored, agents_after, chunks, picks, total};

pub(super) use body::{Registration, difference, shown};

use super::rows::{STATEMENTS, THINGS};
use super::write_batch::{Change, Changed, PendingWrite, Random, Written};
use super::{Registry, RequestError};
use crate::machine::things::{Expected, Quotas, Thing, ThingRefusal, Writer, is_agent};
use crate::machine::{Released, Statement};
use crate::tokens::Access;
use body::{Sent, patched};

/// What a directory is opened with.
pub struct DirectoryConfig {
    /// How much there may be.
    pub quotas: Quotas,
    /// Who may write, and read.
    pub access: Access,
    /// Makes ids and salts.
    pub random: Random,
    /// Whether the registry is reached by https.
    pub is_tls: bool,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The id of the Thing.
    pub id: String,
    /// The entry of the description.
    pub index: u64,
    /// Whether the Thing is new.
    pub is_new: bool,
}

/// A description that is to be written, which was read and is valid.
pub struct ThingDraft {
    id: String,
    written: Written,
    expected: Expected,
}

impl ThingDraft {
    fn of(id: &str, sent: Sent, expected: Expected) -> ThingDraft {
        let written = Written {
            title: sent.title().to_owned(),
            ttl_s: sent.ttl_s,
            expires_ms: sent.expires_ms,
            bytes: sent.into_bytes(),
        };
        ThingDraft { id: id.to_owned(), written, expected }
    }
}

/// A description, as the directory gives it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The entry that it comes from.
    pub index: u64,
}

impl Registry {
    /// Takes Things from now on; before, nobody may write any.
    #[must_use]
    pub fn with_directory(mut self, directory: DirectoryConfig) -> Registry {
        self.directory = Some(directory);
        self
    }

    /// The directory of Things and agents.
    #[must_use]
    pub fn directory(&self) -> Directory<'_> {
        Directory { registry: self }
    }

    /// Who may write Things, and read them.
    ///
    /// # Errors
    /// [`ThingError::NoDirectory`].
    pub fn access(&self) -> Result<&Access, ThingError> {
        Ok(&self.directory.as_ref().ok_or(ThingError::NoDirectory)?.access)
    }

    /// What addresses of the registry begin with.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.directory.as_ref().is_some_and(|directory| directory.is_tls) { "https" } else { "http" }
    }
}

/// The directory of a registry: Things, and the agents that were released.
#[derive(Clone, Copy)]
pub struct Directory<'a> {
    registry: &'a Registry,
}

impl<'a> Directory<'a> {
    fn config(&self) -> Result<&'a DirectoryConfig, ThingError> {
        self.registry.directory.as_ref().ok_or(ThingError::NoDirectory)
    }

    /// Reads a description without an id that is to be registered. As for all drafts, nothing has to wait for that work.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub fn draft_new(&self, bytes: &[u8]) -> Result<ThingDraft, ThingError> {
        let sent = Sent::read(bytes)?;
        if let Some(id) = sent.id() {
            return Err(ThingError::HasId(id.chars().take(200).collect()));
        }
        let random = (self.config()?.random)();
        let id = format!("urn:uuid:{}", uuid::Builder::from_random_bytes(random).into_uuid());
        Ok(ThingDraft::of(&id, sent, Expected::Anything))
    }

    /// Registers a description under its id, or changes it.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub async fn put_thing(
        &self,
        id: &str,
        bytes: &[u8],
        writer: &Writer,
        expected: Expected,
    ) -> Result<Put, ThingError> {
        self.write(self.draft(id, bytes, expected)?, writer).await
    }

    /// Reads a description that is to be registered under its id, or to change it.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub fn draft(&self, id: &str, bytes: &[u8], expected: Expected) -> Result<ThingDraft, ThingError> {
        if is_agent(id) {
            return Err(ThingRefusal::Agent(id.to_owned()).into());
        }
        self.drafted(id, Sent::read(bytes)?, expected)
    }

    /// The same, under the id that is meant by an address whose slashes a proxy decoded: the one in the description, if the
    /// address may have been its own.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub fn draft_decoded(&self, path: &str, bytes: &[u8], expected: Expected) -> Result<ThingDraft, ThingError> {
        if is_agent(path) {
            return Err(ThingRefusal::Agent(path.to_owned()).into());
        }
        let sent = Sent::read(bytes)?;
        let id = match sent.id().filter(|id| merged(id) == merged(path)) {
            Some(id) => id.to_owned(),
            None => self.meant_by(path).unwrap_or_else(|| path.to_owned()),
        };
        self.drafted(&id, sent, expected)
    }

    /// The id of a Thing that is here and that is meant by an address whose slashes a proxy decoded: they may be merged, so
    /// that `https:/example.org` stands for `https://example.org`.
    #[must_use]
    pub fn meant_by(&self, path: &str) -> Option<String> {
        let (seen, now_ms) = (self.registry.seen(), (self.registry.clock)());
        let is_here = |id: &String| seen.machine.things().get(id, now_ms).is_some();
        let unmerged = path.split_once(":/").filter(|(_, rest)| !rest.starts_with('/'));
        let unmerged = unmerged.map(|(scheme, rest)| format!("{scheme}://{rest}"));
        [Some(path.to_owned()), unmerged].into_iter().flatten().find(is_here)
    }

    fn drafted(&self, id: &str, sent: Sent, expected: Expected) -> Result<ThingDraft, ThingError> {
        // What was registered without an id keeps having none: the directory puts it in.
        let is_anonymous = || {
            let seen = self.registry.state.read().expect("no holder panics");
            seen.machine.things().get(id, (self.registry.clock)()).is_some()
        };
        match sent.id() {
            Some(body) if body == id => {}
            None if is_anonymous() => {}
            None => return Err(ThingError::NoId(id.chars().take(200).collect())),
            Some(body) => {
                let body = body.chars().take(200).collect();
                return Err(ThingError::OtherId { path: id.to_owned(), body });
            }
        }
        Ok(ThingDraft::of(id, sent, expected))
    }

    /// Reads what a merge patch (RFC 7396) makes of a description as it is now. Writing that is refused where somebody else
    /// was faster.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub fn draft_patched(&self, id: &str, patch: &[u8], expected: Expected) -> Result<ThingDraft, ThingError> {
        if is_agent(id) {
            return Err(ThingRefusal::Agent(id.to_owned()).into());
        }
        let (thing, bytes) = self.thing(id)?;
        if matches!(expected, Expected::Entry(index) if index != thing.index) {
            return Err(ThingRefusal::Changed(id.to_owned()).into());
        }
        let sent = Sent::read(&patched(&bytes, patch)?)?;
        if let Some(body) = sent.id().filter(|body| *body != id) {
            return Err(ThingError::OtherId { path: id.to_owned(), body: body.chars().take(200).collect() });
        }
        Ok(ThingDraft::of(id, sent, Expected::Entry(thing.index)))
    }

    /// Writes a description that was read.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub async fn write(&self, draft: ThingDraft, writer: &Writer) -> Result<Put, ThingError> {
        let ThingDraft { id, written, expected } = draft;
        let Changed { index, is_new } = self.change(&id, Some(written), writer, expected).await?;
        Ok(Put { id, index, is_new })
    }

    /// Deletes a Thing, and its description.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub async fn delete_thing(&self, id: &str, writer: &Writer, expected: Expected) -> Result<(), ThingError> {
        self.change(id, None, writer, expected).await?;
        Ok(())
    }

    async fn change(
        &self,
        id: &str,
        sent: Option<Written>,
        writer: &Writer,
        expected: Expected,
    ) -> Result<Changed, ThingError> {
        let directory = self.config()?;
        let (writer, salt) = (writer.clone(), (directory.random)());
        let change = Change { id: id.to_owned(), sent, writer, expected, quotas: directory.quotas, salt };
        Ok(self.registry.commit(|answer| PendingWrite::Thing(Box::new(change), answer)).await?)
    }

    /// A Thing, and its description as it was sent.
    fn thing(&self, id: &str) -> Result<(Thing, Arc<[u8]>), ThingError> {
        loop {
            let thing = {
                let seen = self.registry.state.read().expect("no holder panics");
                seen.machine.things().get(id, (self.registry.clock)()).cloned()
            };
            let thing = thing.ok_or_else(|| ThingRefusal::None(id.chars().take(200).collect()))?;
            match self.kept_description(&thing)? {
                Some(bytes) => return Ok((thing, bytes)),
                None if self.is_going(&thing)? => return Err(ThingRefusal::None(thing.written.id.to_string()).into()),
                // It was changed or deleted since.
                None => {}
            }
        }
    }

    /// Whether a Thing whose description is not kept any more is about to go: its row goes with the entry that takes it away,
    /// a moment before the state follows. If the state has followed already, it is not.
    ///
    /// # Errors
    /// [`RequestError::Damaged`]: no entry has taken the description away.
    fn is_going(&self, thing: &Thing) -> Result<bool, ThingError> {
        let (is_current, next) = {
            let seen = self.registry.state.read().expect("no holder panics");
            let known = seen.machine.things().get(&thing.written.id, 0);
            (known.is_some_and(|known| known.index == thing.index), seen.next)
        };
        if is_current && self.registry.store.read(STATEMENTS, &next.to_be_bytes())?.is_none() {
            return Err(RequestError::Damaged(thing.index).into());
        }
        Ok(is_current)
    }

    /// The description of a Thing as it was sent, which stays in memory; none if it is not kept any more.
    fn kept_description(&self, thing: &Thing) -> Result<Option<Arc<[u8]>>, ThingError> {
        if let Some(bytes) = self.registry.descriptions.get_all([thing.index].into_iter()).pop().flatten() {
            return Ok(Some(bytes));
        }
        let Some(bytes) = self.description(thing)? else { return Ok(None) };
        let bytes: Arc<[u8]> = bytes.into();
        self.registry.descriptions.put(thing.index, bytes.clone());
        Ok(Some(bytes))
    }

    /// The description of a Thing as it was sent, from the disk; none if it is not kept any more.
    pub(super) fn description(&self, thing: &Thing) -> Result<Option<Vec<u8>>, ThingError> {
        let Some(bytes) = self.registry.store.read(THINGS, &thing.index.to_be_bytes())? else { return Ok(None) };
        self.unchanged(thing, bytes).map(Some)
    }

    /// The description of a Thing, if these are its bytes.
    fn unchanged(&self, thing: &Thing, bytes: Vec<u8>) -> Result<Vec<u8>, ThingError> {
        if digest(&bytes) != thing.written.body {
            return Err(RequestError::Damaged(thing.index).into());
        }
        Ok(bytes)
    }

    /// A description as it was sent, of a Thing or of an agent.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub fn submitted(&self, id: &str) -> Result<Shown, ThingError> {
        if is_agent(id) {
            let (index, bytes, _) = self.described(id)?;
            return Ok(Shown { bytes, index });
        }
        let (thing, bytes) = self.thing(id)?;
        Ok(Shown { bytes: bytes.to_vec(), index: thing.index })
    }

    /// A description, with what the directory says of its registration.
    ///
    /// # Errors
    /// See [`ThingError`].
    pub fn retrieve(&self, id: &str) -> Result<Shown, ThingError> {
        let (index, bytes, registration) = if is_agent(id) {
            let (index, bytes, registration) = self.described(id)?;
            (index, bytes.into(), registration)
        } else {
            let (thing, bytes) = self.thing(id)?;
            (thing.index, bytes, Registration::of(&thing))
        };
        let bytes = shown(&bytes, id, registration, (self.registry.clock)());
        Ok(Shown { bytes: bytes.ok_or(RequestError::Damaged(index))?, index })
    }

    /// The description of an agent's current version: the entry of its release, and what was signed.
    fn described(&self, id: &str) -> Result<(u64, Vec<u8>, Registration), ThingError> {
        let none = || ThingRefusal::None(id.chars().take(200).collect());
        let agent: AgentId = id.parse().map_err(|_| none())?;
        let (first, index) = {
            let seen = self.registry.state.read().expect("no holder panics");
            let versions = seen.machine.agent(&agent).ok_or_else(none)?;
            let (_, current) = versions.current().ok_or_else(none)?;
            (first(versions.public()).unwrap_or(current.index), current.index)
        };
        self.described_at(first, index)
    }

    /// The same, of releases that are known.
    pub(super) fn described_at(&self, first: u64, index: u64) -> Result<(u64, Vec<u8>, Registration), ThingError> {
        let (entry, statement) = self.registry.statement(index)?;
        let Statement::Release(_, described) = statement else {
            return Err(RequestError::Damaged(index).into());
        };
        let created = Entry::decode(&self.registry.log.entry(first)?).ok_or(RequestError::Damaged(first))?;
        let registration =
            Registration { created_ms: created.at_ms, modified_ms: entry.at_ms, ttl_s: None, expires_ms: None };
        Ok((index, described.body.td.to_vec(), registration))
    }
}

/// An id as a proxy passes it on that decodes slashes, and merges those that follow each other.
fn merged(id: &str) -> String {
    let mut merged = String::with_capacity(id.len());
    for c in id.chars() {
        if c != '/' || !merged.ends_with('/') {
            merged.push(c);
        }
    }
    merged
}

/// The entry of the first release of an agent.
pub(super) fn first<'a>(versions: impl Iterator<Item = (&'a Version, &'a Released)>) -> Option<u64> {
    versions.map(|(_, released)| released.index).min()
}

/// A description as JSON.
pub(super) fn value(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}
