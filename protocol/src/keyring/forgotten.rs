//! What is remembered of a publisher whose key log is not kept.

use minicbor::{Decode, Encode};

use crate::Digest;
use crate::identity::PublisherId;
use crate::keylog::KeyLog;

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
}

impl Forgotten {
    /// What is to be remembered of `log`.
    #[must_use]
    pub fn of(log: &KeyLog) -> Forgotten {
        let last = log.head();
        let before = log.len().checked_sub(2).and_then(|at| log.digest_at(at)).unwrap_or(last);
        Forgotten { publisher: log.publisher(), events: log.len() as u64, last, before }
    }

    /// What is to be remembered of the log with these events, as signed; it was verified once. Nothing of no event.
    #[must_use]
    pub fn of_events<B: AsRef<[u8]>>(events: &[B]) -> Option<Forgotten> {
        let digest = |event: &B| crate::digest(event.as_ref());
        let last = digest(events.last()?);
        let before = events.len().checked_sub(2).map_or(last, |at| digest(&events[at]));
        let publisher = PublisherId::from_digest(digest(events.first()?));
        Some(Forgotten { publisher, events: events.len() as u64, last, before })
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
