//! What is remembered of publishers whose key logs are not kept.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use super::{ORIGIN_SHARES, Origin};
use crate::Digest;
use crate::identity::PublisherId;
use crate::keylog::KeyLog;
use crate::limits::KEYRING_FORGOTTEN_MAX;

/// Enough of a key log to refuse an older or another one later: about a hundred bytes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Forgotten {
    /// The publisher.
    #[n(0)]
    pub publisher: PublisherId,
    /// Events that the log had.
    #[n(1)]
    pub events: u64,
    /// Digest of the last one.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub last: Digest,
    /// Digest of the one before it; of a log of one event its own again.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub before: Digest,
    /// Where the log came from; absent for this node itself.
    #[n(4)]
    pub origin: Option<String>,
}

impl Forgotten {
    /// What is to be remembered of `log`.
    #[must_use]
    pub fn of(log: &KeyLog, origin: &Origin) -> Forgotten {
        let last = log.head();
        let before = log.len().checked_sub(2).and_then(|at| log.digest_at(at)).unwrap_or(last);
        let origin = (!origin.is_empty()).then(|| origin.to_string());
        Forgotten { publisher: log.publisher(), events: log.len() as u64, last, before, origin }
    }

    /// What is to be remembered of the log with these events, as signed; it was verified once. Nothing of no event.
    #[must_use]
    pub fn of_events<B: AsRef<[u8]>>(events: &[B]) -> Option<Forgotten> {
        let digest = |event: &B| crate::digest(event.as_ref());
        let last = digest(events.last()?);
        let before = events.len().checked_sub(2).map_or(last, |at| digest(&events[at]));
        let publisher = PublisherId::from_digest(digest(events.first()?));
        Some(Forgotten { publisher, events: events.len() as u64, last, before, origin: None })
    }

    /// The bytes to keep.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what [`Forgotten::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that it did not write.
    pub fn decode(bytes: &[u8]) -> Result<Forgotten, minicbor::decode::Error> {
        minicbor::decode(bytes)
    }

    /// Is `log` the same log, or one that continues or displaces it (SPEC P-48)?
    #[must_use]
    pub fn allows(&self, log: &KeyLog) -> bool {
        let Ok(events) = usize::try_from(self.events) else { return false };
        let same = |digest: Digest, at: Option<usize>| at.and_then(|at| log.digest_at(at)) == Some(digest);
        // It parts at the last event at the earliest, so that two events of its own displace that one.
        let displaces = log.len() > events && same(self.before, events.checked_sub(2));
        same(self.last, events.checked_sub(1)) || displaces
    }
}

/// All that is remembered: of each origin a share for certain, of the rest as much as there is room for. Where there is none,
/// the oldest of the origin that has most gives way, so that an origin which floods pushes out its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    of: BTreeMap<PublisherId, (Forgotten, u64)>,
    /// Publishers of each origin, the oldest first.
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

    /// Takes one more; gives whose place it takes.
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
