//! A node with its operations, for the tests of this crate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use althing_calls::AgentCaller;
use althing_communication::{Entropy, WallClock};
use althing_execution::memory::Memories;
use althing_execution::process::ProcessConfig;
use althing_execution::tools::contract_gates;
use althing_execution::{Builtins, Host};
use althing_node::{Execution, Gates, Introductions, LanPort, NodeConfig, NodeError, Owner, Ports};
use althing_protocol::SecretKey;
use althing_simnet::{LinkConfig, SimNet};
use althing_store::{Batch, Durability, MemoryStore, Store};
use althing_td::AgentFile;
use serde_json::json;
use tokio::sync::watch;

use crate::registries::REGISTRIES;
use crate::{FAMILIES, Operations, OperationsConfig};

const NOW_MS: u64 = 1_800_000_000_000;

/// A node that lives in `folder` and talks to nobody, and who can change its owner's keys.
pub(crate) async fn started(folder: &Path) -> (Operations, watch::Sender<Owner>) {
    started_on(folder, Arc::new(MemoryStore::new(&FAMILIES))).await.expect("it starts")
}

/// The same, with what its store has already.
pub(crate) async fn started_on(
    folder: &Path,
    store: Arc<dyn Store>,
) -> Result<(Operations, watch::Sender<Owner>), NodeError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (clock, entropy) = (WallClock::new(|| NOW_MS), entropy());
    let (sender, owner) = watch::channel(Owner::open(&folder.join("owner"), &clock, &entropy).expect("a new owner"));
    let key = SecretKey::from_seed(&[1; 32]);
    let agent_caller = Arc::<AgentCaller>::default();
    let gates = Gates::default();
    let ports = althing_execution::Ports {
        agents: Some(agent_caller.clone()),
        gate: gates.make(contract_gates()),
        ..althing_execution::Ports::none()
    };
    let nothing: althing_execution::secrets::SecretLookup = Arc::new(|_| Ok(None));
    let (now, random) = (clock.clone(), entropy.clone());
    let memories = Memories::new(
        store.clone(),
        Arc::new(move || now.now_ms()),
        Arc::new(move |bytes| random.fill(bytes)),
        nothing,
    );
    let execution = Execution {
        host: Arc::new(Host::new(Builtins::new(), ProcessConfig::default()).with_ports(ports)),
        kernel: None,
        promises: None,
        memories: Arc::new(memories),
        agent_caller,
        gates,
        busy_permille: Arc::default(),
    };
    let ports = Ports {
        network: SimNet::new(1, LinkConfig::default()).join(key.public()),
        store,
        clock,
        entropy,
        lan: LanPort::Off,
        execution,
        owner,
        answers: None,
        decide: None,
        gateway: None,
        introductions: Introductions::default(),
        spans: Arc::default(),
    };
    let node = NodeConfig { data: Some(folder.to_owned()), ..NodeConfig::default() };
    let config = OperationsConfig { node, ..OperationsConfig::default() };
    Ok((Operations::assemble(key, config, ports, Arc::default()).await?, sender))
}

/// Numbers that differ with each draw.
fn entropy() -> Entropy {
    let drawn = AtomicU64::new(1);
    Entropy::new(move |bytes| {
        let number = drawn.fetch_add(1, Ordering::Relaxed);
        bytes.iter_mut().zip(number.to_be_bytes().iter().cycle()).for_each(|(byte, drawn)| *byte = *drawn);
    })
}

/// An agent that is a program, on a port or not.
pub(crate) fn program(name: &str, on_port: bool) -> AgentFile {
    let mut process = json!({ "command": ["/bin/sleep", "60"] });
    if on_port {
        // A port of the machine: what is contained has its own.
        process["port"] = json!("tcp");
        process["sandbox"] = json!("none");
    }
    let file = json!({
        "name": name,
        "description": "Plays a part",
        "contract": { "class": { "latency": "srt" } },
        "runtime": { "process": process },
    });
    AgentFile::parse(&file.to_string()).expect("an agent file")
}

#[test]
fn a_store_keeps_what_nodes_and_their_owners_keep() {
    let names = FAMILIES.map(|family| family.0);
    let added = [
        "althing.registries",
        "althing.organisations",
        "althing.receipts",
        "althing.routes",
        "althing.route_vectors",
        "governance.deliveries",
    ];
    let (own, of_node): (Vec<&str>, Vec<&str>) = names.iter().copied().partition(|name| added.contains(name));
    assert_eq!(own, added);
    assert_eq!(of_node, althing_node::FAMILIES.map(|family| family.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_cannot_be_read_keeps_a_node_from_starting() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = Arc::new(MemoryStore::new(&FAMILIES));
    let mut batch = Batch::new();
    batch.put(REGISTRIES, b"http://r/".as_slice(), b"noise".to_vec());
    store.write(batch, Durability::Synced).await.expect("it is written");
    let refused = started_on(folder.path(), store.clone()).await.err().expect("it does not start").to_string();
    assert!(refused.contains("what is kept of registries") && refused.contains("http://r/"), "{refused}");
    let mut batch = Batch::new();
    batch.delete(REGISTRIES, b"http://r/".as_slice());
    store.write(batch, Durability::Synced).await.expect("it is written");
    let (node, _owner) = started_on(folder.path(), store).await.expect("it starts");
    assert!(node.registries.list().is_empty());
    node.shut_down().await;
}
