//! Nodes that do not keep to the rules: one file each.

mod equivocator;
mod faces;
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

/// Numbers of adversaries begin here: no honest node has one of these.
const FIRST: u32 = 1_000_000;

/// What an adversary is told about the world that it joins.
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
    /// Where its chances come from.
    pub seed: u64,
    /// Owners as they were before they took other keys.
    pub given_up: Vec<Owner>,
    /// The keys of those that were let loose together and know each other.
    pub own: Arc<Mutex<Vec<PublicKey>>>,
}

/// One that was let loose, until it is dropped.
pub struct Loose {
    _keeps: Vec<Communication>,
    /// Agents that it really has.
    pub agents: Vec<(PublicKey, AgentId)>,
}

impl Loose {
    fn new(communication: Communication) -> Loose {
        Loose { _keeps: vec![communication], agents: Vec::new() }
    }
}

type Start = fn(Target, u32, Option<IpAddr>) -> BoxFuture<'static, Loose>;

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

/// The names that there are.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

/// Lets `count` of those of a name loose, which have `addresses` addresses on the internet among them, in `networks`
/// networks.
///
/// # Panics
/// When there is none of that name: scenarios are checked before.
pub async fn release(name: &str, target: &Target, count: u32, (addresses, networks): (u32, u32)) -> Vec<Loose> {
    let (_, start) = ALL.iter().find(|(known, _)| *known == name).expect("a scenario names those that there are");
    let mut loose = Vec::new();
    for number in 0..count {
        // Next to each other in one network, as somebody's own machines are.
        let byte = |number: u32| number.to_le_bytes()[0];
        let ip = |at: u32| IpAddr::V4(Ipv4Addr::new(9, 9, 9 + byte(at % networks), byte(at)));
        let ip = (addresses > 0).then(|| ip(number % addresses));
        loose.push(start(target.clone(), FIRST + number, ip).await);
    }
    loose
}

/// A node of the adversary's, connected to those that it joins through.
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
        // Whoever is not there is not needed.
        let _ = network.dial(Some(*through), vec![format!("sim:{through}")]).await;
    }
    (network, communication)
}

/// The key of an adversary's number.
fn own_key(number: u32) -> SecretKey {
    key(number)
}
