//! What Kademlia keeps for others: libp2p's `RecordStore` on top of L2's [`Records`], which decides what is kept.
//!
//! libp2p's own jobs that say things again are off: this node's records are said again by whoever wanted them said.

use std::borrow::Cow;
use std::collections::BTreeSet;

use althing_communication::groups::Group;
use althing_communication::records::{NotKept, RecordLimits, Records};
use althing_communication::routing::Provider;
use althing_protocol::PublicKey;
use althing_protocol::record::{RecordKey, Value};
use libp2p::kad::store::{Error, RecordStore, Result};
use libp2p::kad::{ProviderRecord, Record, RecordKey as Key};
use libp2p::{Multiaddr, PeerId};
use tokio::time::{Duration, Instant};

use crate::identity::{peer_id, public_key};

/// Keys that this node may provide.
const OWN_MAX: usize = 4_096;

/// What is kept.
pub(crate) struct Shelf {
    pub local: PublicKey,
    begun: Instant,
    records: Records,
    provided: BTreeSet<RecordKey>,
    pub refused: u64,
    /// Who wanted things kept that are none, since somebody last looked.
    offences: Vec<PublicKey>,
}

impl Shelf {
    pub fn new(local: PublicKey) -> Shelf {
        Shelf {
            local,
            begun: Instant::now(),
            records: Records::new(local, RecordLimits::default()),
            provided: BTreeSet::new(),
            refused: 0,
            offences: Vec::new(),
        }
    }

    /// Milliseconds that only rise.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&mut self, kept: std::result::Result<(), NotKept>, from: PublicKey) {
        if let Err(reason) = kept {
            self.refused += 1;
            tracing::debug!(%from, %reason, "record not kept");
        }
    }

    /// `peer` wanted something kept that is no record at all, or one that was forged.
    pub fn offended(&mut self, peer: PublicKey) {
        self.refused += 1;
        self.offences.push(peer);
    }

    /// Who did that since it was asked last.
    pub fn offences(&mut self) -> Vec<PublicKey> {
        std::mem::take(&mut self.offences)
    }

    pub fn holds(&self, key: RecordKey, bytes: &[u8]) -> bool {
        self.records.holds(key, bytes)
    }

    /// Keeps a value that was verified, and ends `in_ms` from now.
    pub fn keep(&mut self, from: (PublicKey, Option<Group>), key: RecordKey, value: Value, in_ms: u64) {
        let now_ms = self.now_ms();
        let kept = self.records.put(now_ms, from, key, value, now_ms.saturating_add(in_ms));
        self.note(kept, from.0);
    }

    /// Keeps that a node provides something.
    pub fn provide(&mut self, node: (PublicKey, Option<Group>), key: RecordKey, addresses: Vec<String>) {
        let kept = self.records.provide(self.now_ms(), node, key, addresses);
        self.note(kept, node.0);
    }

    /// Who provides what `key` stands for, as far as this node knows.
    pub fn known(&self, key: RecordKey) -> Vec<Provider> {
        self.records.providers(self.now_ms(), key)
    }

    pub fn sweep(&mut self) {
        let now_ms = self.now_ms();
        self.records.sweep(now_ms);
    }

    /// Values and provider records.
    pub fn len(&self) -> (usize, usize) {
        self.records.len()
    }
}

impl RecordStore for Shelf {
    type RecordsIter<'a> = std::iter::Empty<Cow<'a, Record>>;
    type ProvidedIter<'a> = std::iter::Empty<Cow<'a, ProviderRecord>>;

    fn get(&self, key: &Key) -> Option<Cow<'_, Record>> {
        let read = RecordKey::from_multihash(key.as_ref())?;
        let value = self.records.value(self.now_ms(), read)?;
        // Its end is in the value; that of the record is only how long others may keep it.
        Some(Cow::Owned(Record::new(key.clone(), value.to_vec())))
    }

    /// Only this node's own come this way, which are kept where all are.
    fn put(&mut self, _: Record) -> Result<()> {
        Ok(())
    }

    /// What has ended is dropped by [`Shelf::sweep`].
    fn remove(&mut self, _: &Key) {}

    fn records(&self) -> Self::RecordsIter<'_> {
        std::iter::empty()
    }

    /// Only this node's own come this way.
    fn add_provider(&mut self, record: ProviderRecord) -> Result<()> {
        let key = RecordKey::from_multihash(record.key.as_ref()).ok_or(Error::MaxProvidedKeys)?;
        if public_key(record.provider) != Some(self.local) || self.provided.len() >= OWN_MAX {
            return Err(Error::MaxProvidedKeys);
        }
        self.provided.insert(key);
        Ok(())
    }

    fn providers(&self, key: &Key) -> Vec<ProviderRecord> {
        let Some(read) = RecordKey::from_multihash(key.as_ref()) else { return Vec::new() };
        let record = |node: PublicKey, addresses: Vec<Multiaddr>| ProviderRecord {
            key: key.clone(),
            provider: peer_id(node),
            expires: Some((Instant::now() + Duration::from_secs(60)).into_std()),
            addresses,
        };
        let parse = |provider: Provider| {
            let addresses = provider.addresses.iter().filter_map(|address| address.parse().ok()).collect();
            record(provider.node, addresses)
        };
        let others = self.known(read).into_iter().map(parse);
        // Without addresses: libp2p adds those that this node has now.
        let own = self.provided.contains(&read).then(|| record(self.local, Vec::new()));
        own.into_iter().chain(others).collect()
    }

    fn provided(&self) -> Self::ProvidedIter<'_> {
        std::iter::empty()
    }

    fn remove_provider(&mut self, key: &Key, provider: &PeerId) {
        let (Some(key), Some(node)) = (RecordKey::from_multihash(key.as_ref()), public_key(*provider)) else { return };
        if node == self.local {
            self.provided.remove(&key);
        } else {
            self.records.withdraw(node, key);
        }
    }
}
