//! Adversaries: nodes that break the rules, one file each.

mod announcing;
mod equivocator;
mod flooder;
mod hoarder;
mod impersonator;
mod poisoner;
mod replayer;
mod squatter;
mod staller;
mod sybil;
mod thief;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use althing_communication::{Communication, CommunicationConfig, Network, WallClock};
use althing_protocol::{AgentId, PublicKey, SecretKey};
use althing_simnet::SimNet;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::mesh::Owner;
use crate::{entropy, key};

/// The first number of an adversary, above those of honest nodes.
const FIRST: u32 = 1_000_000;

/// What an adversary knows of the network that it joins.
#[derive(Clone)]
pub struct Target {
    /// The network.
    pub net: SimNet,
    /// Nodes that it can join through.
    pub through: Vec<PublicKey>,
    /// Capabilities that honest nodes have.
    pub capabilities: Vec<String>,
    /// Honest nodes.
    pub honest: Vec<PublicKey>,
    /// The time of day.
    pub clock: WallClock,
    /// The seed of its random draws.
    pub seed: u64,
    /// Owners with the keys that they have rotated away.
    pub retired: Vec<Owner>,
    /// The keys of the adversaries that were released together.
    pub own: Arc<Mutex<Vec<PublicKey>>>,
}

/// An adversary, which runs until it is dropped.
pub struct Adversary {
    _running: Vec<Communication>,
    /// Agents that it really has.
    pub agents: Vec<(PublicKey, AgentId)>,
}

impl Adversary {
    fn new(communication: Communication) -> Adversary {
        Adversary { _running: vec![communication], agents: Vec::new() }
    }
}

type Start = fn(Target, u32, Option<IpAddr>) -> BoxFuture<'static, Adversary>;

const ALL: &[(&str, Start)] = &[
    ("equivocator", equivocator::start),
    ("flooder", flooder::start),
    ("hoarder", hoarder::start),
    ("impersonator", impersonator::start),
    ("poisoner", poisoner::start),
    ("replayer", replayer::start),
    ("squatter", squatter::start),
    ("staller", staller::start),
    ("sybil", sybil::start),
    ("thief", thief::start),
];

/// All kinds of adversaries.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

/// Starts `count` adversaries of a kind, with `addresses` addresses on the internet in `networks` networks.
///
/// # Panics
/// When there is no such kind: scenarios are checked before.
pub async fn release(name: &str, target: &Target, count: u32, (addresses, networks): (u32, u32)) -> Vec<Adversary> {
    let (_, start) = ALL.iter().find(|(known, _)| *known == name).expect("a scenario names those that there are");
    let mut released = Vec::new();
    for number in 0..count {
        // Consecutive addresses in one network, as the machines of one person have.
        let byte = |number: u32| number.to_le_bytes()[0];
        let ip = |at: u32| IpAddr::V4(Ipv4Addr::new(9, 9, 9 + byte(at % networks), byte(at)));
        let ip = (addresses > 0).then(|| ip(number % addresses));
        released.push(start(target.clone(), FIRST + number, ip).await);
    }
    released
}

/// A node of the adversary, connected to the bootstrap peers.
async fn join(target: &Target, key: &SecretKey, number: u32, ip: Option<IpAddr>) -> (Arc<dyn Network>, Communication) {
    let network: Arc<dyn Network> = target.net.join_at(key.public(), ip);
    let communication = Communication::start(
        network.clone(),
        key.clone(),
        watch::channel(None).1,
        CommunicationConfig::default(),
        target.clock.clone(),
        entropy(u64::from(number)),
    );
    for through in &target.through {
        // A node that is down is skipped.
        let _ = network.dial(Some(*through), vec![format!("sim:{through}")]).await;
    }
    (network, communication)
}

/// The key of an adversary.
fn own_key(number: u32) -> SecretKey {
    key(number)
}
