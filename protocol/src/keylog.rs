//! The key log: how a publisher changes keys without changing names.
//!
//! A publisher is named by the digest of its inception event, as in KERI, so that no other log can begin under the same name.
//! Each event commits to the next *two* keys (pre-rotation), and the first of them repeats the second one of the previous
//! event: a thief of the key of an event can forge another event in its place, but cannot continue from there, since the next
//! key was committed to before. So of two branches the one that was continued is the publisher's.
//! Events are authored objects with an empty network and scope: a publisher is the same everywhere.

use minicbor::{Decode, Encode};

use crate::identity::{PublicKey, PublisherId, SecretKey};
use crate::limits::{CLOCK_SKEW_MAX_MS, GRANT_LIFE_MAX_MS, KEYLOG_EVENTS_MAX};
use crate::object::{self, Authored, Kind, ObjectError, Statement, claimed_member};
use crate::{Digest, digest};

/// What an event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Change {
    /// The first event; its digest is the id of the publisher.
    #[n(1)]
    Inception,
    /// The next key takes over.
    #[n(2)]
    Rotation,
    /// No key is valid for the publisher any more. Terminal.
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
    /// 0 for the inception, incremented by each event.
    #[n(2)]
    pub sequence: u64,
    /// Digest of the previous event; absent in the inception.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub previous: Option<Digest>,
    /// The key that signs this event: the first one, or the one that the previous event committed to.
    #[n(4)]
    pub key: PublicKey,
    /// The next two keys; absent in a revocation.
    #[n(5)]
    pub next: Option<NextKeys>,
    /// Unix milliseconds.
    #[n(6)]
    pub issued_at_ms: u64,
    /// Rotation: until when the previous key is accepted, Unix milliseconds, at most 24 h after `issued_at_ms`.
    #[n(7)]
    pub previous_until_ms: Option<u64>,
}

/// The commitment of an event: SHA-256 of the 32 bytes of each of the next two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct NextKeys {
    /// Signs the next event. Except in the inception, it repeats the second one of the previous event.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub first: Digest,
    /// Signs the event after that.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub second: Digest,
}

impl Statement for KeyEvent {
    const KIND: Kind = Kind::KeyEvent;
    fn kind(&self) -> Kind {
        self.kind
    }
}

/// Why a key log is refused, or does not accept a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyLogError {
    /// No event at all.
    #[error("the key log is empty")]
    Empty,
    /// More events than a log may have.
    #[error("the key log has more than {KEYLOG_EVENTS_MAX} events")]
    TooLong,
    /// An event is not a valid object.
    #[error("event {at} of the key log: {reason}")]
    Event {
        /// Its index.
        at: usize,
        /// What is wrong.
        reason: ObjectError,
    },
    /// An event does not continue the log.
    #[error("event {at} of the key log {rule}")]
    Chain {
        /// Its index.
        at: usize,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// The publisher was revoked.
    #[error("the publisher {0} revoked its keys")]
    Revoked(PublisherId),
    /// The key is not (or not any more) valid for the publisher.
    #[error("{key} does not speak for the publisher {publisher}")]
    NotItsKey {
        /// The key.
        key: PublicKey,
        /// The publisher.
        publisher: PublisherId,
    },
    /// A newer or conflicting key log of the publisher was seen before.
    #[error("the key log that was shown of the publisher {0} is not the one that was seen before, nor goes on from it")]
    Outdated(PublisherId),
    /// No key log of the publisher was seen.
    #[error("which keys speak for the publisher {0} is not known: no key log of it was shown")]
    Unknown(PublisherId),
}

/// A verified key log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLog {
    events: Vec<Authored<KeyEvent>>,
    publisher: PublisherId,
}

/// The relation of two logs of one publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// It has the same events.
    Same,
    /// It extends the other.
    Continues,
    /// The other extends it.
    IsContinued,
    /// They fork, and this one is the publisher's: it continued with a key that was committed to before the fork, which the
    /// other did not.
    Displaces,
    /// The same, the other way round.
    IsDisplaced,
    /// They fork, and nothing proves which is the publisher's.
    Contradicts,
}

/// The inception event of a log: signed by `key`, committing to the `next` two keys.
#[must_use]
pub fn inception(key: &SecretKey, next: [PublicKey; 2], now_ms: u64) -> Authored<KeyEvent> {
    let [first, second] = next.map(|key| digest(key.as_bytes()));
    let event = KeyEvent {
        kind: Kind::KeyEvent,
        change: Change::Inception,
        sequence: 0,
        previous: None,
        key: key.public(),
        next: Some(NextKeys { first, second }),
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
        KeyLog::verify_onto(None, events)
    }

    /// Verifies a whole log; events that are part of the `known` log are not verified again.
    ///
    /// # Errors
    /// See [`KeyLogError`].
    pub fn verify_onto<B: AsRef<[u8]>>(known: Option<&KeyLog>, events: &[B]) -> Result<KeyLog, KeyLogError> {
        let publisher = KeyLog::claimed(events).ok_or(KeyLogError::Empty)?;
        if events.len() > KEYLOG_EVENTS_MAX {
            return Err(KeyLogError::TooLong);
        }
        let mut log = KeyLog { events: Vec::with_capacity(events.len()), publisher };
        let known = known.map_or(&[][..], |known| &known.events);
        let same = known.iter().zip(events).take_while(|(known, bytes)| known.bytes == bytes.as_ref()).count();
        log.events.extend_from_slice(&known[..same]);
        for bytes in &events[same..] {
            let at = log.events.len();
            let event =
                object::open::<KeyEvent>(bytes.as_ref(), "", "").map_err(|reason| KeyLogError::Event { at, reason })?;
            log.append(event)?;
        }
        Ok(log)
    }

    /// How many of `events` are not part of the `known` log: the cost of [`KeyLog::verify_onto`].
    #[must_use]
    pub fn unverified<B: AsRef<[u8]>>(known: Option<&KeyLog>, events: &[B]) -> usize {
        let known = known.map_or(&[][..], |known| &known.events);
        let same = known.iter().zip(events).take_while(|(known, bytes)| known.bytes == bytes.as_ref()).count();
        events.len() - same
    }

    /// The publisher whose log these are, if they are one; none without any. Verifies nothing.
    #[must_use]
    pub fn claimed<B: AsRef<[u8]>>(events: &[B]) -> Option<PublisherId> {
        events.first().map(|first| PublisherId::from_digest(digest(first.as_ref())))
    }

    /// Whether the events form a hash chain, so that the digest of the last one identifies all of them. Verifies no
    /// signatures.
    #[must_use]
    pub fn is_chained<B: AsRef<[u8]>>(events: &[B]) -> bool {
        let previous = |event: &B| claimed_member(event.as_ref(), 3)?.bytes().ok().map(<[u8]>::to_vec);
        let begins = events.first().is_some_and(|first| claimed_member(first.as_ref(), 3).is_none());
        begins
            && events.windows(2).all(|pair| previous(&pair[1]).is_some_and(|named| named == digest(pair[0].as_ref())))
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

    /// Appends the rotation to `key`; the old key stays valid for `overlap_ms` (at most 24 h). The log has committed to the key
    /// after `key` already; `after_next` follows that one.
    ///
    /// # Errors
    /// [`KeyLogError::Chain`] when `key` is not the one that the log committed to, or the log is revoked;
    /// [`KeyLogError::TooLong`].
    pub fn rotate(
        &self,
        key: &SecretKey,
        after_next: PublicKey,
        now_ms: u64,
        overlap_ms: u64,
    ) -> Result<KeyLog, KeyLogError> {
        // After a revocation there is none, and the event is refused.
        let first = self.last().body.next.map_or([0; 32], |next| next.second);
        let next = NextKeys { first, second: digest(after_next.as_bytes()) };
        self.extend(Change::Rotation, key, Some(next), now_ms, Some(now_ms.saturating_add(overlap_ms)))
    }

    /// Appends the revocation, signed by the key that the log committed to.
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
        next: Option<NextKeys>,
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

    /// The publisher: the digest of the first event.
    #[must_use]
    pub fn publisher(&self) -> PublisherId {
        self.publisher
    }

    /// The first event alone.
    #[must_use]
    pub fn inception(&self) -> KeyLog {
        KeyLog { events: vec![self.events[0].clone()], publisher: self.publisher }
    }

    /// The number of events: if one log extends another, the longer one is newer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Never: a verified log has an inception.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether `self` equals or extends `older`, so that a node that has seen `older` may accept it.
    #[must_use]
    pub fn continues(&self, older: &KeyLog) -> bool {
        self.events.starts_with(&older.events)
    }

    /// Its relation to `other`, a log of the same publisher (SPEC P-48).
    #[must_use]
    pub fn relation(&self, other: &KeyLog) -> Relation {
        let common = self.events.iter().zip(&other.events).take_while(|(a, b)| a.bytes == b.bytes).count();
        match (self.len() - common, other.len() - common) {
            (0, 0) => Relation::Same,
            (_, 0) => Relation::Continues,
            (0, _) => Relation::IsContinued,
            // The second event after the fork is signed by a key that the last common event committed to.
            (2.., 1) => Relation::Displaces,
            (1, 2..) => Relation::IsDisplaced,
            _ => Relation::Contradicts,
        }
    }

    /// Whether it is revoked.
    #[must_use]
    pub fn revoked(&self) -> bool {
        self.last().body.change == Change::Revocation
    }

    /// The key of the last event, valid for the publisher unless the log is revoked.
    #[must_use]
    pub fn current(&self) -> PublicKey {
        self.last().body.key
    }

    /// Whether `key` must sign the next event.
    #[must_use]
    pub fn commits_to(&self, key: PublicKey) -> bool {
        self.last().body.next.is_some_and(|next| next.first == digest(key.as_bytes()))
    }

    /// Whether `key` must sign the event after the next.
    #[must_use]
    pub fn commits_later_to(&self, key: PublicKey) -> bool {
        self.last().body.next.is_some_and(|next| next.second == digest(key.as_bytes()))
    }

    /// The digest of the last event, which identifies the whole log.
    #[must_use]
    pub fn head(&self) -> Digest {
        self.last().digest()
    }

    /// The events, the inception first.
    pub fn events(&self) -> impl Iterator<Item = &KeyEvent> {
        self.events.iter().map(|event| &event.body)
    }

    /// The digest of the event at `at`.
    #[must_use]
    pub fn digest_at(&self, at: usize) -> Option<Digest> {
        self.events.get(at).map(Authored::digest)
    }

    /// Bytes of all events as signed.
    #[must_use]
    pub fn size(&self) -> usize {
        self.events.iter().map(|event| event.bytes.len()).sum()
    }

    /// The events' bytes, to be stored or sent.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<Vec<u8>> {
        self.events.iter().map(|event| event.bytes.clone()).collect()
    }

    /// Checks that `key` is valid for the publisher at `now_ms`.
    ///
    /// # Errors
    /// [`KeyLogError::Revoked`] or [`KeyLogError::NotItsKey`].
    pub fn accepts(&self, key: PublicKey, now_ms: u64) -> Result<(), KeyLogError> {
        let last = &self.last().body;
        if self.revoked() {
            return Err(KeyLogError::Revoked(self.publisher()));
        }
        let before = self.events.len().checked_sub(2).map(|at| self.events[at].body.key);
        // Otherwise a rotation dated into the future would extend the overlap beyond 24 hours.
        let begun = last.issued_at_ms <= now_ms.saturating_add(CLOCK_SKEW_MAX_MS);
        let overlaps = begun && before == Some(key) && last.previous_until_ms.is_some_and(|until| now_ms <= until);
        if last.key == key || overlaps {
            Ok(())
        } else {
            Err(KeyLogError::NotItsKey { key, publisher: self.publisher() })
        }
    }

    /// Checks that `key` was the publisher's at `at_ms`, for statements that somebody accepted then. A revocation ends all.
    ///
    /// # Errors
    /// [`KeyLogError::Revoked`] or [`KeyLogError::NotItsKey`].
    pub fn accepted(&self, key: PublicKey, at_ms: u64) -> Result<(), KeyLogError> {
        if self.revoked() {
            return Err(KeyLogError::Revoked(self.publisher()));
        }
        let until = |at: usize| {
            self.events.get(at + 1).map_or(u64::MAX, |next| {
                let next = &next.body;
                next.previous_until_ms.unwrap_or(next.issued_at_ms).saturating_add(CLOCK_SKEW_MAX_MS)
            })
        };
        let of_key = |(at, event): (usize, &Authored<KeyEvent>)| {
            let from = event.body.issued_at_ms.saturating_sub(CLOCK_SKEW_MAX_MS);
            event.body.key == key && from <= at_ms && at_ms <= until(at)
        };
        if self.events.iter().enumerate().any(of_key) {
            Ok(())
        } else {
            Err(KeyLogError::NotItsKey { key, publisher: self.publisher() })
        }
    }

    fn last(&self) -> &Authored<KeyEvent> {
        self.events.last().expect("a verified log has an inception")
    }
}

/// Whether this is an event of an earlier version of the protocol, which committed to one key only. Checks nothing else.
#[must_use]
pub fn is_of_an_earlier_version(event: &[u8]) -> bool {
    let next = claimed_member(event, 5).and_then(|next| next.datatype().ok());
    next == Some(minicbor::data::Type::Bytes)
}

/// The rule that `event` violates as the successor of `last`, if any.
fn continues(last: Option<&Authored<KeyEvent>>, event: &Authored<KeyEvent>) -> Option<&'static str> {
    let body = &event.body;
    if event.signer != body.key {
        return Some("is not signed by the key that it names");
    }
    if (body.change == Change::Revocation) != body.next.is_none() {
        return Some("must commit to the next keys unless it revokes");
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
        (
            last.body.next.map(|next| next.first) != Some(digest(body.key.as_bytes())),
            "uses a key that was not committed to",
        ),
        (
            body.next.is_some_and(|next| last.body.next.is_none_or(|before| before.second != next.first)),
            "does not repeat the second key that the event before it committed to",
        ),
        (body.issued_at_ms < last.body.issued_at_ms, "is older than the event before it"),
        (body.previous_until_ms.is_some_and(|until| until > latest), "accepts the old key for more than 24 h"),
    ];
    broken.iter().find(|(broken, _)| *broken).map(|(_, rule)| *rule)
}
