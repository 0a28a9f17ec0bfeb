//! The key log: how a publisher changes keys without changing names.
//!
//! Each event commits to the hash of the *next* key (pre-rotation), so that who steals the current key can neither
//! rotate nor revoke. Events are authored objects with an empty network and scope: a publisher is the same everywhere.

use minicbor::{Decode, Encode};

use crate::identity::{PublicKey, SecretKey};
use crate::limits::{CLOCK_SKEW_MAX_MS, GRANT_LIFE_MAX_MS, KEYLOG_EVENTS_MAX};
use crate::object::{self, Authored, Kind, ObjectError, Statement};
use crate::{Digest, digest};

/// What an event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Change {
    /// The first key; its public half names the publisher for ever.
    #[n(1)]
    Inception,
    /// The next key takes over.
    #[n(2)]
    Rotation,
    /// No key speaks for the publisher any more. Terminal.
    #[n(3)]
    Revocation,
}

/// One event of a key log, signed by the key that it names.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct KeyEvent {
    #[n(0)]
    kind: Kind,
    /// What it does.
    #[n(1)]
    pub change: Change,
    /// 0 for the inception, then one more each.
    #[n(2)]
    pub sequence: u64,
    /// Digest of the event before; absent in the inception.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub previous: Option<Digest>,
    /// The key that signs this event: the first one, or the one that the event before committed to.
    #[n(4)]
    pub key: PublicKey,
    /// SHA-256 of the 32 bytes of the key to come; absent in a revocation.
    #[cbor(n(5), with = "minicbor::bytes")]
    pub next: Option<Digest>,
    /// Unix milliseconds.
    #[n(6)]
    pub issued_at_ms: u64,
    /// Rotation: until when the key before is still accepted, Unix milliseconds, at most 24 h after `issued_at_ms`.
    #[n(7)]
    pub previous_until_ms: Option<u64>,
}

impl Statement for KeyEvent {
    const KIND: Kind = Kind::KeyEvent;
    fn kind(&self) -> Kind {
        self.kind
    }
}

/// Why a key log is refused, or a key not accepted by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyLogError {
    /// No event at all.
    #[error("the key log is empty")]
    Empty,
    /// More events than a log may have.
    #[error("the key log has more than {KEYLOG_EVENTS_MAX} events")]
    TooLong,
    /// An event is no valid object.
    #[error("event {at} of the key log: {reason}")]
    Event {
        /// Its place.
        at: usize,
        /// What is wrong.
        reason: ObjectError,
    },
    /// An event does not continue the log.
    #[error("event {at} of the key log {rule}")]
    Chain {
        /// Its place.
        at: usize,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// The publisher was revoked.
    #[error("the publisher {0} revoked its keys")]
    Revoked(PublicKey),
    /// The key is not, or no longer, the publisher's.
    #[error("{key} does not speak for the publisher {publisher}")]
    NotItsKey {
        /// The key asked about.
        key: PublicKey,
        /// The publisher's inception key.
        publisher: PublicKey,
    },
}

/// A verified key log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLog {
    events: Vec<Authored<KeyEvent>>,
}

/// The event that begins a log: signed by `key`, committing to `next`.
#[must_use]
pub fn inception(key: &SecretKey, next: PublicKey, now_ms: u64) -> Authored<KeyEvent> {
    let event = KeyEvent {
        kind: Kind::KeyEvent,
        change: Change::Inception,
        sequence: 0,
        previous: None,
        key: key.public(),
        next: Some(digest(next.as_bytes())),
        issued_at_ms: now_ms,
        previous_until_ms: None,
    };
    object::sign(event, "", "", key).expect("an event is far below the limits of an object")
}

impl KeyLog {
    /// Verifies a whole log.
    ///
    /// # Errors
    /// See [`KeyLogError`].
    pub fn verify<B: AsRef<[u8]>>(events: &[B]) -> Result<KeyLog, KeyLogError> {
        if events.is_empty() {
            return Err(KeyLogError::Empty);
        }
        if events.len() > KEYLOG_EVENTS_MAX {
            return Err(KeyLogError::TooLong);
        }
        let mut log = KeyLog { events: Vec::with_capacity(events.len()) };
        for bytes in events {
            let at = log.events.len();
            let event =
                object::open::<KeyEvent>(bytes.as_ref(), "", "").map_err(|reason| KeyLogError::Event { at, reason })?;
            log.append(event)?;
        }
        Ok(log)
    }

    fn append(&mut self, event: Authored<KeyEvent>) -> Result<(), KeyLogError> {
        let at = self.events.len();
        if at == KEYLOG_EVENTS_MAX {
            return Err(KeyLogError::TooLong);
        }
        match continues(self.events.last(), &event) {
            None => {
                self.events.push(event);
                Ok(())
            }
            Some(rule) => Err(KeyLogError::Chain { at, rule }),
        }
    }

    /// The log with the rotation to `key` at its end, which commits to `next` and accepts the old key for
    /// `overlap_ms` more (at most 24 h).
    ///
    /// # Errors
    /// [`KeyLogError::Chain`] when `key` is not the one that the log committed to, or the log is revoked;
    /// [`KeyLogError::TooLong`].
    pub fn rotate(
        &self,
        key: &SecretKey,
        next: PublicKey,
        now_ms: u64,
        overlap_ms: u64,
    ) -> Result<KeyLog, KeyLogError> {
        self.extend(
            Change::Rotation,
            key,
            Some(digest(next.as_bytes())),
            now_ms,
            Some(now_ms.saturating_add(overlap_ms)),
        )
    }

    /// The log with the revocation at its end, signed by the key that it committed to.
    ///
    /// # Errors
    /// [`KeyLogError::Chain`] when `key` is not that one, or the log is revoked already; [`KeyLogError::TooLong`].
    pub fn revoke(&self, key: &SecretKey, now_ms: u64) -> Result<KeyLog, KeyLogError> {
        self.extend(Change::Revocation, key, None, now_ms, None)
    }

    fn extend(
        &self,
        change: Change,
        key: &SecretKey,
        next: Option<Digest>,
        now_ms: u64,
        previous_until_ms: Option<u64>,
    ) -> Result<KeyLog, KeyLogError> {
        let last = self.last();
        let event = KeyEvent {
            kind: Kind::KeyEvent,
            change,
            sequence: last.body.sequence + 1,
            previous: Some(last.digest()),
            key: key.public(),
            next,
            issued_at_ms: now_ms,
            previous_until_ms,
        };
        let at = self.events.len();
        let event = object::sign(event, "", "", key).map_err(|reason| KeyLogError::Event { at, reason })?;
        let mut log = self.clone();
        log.append(event)?;
        Ok(log)
    }

    /// The publisher: the key that names it.
    #[must_use]
    pub fn publisher(&self) -> PublicKey {
        self.events[0].body.key
    }

    /// How many events it has: of two logs that begin alike, the longer one is newer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Never: a verified log has an inception.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// True when `self` is `older` or continues it: what a node that has seen `older` may accept.
    #[must_use]
    pub fn continues(&self, older: &KeyLog) -> bool {
        self.events.starts_with(&older.events)
    }

    /// True when no key speaks for the publisher any more.
    #[must_use]
    pub fn revoked(&self) -> bool {
        self.last().body.change == Change::Revocation
    }

    /// The key of the last event: it speaks for the publisher unless it revoked.
    #[must_use]
    pub fn current(&self) -> PublicKey {
        self.last().body.key
    }

    /// Is `key` the one that the next event must be signed by?
    #[must_use]
    pub fn commits_to(&self, key: PublicKey) -> bool {
        self.last().body.next == Some(digest(key.as_bytes()))
    }

    /// The digest of the last event: what names the whole log.
    #[must_use]
    pub fn head(&self) -> Digest {
        self.last().digest()
    }

    /// The events, the inception first.
    pub fn events(&self) -> impl Iterator<Item = &KeyEvent> {
        self.events.iter().map(|event| &event.body)
    }

    /// The events' bytes, to be stored or sent.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<Vec<u8>> {
        self.events.iter().map(|event| event.bytes.clone()).collect()
    }

    /// May `key` speak for the publisher at `now_ms`?
    ///
    /// # Errors
    /// [`KeyLogError::Revoked`] or [`KeyLogError::NotItsKey`].
    pub fn accepts(&self, key: PublicKey, now_ms: u64) -> Result<(), KeyLogError> {
        let last = &self.last().body;
        if self.revoked() {
            return Err(KeyLogError::Revoked(self.publisher()));
        }
        let before = self.events.len().checked_sub(2).map(|at| self.events[at].body.key);
        // A rotation dated into the future would else stretch the overlap beyond its 24 hours.
        let begun = last.issued_at_ms <= now_ms.saturating_add(CLOCK_SKEW_MAX_MS);
        let overlaps = begun && before == Some(key) && last.previous_until_ms.is_some_and(|until| now_ms <= until);
        if last.key == key || overlaps {
            Ok(())
        } else {
            Err(KeyLogError::NotItsKey { key, publisher: self.publisher() })
        }
    }

    fn last(&self) -> &Authored<KeyEvent> {
        self.events.last().expect("a verified log has an inception")
    }
}

/// The rule that `event` breaks as the successor of `last`, if any.
fn continues(last: Option<&Authored<KeyEvent>>, event: &Authored<KeyEvent>) -> Option<&'static str> {
    let body = &event.body;
    if event.signer != body.key {
        return Some("is not signed by the key that it names");
    }
    if (body.change == Change::Revocation) != body.next.is_none() {
        return Some("must commit to a next key unless it revokes");
    }
    let Some(last) = last else {
        let first = body.change == Change::Inception && body.sequence == 0 && body.previous.is_none();
        return (!first || body.previous_until_ms.is_some()).then_some("is not an inception");
    };
    let latest = body.issued_at_ms.saturating_add(GRANT_LIFE_MAX_MS);
    let broken = [
        (body.change == Change::Inception, "is a second inception"),
        (last.body.change == Change::Revocation, "follows a revocation"),
        (body.change == Change::Revocation && body.previous_until_ms.is_some(), "revokes and accepts the old key"),
        (body.sequence != last.body.sequence + 1, "has the wrong sequence"),
        (body.previous != Some(last.digest()), "does not name the event before it"),
        (last.body.next != Some(digest(body.key.as_bytes())), "uses a key that was not committed to"),
        (body.issued_at_ms < last.body.issued_at_ms, "is older than the event before it"),
        (body.previous_until_ms.is_some_and(|until| until > latest), "accepts the old key for more than 24 h"),
    ];
    broken.iter().find(|(broken, _)| *broken).map(|(_, rule)| *rule)
}
