//! The Things of the directory: what is there on the word of whoever registered it.
//!
//! Pure: the state follows from the records of the log. A Thing whose time has passed is not there, without an entry; its row
//! here goes with the next entry.

mod orders;
mod record;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

pub use orders::{Orders, Place};
pub use record::{Deleted, SALT_BYTES, ThingRecord, Written};
pub use refusal::ThingRefusal;

/// Bytes of an id.
pub const THING_ID_BYTES_MAX: usize = 1_024;
/// Bytes of a title that are kept for sorting.
const TITLE_BYTES_MAX: usize = 256;
/// The longest life of a registration, seconds: a hundred years.
pub const TTL_S_MAX: u64 = 100 * 365 * 86_400;
/// Things whose time has passed that go with one entry.
const FORGOTTEN_AT_ONCE: usize = 1_000;
/// What the ids of agents begin with.
pub const AGENTS: &str = "urn:althing:";

/// A Thing that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
    /// The entry that registered it.
    pub created: u64,
    /// When that was, Unix milliseconds.
    pub created_ms: u64,
    /// The entry of its description.
    pub index: u64,
    /// What that entry says.
    pub written: Written,
}

impl Thing {
    fn place(&self) -> Place<'_> {
        Place { created: self.created, modified: self.index, title: &self.written.title }
    }
}

/// What there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Things.
    pub things: u64,
    /// Bytes of their descriptions.
    pub bytes: u64,
}

impl Amount {
    fn within(self, max: Amount) -> bool {
        self.things <= max.things && self.bytes <= max.bytes
    }

    /// The same, and one Thing more.
    #[must_use]
    pub fn with(self, bytes: u64) -> Amount {
        Amount { things: self.things + 1, bytes: self.bytes + bytes }
    }

    /// What is left of it after that.
    #[must_use]
    pub fn less(self, other: Amount) -> Amount {
        Amount { things: self.things.saturating_sub(other.things), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    fn without(self, bytes: u64) -> Amount {
        Amount { things: self.things.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}

/// How much there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// In all.
    pub all: Amount,
    /// Of each writer.
    pub each: Amount,
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas { all: Amount { things: 1_000_000, bytes: 8 << 30 }, each: Amount { things: 100_000, bytes: 1 << 30 } }
    }
}

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The name of the token; empty if nothing was shown, where anybody may write.
    pub name: String,
    /// Whether the writer may change what belongs to others.
    pub is_admin: bool,
}

/// What a writer believes is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Whatever it is.
    Anything,
    /// The description of that entry.
    Entry(u64),
    /// Any description.
    Something,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft<'a> {
    /// The id.
    pub id: &'a str,
    /// The title.
    pub title: &'a str,
    /// The digest of the description.
    pub body: althing_protocol::Digest,
    /// Its bytes.
    pub bytes: u64,
    /// How long it is to stay, seconds.
    pub ttl_s: Option<u64>,
    /// When it ends, Unix milliseconds, where no `ttl_s` says so.
    pub expires_ms: Option<u64>,
}

/// The Things that are there.
#[derive(Debug, Clone, Default)]
pub struct Things {
    by_id: BTreeMap<Arc<str>, Thing>,
    ending: BTreeSet<(u64, Arc<str>)>,
    orders: Orders,
    amounts: BTreeMap<String, Amount>,
    all: Amount,
}

impl Things {
    /// A Thing.
    #[must_use]
    pub fn get(&self, id: &str, now_ms: u64) -> Option<&Thing> {
        self.by_id.get(id).filter(|thing| !thing.written.has_ended(now_ms))
    }

    /// Things between two bounds, in the order of their ids.
    pub fn range(&self, bounds: (Bound<&str>, Bound<&str>), now_ms: u64) -> impl DoubleEndedIterator<Item = &Thing> {
        let range = self.by_id.range::<str, _>(bounds).map(|(_, thing)| thing);
        range.filter(move |thing| !thing.written.has_ended(now_ms))
    }

    /// The orders in which they are listed, those that have ended among them.
    #[must_use]
    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self, now_ms: u64) -> u64 {
        self.all.things.saturating_sub(self.ended(now_ms).count() as u64)
    }

    /// Things that the next entry takes away if it is written at that time, because theirs has passed.
    pub fn forgotten(&self, at_ms: u64) -> impl Iterator<Item = &Thing> {
        self.ended(at_ms).take(FORGOTTEN_AT_ONCE)
    }

    /// Whether so many have passed by then that one entry does not take them all away.
    #[must_use]
    pub fn has_more_to_forget(&self, now_ms: u64) -> bool {
        self.ended(now_ms).nth(FORGOTTEN_AT_ONCE).is_some()
    }

    /// Those whose time has passed, and that are still here.
    fn ended(&self, now_ms: u64) -> impl Iterator<Item = &Thing> {
        let ended = self.ending.iter().take_while(move |(end, _)| *end <= now_ms);
        ended.filter_map(|(_, id)| self.by_id.get(id))
    }

    /// Judges a description; gives what the log is to say.
    ///
    /// # Errors
    /// [`ThingRefusal`].
    pub fn judge(
        &self,
        draft: &Draft<'_>,
        writer: &Writer,
        expected: Expected,
        quotas: Quotas,
        now_ms: u64,
        salt: [u8; SALT_BYTES],
    ) -> Result<Written, ThingRefusal> {
        check_id(draft.id)?;
        let known = self.get(draft.id, now_ms);
        self.expects(draft.id, known, writer, expected)?;
        let owner = known.map_or(&writer.name, |known| &known.written.owner);
        self.has_room(owner, draft.bytes, known, quotas, now_ms)?;
        let expires_ms = match draft.ttl_s {
            Some(ttl) if !(1..=TTL_S_MAX).contains(&ttl) => return Err(ThingRefusal::Ttl { max: TTL_S_MAX }),
            Some(ttl) => Some(now_ms.saturating_add(ttl * 1_000)),
            None => draft.expires_ms,
        };
        if expires_ms.is_some_and(|end| end <= now_ms) {
            return Err(ThingRefusal::Over);
        }
        Ok(Written {
            id: draft.id.into(),
            owner: owner.clone(),
            by: writer.name.clone(),
            at_ms: now_ms,
            body: draft.body,
            bytes: draft.bytes,
            title: cut(draft.title, TITLE_BYTES_MAX),
            follows: known.map(|known| known.index),
            ttl_s: draft.ttl_s,
            expires_ms,
            salt,
        })
    }

    /// Judges a deletion; gives what the log is to say.
    ///
    /// # Errors
    /// [`ThingRefusal`].
    pub fn judge_deletion(
        &self,
        id: &str,
        writer: &Writer,
        expected: Expected,
        now_ms: u64,
        salt: [u8; SALT_BYTES],
    ) -> Result<Deleted, ThingRefusal> {
        if is_agent(id) {
            return Err(ThingRefusal::Agent(cut(id, THING_ID_BYTES_MAX)));
        }
        let known = self.get(id, now_ms);
        if known.is_none() {
            return Err(ThingRefusal::None(cut(id, THING_ID_BYTES_MAX)));
        }
        self.expects(id, known, writer, expected)?;
        Ok(Deleted { id: id.into(), by: writer.name.clone(), at_ms: now_ms, salt })
    }

    fn expects(
        &self,
        id: &str,
        known: Option<&Thing>,
        writer: &Writer,
        expected: Expected,
    ) -> Result<(), ThingRefusal> {
        if known.is_some_and(|known| known.written.owner != writer.name && !writer.is_admin) {
            return Err(ThingRefusal::NotYours(id.to_owned()));
        }
        let is_expected = match expected {
            Expected::Anything => true,
            Expected::Entry(index) => known.is_some_and(|known| known.index == index),
            Expected::Something => known.is_some(),
        };
        if is_expected { Ok(()) } else { Err(ThingRefusal::Changed(id.to_owned())) }
    }

    fn has_room(
        &self,
        owner: &str,
        bytes: u64,
        known: Option<&Thing>,
        quotas: Quotas,
        now_ms: u64,
    ) -> Result<(), ThingRefusal> {
        let (mut own, mut all) = (self.amounts.get(owner).copied().unwrap_or_default(), self.all);
        for ended in self.ended(now_ms) {
            all = all.without(ended.written.bytes);
            if ended.written.owner == owner {
                own = own.without(ended.written.bytes);
            }
        }
        if let Some(known) = known {
            (own, all) = (own.without(known.written.bytes), all.without(known.written.bytes));
        }
        if !own.with(bytes).within(quotas.each) {
            let (Amount { things, bytes }, max) = (own, quotas.each);
            let (things_max, bytes_max) = (max.things, max.bytes);
            return Err(ThingRefusal::WriterFull { things, bytes, things_max, bytes_max });
        }
        if !all.with(bytes).within(quotas.all) {
            return Err(ThingRefusal::Full { things_max: quotas.all.things, bytes_max: quotas.all.bytes });
        }
        Ok(())
    }

    /// Applies a record that the log has at `index`.
    pub fn apply(&mut self, index: u64, record: &ThingRecord) {
        match record {
            ThingRecord::Written(written) => {
                self.forget_ended(written.at_ms);
                let (created, created_ms) = match self.remove(&written.id) {
                    Some(known) => (known.created, known.created_ms),
                    None => (index, written.at_ms),
                };
                self.all = self.all.with(written.bytes);
                let of_owner = self.amounts.entry(written.owner.clone()).or_default();
                *of_owner = of_owner.with(written.bytes);
                if let Some(end) = written.expires_ms {
                    self.ending.insert((end, written.id.clone()));
                }
                let thing = Thing { created, created_ms, index, written: written.clone() };
                self.orders.insert(&thing.written.id, thing.place());
                self.by_id.insert(written.id.clone(), thing);
            }
            ThingRecord::Deleted(deleted) => {
                self.forget_ended(deleted.at_ms);
                self.remove(&deleted.id);
            }
        }
    }

    fn forget_ended(&mut self, at_ms: u64) {
        let ids: Vec<Arc<str>> = self.forgotten(at_ms).map(|thing| thing.written.id.clone()).collect();
        for id in ids {
            self.remove(&id);
        }
    }

    fn remove(&mut self, id: &str) -> Option<Thing> {
        let thing = self.by_id.remove(id)?;
        let bytes = thing.written.bytes;
        self.orders.remove(&thing.written.id, thing.place());
        self.all = self.all.without(bytes);
        if let Some(end) = thing.written.expires_ms {
            self.ending.remove(&(end, thing.written.id.clone()));
        }
        if let Some(amount) = self.amounts.get_mut(&thing.written.owner) {
            *amount = amount.without(bytes);
            if *amount == Amount::default() {
                self.amounts.remove(&thing.written.owner);
            }
        }
        Some(thing)
    }
}

/// Whether an id is that of an agent; names of URNs are the same in capitals.
#[must_use]
pub fn is_agent(id: &str) -> bool {
    id.get(..AGENTS.len()).is_some_and(|start| start.eq_ignore_ascii_case(AGENTS))
}

fn check_id(id: &str) -> Result<(), ThingRefusal> {
    if is_agent(id) {
        return Err(ThingRefusal::Agent(cut(id, THING_ID_BYTES_MAX)));
    }
    let scheme = id.split_once(':').map_or("", |(scheme, _)| scheme);
    let of_scheme = |one: char| one.is_ascii_alphanumeric() || matches!(one, '+' | '-' | '.');
    let is_uri = scheme.starts_with(|one: char| one.is_ascii_alphabetic())
        && scheme.chars().all(of_scheme)
        && !id.chars().any(|one| one.is_control() || one.is_whitespace());
    if is_uri && id.len() <= THING_ID_BYTES_MAX {
        return Ok(());
    }
    Err(ThingRefusal::Id { id: cut(id, 64), max: THING_ID_BYTES_MAX })
}

/// The start of a text.
fn cut(text: &str, max: usize) -> String {
    text[..text.floor_char_boundary(max)].to_owned()
}

#[cfg(test)]
mod tests;
