//! Kademlia on the swarm's task: queries, records that peers store, and the routing table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use althing_communication::WallClock;
use althing_communication::address_groups::{AddressGroup, AddressGroupLimits};
use althing_communication::records::{bucket, position_of_node};
use althing_communication::routing::{LookupStats, Provider, RoutingError, TableStats};
use althing_protocol::PublicKey;
use althing_protocol::record::RecordKey;
use libp2p::core::Endpoint;
use libp2p::kad::store::RecordStore as _;
use libp2p::kad::{self, GetProvidersOk, GetRecordOk, InboundRequest, QueryId, QueryResult, QueryStats, Quorum};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{ConnectionId, NetworkBehaviour as _};
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use tokio::sync::{mpsc, oneshot};

use crate::identity::{peer_id, public_key};
use crate::record_store::BoundedRecordStore;
use crate::verifying::{Refused, VerificationQueue, Verified, open};

/// Queries under way at one time.
const QUERIES_MAX: usize = 256;
/// Addresses of one node.
const ADDRESSES_MAX: usize = 8;
/// Bytes of one message: twenty nodes with eight addresses each, or the longest value.
const PACKET_MAX: usize = 16 << 10;
/// A query that takes longer fails.
const QUERY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// A node that does not answer within this is skipped.
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(4);

/// The protocol's name: each network has a DHT of its own.
pub(crate) fn protocol(network: &str) -> StreamProtocol {
    let digest = althing_protocol::hex(&althing_protocol::digest(network.as_bytes())[..8]);
    StreamProtocol::try_from_owned(format!("/althing/kad/1/{digest}")).expect("it begins with a slash")
}

pub(crate) fn behaviour(local: PublicKey, network: &str) -> kad::Behaviour<BoundedRecordStore> {
    let mut config = kad::Config::new(protocol(network));
    config
        .set_record_filtering(kad::StoreInserts::FilterBoth)
        .set_kbucket_inserts(kad::BucketInserts::Manual)
        .set_query_timeout(QUERY_TIMEOUT)
        .set_substreams_timeout(ANSWER_TIMEOUT)
        .set_max_packet_size(PACKET_MAX)
        .set_caching(kad::Caching::Disabled)
        .set_replication_interval(None)
        .set_publication_interval(None)
        .set_provider_publication_interval(None);
    let mut behaviour = kad::Behaviour::with_config(peer_id(local), BoundedRecordStore::new(local), config);
    // Always, since on a private network no external address is ever confirmed.
    behaviour.set_mode(Some(kad::Mode::Server));
    behaviour
}

/// A query of the DHT.
pub(crate) enum Query {
    Provide(RecordKey),
    Providers(RecordKey, mpsc::Sender<Provider>),
    Put(RecordKey, Vec<u8>),
    Get(RecordKey, mpsc::Sender<Vec<u8>>),
}

pub(crate) type Done = oneshot::Sender<Result<LookupStats, RoutingError>>;

struct Lookup {
    done: Done,
    providers: Option<mpsc::Sender<Provider>>,
    values: Option<mpsc::Sender<Vec<u8>>>,
    /// Providers that were sent already.
    sent: BTreeSet<PublicKey>,
}

/// The DHT's part of the swarm's task.
pub(crate) struct Lookups {
    local: PublicKey,
    protocol: StreamProtocol,
    lookups: HashMap<QueryId, Lookup>,
    caps: AddressGroupLimits<PublicKey>,
    /// The plausible listen addresses of connected peers.
    listening: BTreeMap<PublicKey, Vec<Multiaddr>>,
    verifying: VerificationQueue,
    network: String,
    clock: WallClock,
    /// The nodes of the routing table when they were last read, and whether they have changed since.
    nodes: Arc<[PublicKey]>,
    changed: bool,
}

impl Lookups {
    pub fn new(
        local: PublicKey,
        network: &str,
        clock: WallClock,
    ) -> (Lookups, mpsc::Receiver<Result<Verified, Refused>>) {
        let (verifying, outcomes) = VerificationQueue::new(network, clock.clone());
        let lookups = Lookups {
            local,
            protocol: protocol(network),
            lookups: HashMap::new(),
            caps: AddressGroupLimits::default(),
            listening: BTreeMap::new(),
            verifying,
            network: network.to_owned(),
            clock,
            nodes: Arc::new([]),
            changed: false,
        };
        (lookups, outcomes)
    }

    /// Starts a query.
    pub fn start(&mut self, kad: &mut kad::Behaviour<BoundedRecordStore>, query: Query, done: Done) {
        if self.lookups.len() >= QUERIES_MAX {
            // An error means that the caller is gone, here and below.
            let _ = done.send(Err(RoutingError::Busy));
            return;
        }
        self.store_own(kad, &query);
        if kad.kbuckets().all(|bucket| bucket.is_empty()) {
            let _ = done.send(Err(RoutingError::Alone));
            return;
        }
        let key = |key: RecordKey| kad::RecordKey::from(key.to_multihash());
        let mut lookup = Lookup { done, providers: None, values: None, sent: BTreeSet::new() };
        let begun = match query {
            Query::Provide(what) => kad.start_providing(key(what)).ok(),
            Query::Put(what, value) => kad.put_record(kad::Record::new(key(what), value), Quorum::One).ok(),
            Query::Providers(what, found) => {
                lookup.providers = Some(found);
                Some(kad.get_providers(key(what)))
            }
            Query::Get(what, found) => {
                lookup.values = Some(found);
                Some(kad.get_record(key(what)))
            }
        };
        match begun {
            Some(id) => drop(self.lookups.insert(id, lookup)),
            None => drop(lookup.done.send(Err(RoutingError::Busy))),
        }
    }

    /// Stores this node's own records locally, also while the routing table is empty.
    fn store_own(&self, kad: &mut kad::Behaviour<BoundedRecordStore>, query: &Query) {
        let store = kad.store_mut();
        match query {
            Query::Put(key, value) => {
                // Only if it is valid, as other nodes would check.
                if let Ok(Verified { from, key, value, in_ms }) =
                    open((self.local, None), *key, value, &self.network, &self.clock)
                {
                    store.store(from, key, value, in_ms);
                }
            }
            Query::Provide(key) => {
                let record = kad::ProviderRecord::new(key.to_multihash(), peer_id(self.local), Vec::new());
                // `start_providing` reports a full store.
                let _ = store.add_provider(record);
            }
            Query::Providers(..) | Query::Get(..) => {}
        }
    }

    /// Handles an event of Kademlia. `remote` gives the address that a peer connects from.
    pub fn on_event(
        &mut self,
        kad: &mut kad::Behaviour<BoundedRecordStore>,
        event: kad::Event,
        remote: impl Fn(PublicKey) -> Option<Multiaddr>,
    ) {
        match event {
            kad::Event::OutboundQueryProgressed { id, result, stats, step } => {
                self.progress(kad, id, result, &stats, step.last);
            }
            kad::Event::InboundRequest { request: InboundRequest::PutRecord { source, record: Some(record), .. } } => {
                if let Some(source) = public_key(source) {
                    self.on_put(kad, (source, group(remote(source))), record);
                }
            }
            kad::Event::InboundRequest { request: InboundRequest::AddProvider { record: Some(record) } } => {
                let (Some(node), Some(key)) =
                    (public_key(record.provider), RecordKey::from_multihash(record.key.as_ref()))
                else {
                    if let Some(node) = public_key(record.provider) {
                        kad.store_mut().record_offence(node);
                    }
                    return;
                };
                let from = remote(node);
                // libp2p sends only confirmed external addresses, of which a private network has none.
                let claimed = [record.addresses, self.listening.get(&node).cloned().unwrap_or_default()].concat();
                let addresses = plausible(claimed, from.as_ref());
                kad.store_mut().provide((node, group(from)), key, addresses);
            }
            // The address was dialled.
            kad::Event::RoutablePeer { peer, address } | kad::Event::PendingRoutablePeer { peer, address }
                if !crate::is_relayed(&address) =>
            {
                self.add_node(kad, peer, vec![address]);
            }
            kad::Event::RoutingUpdated { peer, old_peer, .. } => {
                self.changed = true;
                // It may have been pending for its bucket while addresses were added.
                forget_oldest(kad, peer, &[]);
                if let Some(gone) = old_peer.and_then(public_key) {
                    self.caps.remove(gone);
                }
            }
            _ => {}
        }
    }

    fn progress(
        &mut self,
        kad: &mut kad::Behaviour<BoundedRecordStore>,
        id: QueryId,
        result: QueryResult,
        stats: &QueryStats,
        last: bool,
    ) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        let mut failed = false;
        match result {
            QueryResult::GetProviders(Ok(GetProvidersOk::FoundProviders { providers, .. })) => {
                for peer in providers {
                    let Some(node) = public_key(peer).filter(|node| *node != self.local) else { continue };
                    if lookup.sent.insert(node)
                        && let Some(found) = &lookup.providers
                    {
                        // The receiver may have enough.
                        let _ = found.try_send(Provider { node, addresses: addresses_of(kad, peer) });
                    }
                }
            }
            QueryResult::GetRecord(Ok(GetRecordOk::FoundRecord(found))) => {
                if let Some(values) = &lookup.values {
                    let _ = values.try_send(found.record.value);
                }
            }
            QueryResult::PutRecord(Err(_)) | QueryResult::StartProviding(Err(_)) => failed = true,
            _ => {}
        }
        // The caller is gone.
        if lookup.done.is_closed()
            && let Some(mut query) = kad.query_mut(&id)
        {
            query.finish();
        }
        if last && let Some(lookup) = self.lookups.remove(&id) {
            let stats = LookupStats {
                requests: stats.num_requests(),
                answered: stats.num_successes(),
                took: stats.duration().unwrap_or_default(),
            };
            let silent = failed || stats.requests > 0 && stats.answered == 0;
            let _ = lookup.done.send(if silent { Err(RoutingError::Unanswered) } else { Ok(stats) });
        }
    }

    /// A peer stores a value here.
    fn on_put(
        &mut self,
        kad: &mut kad::Behaviour<BoundedRecordStore>,
        from: (PublicKey, Option<AddressGroup>),
        record: kad::Record,
    ) {
        let store = kad.store_mut();
        let Some(key) = RecordKey::from_multihash(record.key.as_ref()) else { return store.record_offence(from.0) };
        if store.contains(key, &record.value) {
            return;
        }
        if !self.verifying.offer(from, key, record.value) {
            store.refused += 1;
        }
    }

    /// A value was verified or refused.
    pub fn on_verified(&mut self, kad: &mut kad::Behaviour<BoundedRecordStore>, outcome: Result<Verified, Refused>) {
        self.verifying.finished(outcome.as_ref().map_or_else(|refused| refused.from, |verified| verified.from.0));
        match outcome {
            Ok(Verified { from, key, value, in_ms }) => kad.store_mut().store(from, key, value, in_ms),
            Err(Refused { from, forged: true }) => kad.store_mut().record_offence(from),
            Err(Refused { .. }) => kad.store_mut().refused += 1,
        }
    }

    /// A peer sent its listen addresses. Only those with the IP address of its connection count: it may name anybody's.
    pub fn on_identified(
        &mut self,
        kad: &mut kad::Behaviour<BoundedRecordStore>,
        peer: PeerId,
        info: &libp2p::identify::Info,
        from: Option<&Multiaddr>,
    ) {
        let Some(ip) = from.and_then(ip) else { return };
        if info.protocols.contains(&self.protocol) {
            let fit = |address: &&Multiaddr| {
                crate::can_be_dialled(address) && !crate::is_relayed(address) && self::ip(address) == Some(ip)
            };
            let mut listening: Vec<Multiaddr> =
                info.listen_addrs.iter().filter(fit).take(ADDRESSES_MAX).cloned().collect();
            // One transport suffices: all addresses would be dialled at the same time.
            let tcp = |address: &Multiaddr| address.iter().any(|part| matches!(part, Protocol::Tcp(_)));
            if listening.iter().any(tcp) {
                listening.retain(tcp);
            }
            if let Some(node) = public_key(peer) {
                self.listening.insert(node, listening.clone());
            }
            self.add_node(kad, peer, listening);
        }
    }

    /// Where a connected peer says that it can be dialled, as far as that is plausible.
    pub fn listening(&self, peer: PublicKey) -> Vec<String> {
        self.listening.get(&peer).into_iter().flatten().map(Multiaddr::to_string).collect()
    }

    /// A peer has disconnected.
    pub fn on_disconnected(&mut self, peer: PublicKey) {
        self.listening.remove(&peer);
    }

    /// Adds a peer to the routing table, unless its address group has its share there.
    pub fn add_node(&mut self, kad: &mut kad::Behaviour<BoundedRecordStore>, peer: PeerId, addresses: Vec<Multiaddr>) {
        let (Some(node), Some(first)) = (public_key(peer), addresses.first()) else { return };
        let group = group(Some(first.clone()));
        let number = bucket(&position_of_node(self.local), &position_of_node(node));
        if !self.caps.admit(node, group, number) {
            // Nodes that Kademlia has evicted do not count.
            let present = nodes(kad);
            self.caps.retain(|held| present.contains(&held));
            if !self.caps.admit(node, group, number) {
                tracing::debug!(%node, "peer not added to the routing table: its address group has its share");
                return;
            }
        }
        let new = &addresses[..addresses.len().min(ADDRESSES_MAX)];
        for address in new {
            if kad.add_address(&peer, address.clone()) == kad::RoutingUpdate::Failed {
                self.caps.remove(node);
                return;
            }
        }
        forget_oldest(kad, peer, new);
    }

    /// Removes a peer from the routing table that could not be reached.
    pub fn remove_node(&mut self, kad: &mut kad::Behaviour<BoundedRecordStore>, peer: PeerId) {
        kad.remove_peer(&peer);
        self.changed = true;
        if let Some(node) = public_key(peer) {
            self.caps.remove(node);
        }
    }

    /// The size of this node's part of the DHT, and the nodes of its routing table. These are read only when they have changed,
    /// since decoding a key, a point of a curve, is expensive.
    pub fn stats(&mut self, kad: &mut kad::Behaviour<BoundedRecordStore>) -> (TableStats, Arc<[PublicKey]>) {
        if std::mem::take(&mut self.changed) {
            self.nodes = nodes(kad).into_iter().collect();
        }
        let nodes = self.nodes.clone();
        let store = kad.store_mut();
        let (values, providers) = store.len();
        (TableStats { nodes: nodes.len(), values, providers, refused: store.refused }, nodes)
    }
}

fn nodes(kad: &mut kad::Behaviour<BoundedRecordStore>) -> BTreeSet<PublicKey> {
    let peers = kad
        .kbuckets()
        .flat_map(|bucket| bucket.iter().map(|entry| *entry.node.key.preimage()).collect::<Vec<PeerId>>());
    peers.filter_map(public_key).collect()
}

/// Removes the oldest addresses of a peer beyond the limit: a peer that keeps announcing new ones must not make the answers that
/// contain it too long.
fn forget_oldest(kad: &mut kad::Behaviour<BoundedRecordStore>, peer: PeerId, new: &[Multiaddr]) {
    let known = held(kad, peer);
    let without_peer = |address: &Multiaddr| {
        address.iter().take_while(|part| !matches!(part, Protocol::P2p(_))).collect::<Multiaddr>()
    };
    let old = known.iter().map(without_peer).filter(|address| !new.contains(address));
    for address in old.take(known.len().saturating_sub(ADDRESSES_MAX)) {
        kad.remove_address(&peer, &address);
    }
}

/// The addresses of a peer in the table, the oldest first.
fn held(kad: &mut kad::Behaviour<BoundedRecordStore>, peer: PeerId) -> Vec<Multiaddr> {
    let Some(bucket) = kad.kbucket(peer) else { return Vec::new() };
    let entry = bucket.iter().find(|entry| *entry.node.key.preimage() == peer);
    entry.map(|entry| entry.node.value.iter().cloned().collect()).unwrap_or_default()
}

/// The addresses of a peer in the routing table and the running queries.
fn addresses_of(kad: &mut kad::Behaviour<BoundedRecordStore>, peer: PeerId) -> Vec<String> {
    // Calls what the swarm calls before a dial, which gives Kademlia's addresses and dials nothing.
    let known =
        kad.handle_pending_outbound_connection(ConnectionId::new_unchecked(0), Some(peer), &[], Endpoint::Dialer);
    let known = known.unwrap_or_default().into_iter().filter(crate::can_be_dialled);
    known.map(|address| address.to_string()).take(ADDRESSES_MAX).collect()
}

/// The plausible addresses of a peer at `from`: no loopback address of another machine.
fn plausible(addresses: Vec<Multiaddr>, from: Option<&Multiaddr>) -> Vec<String> {
    let near = from.and_then(ip).is_some_and(|ip| ip.is_loopback());
    let fit = |address: &Multiaddr| {
        let fit = |ip: IpAddr| !ip.is_unspecified() && !ip.is_multicast() && (near || !ip.is_loopback());
        crate::can_be_dialled(address) && ip(address).is_none_or(fit)
    };
    let mut fitting: Vec<String> = addresses.into_iter().filter(fit).map(|address| address.to_string()).collect();
    fitting.dedup();
    fitting.truncate(ADDRESSES_MAX);
    fitting
}

/// The IP address at the start.
pub(crate) fn ip(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(IpAddr::V4(ip)),
        Protocol::Ip6(ip) => Some(IpAddr::V6(ip)),
        _ => None,
    }
}

/// The group of an address; none for one through a relay.
fn group(address: Option<Multiaddr>) -> Option<AddressGroup> {
    let address = address.filter(|address| !crate::is_relayed(address))?;
    AddressGroup::of(ip(&address)?)
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    #[tokio::test]
    async fn the_addresses_of_a_peer_are_bounded_however_often_they_change() {
        let key = |number: u8| SecretKey::from_seed(&[number; 32]).public();
        let (local, peer) = (key(1), peer_id(key(2)));
        let mut kad = behaviour(local, "althing");
        let (mut lookups, _outcomes) = Lookups::new(local, "althing", WallClock::new(|| 0));
        let at = |port: u16| format!("/ip4/192.168.7.1/tcp/{port}").parse::<Multiaddr>().expect("an address");
        lookups.add_node(&mut kad, peer, vec![at(4001)]);
        // The dialled address stays beside a few announced ones.
        lookups.add_node(&mut kad, peer, vec![at(1), at(2)]);
        assert_eq!(addresses_of(&mut kad, peer).len(), 3);
        for first in 0..500 {
            lookups.add_node(&mut kad, peer, (0..20).map(|more| at(5000 + first * 20 + more)).collect());
            assert_eq!(held(&mut kad, peer).len(), ADDRESSES_MAX);
        }
        let last = addresses_of(&mut kad, peer);
        assert!(last.iter().all(|address| address.contains("/tcp/1498") || address.contains("/tcp/1499")), "{last:?}");
    }
}
