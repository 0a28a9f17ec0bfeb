//! Which keys speak for whom, as far as a node has heard (SPEC chapter 9): key logs that have changed, and withdrawals.
//! Decides; hears and stores nothing by itself.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::cbor::{self, CborError};
use crate::identity::PublicKey;
use crate::keylog::{KeyLog, KeyLogError};
use crate::limits::{BODY_BYTES_MAX, GRANT_LIFE_MAX_MS, KEYLOG_EVENTS_MAX, KEYRING_LOGS_MAX, KEYRING_WITHDRAWALS_MAX};
use crate::object::{self, Authored, Kind, Membership, ObjectError, Statement};
use crate::{Digest, VerifiedAgent};

/// Part of the room for logs that only those have whom the node was told to watch.
const KEPT_FOR_WATCHED: usize = KEYRING_LOGS_MAX / 4;
/// Withdrawals of one publisher; more of one that is watched.
const STRANGERS_WITHDRAWALS: usize = 16;
/// See [`STRANGERS_WITHDRAWALS`].
const WATCHED_WITHDRAWALS: usize = 1_024;
/// A withdrawal takes the place of another that ends this much earlier at least.
const AGAIN_MS: u64 = 60_000;
/// Logs that a node has refused, and does not want to be told of again.
pub const REFUSED_MAX: usize = 1_024;
/// Items of CBOR in one piece of news, of the 4,096 that a message may have.
const NEWS_ITEMS_MAX: usize = 4_000;
/// Bytes of one piece of news.
const NEWS_BYTES_MAX: usize = BODY_BYTES_MAX - (64 << 10);

/// A publisher takes back what it let a node do: grants and memberships of before mean nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Withdrawal {
    #[n(0)]
    kind: Kind,
    /// The publisher's inception key.
    #[n(1)]
    pub publisher: PublicKey,
    /// The node.
    #[n(2)]
    pub node: PublicKey,
    /// Grants and memberships that begin at this time or earlier are withdrawn, Unix milliseconds.
    #[n(3)]
    pub until_ms: u64,
}

impl Withdrawal {
    /// A withdrawal to be signed by the publisher's current key, with an empty network and scope.
    #[must_use]
    pub fn new(publisher: PublicKey, node: PublicKey, until_ms: u64) -> Withdrawal {
        Withdrawal { kind: Kind::Withdrawal, publisher, node, until_ms }
    }

    /// Is there anything left that it could withdraw? Nothing lives longer than a day.
    #[must_use]
    pub fn matters(&self, now_ms: u64) -> bool {
        now_ms <= self.until_ms.saturating_add(GRANT_LIFE_MAX_MS)
    }
}

impl Statement for Withdrawal {
    const KIND: Kind = Kind::Withdrawal;
    fn kind(&self) -> Kind {
        self.kind
    }
}

/// Why what was heard of keys is not taken, or what was shown is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// Not strict CBOR.
    #[error("the news are not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the news have the wrong shape: {0}")]
    Shape(String),
    /// The key log does not hold, or does not accept who signed.
    #[error(transparent)]
    KeyLog(#[from] KeyLogError),
    /// It goes another way than the log that was seen first.
    #[error("the key log of {0} contradicts the one that was seen before")]
    Forked(PublicKey),
    /// A withdrawal or membership that does not hold.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The publisher took it back.
    #[error("{publisher} has withdrawn what it let {node} do")]
    Withdrawn {
        /// Who took it back.
        publisher: PublicKey,
        /// From whom.
        node: PublicKey,
    },
    /// No room for what strangers do with their keys.
    #[error("there is no room for the keys of more strangers")]
    Full,
}

/// What is known of keys. Of a publisher that is not in it the first key speaks.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    /// Logs that have more than their inception.
    logs: BTreeMap<PublicKey, KeyLog>,
    /// The digests of their last events.
    heads: BTreeSet<Digest>,
    withdrawals: BTreeMap<(PublicKey, PublicKey), Authored<Withdrawal>>,
    watched: BTreeSet<PublicKey>,
}

impl Keyring {
    /// There is always room for what these publishers do with their keys.
    pub fn watch(&mut self, publishers: impl IntoIterator<Item = PublicKey>) {
        self.watched = publishers.into_iter().collect();
    }

    /// Takes a log. True when it says more than was known (SPEC P-48, P-67).
    ///
    /// # Errors
    /// [`KeyringError::Forked`] or [`KeyringError::Full`].
    pub fn learn(&mut self, log: KeyLog) -> Result<bool, KeyringError> {
        let publisher = log.publisher();
        if let Some(known) = self.logs.get(&publisher) {
            if known.continues(&log) {
                return Ok(false);
            }
            // Not even a revocation: every key but the first was committed to by an event before it, so that who stole
            // the current key could end the log one event earlier.
            if !log.continues(known) {
                return Err(KeyringError::Forked(publisher));
            }
        } else {
            if log.len() == 1 {
                return Ok(false);
            }
            let max =
                if self.watched.contains(&publisher) { KEYRING_LOGS_MAX } else { KEYRING_LOGS_MAX - KEPT_FOR_WATCHED };
            if self.logs.len() >= max {
                return Err(KeyringError::Full);
            }
        }
        self.heads.insert(log.head());
        if let Some(shorter) = self.logs.insert(publisher, log) {
            self.heads.remove(&shorter.head());
        }
        Ok(true)
    }

    /// Takes a withdrawal as it was signed. True when it says more than was known (SPEC P-68).
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn withdraw(&mut self, bytes: &[u8], now_ms: u64) -> Result<bool, KeyringError> {
        let withdrawal = object::open::<Withdrawal>(bytes, "", "")?;
        let body = &withdrawal.body;
        self.accepts(body.publisher, withdrawal.signer, now_ms)?;
        object::in_time(body.until_ms, body.until_ms.saturating_add(GRANT_LIFE_MAX_MS), now_ms)?;
        let about = (body.publisher, body.node);
        if let Some(known) = self.withdrawals.get(&about) {
            let speaks = self.accepts(known.body.publisher, known.signer, now_ms).is_ok();
            // What is a little newer would be news without end.
            if speaks && body.until_ms < known.body.until_ms.saturating_add(AGAIN_MS) {
                return Ok(false);
            }
        } else {
            let of_publisher = self.withdrawals.keys().filter(|(publisher, _)| *publisher == body.publisher).count();
            if self.withdrawals.len() >= KEYRING_WITHDRAWALS_MAX {
                self.withdrawals.retain(|_, known| known.body.matters(now_ms));
            }
            let watched = self.watched.contains(&body.publisher);
            let (max, most) = if watched {
                (KEYRING_WITHDRAWALS_MAX, WATCHED_WITHDRAWALS)
            } else {
                (KEYRING_WITHDRAWALS_MAX - KEPT_FOR_WATCHED, STRANGERS_WITHDRAWALS)
            };
            if self.withdrawals.len() >= max || of_publisher >= most {
                return Err(KeyringError::Full);
            }
        }
        self.withdrawals.insert(about, withdrawal);
        Ok(true)
    }

    /// The log of a publisher that has changed its keys.
    #[must_use]
    pub fn log(&self, publisher: PublicKey) -> Option<&KeyLog> {
        self.logs.get(&publisher)
    }

    /// May `key` speak for `publisher` at `now_ms`, by the longest log that was seen (SPEC P-46)?
    ///
    /// # Errors
    /// [`KeyLogError::Revoked`] or [`KeyLogError::NotItsKey`].
    pub fn accepts(&self, publisher: PublicKey, key: PublicKey, now_ms: u64) -> Result<(), KeyLogError> {
        match self.logs.get(&publisher) {
            Some(log) => log.accepts(key, now_ms),
            None if key == publisher => Ok(()),
            None => Err(KeyLogError::NotItsKey { key, publisher }),
        }
    }

    /// Has `publisher` taken back what it let `node` do from `begins_ms` on?
    ///
    /// # Errors
    /// [`KeyringError::Withdrawn`].
    pub fn stands(
        &self,
        publisher: PublicKey,
        node: PublicKey,
        begins_ms: u64,
        now_ms: u64,
    ) -> Result<(), KeyringError> {
        // A withdrawal is worth what its signer's word is worth now.
        let speaks = |known: &Authored<Withdrawal>| self.accepts(publisher, known.signer, now_ms).is_ok();
        match self.withdrawals.get(&(publisher, node)) {
            Some(known) if begins_ms <= known.body.until_ms && speaks(known) => {
                Err(KeyringError::Withdrawn { publisher, node })
            }
            _ => Ok(()),
        }
    }

    /// Is `node` its owner's by this membership (SPEC P-24)?
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn owns(
        &self,
        membership: &Authored<Membership>,
        node: PublicKey,
        now_ms: u64,
    ) -> Result<PublicKey, KeyringError> {
        let body = &membership.body;
        if body.node != node {
            return Err(ObjectError::WrongKey { signer: body.node, expected: node }.into());
        }
        body.in_force(now_ms)?;
        self.accepts(body.owner, membership.signer, now_ms)?;
        self.stands(body.owner, node, body.not_before_ms, now_ms)?;
        Ok(body.owner)
    }

    /// Does what was verified by the evidence's own key log also hold by what was heard?
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn holds(&self, agent: &VerifiedAgent, now_ms: u64) -> Result<(), KeyringError> {
        let publisher = agent.agent.publisher();
        if self.logs.contains_key(&publisher) {
            self.accepts(publisher, agent.description.signer, now_ms)?;
            self.accepts(publisher, agent.grant.signer, now_ms)?;
        }
        self.stands(publisher, agent.node, agent.grant.body.not_before_ms, now_ms)
    }

    /// Those whom the node was told to watch, and their logs where they have changed.
    pub fn watched(&self) -> impl Iterator<Item = (PublicKey, Option<&KeyLog>)> {
        self.watched.iter().map(|publisher| (*publisher, self.logs.get(publisher)))
    }

    /// The logs that have changed.
    pub fn logs(&self) -> impl Iterator<Item = &KeyLog> {
        self.logs.values()
    }

    /// What was withdrawn.
    pub fn withdrawals(&self) -> impl Iterator<Item = &Authored<Withdrawal>> {
        self.withdrawals.values()
    }

    /// Is a log with this last event known?
    #[must_use]
    pub fn knows(&self, head: &Digest) -> bool {
        self.heads.contains(head)
    }

    /// Names of all that is known: the digest of each log's last event and of each withdrawal.
    #[must_use]
    pub fn known(&self) -> BTreeSet<Digest> {
        let withdrawals = self.withdrawals.values().map(Authored::digest);
        self.heads.iter().copied().chain(withdrawals).collect()
    }

    /// What is not among `known`, as far as one message has room for it.
    #[must_use]
    pub fn news(&self, known: &BTreeSet<Digest>, now_ms: u64) -> News {
        let mut news = News::default();
        let (mut items, mut bytes) = (8, 64);
        let mut fits = |more_items: usize, more_bytes: usize| {
            let (all_items, all_bytes) = (items + more_items, bytes + more_bytes + 8 * more_items);
            let fits = all_items <= NEWS_ITEMS_MAX && all_bytes <= NEWS_BYTES_MAX;
            if fits {
                (items, bytes) = (all_items, all_bytes);
            }
            fits
        };
        for withdrawal in self.withdrawals.values() {
            let wanted = withdrawal.body.matters(now_ms) && !known.contains(&withdrawal.digest());
            if wanted && fits(1, withdrawal.bytes.len()) {
                news.withdrawals.push(withdrawal.bytes.clone().into());
            }
        }
        for log in self.logs.values().filter(|log| !known.contains(&log.head())) {
            let events = log.to_bytes();
            if fits(events.len() + 1, events.iter().map(Vec::len).sum()) {
                news.logs.push(events.into_iter().map(ByteVec::from).collect());
            }
        }
        news
    }
}

/// What a node tells another of keys: an answer of `/althing/keys/1`, and what is pushed there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct News {
    /// Key logs, each with all of its events.
    #[n(0)]
    pub logs: Vec<Vec<ByteVec>>,
    /// Withdrawals as signed.
    #[n(1)]
    pub withdrawals: Vec<ByteVec>,
}

impl News {
    /// Nothing is new.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.withdrawals.is_empty()
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what a peer tells; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`KeyringError::Cbor`] or [`KeyringError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<News, KeyringError> {
        cbor::check(bytes, BODY_BYTES_MAX)?;
        let news: News = minicbor::decode(bytes).map_err(|error| KeyringError::Shape(error.to_string()))?;
        if news.logs.iter().any(|log| log.len() > KEYLOG_EVENTS_MAX) || news.encode() != bytes {
            return Err(KeyringError::Shape("too many events, or members that this version does not know".to_owned()));
        }
        Ok(news)
    }
}

/// Reads the request `compare`: the digests that the asking node knows, behind each other in one byte string.
///
/// # Errors
/// [`KeyringError::Cbor`] or [`KeyringError::Shape`].
pub fn decode_known(bytes: &[u8]) -> Result<BTreeSet<Digest>, KeyringError> {
    cbor::check(bytes, 32 * (KEYRING_LOGS_MAX + KEYRING_WITHDRAWALS_MAX + REFUSED_MAX) + 16)?;
    let shape = |error: minicbor::decode::Error| KeyringError::Shape(error.to_string());
    let all = minicbor::Decoder::new(bytes).bytes().map_err(shape)?;
    let (digests, rest) = all.as_chunks::<32>();
    if !rest.is_empty() || !digests.is_sorted_by(|a, b| a < b) {
        return Err(KeyringError::Shape("digests of 32 bytes that ascend are wanted".to_owned()));
    }
    Ok(digests.iter().copied().collect())
}

/// The request that [`decode_known`] reads.
#[must_use]
pub fn encode_known(known: &BTreeSet<Digest>) -> Vec<u8> {
    let all: Vec<u8> = known.iter().flatten().copied().collect();
    minicbor::to_vec(ByteVec::from(all)).expect("writing to a vector cannot fail")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;
    use crate::keylog;

    const NOW: u64 = 1_800_000_000_000;

    fn key(seed: u8) -> SecretKey {
        SecretKey::from_seed(&[seed; 32])
    }

    fn log(first: u8, next: u8) -> KeyLog {
        let event = keylog::inception(&key(first), key(next).public(), NOW);
        KeyLog::verify(&[event.bytes]).expect("an inception")
    }

    #[test]
    fn a_stranger_s_keys_leave_room_for_those_of_the_watched() {
        let mut ring = Keyring::default();
        let numbered = |number: usize, purpose: u8| {
            let mut seed = [purpose; 32];
            seed[..8].copy_from_slice(&number.to_be_bytes());
            SecretKey::from_seed(&seed)
        };
        let rotated = |number: usize| {
            let event = keylog::inception(&numbered(number, 1), numbered(number, 2).public(), NOW);
            let log = KeyLog::verify(&[event.bytes]).expect("an inception");
            log.rotate(&numbered(number, 2), numbered(number, 3).public(), NOW, 0).expect("it may")
        };
        let room = KEYRING_LOGS_MAX - KEPT_FOR_WATCHED;
        for number in 0..room {
            assert_eq!(ring.learn(rotated(number)), Ok(true));
        }
        let one_more = rotated(room);
        assert_eq!(ring.learn(one_more.clone()), Err(KeyringError::Full));
        ring.watch([one_more.publisher()]);
        assert_eq!(ring.learn(one_more), Ok(true));
    }

    #[test]
    fn of_two_that_fork_the_first_stays_even_against_a_revocation() {
        let mut ring = Keyring::default();
        let here = log(1, 2).rotate(&key(2), key(3).public(), NOW, 0).expect("it may");
        let there = log(1, 2).rotate(&key(2), key(4).public(), NOW, 0).expect("it may");
        assert_eq!(ring.learn(log(1, 2)), Ok(false), "an inception says nothing that its key does not");
        assert_eq!(ring.learn(here.clone()), Ok(true));
        assert_eq!(ring.learn(here.clone()), Ok(false));
        assert_eq!(ring.learn(log(1, 2)), Ok(false));
        let forked = Err(KeyringError::Forked(key(1).public()));
        assert_eq!(ring.learn(there), forked);
        // Who stole the second key, rotated away or not, was committed to by the first event.
        let stolen = log(1, 2).revoke(&key(2), NOW).expect("it holds by itself");
        assert_eq!(ring.learn(stolen), forked);
        assert_eq!(ring.accepts(key(1).public(), key(2).public(), NOW), Ok(()));
        let last = here.revoke(&key(3), NOW).expect("it may");
        assert_eq!(ring.learn(last), Ok(true));
        assert_eq!(ring.accepts(key(1).public(), key(2).public(), NOW), Err(KeyLogError::Revoked(key(1).public())));
    }

    #[test]
    fn one_log_that_does_not_fit_keeps_no_other_out_of_the_news() {
        let mut ring = Keyring::default();
        // Twenty of 200 events do not fit into one message, and a short one does beside those that do.
        for first in 0..24_u8 {
            let mut other = KeyLog::verify(&[keylog::inception(
                &SecretKey::from_seed(&[first; 32]),
                SecretKey::from_seed(&[first ^ 0x80; 32]).public(),
                NOW,
            )
            .bytes])
            .expect("an inception");
            let mut seed = [first ^ 0x80; 32];
            let events = if first == 23 { 1 } else { 199 };
            for number in 0..events {
                let mut next = [first; 32];
                next[0] = number;
                next[1] = 0xff;
                let with = SecretKey::from_seed(&seed);
                other = other.rotate(&with, SecretKey::from_seed(&next).public(), NOW, 0).expect("it may");
                seed = next;
            }
            ring.learn(other).expect("there is room");
        }
        let news = ring.news(&BTreeSet::new(), NOW);
        assert!(news.encode().len() <= BODY_BYTES_MAX);
        assert!(news.logs.len() < 24 && news.logs.iter().any(|events| events.len() == 2), "{}", news.logs.len());
    }
}
