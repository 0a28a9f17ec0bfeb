//! The records that this node stores for the DHT: verified values, and provider records.
//!
//! **Bounded** in total, per sender, per address group and per key. When the store is full, the records farthest from this node
//! make room for closer ones, since others look for them elsewhere: a flood of random keys displaces itself.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::record::{RecordKey, Value};
use althing_protocol::{Digest, PublicKey};

use crate::machine::address_groups::AddressGroup;
use crate::machine::tally::Tally;
use crate::routing::{K, Provider};

/// The lifetime of a provider record, milliseconds.
pub const PROVIDER_TTL_MS: u64 = 2 * 60 * 60 * 1_000;
/// The longest lifetime of a value, milliseconds.
pub const VALUE_TTL_MS: u64 = 24 * 60 * 60 * 1_000;
/// Addresses of one provider.
const ADDRESSES_MAX: usize = 8;
/// Bytes of one address.
const ADDRESS_BYTES_MAX: usize = 256;

/// Capacities, each with its reason.
#[derive(Debug, Clone, Copy)]
pub struct RecordLimits {
    /// Values in all: contacts of 4,096 nodes, and their owners' key logs.
    pub values: usize,
    /// Their bytes.
    pub value_bytes: usize,
    /// Values from one node: its contact, its owner's key log, and room for logs of other owners.
    pub values_per_sender: usize,
    /// Values from one group of addresses.
    pub values_per_group: usize,
    /// Provider records in all.
    pub providers: usize,
    /// Provider records of one node: 500 agents of four keys each.
    pub providers_per_node: usize,
    /// Provider records of one group of addresses.
    pub providers_per_group: usize,
    /// Providers of one key in one group of addresses.
    pub group_per_key: usize,
    /// Providers of one key.
    pub per_key: usize,
}

impl Default for RecordLimits {
    fn default() -> Self {
        RecordLimits {
            values: 8_192,
            value_bytes: 16 << 20,
            values_per_sender: 16,
            values_per_group: 256,
            providers: 65_536,
            providers_per_node: 2_048,
            providers_per_group: 8_192,
            group_per_key: 3,
            per_key: K,
        }
    }
}

/// Why a record is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordRefused {
    /// A newer value, or another one of the same age, is stored.
    #[error("the stored value is not older")]
    Stale,
    /// Its sender, or the address group of that, has its share.
    #[error("{0} has as many records here as it may have")]
    Share(&'static str),
    /// The store is full, and the record is farther away than all others.
    #[error("there is no room for it")]
    Full,
    /// No address, one that is too long, or too many.
    #[error("it has no addresses, or too many, or too long ones")]
    Addresses,
}

struct StoredValue {
    value: Value,
    bytes: Vec<u8>,
    sender: PublicKey,
    group: Option<AddressGroup>,
    until_ms: u64,
}

/// A node that provides something.
struct ProviderNode {
    addresses: Vec<String>,
    group: Option<AddressGroup>,
    keys: BTreeSet<RecordKey>,
}

/// The stored records.
pub struct Records {
    local: PublicKey,
    /// This node's position in the key space.
    position: Digest,
    limits: RecordLimits,
    values: BTreeMap<RecordKey, StoredValue>,
    value_bytes: usize,
    /// Values of each sender, and of each group of addresses.
    of_sender: Tally<PublicKey>,
    of_group: Tally<AddressGroup>,
    /// The values' keys by distance.
    values_by: BTreeMap<Digest, RecordKey>,
    providers: BTreeMap<RecordKey, BTreeMap<PublicKey, u64>>,
    /// The providers' keys by distance.
    providers_by: BTreeMap<Digest, RecordKey>,
    nodes: BTreeMap<PublicKey, ProviderNode>,
    /// Provider records in all, and of each group of addresses.
    provided: usize,
    provided_of_group: Tally<AddressGroup>,
}

/// The position of a key: Kademlia of libp2p compares SHA-256 digests.
#[must_use]
pub fn position_of_key(key: RecordKey) -> Digest {
    althing_protocol::digest(&key.to_multihash())
}

/// The position of a node.
#[must_use]
pub fn position_of_node(node: PublicKey) -> Digest {
    althing_protocol::digest(&node.peer_id_bytes())
}

/// The XOR distance of two positions.
#[must_use]
pub fn distance(a: &Digest, b: &Digest) -> Digest {
    std::array::from_fn(|at| a[at] ^ b[at])
}

/// The bucket of a routing table at `from` that a position belongs to: the bit length of their distance. 256 is the farther half
/// of the key space.
#[must_use]
pub fn bucket(from: &Digest, to: &Digest) -> u32 {
    let distance = distance(from, to);
    let at = distance.iter().position(|byte| *byte != 0).unwrap_or(32);
    let after = u32::try_from(32 - at).unwrap_or(0) * 8;
    distance.get(at).map_or(0, |byte| after - byte.leading_zeros())
}

impl Records {
    /// An empty store. `local` is this node.
    #[must_use]
    pub fn new(local: PublicKey, limits: RecordLimits) -> Records {
        Records {
            local,
            position: position_of_node(local),
            limits,
            values: BTreeMap::new(),
            value_bytes: 0,
            of_sender: Tally::default(),
            of_group: Tally::default(),
            values_by: BTreeMap::new(),
            providers: BTreeMap::new(),
            providers_by: BTreeMap::new(),
            nodes: BTreeMap::new(),
            provided: 0,
            provided_of_group: Tally::default(),
        }
    }

    /// The distance of a key from this node.
    fn distance_to(&self, key: RecordKey) -> Digest {
        distance(&self.position, &position_of_key(key))
    }

    /// Is that very value stored already? Then it need not be verified again.
    #[must_use]
    pub fn contains(&self, key: RecordKey, bytes: &[u8]) -> bool {
        self.values.get(&key).is_some_and(|kept| kept.bytes == bytes)
    }

    /// Stores `value`, which was verified for `key`, until `until_ms` by this node's clock.
    ///
    /// # Errors
    /// See [`RecordRefused`].
    pub fn put(
        &mut self,
        now_ms: u64,
        sender: (PublicKey, Option<AddressGroup>),
        key: RecordKey,
        value: Value,
        until_ms: u64,
    ) -> Result<(), RecordRefused> {
        let (sender, group) = sender;
        let bytes = value.encode();
        let until_ms = until_ms.min(now_ms + VALUE_TTL_MS);
        if let Some(held) = self.values.get_mut(&key) {
            if held.bytes == bytes {
                held.until_ms = held.until_ms.max(until_ms);
                return Ok(());
            }
            if !value.replaces(&held.value) {
                return Err(RecordRefused::Stale);
            }
        }
        // The value that it replaces does not count.
        let held = self.values.get(&key);
        let of_sender = self.of_sender.of(sender) - usize::from(held.is_some_and(|held| held.sender == sender));
        if sender != self.local && of_sender >= self.limits.values_per_sender {
            return Err(RecordRefused::Share("its sender"));
        }
        let of_group = |of| self.of_group.of(of) - usize::from(held.is_some_and(|held| held.group == group));
        if group.is_some_and(|group| of_group(group) >= self.limits.values_per_group) {
            return Err(RecordRefused::Share("its sender's group of addresses"));
        }
        self.make_room(key, bytes.len())?;
        self.drop_value(key);
        self.value_bytes += bytes.len();
        self.values_by.insert(self.distance_to(key), key);
        self.of_sender.add(sender);
        group.into_iter().for_each(|group| self.of_group.add(group));
        self.values.insert(key, StoredValue { value, bytes, sender, group, until_ms });
        Ok(())
    }

    /// Makes room for a value of `len` bytes under `key`.
    fn make_room(&mut self, key: RecordKey, len: usize) -> Result<(), RecordRefused> {
        let held = self.values.get(&key).map_or(0, |kept| kept.bytes.len());
        let full = |records: &Records| {
            (held == 0 && records.values.len() >= records.limits.values)
                || records.value_bytes - held + len > records.limits.value_bytes
        };
        let here = self.distance_to(key);
        while full(self) {
            match self.values_by.last_key_value() {
                Some((far, farthest)) if *far > here => self.drop_value(*farthest),
                _ => return Err(RecordRefused::Full),
            }
        }
        Ok(())
    }

    fn drop_value(&mut self, key: RecordKey) {
        if let Some(kept) = self.values.remove(&key) {
            self.value_bytes -= kept.bytes.len();
            self.of_sender.remove(kept.sender);
            kept.group.into_iter().for_each(|group| self.of_group.remove(group));
            self.values_by.remove(&self.distance_to(key));
        }
    }

    /// Stores that `node` provides `key`.
    ///
    /// # Errors
    /// See [`RecordRefused`].
    pub fn provide(
        &mut self,
        now_ms: u64,
        node: (PublicKey, Option<AddressGroup>),
        key: RecordKey,
        addresses: Vec<String>,
    ) -> Result<(), RecordRefused> {
        let (node, group) = node;
        // A node whose address changes counts for its first group while records of it are stored.
        let group = match self.nodes.get(&node) {
            Some(ProviderNode { group: Some(first), .. }) => Some(*first),
            Some(_) => self.charge(node, group)?,
            None => group,
        };
        let too_long = |address: &String| address.is_empty() || address.len() > ADDRESS_BYTES_MAX;
        if addresses.is_empty() || addresses.len() > ADDRESSES_MAX || addresses.iter().any(too_long) {
            return Err(RecordRefused::Addresses);
        }
        let until_ms = now_ms + PROVIDER_TTL_MS;
        let of_key = self.providers.get(&key);
        let known = of_key.is_some_and(|nodes| nodes.contains_key(&node));
        if !known {
            self.may_provide(node, group, key)?;
        }
        let kept = self.nodes.entry(node).or_insert_with(|| ProviderNode {
            addresses: Vec::new(),
            group,
            keys: BTreeSet::new(),
        });
        kept.addresses = addresses;
        kept.keys.insert(key);
        if !known {
            self.provided += 1;
            group.into_iter().for_each(|group| self.provided_of_group.add(group));
        }
        self.providers.entry(key).or_default().insert(node, until_ms);
        self.providers_by.insert(self.distance_to(key), key);
        Ok(())
    }

    /// Counts the records of a node whose group was unknown for `group`, within its limits.
    fn charge(&mut self, node: PublicKey, group: Option<AddressGroup>) -> Result<Option<AddressGroup>, RecordRefused> {
        let (Some(of), Some(kept)) = (group, self.nodes.get(&node)) else { return Ok(group) };
        let full = self.provided_of_group.of(of) + kept.keys.len() > self.limits.providers_per_group;
        if full || kept.keys.iter().any(|key| self.of_group_under(*key, of) >= self.limits.group_per_key) {
            return Err(RecordRefused::Share("its group of addresses"));
        }
        for _ in 0..kept.keys.len() {
            self.provided_of_group.add(of);
        }
        if let Some(kept) = self.nodes.get_mut(&node) {
            kept.group = group;
        }
        Ok(group)
    }

    /// The providers of `key` in a group of addresses.
    fn of_group_under(&self, key: RecordKey, of: AddressGroup) -> usize {
        let there = self.providers.get(&key).into_iter().flat_map(BTreeMap::keys);
        there.filter(|there| self.nodes.get(there).is_some_and(|kept| kept.group == Some(of))).count()
    }

    fn may_provide(
        &mut self,
        node: PublicKey,
        group: Option<AddressGroup>,
        key: RecordKey,
    ) -> Result<(), RecordRefused> {
        if self.nodes.get(&node).is_some_and(|kept| kept.keys.len() >= self.limits.providers_per_node) {
            return Err(RecordRefused::Share("it"));
        }
        if let Some(of) = group {
            let full = self.provided_of_group.of(of) >= self.limits.providers_per_group;
            if full || self.of_group_under(key, of) >= self.limits.group_per_key {
                return Err(RecordRefused::Share("its group of addresses"));
            }
        }
        // The oldest stay: newcomers cannot displace others, and expired records make room.
        if self.providers.get(&key).is_some_and(|nodes| nodes.len() >= self.limits.per_key) {
            return Err(RecordRefused::Full);
        }
        if self.provided >= self.limits.providers {
            match self.providers_by.last_key_value() {
                Some((far, farthest)) if *far > self.distance_to(key) => self.drop_key(*farthest),
                _ => return Err(RecordRefused::Full),
            }
        }
        Ok(())
    }

    fn drop_key(&mut self, key: RecordKey) {
        self.providers_by.remove(&self.distance_to(key));
        for node in self.providers.remove(&key).unwrap_or_default().into_keys() {
            self.unlink(node, key);
        }
    }

    fn unlink(&mut self, node: PublicKey, key: RecordKey) {
        if let Some(kept) = self.nodes.get_mut(&node)
            && kept.keys.remove(&key)
        {
            self.provided -= 1;
            kept.group.into_iter().for_each(|group| self.provided_of_group.remove(group));
            if kept.keys.is_empty() {
                self.nodes.remove(&node);
            }
        }
    }

    /// `node` no longer provides `key`.
    pub fn withdraw(&mut self, node: PublicKey, key: RecordKey) {
        if let Some(nodes) = self.providers.get_mut(&key) {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.providers.remove(&key);
                self.providers_by.remove(&distance(&self.position, &position_of_key(key)));
            }
            self.unlink(node, key);
        }
    }

    /// The value under `key`, encoded.
    #[must_use]
    pub fn value(&self, now_ms: u64, key: RecordKey) -> Option<&[u8]> {
        self.values.get(&key).filter(|kept| kept.until_ms > now_ms).map(|kept| kept.bytes.as_slice())
    }

    /// All values, encoded.
    pub fn values(&self, now_ms: u64) -> impl Iterator<Item = (RecordKey, &[u8])> {
        let there = self.values.iter().filter(move |(_, kept)| kept.until_ms > now_ms);
        there.map(|(key, kept)| (*key, kept.bytes.as_slice()))
    }

    /// The providers of `key`.
    #[must_use]
    pub fn providers(&self, now_ms: u64, key: RecordKey) -> Vec<Provider> {
        let nodes = self.providers.get(&key).into_iter().flatten().filter(|(_, until_ms)| **until_ms > now_ms);
        let known = nodes.filter_map(|(node, _)| Some((node, self.nodes.get(node)?)));
        known.map(|(node, kept)| Provider { node: *node, addresses: kept.addresses.clone() }).collect()
    }

    /// Drops expired records.
    pub fn sweep(&mut self, now_ms: u64) {
        let over: Vec<RecordKey> =
            self.values.iter().filter(|(_, kept)| kept.until_ms <= now_ms).map(|(key, _)| *key).collect();
        over.into_iter().for_each(|key| self.drop_value(key));
        let over: Vec<(PublicKey, RecordKey)> = self
            .providers
            .iter()
            .flat_map(|(key, nodes)| nodes.iter().map(move |(node, until_ms)| (*node, *key, *until_ms)))
            .filter(|(_, _, until_ms)| *until_ms <= now_ms)
            .map(|(node, key, _)| (node, key))
            .collect();
        over.into_iter().for_each(|(node, key)| self.withdraw(node, key));
    }

    /// The numbers of values and provider records.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.values.len(), self.provided)
    }
}

#[cfg(test)]
mod tests;
