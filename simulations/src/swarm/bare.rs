//! The baseline: libp2p with default Kademlia, identify and ping, over the same transport.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt as _;
use libp2p::identity::Keypair;
use libp2p::kad::store::MemoryStore;
use libp2p::kad::{self, GetProvidersOk, QueryId, QueryResult, Quorum};
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm, identify, noise, ping, tcp, yamux};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{ENOUGH, Measured, Size, idle_cores, millis, processor, resident_kib, until};

#[derive(NetworkBehaviour)]
struct Bare {
    kad: kad::Behaviour<MemoryStore>,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
}

enum Ask {
    Provide(Vec<u8>),
    Put(Vec<u8>, Vec<u8>),
    Providers(Vec<u8>),
}

/// The result of a query: its requests, and the providers.
type Done = oneshot::Sender<(u32, Vec<PeerId>)>;

struct Node {
    peer: PeerId,
    address: Multiaddr,
    asks: mpsc::Sender<(Ask, Done)>,
    /// Nodes in its table, and connections.
    state: watch::Receiver<(usize, usize)>,
}

fn build(number: usize) -> Result<Swarm<Bare>, String> {
    let mut seed = crate::key(u32::try_from(number + 1).map_err(|error| error.to_string())?).seed();
    let keypair = Keypair::ed25519_from_bytes(&mut seed).map_err(|error| error.to_string())?;
    let swarm = libp2p::SwarmBuilder::with_existing_identity(keypair)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .map_err(|error| error.to_string())?
        .with_behaviour(|key| {
            let local = key.public().to_peer_id();
            let config = kad::Config::new(StreamProtocol::new("/bare/kad/1"));
            let mut kad = kad::Behaviour::with_config(local, MemoryStore::new(local), config);
            kad.set_mode(Some(kad::Mode::Server));
            Bare {
                kad,
                identify: identify::Behaviour::new(identify::Config::new("/bare/1".to_owned(), key.public())),
                ping: ping::Behaviour::default(),
            }
        })
        .map_err(|error| error.to_string())?
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(60)))
        .build();
    Ok(swarm)
}

async fn node(number: usize, first: Option<(PeerId, Multiaddr)>) -> Result<Node, String> {
    let mut swarm = build(number)?;
    let any: Multiaddr = "/ip4/127.0.0.1/tcp/0".parse().map_err(|_| "an address")?;
    swarm.listen_on(any).map_err(|error| error.to_string())?;
    let address = loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            break address;
        }
    };
    if let Some((peer, address)) = first {
        swarm.behaviour_mut().kad.add_address(&peer, address);
    }
    let peer = *swarm.local_peer_id();
    let (asks, inbox) = mpsc::channel(64);
    let (tell, state) = watch::channel((0, 0));
    tokio::spawn(run(swarm, inbox, tell));
    Ok(Node { peer, address, asks, state })
}

async fn run(mut swarm: Swarm<Bare>, mut inbox: mpsc::Receiver<(Ask, Done)>, tell: watch::Sender<(usize, usize)>) {
    let mut waiting: HashMap<QueryId, (Done, Vec<PeerId>)> = HashMap::new();
    loop {
        tokio::select! {
            ask = inbox.recv() => {
                let Some((ask, done)) = ask else { return };
                let kad = &mut swarm.behaviour_mut().kad;
                let id = match ask {
                    Ask::Provide(key) => kad.start_providing(key.into()).ok(),
                    Ask::Put(key, value) => kad.put_record(kad::Record::new(key, value), Quorum::One).ok(),
                    Ask::Providers(key) => Some(kad.get_providers(key.into())),
                };
                if let Some(id) = id {
                    waiting.insert(id, (done, Vec::new()));
                }
            }
            event = swarm.select_next_some() => match event {
                SwarmEvent::Behaviour(BareEvent::Kad(kad::Event::OutboundQueryProgressed { id, result, stats, step })) => {
                    if let Some((_, found)) = waiting.get_mut(&id)
                        && let QueryResult::GetProviders(Ok(GetProvidersOk::FoundProviders { providers, .. })) = result
                    {
                        found.extend(providers);
                    }
                    if step.last && let Some((done, found)) = waiting.remove(&id) {
                        // An error means that nobody waits for it.
                        let _ = done.send((stats.num_requests(), found));
                    }
                }
                SwarmEvent::Behaviour(BareEvent::Identify(identify::Event::Received { peer_id, info, .. })) => {
                    for address in info.listen_addrs {
                        swarm.behaviour_mut().kad.add_address(&peer_id, address);
                    }
                }
                _ => {}
            },
        }
        let known = swarm.behaviour_mut().kad.kbuckets().map(|bucket| bucket.num_entries()).sum();
        let connected = swarm.connected_peers().count();
        tell.send_replace((known, connected));
    }
}

impl Node {
    async fn ask(&self, ask: Ask) -> Result<(u32, Vec<PeerId>), String> {
        let (done, outcome) = oneshot::channel();
        self.asks.send((ask, done)).await.map_err(|error| error.to_string())?;
        outcome.await.map_err(|error| error.to_string())
    }
}

fn key(what: &str, number: usize) -> Vec<u8> {
    althing_protocol::digest(format!("{what}-{number}").as_bytes()).to_vec()
}

pub(super) async fn measure(size: Size) -> Result<Measured, String> {
    let (before_kib, begun, cpu) = (resident_kib(), Instant::now(), processor());
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..size.nodes {
        let first = nodes.first().map(|node| (node.peer, node.address.clone()));
        nodes.push(node(number, first).await?);
    }
    let enough = ENOUGH.min(size.nodes - 1);
    until("all know enough others", || nodes.iter().all(|node| node.state.borrow().0 >= enough)).await?;
    let mut measured = Measured {
        join_ms: millis(begun.elapsed()),
        join_cpu_ms: millis(processor() - cpu) / size.nodes as f64,
        ..Measured::default()
    };
    for (number, node) in nodes.iter().enumerate() {
        node.ask(Ask::Provide(key("thing", number))).await?;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    measured.idle_cores = idle_cores().await;
    for round in 0..size.rounds {
        let number = round * 7 % nodes.len();
        let begun = Instant::now();
        // As long as a contact of ours.
        let (requests, _) = nodes[number].ask(Ask::Put(key("contact", number), vec![0; 250])).await?;
        measured.put_ms.push(millis(begun.elapsed()));
        measured.put_requests.push(requests);
        let (seeker, wanted) = (round * 11 % nodes.len(), (round * 13 + 1) % nodes.len());
        let begun = Instant::now();
        let (requests, found) = nodes[seeker].ask(Ask::Providers(key("thing", wanted))).await?;
        measured.look_up_ms.push(millis(begun.elapsed()));
        measured.look_up_requests.push(requests);
        measured.missed += usize::from(!found.contains(&nodes[wanted].peer));
    }
    measured.memory_kib = (resident_kib() - before_kib) / size.nodes as f64;
    let connections: usize = nodes.iter().map(|node| node.state.borrow().1).sum();
    measured.connections = connections as f64 / size.nodes as f64;
    Ok(measured)
}
