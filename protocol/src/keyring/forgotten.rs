//! Summaries of key logs that are not kept.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use super::{ORIGIN_SHARES, Origin};
use crate::Digest;
use crate::identity::PublisherId;
use crate::keylog::KeyLog;
use crate::limits::KEYRING_FORGOTTEN_MAX;

/// The summary of a key log, which suffices to refuse an older or forked one: about a hundred bytes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Forgotten {
    /// The publisher.
    #[n(0)]
    pub publisher: PublisherId,
    /// The number of its events.
    #[n(1)]
    pub events: u64,
    /// The digest of its last event.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub last: Digest,
    /// The digest of the event before that; for a log of one event, of that event.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub before: Digest,
    /// The origin of the log; absent for this node itself.
    #[n(4)]
    pub origin: Option<String>,
}

impl Forgotten {
    /// The summary of `log`.
    #[must_use]
    pub fn of(log: &KeyLog, origin: &Origin) -> Forgotten {
        let last = log.head();
        let before = log.len().checked_sub(2).and_then(|at| log.digest_at(at)).unwrap_or(last);
        let origin = (!origin.is_empty()).then(|| origin.to_string());
        Forgotten { publisher: log.publisher(), events: log.len() as u64, last, before, origin }
    }

    /// The summary of a verified log with these signed events; none without events.
    #[must_use]
    pub fn of_events<B: AsRef<[u8]>>(events: &[B]) -> Option<Forgotten> {
        let digest = |event: &B| crate::digest(event.as_ref());
        let last = digest(events.last()?);
        let before = events.len().checked_sub(2).map_or(last, |at| digest(&events[at]));
        let publisher = PublisherId::from_digest(digest(events.first()?));
        Some(Forgotten { publisher, events: events.len() as u64, last, before, origin: None })
    }

    /// Encodes it for storage.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Decodes the output of [`Forgotten::encode`].
    ///
    /// # Errors
    /// For other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Forgotten, minicbor::decode::Error> {
        minicbor::decode(bytes)
    }

    /// Whether `log` equals, extends or replaces the summarised one (SPEC P-48).
    #[must_use]
    pub fn allows(&self, log: &KeyLog) -> bool {
        let Ok(events) = usize::try_from(self.events) else { return false };
        let same = |digest: Digest, at: Option<usize>| at.and_then(|at| log.digest_at(at)) == Some(digest);
        // The fork is at the last event at the earliest, so two own events after it replace that event.
        let displaces = log.len() > events && same(self.before, events.checked_sub(2));
        same(self.last, events.checked_sub(1)) || displaces
    }
}

/// All summaries, with a guaranteed share for each origin. When it is full, the oldest summary of the origin with the most is
/// evicted, so that a flooding origin evicts its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    of: BTreeMap<PublisherId, (Forgotten, u64)>,
    /// The publishers of each origin, the oldest first.
    origins: BTreeMap<Option<String>, BTreeMap<u64, PublisherId>>,
    /// How many there were.
    count: u64,
}

impl Memory {
    pub fn get(&self, publisher: PublisherId) -> Option<&Forgotten> {
        self.of.get(&publisher).map(|(forgotten, _)| forgotten)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Forgotten> {
        self.of.values().map(|(forgotten, _)| forgotten)
    }

    /// Adds a summary; gives the publisher whose summary was evicted.
    pub fn insert(&mut self, forgotten: Forgotten) -> Option<PublisherId> {
        let publisher = forgotten.publisher;
        self.remove(publisher);
        let own = self.origins.get(&forgotten.origin).map_or(0, BTreeMap::len);
        let evicted = if self.of.len() < KEYRING_FORGOTTEN_MAX {
            None
        } else if own >= KEYRING_FORGOTTEN_MAX / ORIGIN_SHARES {
            self.oldest(&forgotten.origin)
        } else {
            let fullest = self.origins.iter().max_by_key(|(_, all)| all.len()).map(|(origin, _)| origin.clone());
            fullest.and_then(|origin| self.oldest(&origin))
        };
        if let Some(evicted) = evicted {
            self.remove(evicted);
        }
        self.count += 1;
        self.origins.entry(forgotten.origin.clone()).or_default().insert(self.count, publisher);
        self.of.insert(publisher, (forgotten, self.count));
        evicted
    }

    fn oldest(&self, origin: &Option<String>) -> Option<PublisherId> {
        self.origins.get(origin)?.first_key_value().map(|(_, publisher)| *publisher)
    }

    pub fn remove(&mut self, publisher: PublisherId) -> bool {
        let Some((forgotten, number)) = self.of.remove(&publisher) else { return false };
        if let Some(all) = self.origins.get_mut(&forgotten.origin) {
            all.remove(&number);
            if all.is_empty() {
                self.origins.remove(&forgotten.origin);
            }
        }
        true
    }
}
