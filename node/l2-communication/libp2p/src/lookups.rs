//! Kademlia on the swarm's task: look-ups, what others want kept, and who is taken into the table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use althing_communication::WallClock;
use althing_communication::groups::{Group, GroupCaps};
use althing_communication::records::{bucket, place_of_node};
use althing_communication::routing::{Kept, LookupStats, Provider, RoutingError};
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
use crate::shelf::Shelf;
use crate::verifying::{Refused, Verified, Waiting, open};

/// Look-ups under way at one time.
const LOOKUPS_MAX: usize = 256;
/// Addresses of one node that are taken.
const ADDRESSES_MAX: usize = 8;
/// Bytes of one message: twenty nodes with eight addresses each, or the longest value.
const PACKET_MAX: usize = 16 << 10;
/// A look-up that takes longer is given up.
const LOOKUP_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// A node that does not answer within this is left out.
const ANSWER_MAX: std::time::Duration = std::time::Duration::from_secs(4);

/// The protocol's name: each network has a table of its own.
pub(crate) fn protocol(network: &str) -> StreamProtocol {
    let digest = althing_protocol::hex(&althing_protocol::digest(network.as_bytes())[..8]);
    StreamProtocol::try_from_owned(format!("/althing/kad/1/{digest}")).expect("it begins with a slash")
}

pub(crate) fn behaviour(local: PublicKey, network: &str) -> kad::Behaviour<Shelf> {
    let mut config = kad::Config::new(protocol(network));
    config
        .set_record_filtering(kad::StoreInserts::FilterBoth)
        .set_kbucket_inserts(kad::BucketInserts::Manual)
        .set_query_timeout(LOOKUP_MAX)
        .set_substreams_timeout(ANSWER_MAX)
        .set_max_packet_size(PACKET_MAX)
        .set_caching(kad::Caching::Disabled)
        .set_replication_interval(None)
        .set_publication_interval(None)
        .set_provider_publication_interval(None);
    let mut behaviour = kad::Behaviour::with_config(peer_id(local), Shelf::new(local), config);
    // In a private network no address is ever confirmed from outside, and all the same nodes answer each other.
    behaviour.set_mode(Some(kad::Mode::Server));
    behaviour
}

/// What is wanted of the table.
pub(crate) enum Wanted {
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
    told: BTreeSet<PublicKey>,
}

/// The table's part of the swarm's task.
pub(crate) struct Lookups {
    local: PublicKey,
    protocol: StreamProtocol,
    lookups: HashMap<QueryId, Lookup>,
    caps: GroupCaps<PublicKey>,
    /// Where the peers that are connected listen, as far as it is believed.
    listening: BTreeMap<PublicKey, Vec<Multiaddr>>,
    waiting: Waiting,
    network: String,
    clock: WallClock,
    /// The nodes of the table, as they were when it was looked, and whether they have changed since.
    nodes: Arc<[PublicKey]>,
    changed: bool,
}

impl Lookups {
    pub fn new(
        local: PublicKey,
        network: &str,
        clock: WallClock,
    ) -> (Lookups, mpsc::Receiver<Result<Verified, Refused>>) {
        let (waiting, outcomes) = Waiting::new(network, clock.clone());
        let lookups = Lookups {
            local,
            protocol: protocol(network),
            lookups: HashMap::new(),
            caps: GroupCaps::default(),
            listening: BTreeMap::new(),
            waiting,
            network: network.to_owned(),
            clock,
            nodes: Arc::new([]),
            changed: false,
        };
        (lookups, outcomes)
    }

    /// Begins what is wanted.
    pub fn begin(&mut self, kad: &mut kad::Behaviour<Shelf>, wanted: Wanted, done: Done) {
        if self.lookups.len() >= LOOKUPS_MAX {
            // An error means that nobody waits for it any more, here and below.
            let _ = done.send(Err(RoutingError::Busy));
            return;
        }
        self.note_own(kad, &wanted);
        if kad.kbuckets().all(|bucket| bucket.is_empty()) {
            let _ = done.send(Err(RoutingError::Alone));
            return;
        }
        let key = |key: RecordKey| kad::RecordKey::from(key.to_multihash());
        let mut lookup = Lookup { done, providers: None, values: None, told: BTreeSet::new() };
        let begun = match wanted {
            Wanted::Provide(what) => kad.start_providing(key(what)).ok(),
            Wanted::Put(what, value) => kad.put_record(kad::Record::new(key(what), value), Quorum::One).ok(),
            Wanted::Providers(what, found) => {
                lookup.providers = Some(found);
                Some(kad.get_providers(key(what)))
            }
            Wanted::Get(what, found) => {
                lookup.values = Some(found);
                Some(kad.get_record(key(what)))
            }
        };
        match begun {
            Some(id) => drop(self.lookups.insert(id, lookup)),
            None => drop(lookup.done.send(Err(RoutingError::Busy))),
        }
    }

    /// What this node says is known here, even where nobody can be told yet.
    fn note_own(&self, kad: &mut kad::Behaviour<Shelf>, wanted: &Wanted) {
        let shelf = kad.store_mut();
        match wanted {
            Wanted::Put(key, value) => {
                // What others would refuse is not kept here either.
                if let Ok(Verified { from, key, value, in_ms }) =
                    open((self.local, None), *key, value, &self.network, &self.clock)
                {
                    shelf.keep(from, key, value, in_ms);
                }
            }
            Wanted::Provide(key) => {
                let record = kad::ProviderRecord::new(key.to_multihash(), peer_id(self.local), Vec::new());
                // A store that is full says so when there is somebody to tell.
                let _ = shelf.add_provider(record);
            }
            Wanted::Providers(..) | Wanted::Get(..) => {}
        }
    }

    /// What Kademlia has to say. `remote` gives the address that a peer connects from.
    pub fn note(
        &mut self,
        kad: &mut kad::Behaviour<Shelf>,
        event: kad::Event,
        remote: impl Fn(PublicKey) -> Option<Multiaddr>,
    ) {
        match event {
            kad::Event::OutboundQueryProgressed { id, result, stats, step } => {
                self.progress(kad, id, result, &stats, step.last);
            }
            kad::Event::InboundRequest { request: InboundRequest::PutRecord { source, record: Some(record), .. } } => {
                if let Some(source) = public_key(source) {
                    self.offered(kad, (source, group(remote(source))), record);
                }
            }
            kad::Event::InboundRequest { request: InboundRequest::AddProvider { record: Some(record) } } => {
                let (Some(node), Some(key)) =
                    (public_key(record.provider), RecordKey::from_multihash(record.key.as_ref()))
                else {
                    if let Some(node) = public_key(record.provider) {
                        kad.store_mut().offended(node);
                    }
                    return;
                };
                let from = remote(node);
                // libp2p sends only addresses that were confirmed from outside, of which a private network has none.
                let said = [record.addresses, self.listening.get(&node).cloned().unwrap_or_default()].concat();
                let addresses = believable(said, from.as_ref());
                kad.store_mut().provide((node, group(from)), key, addresses);
            }
            // Its address is one that was dialled.
            kad::Event::RoutablePeer { peer, address } | kad::Event::PendingRoutablePeer { peer, address }
                if !crate::is_passed_on(&address) =>
            {
                self.take_in(kad, peer, vec![address]);
            }
            kad::Event::RoutingUpdated { peer, old_peer, .. } => {
                self.changed = true;
                // It may have waited for its place, and been told of meanwhile.
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
        kad: &mut kad::Behaviour<Shelf>,
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
                    if lookup.told.insert(node)
                        && let Some(found) = &lookup.providers
                    {
                        // Who looks takes as many as it wants.
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
        // Nobody waits for it any more.
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

    /// Somebody wants a value kept.
    fn offered(&mut self, kad: &mut kad::Behaviour<Shelf>, from: (PublicKey, Option<Group>), record: kad::Record) {
        let shelf = kad.store_mut();
        let Some(key) = RecordKey::from_multihash(record.key.as_ref()) else { return shelf.offended(from.0) };
        if shelf.holds(key, &record.value) {
            return;
        }
        if !self.waiting.offer(from, key, record.value) {
            shelf.refused += 1;
        }
    }

    /// A value was verified, or not.
    pub fn verified(&mut self, kad: &mut kad::Behaviour<Shelf>, outcome: Result<Verified, Refused>) {
        self.waiting.over(outcome.as_ref().map_or_else(|refused| refused.from, |verified| verified.from.0));
        match outcome {
            Ok(Verified { from, key, value, in_ms }) => kad.store_mut().keep(from, key, value, in_ms),
            Err(Refused { from, forged: true }) => kad.store_mut().offended(from),
            Err(Refused { .. }) => kad.store_mut().refused += 1,
        }
    }

    /// A peer said where it listens. Of that what it connects from is believed: it may name anybody's address.
    pub fn identified(
        &mut self,
        kad: &mut kad::Behaviour<Shelf>,
        peer: PeerId,
        info: &libp2p::identify::Info,
        from: Option<&Multiaddr>,
    ) {
        let Some(ip) = from.and_then(ip) else { return };
        if info.protocols.contains(&self.protocol) {
            let fit = |address: &&Multiaddr| {
                crate::can_be_dialled(address) && !crate::is_passed_on(address) && self::ip(address) == Some(ip)
            };
            let mut there: Vec<Multiaddr> = info.listen_addrs.iter().filter(fit).take(ADDRESSES_MAX).cloned().collect();
            // One way to a peer is enough: each address would be dialled at the same time.
            let tcp = |address: &Multiaddr| address.iter().any(|part| matches!(part, Protocol::Tcp(_)));
            if there.iter().any(tcp) {
                there.retain(tcp);
            }
            if let Some(node) = public_key(peer) {
                self.listening.insert(node, there.clone());
            }
            self.take_in(kad, peer, there);
        }
    }

    /// A peer is no longer connected.
    pub fn left(&mut self, peer: PublicKey) {
        self.listening.remove(&peer);
    }

    /// Takes a peer into the table, unless too many of its group of addresses are there.
    pub fn take_in(&mut self, kad: &mut kad::Behaviour<Shelf>, peer: PeerId, addresses: Vec<Multiaddr>) {
        let (Some(node), Some(first)) = (public_key(peer), addresses.first()) else { return };
        let group = group(Some(first.clone()));
        let number = bucket(&place_of_node(self.local), &place_of_node(node));
        if !self.caps.admit(node, group, number) {
            // Those that were dropped without a word do not count.
            let still = nodes(kad);
            self.caps.retain(|held| still.contains(&held));
            if !self.caps.admit(node, group, number) {
                tracing::debug!(%node, "peer not taken into the table: its group of addresses has its share");
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

    /// A peer could not be reached: others are looked for in its stead.
    pub fn unreachable(&mut self, kad: &mut kad::Behaviour<Shelf>, peer: PeerId) {
        kad.remove_peer(&peer);
        self.changed = true;
        if let Some(node) = public_key(peer) {
            self.caps.remove(node);
        }
    }

    /// What is in the table. Its nodes are read only when they have changed: a key is a point of a curve, and to read it
    /// takes long.
    pub fn kept(&mut self, kad: &mut kad::Behaviour<Shelf>) -> (Kept, Arc<[PublicKey]>) {
        if std::mem::take(&mut self.changed) {
            self.nodes = nodes(kad).into_iter().collect();
        }
        let nodes = self.nodes.clone();
        let shelf = kad.store_mut();
        let (values, providers) = shelf.len();
        (Kept { nodes: nodes.len(), values, providers, refused: shelf.refused }, nodes)
    }
}

fn nodes(kad: &mut kad::Behaviour<Shelf>) -> BTreeSet<PublicKey> {
    let peers = kad
        .kbuckets()
        .flat_map(|bucket| bucket.iter().map(|entry| *entry.node.key.preimage()).collect::<Vec<PeerId>>());
    peers.filter_map(public_key).collect()
}

/// Leaves a peer no more addresses than one may have: however often it says that it listens elsewhere, an answer with it in
/// it is not to become too long for who asks.
fn forget_oldest(kad: &mut kad::Behaviour<Shelf>, peer: PeerId, new: &[Multiaddr]) {
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
fn held(kad: &mut kad::Behaviour<Shelf>, peer: PeerId) -> Vec<Multiaddr> {
    let Some(bucket) = kad.kbucket(peer) else { return Vec::new() };
    let entry = bucket.iter().find(|entry| *entry.node.key.preimage() == peer);
    entry.map(|entry| entry.node.value.iter().cloned().collect()).unwrap_or_default()
}

/// Where a peer can be dialled, as far as the table and the look-ups under way know.
fn addresses_of(kad: &mut kad::Behaviour<Shelf>, peer: PeerId) -> Vec<String> {
    // What Kademlia would dial; it is asked as the swarm asks it, and nothing is dialled.
    let known =
        kad.handle_pending_outbound_connection(ConnectionId::new_unchecked(0), Some(peer), &[], Endpoint::Dialer);
    let known = known.unwrap_or_default().into_iter().filter(crate::can_be_dialled);
    known.map(|address| address.to_string()).take(ADDRESSES_MAX).collect()
}

/// The addresses that a peer at `from` may have: no loopback of another machine.
fn believable(addresses: Vec<Multiaddr>, from: Option<&Multiaddr>) -> Vec<String> {
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

/// The IP address in front.
pub(crate) fn ip(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(IpAddr::V4(ip)),
        Protocol::Ip6(ip) => Some(IpAddr::V6(ip)),
        _ => None,
    }
}

/// Whose address that is; nobody's where a relay passes on.
fn group(address: Option<Multiaddr>) -> Option<Group> {
    let address = address.filter(|address| !crate::is_passed_on(address))?;
    Group::of(ip(&address)?)
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    #[tokio::test]
    async fn however_often_a_peer_listens_elsewhere_its_addresses_are_bounded() {
        let key = |number: u8| SecretKey::from_seed(&[number; 32]).public();
        let (local, peer) = (key(1), peer_id(key(2)));
        let mut kad = behaviour(local, "althing");
        let (mut lookups, _outcomes) = Lookups::new(local, "althing", WallClock::new(|| 0));
        let at = |port: u16| format!("/ip4/192.168.7.1/tcp/{port}").parse::<Multiaddr>().expect("an address");
        lookups.take_in(&mut kad, peer, vec![at(4001)]);
        // One that was dialled stays beside a few that it says.
        lookups.take_in(&mut kad, peer, vec![at(1), at(2)]);
        assert_eq!(addresses_of(&mut kad, peer).len(), 3);
        for first in 0..500 {
            lookups.take_in(&mut kad, peer, (0..20).map(|more| at(5000 + first * 20 + more)).collect());
            assert_eq!(held(&mut kad, peer).len(), ADDRESSES_MAX);
        }
        let last = addresses_of(&mut kad, peer);
        assert!(last.iter().all(|address| address.contains("/tcp/1498") || address.contains("/tcp/1499")), "{last:?}");
    }
}
