//! The gossip messages about keys, and their limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{KeyringError, REFUSED_MAX, Withdrawal};
use crate::identity::PublisherId;
use crate::keylog::KeyLog;
use crate::limits::{BODY_BYTES_MAX, KEYLOG_EVENTS_MAX, KEYRING_LOGS_MAX, KEYRING_WITHDRAWALS_MAX};
use crate::object::Authored;
use crate::{Digest, cbor};

/// CBOR items of one message of news, of the 4,096 that a message may have.
const NEWS_ITEMS_MAX: usize = 4_000;
/// Bytes of one message of news.
const NEWS_BYTES_MAX: usize = BODY_BYTES_MAX - (64 << 10);

/// The items of one message: chosen without copying, encoded later.
#[derive(Debug, Default)]
pub struct Selected {
    logs: BTreeMap<PublisherId, Arc<KeyLog>>,
    withdrawals: Vec<Arc<Authored<Withdrawal>>>,
    items: usize,
    bytes: usize,
}

impl Selected {
    fn fits(&mut self, more_items: usize, more_bytes: usize) -> bool {
        let (items, bytes) = (self.items + more_items, self.bytes + more_bytes + 8 * more_items);
        let fits = items + 8 <= NEWS_ITEMS_MAX && bytes + 64 <= NEWS_BYTES_MAX;
        if fits {
            (self.items, self.bytes) = (items, bytes);
        }
        fits
    }

    /// Adds a log, if it fits.
    pub fn add(&mut self, log: &Arc<KeyLog>) {
        if !self.logs.contains_key(&log.publisher()) && self.fits(log.len() + 1, log.size()) {
            self.logs.insert(log.publisher(), log.clone());
        }
    }

    /// Adds a withdrawal together with the log that verifies it, unless the peer knows that log: both or neither.
    pub fn withdrawal(&mut self, withdrawal: &Arc<Authored<Withdrawal>>, with: Option<&Arc<KeyLog>>) {
        let with = with.filter(|with| !self.logs.contains_key(&with.publisher()));
        let (items, bytes) = with.map_or((0, 0), |log| (log.len() + 1, log.size()));
        if self.fits(items + 1, bytes + withdrawal.bytes.len()) {
            self.withdrawals.push(withdrawal.clone());
            self.logs.extend(with.map(|log| (log.publisher(), log.clone())));
        }
    }

    /// The message.
    #[must_use]
    pub fn to_news(&self) -> News {
        let log = |log: &Arc<KeyLog>| log.to_bytes().into_iter().map(ByteVec::from).collect();
        News {
            logs: self.logs.values().map(log).collect(),
            withdrawals: self.withdrawals.iter().map(|withdrawal| withdrawal.bytes.clone().into()).collect(),
        }
    }
}

/// A message of news about keys: an answer or a push of `/althing/keys/1`.
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
    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.withdrawals.is_empty()
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Decodes a message of a peer; nothing in it is verified yet.
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

/// Decodes the request `compare`: the digests that the asking node knows, concatenated in one byte string.
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
