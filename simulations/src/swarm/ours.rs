//! Nodes of this project on the libp2p shell, with one agent each.

use std::sync::Arc;

use althing_communication::{DhtRouting as _, Network, WallClock};
use althing_discovery::{DiscoveryConfig, Query};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::object;
use althing_protocol::record::{Contact, RecordKey, Value};
use althing_simnet::{LinkConfig, SimNet};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{ENOUGH, Measured, Size, idle_cores, millis, processor, resident_kib, settle, until};
use crate::mesh::{self, Setup, file, store};
use crate::{NETWORK, NOW_MS, key};

/// The owner of all.
const OWNER: u32 = 900_000;

struct Node {
    network: Arc<Libp2pNetwork>,
    node: mesh::Node,
}

fn capability(number: usize) -> String {
    format!("doing.thing-{number}")
}

async fn node(net: &SimNet, number: usize, first: Option<String>) -> Result<Node, String> {
    let mut setup = Setup::new(net, u32::try_from(number + 1).map_err(|error| error.to_string())?, OWNER);
    setup.clock = WallClock::new(|| NOW_MS);
    setup.discovery = DiscoveryConfig { bootstrap: first.into_iter().collect(), ..DiscoveryConfig::default() };
    let listen = vec!["/ip4/127.0.0.1/tcp/0".to_owned()];
    let config = Libp2pConfig { listen, ..Libp2pConfig::new(NETWORK, setup.clock.clone()) };
    let network = Arc::new(Libp2pNetwork::start(&setup.key, config).await.map_err(|error| error.to_string())?);
    let node = mesh::Node::assemble_on(network.clone(), setup, store()).await;
    let capability = capability(number);
    node.host(&file(&format!("agent-{number}"), "does its thing", &capability, "do", &capability)).await;
    Ok(Node { network, node })
}

pub(super) async fn measure(size: Size) -> Result<Measured, String> {
    let (before_kib, begun, cpu) = (resident_kib(), Instant::now(), processor());
    let mut nodes: Vec<Node> = Vec::new();
    let net = SimNet::new(1, LinkConfig::default());
    for number in 0..size.nodes {
        let first = nodes.first().and_then(|node| node.network.listening().into_iter().next());
        nodes.push(node(&net, number, first).await?);
    }
    let enough = ENOUGH.min(size.nodes - 1);
    until("all know enough others", || nodes.iter().all(|node| node.network.nodes().len() >= enough)).await?;
    let mut measured = Measured {
        join_ms: millis(begun.elapsed()),
        join_cpu_ms: millis(processor() - cpu) / size.nodes as f64,
        ..Measured::default()
    };
    // All nodes have published their records.
    let kept = || nodes.iter().map(|node| node.network.stats().providers).sum();
    settle(kept).await?;
    measured.settled_ms = millis(begun.elapsed());
    measured.idle_cores = idle_cores().await;
    for round in 0..size.rounds {
        put(&nodes, round, &mut measured).await?;
        look_up(&nodes, round, &mut measured).await?;
    }
    for round in 0..size.rounds {
        find(&nodes, round, &mut measured).await;
    }
    measured.memory_kib = (resident_kib() - before_kib) / size.nodes as f64;
    let connections: usize = nodes.iter().map(|node| node.network.peers().len()).sum();
    measured.connections = connections as f64 / size.nodes as f64;
    Ok(measured)
}

async fn put(nodes: &[Node], round: usize, measured: &mut Measured) -> Result<(), String> {
    let number = round * 7 % nodes.len();
    let key = key(u32::try_from(number + 1).map_err(|error| error.to_string())?);
    let sequence = 1 + round as u64;
    let contact = Contact::new(key.public(), sequence, NOW_MS, NOW_MS + 3_600_000, nodes[number].network.listening());
    let contact = object::sign(contact, NETWORK, "", &key).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let value = Value::Contact(contact).encode();
    let stats = nodes[number].network.put(RecordKey::contact(NETWORK, key.public()), value).await;
    measured.put_ms.push(millis(begun.elapsed()));
    measured.put_requests.push(stats.map_err(|error| error.to_string())?.requests);
    Ok(())
}

async fn look_up(nodes: &[Node], round: usize, measured: &mut Measured) -> Result<(), String> {
    let (seeker, wanted) = (round * 11 % nodes.len(), (round * 13 + 1) % nodes.len());
    let (found, mut heard) = mpsc::channel(64);
    let begun = Instant::now();
    let stats = nodes[seeker].network.providers(RecordKey::capability(NETWORK, &capability(wanted)), found).await;
    measured.look_up_ms.push(millis(begun.elapsed()));
    measured.look_up_requests.push(stats.map_err(|error| error.to_string())?.requests);
    let is_there =
        std::iter::from_fn(|| heard.try_recv().ok()).any(|provider| provider.node == nodes[wanted].network.local());
    measured.missed += usize::from(!is_there && seeker != wanted);
    Ok(())
}

async fn find(nodes: &[Node], round: usize, measured: &mut Measured) {
    let (seeker, wanted) = (round * 17 % nodes.len(), (round * 19 + 1) % nodes.len());
    let query = Query { capability: Some(capability(wanted)), ..Query::default() };
    let begun = Instant::now();
    let (found, _) = nodes[seeker].node.discovery.search(&query).await;
    measured.find_ms.push(millis(begun.elapsed()));
    measured.missed += usize::from(!found.iter().any(|found| found.node == nodes[wanted].network.local()));
}
