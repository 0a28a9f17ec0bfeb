//! A node at a glance, and its peers, in the control API.

use std::sync::Arc;

use althing_api::{
    CallStatus, CommunicationStatus, DialFailure, DiscoveryStatus, ExecutionStatus, GovernanceTotals, HealthStatus,
    HealthWord, KeyStatus, LayerStatus, NodeStatus, OsiModel, PeerList, PeerStatus, ReachStatus, TableStatus,
    VerificationTotals,
};
use althing_execution::ANSWER_REFUSED;
use althing_execution::hrt::OUTPUT_OUT_OF_LIMITS;
use althing_operations::Operations;
use althing_operations::doctor::{Health, LayerHealth, layer_health};
use axum::Json;
use axum::extract::State;

use crate::{agents, groups, sessions};

/// `GET /status`
pub async fn status(State(node): State<Arc<Operations>>) -> Json<NodeStatus> {
    Json(NodeStatus {
        node: node.key.public().did(),
        owner: node.owner().id().to_string(),
        owner_keys: owner_keys(&node),
        network: node.network().to_owned(),
        private: node.config.private,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        gateway: node.gateway.clone(),
        notes: node.notes.clone(),
        layers: LayerStatus {
            l1_execution: execution(&node),
            l2_communication: communication(&node),
            l3_discovery: discovery(&node),
            calls: CallStatus { live_tasks: node.hosting.live_tasks() },
            l4_session: sessions::totals(&node),
            l5_coordination: groups::totals(&node),
            l6_verification: verification(&node),
            l7_governance: governance(&node),
            health: health(layer_health(&node).await),
        },
    })
}

/// The owner's keys, as this node has them.
pub fn owner_keys(node: &Operations) -> KeyStatus {
    let keys = node.identity.key_state();
    KeyStatus { state: keys.state.to_owned(), key: keys.key, events: keys.events }
}

fn execution(node: &Operations) -> ExecutionStatus {
    let hardware = node.kernel().and_then(|kernel| kernel.promises.hardware());
    ExecutionStatus {
        agents: node.host.status().len(),
        turns: node.host.turns().values().map(|(_, turns)| turns).sum(),
        machine: hardware.map(|machine| agents::machine(&machine)),
        reserved: node.kernel().map_or(0, |kernel| kernel.promises.reserved()),
        promised: promised(node),
    }
}

/// The share of each core that is promised.
fn promised(node: &Operations) -> Vec<f64> {
    let shares = node.kernel().map(|kernel| kernel.promises.shares_ppm()).unwrap_or_default();
    shares.iter().map(|ppm| *ppm as f64 / 1e6).collect()
}

fn communication(node: &Operations) -> CommunicationStatus {
    let network = node.communication.network();
    let kept = network.routing().stats();
    CommunicationStatus {
        peers: network.peers().len(),
        listening: network.listening(),
        reach: reach(node),
        streams_refused: node.communication.refused(),
        table: TableStatus { nodes: kept.nodes, values: kept.values, providers: kept.providers, refused: kept.refused },
    }
}

/// How others can reach this node, and where.
fn reach(node: &Operations) -> ReachStatus {
    let (network, verdict) = (node.communication.network(), node.communication.reachability());
    ReachStatus {
        state: node.reach().to_owned(),
        confirmed: verdict.confirmed,
        relays: network.relays().iter().map(|relay| relay.did()).collect(),
        failures: verdict.failures.into_iter().map(|(address, why)| DialFailure { address, why }).collect(),
        announced: network.announced(),
    }
}

fn discovery(node: &Operations) -> DiscoveryStatus {
    let known = node.discovery.status();
    DiscoveryStatus { nodes: known.nodes, agents: known.agents, dial_targets: known.targets, refused: known.refused }
}

fn governance(node: &Operations) -> GovernanceTotals {
    let audit = node.governance.audit();
    GovernanceTotals {
        policy: node.governance.policy().digest,
        pending: node.governance.pending().len(),
        audit_entries: audit.checkpoint().head.size,
        audit_failure: audit.availability().err().map(|error| error.to_string()),
    }
}

fn verification(node: &Operations) -> VerificationTotals {
    let mut totals = VerificationTotals::default();
    for found in node.host.status().iter().flat_map(|agent| &agent.findings) {
        let is_refused = [ANSWER_REFUSED, OUTPUT_OUT_OF_LIMITS].contains(&found.finding);
        let total = if is_refused { &mut totals.refused } else { &mut totals.silent };
        *total = total.saturating_add(found.count);
    }
    totals
}

fn health(words: LayerHealth) -> HealthStatus {
    let [l1, l2, l3, l4, l5, l6, l7] = words.map(|word| match word {
        Health::Well => HealthWord::Well,
        Health::Note => HealthWord::Note,
        Health::Wrong => HealthWord::Wrong,
    });
    HealthStatus { l1, l2, l3, l4, l5, l6, l7 }
}

/// `GET /osi`: the seven layers, and how this node has them.
pub async fn osi(State(node): State<Arc<Operations>>) -> Json<OsiModel> {
    Json(osi_model(&node).await)
}

/// The seven layers, and how a node has them.
pub async fn osi_model(node: &Operations) -> OsiModel {
    OsiModel::of(&node.key.public().did(), &health(layer_health(node).await))
}

/// `GET /peers`
pub async fn peers(State(node): State<Arc<Operations>>) -> Json<PeerList> {
    let peers = node.communication.network().peers();
    let peers = peers.into_iter().map(|info| PeerStatus {
        node: info.peer.did(),
        peer_id: info.peer.peer_id(),
        owner: node.communication.owner(info.peer).map(|owner| owner.to_string()),
        address: info.address,
        dialled: info.dialled,
        connections: info.connections,
        round_trip_ms: info.round_trip.map(|time| time.as_secs_f64() * 1_000.0),
    });
    Json(PeerList { peers: peers.collect() })
}
