//! What this node keeps of the table for others: values that proved themselves, and who provides what. Decides; it
//! knows no transport, and no clock but the times that it is told.
//!
//! **Bounded** in every direction: entries in all, of one sender, of one group of addresses, for one key. When all is
//! full, what is farthest from this node makes room for what is nearer, as others look for it elsewhere anyway: a flood
//! of keys that lie anywhere pushes out its own.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::record::{RecordKey, Value};
use althing_protocol::{Digest, PublicKey};

use crate::groups::Group;
use crate::routing::{K, Provider};
use crate::tally::Tally;

/// How long a provider record is kept, milliseconds.
pub const PROVIDER_TTL_MS: u64 = 2 * 60 * 60 * 1_000;
/// How long a value is kept at most, milliseconds.
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
    /// Values that one node gave: its contact, its owner's key log, and room for owners that it vouches for.
    pub values_per_sender: usize,
    /// Values from one group of addresses.
    pub values_per_group: usize,
    /// Provider records in all.
    pub providers: usize,
    /// Provider records of one node: 500 agents of four keys each.
    pub providers_per_node: usize,
    /// Provider records of one group of addresses.
    pub providers_per_group: usize,
    /// Providers of one key that are of one group of addresses.
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

/// Why something is not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// A newer one, or another of the same age, is kept.
    #[error("what is kept is not older")]
    Stale,
    /// Its sender, or the group of its address, has its share.
    #[error("{0} has as many records here as it may have")]
    Share(&'static str),
    /// There is no room, and it is farther away than all that is kept.
    #[error("there is no room for it")]
    Full,
    /// An address that is too long, or too many.
    #[error("it has no addresses, or too many, or too long ones")]
    Addresses,
}

struct KeptValue {
    value: Value,
    bytes: Vec<u8>,
    sender: PublicKey,
    group: Option<Group>,
    until_ms: u64,
}

/// A node that provides something.
struct KeptNode {
    addresses: Vec<String>,
    group: Option<Group>,
    keys: BTreeSet<RecordKey>,
}

/// What is kept.
pub struct Records {
    local: PublicKey,
    /// This node's place among the keys.
    place: Digest,
    limits: RecordLimits,
    values: BTreeMap<RecordKey, KeptValue>,
    value_bytes: usize,
    /// Values of each sender, and of each group of addresses.
    of_sender: Tally<PublicKey>,
    of_group: Tally<Group>,
    /// The values' keys by how far they are.
    values_by: BTreeMap<Digest, RecordKey>,
    providers: BTreeMap<RecordKey, BTreeMap<PublicKey, u64>>,
    /// The providers' keys by how far they are.
    providers_by: BTreeMap<Digest, RecordKey>,
    nodes: BTreeMap<PublicKey, KeptNode>,
    /// Provider records in all, and of each group of addresses.
    provided: usize,
    provided_of_group: Tally<Group>,
}

/// Where a key lies: Kademlia of libp2p compares SHA-256 digests.
#[must_use]
pub fn place_of_key(key: RecordKey) -> Digest {
    althing_protocol::digest(&key.to_multihash())
}

/// Where a node lies.
#[must_use]
pub fn place_of_node(node: PublicKey) -> Digest {
    althing_protocol::digest(&node.peer_id_bytes())
}

/// How far two places are from each other.
#[must_use]
pub fn distance(a: &Digest, b: &Digest) -> Digest {
    std::array::from_fn(|at| a[at] ^ b[at])
}

/// Which bucket of a routing table a place belongs into, seen from another: how many bits of their distance count. 256
/// is the farther half of all places.
#[must_use]
pub fn bucket(from: &Digest, to: &Digest) -> u32 {
    let distance = distance(from, to);
    let at = distance.iter().position(|byte| *byte != 0).unwrap_or(32);
    let after = u32::try_from(32 - at).unwrap_or(0) * 8;
    distance.get(at).map_or(0, |byte| after - byte.leading_zeros())
}

impl Records {
    /// Keeps nothing yet. `local` is this node.
    #[must_use]
    pub fn new(local: PublicKey, limits: RecordLimits) -> Records {
        Records {
            local,
            place: place_of_node(local),
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

    /// How far a key is from this node.
    fn far(&self, key: RecordKey) -> Digest {
        distance(&self.place, &place_of_key(key))
    }

    /// Is that very value kept already? Then it need not be verified again.
    #[must_use]
    pub fn holds(&self, key: RecordKey, bytes: &[u8]) -> bool {
        self.values.get(&key).is_some_and(|kept| kept.bytes == bytes)
    }

    /// Keeps `value`, which was verified for `key`. `until_ms` is when it ends, as told by this node's clock.
    ///
    /// # Errors
    /// See [`NotKept`].
    pub fn put(
        &mut self,
        now_ms: u64,
        sender: (PublicKey, Option<Group>),
        key: RecordKey,
        value: Value,
        until_ms: u64,
    ) -> Result<(), NotKept> {
        let (sender, group) = sender;
        let bytes = value.encode();
        let until_ms = until_ms.min(now_ms + VALUE_TTL_MS);
        if let Some(held) = self.values.get_mut(&key) {
            if held.bytes == bytes {
                held.until_ms = held.until_ms.max(until_ms);
                return Ok(());
            }
            if !value.replaces(&held.value) {
                return Err(NotKept::Stale);
            }
        }
        // That which it takes the place of does not count.
        let held = self.values.get(&key);
        let of_sender = self.of_sender.of(sender) - usize::from(held.is_some_and(|held| held.sender == sender));
        if sender != self.local && of_sender >= self.limits.values_per_sender {
            return Err(NotKept::Share("its sender"));
        }
        let of_group = |of| self.of_group.of(of) - usize::from(held.is_some_and(|held| held.group == group));
        if group.is_some_and(|group| of_group(group) >= self.limits.values_per_group) {
            return Err(NotKept::Share("its sender's group of addresses"));
        }
        self.make_room(key, bytes.len())?;
        self.drop_value(key);
        self.value_bytes += bytes.len();
        self.values_by.insert(self.far(key), key);
        self.of_sender.add(sender);
        group.into_iter().for_each(|group| self.of_group.add(group));
        self.values.insert(key, KeptValue { value, bytes, sender, group, until_ms });
        Ok(())
    }

    /// Room for a value of `len` bytes under `key`.
    fn make_room(&mut self, key: RecordKey, len: usize) -> Result<(), NotKept> {
        let held = self.values.get(&key).map_or(0, |kept| kept.bytes.len());
        let full = |records: &Records| {
            (held == 0 && records.values.len() >= records.limits.values)
                || records.value_bytes - held + len > records.limits.value_bytes
        };
        let here = self.far(key);
        while full(self) {
            match self.values_by.last_key_value() {
                Some((far, farthest)) if *far > here => self.drop_value(*farthest),
                _ => return Err(NotKept::Full),
            }
        }
        Ok(())
    }

    fn drop_value(&mut self, key: RecordKey) {
        if let Some(kept) = self.values.remove(&key) {
            self.value_bytes -= kept.bytes.len();
            self.of_sender.remove(kept.sender);
            kept.group.into_iter().for_each(|group| self.of_group.remove(group));
            self.values_by.remove(&self.far(key));
        }
    }

    /// Keeps that `node` provides what `key` stands for.
    ///
    /// # Errors
    /// See [`NotKept`].
    pub fn provide(
        &mut self,
        now_ms: u64,
        node: (PublicKey, Option<Group>),
        key: RecordKey,
        addresses: Vec<String>,
    ) -> Result<(), NotKept> {
        let (node, group) = node;
        // Whoever comes from elsewhere counts where it was first, as long as something of it is kept.
        let group = match self.nodes.get(&node) {
            Some(KeptNode { group: Some(first), .. }) => Some(*first),
            Some(_) => self.charge(node, group)?,
            None => group,
        };
        let too_long = |address: &String| address.is_empty() || address.len() > ADDRESS_BYTES_MAX;
        if addresses.is_empty() || addresses.len() > ADDRESSES_MAX || addresses.iter().any(too_long) {
            return Err(NotKept::Addresses);
        }
        let until_ms = now_ms + PROVIDER_TTL_MS;
        let of_key = self.providers.get(&key);
        let known = of_key.is_some_and(|nodes| nodes.contains_key(&node));
        if !known {
            self.may_provide(node, group, key)?;
        }
        let kept =
            self.nodes.entry(node).or_insert_with(|| KeptNode { addresses: Vec::new(), group, keys: BTreeSet::new() });
        kept.addresses = addresses;
        kept.keys.insert(key);
        if !known {
            self.provided += 1;
            group.into_iter().for_each(|group| self.provided_of_group.add(group));
        }
        self.providers.entry(key).or_default().insert(node, until_ms);
        self.providers_by.insert(self.far(key), key);
        Ok(())
    }

    /// A node of which nobody knew where it is: its records count with those of its group of addresses, if they may.
    fn charge(&mut self, node: PublicKey, group: Option<Group>) -> Result<Option<Group>, NotKept> {
        let (Some(of), Some(kept)) = (group, self.nodes.get(&node)) else { return Ok(group) };
        let full = self.provided_of_group.of(of) + kept.keys.len() > self.limits.providers_per_group;
        if full || kept.keys.iter().any(|key| self.of_group_under(*key, of) >= self.limits.group_per_key) {
            return Err(NotKept::Share("its group of addresses"));
        }
        for _ in 0..kept.keys.len() {
            self.provided_of_group.add(of);
        }
        if let Some(kept) = self.nodes.get_mut(&node) {
            kept.group = group;
        }
        Ok(group)
    }

    /// How many of a group of addresses provide that.
    fn of_group_under(&self, key: RecordKey, of: Group) -> usize {
        let there = self.providers.get(&key).into_iter().flat_map(BTreeMap::keys);
        there.filter(|there| self.nodes.get(there).is_some_and(|kept| kept.group == Some(of))).count()
    }

    fn may_provide(&mut self, node: PublicKey, group: Option<Group>, key: RecordKey) -> Result<(), NotKept> {
        if self.nodes.get(&node).is_some_and(|kept| kept.keys.len() >= self.limits.providers_per_node) {
            return Err(NotKept::Share("it"));
        }
        if let Some(of) = group {
            let full = self.provided_of_group.of(of) >= self.limits.providers_per_group;
            if full || self.of_group_under(key, of) >= self.limits.group_per_key {
                return Err(NotKept::Share("its group of addresses"));
            }
        }
        // Who was there first stays: newcomers cannot push others out, and those who leave make room.
        if self.providers.get(&key).is_some_and(|nodes| nodes.len() >= self.limits.per_key) {
            return Err(NotKept::Full);
        }
        if self.provided >= self.limits.providers {
            match self.providers_by.last_key_value() {
                Some((far, farthest)) if *far > self.far(key) => self.drop_key(*farthest),
                _ => return Err(NotKept::Full),
            }
        }
        Ok(())
    }

    fn drop_key(&mut self, key: RecordKey) {
        self.providers_by.remove(&self.far(key));
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

    /// `node` no longer provides what `key` stands for.
    pub fn withdraw(&mut self, node: PublicKey, key: RecordKey) {
        if let Some(nodes) = self.providers.get_mut(&key) {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.providers.remove(&key);
                self.providers_by.remove(&distance(&self.place, &place_of_key(key)));
            }
            self.unlink(node, key);
        }
    }

    /// The value under `key`, as it was given.
    #[must_use]
    pub fn value(&self, now_ms: u64, key: RecordKey) -> Option<&[u8]> {
        self.values.get(&key).filter(|kept| kept.until_ms > now_ms).map(|kept| kept.bytes.as_slice())
    }

    /// All values, as they were given.
    pub fn values(&self, now_ms: u64) -> impl Iterator<Item = (RecordKey, &[u8])> {
        let there = self.values.iter().filter(move |(_, kept)| kept.until_ms > now_ms);
        there.map(|(key, kept)| (*key, kept.bytes.as_slice()))
    }

    /// Who provides what `key` stands for.
    #[must_use]
    pub fn providers(&self, now_ms: u64, key: RecordKey) -> Vec<Provider> {
        let nodes = self.providers.get(&key).into_iter().flatten().filter(|(_, until_ms)| **until_ms > now_ms);
        let known = nodes.filter_map(|(node, _)| Some((node, self.nodes.get(node)?)));
        known.map(|(node, kept)| Provider { node: *node, addresses: kept.addresses.clone() }).collect()
    }

    /// Drops what has ended.
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

    /// How many values and provider records there are.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.values.len(), self.provided)
    }
}

#[cfg(test)]
mod tests;
