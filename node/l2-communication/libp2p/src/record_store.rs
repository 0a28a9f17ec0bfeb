//! libp2p's Kademlia `RecordStore` on top of L2's [`Records`], which decides what is stored.
//!
//! libp2p's republishing jobs are off: L3 republishes this node's records.

use std::borrow::Cow;
use std::collections::BTreeSet;

use althing_communication::address_groups::AddressGroup;
use althing_communication::records::{RecordLimits, RecordRefused, Records};
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

/// The stored records, bounded by origin and distance.
pub(crate) struct BoundedRecordStore {
    pub local: PublicKey,
    begun: Instant,
    records: Records,
    provided: BTreeSet<RecordKey>,
    pub refused: u64,
    /// Peers that tried to store malformed or forged records, since the last call of `take_offences`.
    offences: Vec<PublicKey>,
}

impl BoundedRecordStore {
    pub fn new(local: PublicKey) -> BoundedRecordStore {
        BoundedRecordStore {
            local,
            begun: Instant::now(),
            records: Records::new(local, RecordLimits::default()),
            provided: BTreeSet::new(),
            refused: 0,
            offences: Vec::new(),
        }
    }

    /// Monotonic milliseconds.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn count(&mut self, outcome: std::result::Result<(), RecordRefused>, from: PublicKey) {
        if let Err(reason) = outcome {
            self.refused += 1;
            tracing::debug!(%from, %reason, "record refused");
        }
    }

    /// `peer` tried to store a malformed or forged record.
    pub fn record_offence(&mut self, peer: PublicKey) {
        self.refused += 1;
        self.offences.push(peer);
    }

    /// The peers that did so since the last call.
    pub fn take_offences(&mut self) -> Vec<PublicKey> {
        std::mem::take(&mut self.offences)
    }

    pub fn contains(&self, key: RecordKey, bytes: &[u8]) -> bool {
        self.records.contains(key, bytes)
    }

    /// Stores a verified value, which expires `in_ms` from now.
    pub fn store(&mut self, from: (PublicKey, Option<AddressGroup>), key: RecordKey, value: Value, in_ms: u64) {
        let now_ms = self.now_ms();
        let kept = self.records.put(now_ms, from, key, value, now_ms.saturating_add(in_ms));
        self.count(kept, from.0);
    }

    /// Stores a provider record.
    pub fn provide(&mut self, node: (PublicKey, Option<AddressGroup>), key: RecordKey, addresses: Vec<String>) {
        let kept = self.records.provide(self.now_ms(), node, key, addresses);
        self.count(kept, node.0);
    }

    /// The stored providers of `key`.
    pub fn providers_of(&self, key: RecordKey) -> Vec<Provider> {
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

impl RecordStore for BoundedRecordStore {
    type RecordsIter<'a> = std::iter::Empty<Cow<'a, Record>>;
    type ProvidedIter<'a> = std::iter::Empty<Cow<'a, ProviderRecord>>;

    fn get(&self, key: &Key) -> Option<Cow<'_, Record>> {
        let read = RecordKey::from_multihash(key.as_ref())?;
        let value = self.records.value(self.now_ms(), read)?;
        // The value itself has an expiry; that of the record only limits caching.
        Some(Cow::Owned(Record::new(key.clone(), value.to_vec())))
    }

    /// libp2p calls this for own values only, which `store` has stored already.
    fn put(&mut self, _: Record) -> Result<()> {
        Ok(())
    }

    /// [`BoundedRecordStore::sweep`] drops expired records.
    fn remove(&mut self, _: &Key) {}

    fn records(&self) -> Self::RecordsIter<'_> {
        std::iter::empty()
    }

    /// libp2p calls this for own provider records only.
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
        let others = self.providers_of(read).into_iter().map(parse);
        // Without addresses: libp2p adds the current ones of this node.
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
