//! Keeps connections to the nodes that this node wants to be connected to, and drops nodes that fell silent.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::interval;

use crate::known;
use crate::lan::Sighting;
use crate::machine::dialling::Target;
use crate::machine::exchange::ExchangeInput;
use crate::state::{Shared, State};

/// How often targets and lifetimes are checked.
const TICK: Duration = Duration::from_millis(250);

/// Checks targets and lifetimes with each tick.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut tick = interval(TICK);
    loop {
        tick.tick().await;
        let now = shared.now();
        let connected = shared.connected();
        let due = {
            let mut state = shared.lock();
            for node in state.catalogue.sweep(now) {
                tracing::info!(%node, "node is silent; its agents are gone");
                state.exchange.handle(now.monotonic_ms, ExchangeInput::Expired(node));
            }
            // Also of nodes that had to make room.
            let State { catalogue, fetching, .. } = &mut *state;
            fetching.retain(|node, _| catalogue.node(*node).is_some());
            state.dialling.due(now.monotonic_ms, &connected)
        };
        for (target, addresses) in due {
            tokio::spawn(dial(shared.clone(), target, addresses));
        }
        known::dial_due(&shared, &connected);
    }
}

async fn dial(shared: Arc<Shared>, target: Target, addresses: Vec<String>) {
    let peer = match &target {
        Target::Peer(peer) => Some(*peer),
        Target::Address(_) => None,
    };
    let outcome = shared.communication.network().dial(peer, addresses).await;
    if let (Err(reason), Target::Address(address)) = (&outcome, &target) {
        // Somebody wrote this address into the configuration: they are told once.
        if shared.lock().unreachable.insert(address.clone(), reason.to_string()).is_none() {
            tracing::warn!(address, %reason, "a peer cannot be reached; dialling continues");
        }
    } else if let Err(reason) = &outcome {
        tracing::debug!(?target, %reason, "dial failed");
    } else if let Target::Address(address) = &target {
        shared.lock().unreachable.remove(address);
    }
    let now_ms = shared.now().monotonic_ms;
    shared.lock().dialling.dialled(&target, outcome.ok(), now_ms);
}

/// Dials nodes that were seen on the LAN.
pub(crate) async fn take_sightings(shared: Arc<Shared>, mut sightings: mpsc::Receiver<Sighting>) {
    while let Some(sighting) = sightings.recv().await {
        tracing::debug!(peer = %sighting.peer, addresses = ?sighting.addresses, "seen on the LAN");
        // A node comes into the routing table only after it was dialled: anybody on the LAN can announce anything.
        let now_ms = shared.now().monotonic_ms;
        shared.lock().dialling.sighted(sighting.peer, sighting.addresses, now_ms);
    }
}
