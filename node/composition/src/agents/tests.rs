use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_calls::AgentCaller;
use althing_communication::{Entropy, WallClock};
use althing_execution::memory::Memories;
use althing_execution::process::ProcessConfig;
use althing_execution::tools::contract_gates;
use althing_execution::{Builtins, Host};
use althing_protocol::SecretKey;
use althing_simnet::{LinkConfig, SimNet};
use althing_store::{Batch, Family, MemoryStore};
use althing_td::{ContainmentClaim, ContainmentLevel};
use althing_testing_store::{FaultStore, WriteEnd};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;

use super::*;
use crate::Gates;
use crate::agent_standing::{end_all, retry_failed};
use crate::agreements::AGREED;
use crate::assemble::{Execution, LanPort, Ports};
use crate::config::NodeConfig;
use crate::lan::Introductions;
use crate::node::{FAMILIES, Node};
use crate::owner::{self, Owner};

const NOW_MS: u64 = 1_800_000_000_000;

fn clock() -> WallClock {
    WallClock::new(|| NOW_MS)
}

/// A node that lives in `folder` and talks to nobody, and who can change its owner's keys.
pub(crate) async fn started(folder: &Path) -> (Node, watch::Sender<Owner>) {
    started_on(folder, Arc::new(MemoryStore::new(&FAMILIES))).await
}

/// The same on a store that has its families.
async fn started_on(folder: &Path, store: Arc<dyn Store>) -> (Node, watch::Sender<Owner>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (clock, entropy) = (clock(), entropy());
    let (sender, owner) = watch::channel(Owner::open(&folder.join("owner"), &clock, &entropy).expect("a new owner"));
    let key = SecretKey::from_seed(&[1; 32]);
    let agent_caller = Arc::<AgentCaller>::default();
    let gates = Gates::default();
    let ports = althing_execution::Ports {
        owner: owner.borrow().id(),
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
    let config = NodeConfig { data: Some(folder.to_owned()), ..NodeConfig::default() };
    (Box::pin(Node::assemble(key, config, ports, None)).await.expect("it starts"), sender)
}

/// Numbers that differ with each draw.
fn entropy() -> Entropy {
    let drawn = AtomicU64::new(1);
    Entropy::new(move |bytes| {
        let number = drawn.fetch_add(1, Ordering::Relaxed);
        bytes.iter_mut().zip(number.to_be_bytes().iter().cycle()).for_each(|(byte, drawn)| *byte = *drawn);
    })
}
fn agent(name: &str, rest: serde_json::Value) -> AgentFile {
    let mut file = json!({
        "name": name,
        "description": "Plays a part",
        "contract": { "class": { "latency": "srt" } },
    });
    for (member, value) in rest.as_object().expect("an object") {
        file[member] = value.clone();
    }
    AgentFile::parse(&file.to_string()).expect("an agent file")
}

/// An agent that is a program, on a port or not.
pub(crate) fn program(name: &str, on_port: bool) -> AgentFile {
    let mut process = json!({ "command": ["/bin/sleep", "60"] });
    if on_port {
        // A port of the machine: what is contained has its own.
        process["port"] = json!("tcp");
        process["sandbox"] = json!("none");
    }
    agent(name, json!({ "runtime": { "process": process } }))
}

/// An agent with a server of tools, which answers nothing.
fn helper() -> AgentFile {
    let endpoint = json!({ "url": "http://127.0.0.1:9/v1", "model": "none" });
    agent(
        "helper",
        json!({
            "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
            "tools": { "calc": { "url": "http://127.0.0.1:9/mcp" } },
            "contract": { "class": { "latency": "srt" }, "capabilities": ["calc/add"] },
        }),
    )
}

/// The agents as they are known, with what is on disk.
fn known(node: &Node, name: &str) -> Option<StoredAgent> {
    let known = publish::all(node.store.as_ref()).expect("readable");
    known.into_iter().find(|added| added.file.name == name)
}

async fn until(what: &str, so: impl Fn() -> bool) {
    let waited = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waited).await.unwrap_or_else(|_| panic!("{what}"));
}

/// What runs once is known while it runs, and nothing of it is left.
#[tokio::test(flavor = "multi_thread")]
async fn what_runs_once_is_not_started_again() {
    let folder = TempDir::new().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    for name in ["ended", "killed"] {
        node.agents.add(program(name, false), folder.path(), None, false).await.expect("it is added");
        assert!(known(&node, name).is_some_and(|added| added.once));
    }
    assert!(publish::permanent(node.store.as_ref()).expect("readable").is_empty(), "it does not stay");
    node.agents.end("ended").await.expect("it ends");
    assert!(known(&node, "ended").is_none());
    // As after a power cut: what was known of the other is still on disk.
    let left = known(&node, "killed").expect("it runs");
    node.agents.end("killed").await.expect("it ends");
    publish::write(node.store.as_ref(), &left).await.expect("written");
    node.agents.start_stored().await.expect("as a new start does");
    assert!(
        known(&node, "killed").is_none()
            && node.agents.status("killed").is_none()
            && node.agents.starts.failed().is_empty()
    );
    node.shut_down().await;
}

/// What a description says of a program is what its node says of it, and it is signed again only when that changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_description_says_how_the_program_of_its_agent_is_contained_here() {
    let folder = TempDir::new().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    let network = node.network().to_owned();
    let kept = |name: &str| known(&node, name).expect("it is kept");
    for (name, on_port) in [("enclosed", false), ("bare", true)] {
        node.agents.add(program(name, on_port), folder.path(), None, true).await.expect("it is added");
        let least = node.agents.status(name).expect("it runs").containment["runtime"].described();
        let ran = ContainmentClaim::new(least, false);
        assert_eq!(kept(name).contained(&network), Some(ran), "{name}");
        let id = publish::agent_id(&node.owner(), &kept(name).file).expect("an id");
        let published = node.discovery.describe(&id).expect("it is published").description.contained();
        assert_eq!(published, Some(ran), "{name}");
        assert!(!on_port || least == ContainmentLevel::Not, "its file turns the sandbox off");
    }
    let before = kept("enclosed");
    end_all(&node.agents, &node.host, "the node starts again").await.expect("they end");
    node.agents.start_stored().await.expect("as a new start does");
    assert_eq!(kept("enclosed").description, before.description, "it says the same, and is not signed again");
    // The machine could do something else when it was signed.
    let said = before.contained(&network);
    let is_account = said.is_some_and(|said| said.least() == ContainmentLevel::Account);
    let other = if is_account { ContainmentLevel::Landlock } else { ContainmentLevel::Account };
    let other = ContainmentClaim::new(other, false);
    let other = before.signed_with((&[], Some(other)), &node.owner(), &network, NOW_MS).expect("it is signed");
    publish::write(node.store.as_ref(), &other).await.expect("written");
    end_all(&node.agents, &node.host, "the node starts again").await.expect("they end");
    node.agents.start_stored().await.expect("as a new start does");
    assert_eq!(kept("enclosed").contained(&network), said);
    node.shut_down().await;
}

/// Nobody has agreed to what the servers of tools list now.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_tools_were_not_kept_is_not_given_those_of_now() {
    let folder = TempDir::new().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    node.agents.add(helper(), folder.path(), None, true).await.expect("it is added");
    let mut without = known(&node, "helper").expect("it is kept");
    assert!(without.pins.is_some(), "also when there are none");
    without.pins = None;
    node.agents.remove("helper").await.expect("it is removed");
    publish::write(node.store.as_ref(), &without).await.expect("written");
    node.agents.start_stored().await.expect("as a new start does");
    assert_eq!(node.agents.starts.starting().get("helper"), Some(&"srt"), "it is not started yet");
    assert!(node.agents.starts.failed().is_empty(), "and has not failed");
    retry_failed(&node.agents).await.expect("it is tried");
    assert!(node.agents.starts.starting().is_empty(), "it was started");
    assert!(node.agents.status("helper").is_none(), "it does not run");
    let why = node.agents.starts.failed()["helper"].clone();
    assert_eq!(why, NodeError::ToolsUnknown("helper".to_owned()).to_string());
    node.shut_down().await;
}

/// A program may have written its own file anew before its owner adds it again.
#[tokio::test(flavor = "multi_thread")]
async fn who_adds_an_agent_again_agrees_to_what_its_programs_reach_more() {
    let folder = TempDir::new().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    let (narrow, wide) = (program("guide", false), program("guide", true));
    let sources = [folder.path().join("guide.yaml")];
    let add = async |file: &AgentFile, agreed: Option<&str>| {
        let how = (Stay::UntilRemoved, agreed);
        node.agents.add_read(file.clone(), (folder.path(), sources.as_slice()), None, how).await
    };
    let changes = |file: &AgentFile| node.agents.changes(file, &sources);
    assert!(!changes(&narrow).expect("readable").wider, "none was here");
    assert!(changes(&wide).expect("readable").wider, "one without a sandbox is asked about the first time too");
    add(&narrow, None).await.expect("it is added");
    assert_eq!(known(&node, "guide").map(|added| added.sources), Some(sources.to_vec()));
    assert!(matches!(changes(&wide), Err(NodeError::AgentExists(_))));
    node.agents.remove("guide").await.expect("it is removed");

    let shown = changes(&wide).expect("readable");
    assert!(shown.wider && shown.changes[0].what.starts_with("runtime: "), "{shown:?}");
    for agreed in [None, Some("another")] {
        assert!(matches!(add(&wide, agreed).await, Err(NodeError::Wider(name)) if name == "guide"));
    }
    assert!(known(&node, "guide").is_none(), "nothing is added");
    add(&wide, Some(&shown.digest)).await.expect("somebody agreed");
    node.agents.remove("guide").await.expect("it is removed");
    assert!(changes(&wide).expect("readable").changes.is_empty(), "that was agreed to");
    assert!(!changes(&narrow).expect("readable").wider);
    add(&narrow, None).await.expect("less needs nobody");
    node.shut_down().await;
}

/// Whoever agreed to an agent that did not start has none, and is asked again.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_agreed_to_for_an_agent_that_did_not_start_is_taken_back() {
    let folder = TempDir::new().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    let (narrow, wide) = (program("guide", false), program("guide", true));
    let sources = [folder.path().join("guide.yaml")];
    let add = async |file: &AgentFile| {
        let shown = node.agents.changes(file, &sources).expect("readable");
        let how = (Stay::UntilRemoved, Some(shown.digest.as_str()));
        node.agents.add_read(file.clone(), (folder.path(), sources.as_slice()), None, how).await.expect("it is added");
        shown
    };
    for is_known in [false, true] {
        if is_known {
            add(&narrow).await;
            node.agents.remove("guide").await.expect("it is removed");
        }
        let before = node.agents.noted("guide", &sources).expect("readable");
        let shown = add(&wide).await;
        assert!(shown.wider, "{shown:?}");
        node.agents.take_back("guide", before).await.expect("it is forgotten");
        assert!(known(&node, "guide").is_none() && node.agents.status("guide").is_none(), "it neither stays nor runs");
        assert_eq!(node.agents.changes(&wide, &sources).expect("readable"), shown, "as before it was added");
    }
    node.shut_down().await;
}

/// The families that a batch changes.
fn families(batch: &Batch) -> BTreeSet<Family> {
    batch.changes().map(|(family, ..)| family).collect()
}

/// A node that ended between the two would have an agent of which nobody knows what was agreed to.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_written_with_what_was_agreed_to_or_not_at_all() {
    let folder = TempDir::new().expect("a folder");
    let (store, batches) = (FaultStore::over(MemoryStore::new(&FAMILIES)), Arc::<Mutex<Vec<_>>>::default());
    store.decide({
        let batches = batches.clone();
        move |batch, _| {
            batches.lock().expect("nobody panics with it").push(families(batch));
            WriteEnd::Done
        }
    });
    let (node, _owner) = started_on(folder.path(), Arc::new(store.clone())).await;
    let sources = [folder.path().join("guide.yaml")];
    let add = async || {
        let (file, how) = (program("guide", false), (Stay::UntilRemoved, None));
        node.agents.add_read(file, (folder.path(), sources.as_slice()), None, how).await
    };
    add().await.expect("it is added");
    let taken = std::mem::take(&mut *batches.lock().expect("nobody panics with it"));
    let first = taken.iter().find(|batch| batch.contains(&publish::AGENTS));
    assert_eq!(first, Some(&BTreeSet::from([publish::AGENTS, AGREED])));
    node.agents.remove("guide").await.expect("it is removed");

    store.decide(|batch, _| match families(batch).contains(&AGREED) {
        true => WriteEnd::Full { is_applied: false },
        false => WriteEnd::Done,
    });
    let refused = add().await.expect_err("there is no room").to_string();
    assert!(refused.contains("/full"), "{refused}");
    assert!(known(&node, "guide").is_none() && node.agents.status("guide").is_none(), "it neither stays nor runs");
    store.set_full(false);
    add().await.expect("there is room again");
    node.shut_down().await;
}

/// What a program writes into its file may be another name, too, and be run only.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_agreed_to_belongs_to_a_name_and_to_a_file() {
    let folder = TempDir::new().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    let at = |name: &str| [folder.path().join(name)];
    let reading = |name: &str, path: &str| {
        let process = json!({ "command": ["/bin/sleep", "60"], "sandbox": { "read": [path] } });
        agent(name, json!({ "runtime": { "process": process } }))
    };
    let add = async |file: &AgentFile, sources: &[PathBuf], stay: Stay<'_>| {
        node.agents.add_read(file.clone(), (folder.path(), sources), None, (stay, None)).await
    };
    let is_wider = |file: &AgentFile, sources: &[PathBuf]| node.agents.changes(file, sources).expect("readable").wider;
    let (here, there) = (at("guide.yaml"), at("other.yaml"));
    add(&reading("guide", "/usr"), &here, Stay::UntilRemoved).await.expect("it is added");
    // While it runs already: the file has another name now.
    assert!(is_wider(&reading("scribe", "/etc"), &here));
    assert!(!is_wider(&reading("scribe", "/etc"), &there), "another file of another name");
    assert!(!is_wider(&reading("scribe", "/usr"), &here), "the same under another name");
    node.agents.remove("guide").await.expect("it is removed");
    for sources in [&here, &there] {
        assert!(is_wider(&reading("guide", "/etc"), sources), "the same name");
    }
    // Nor does it start for as long as somebody watches.
    let refused = add(&reading("scribe", "/etc"), &here, Stay::WhileConnected).await;
    assert!(matches!(refused, Err(NodeError::Wider(name)) if name == "scribe"));

    // One without a sandbox is known by both, or is asked about.
    let open = program("open", true);
    let digest = node.agents.changes(&open, &here).expect("readable").digest;
    let how = (Stay::WhileConnected, Some(digest.as_str()));
    node.agents.add_read(open.clone(), (folder.path(), here.as_slice()), None, how).await.expect("it is agreed to");
    node.agents.end("open").await.expect("it ends");
    assert!(!is_wider(&open, &here));
    assert!(is_wider(&open, &there) && is_wider(&program("other", true), &here) && !is_wider(&open, &[]));
    node.shut_down().await;
}

/// An owner rotates its keys while the node does not run, and while it does.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_signed_anew_with_the_owner_s_key_of_now_and_keeps_its_tools() {
    let folder = TempDir::new().expect("a folder");
    let (node, told) = started(folder.path()).await;
    node.agents.add(helper(), folder.path(), None, true).await.expect("it is added");
    let mut before = known(&node, "helper").expect("it is kept");
    let definition = serde_json::from_value(json!({ "name": "add", "inputSchema": { "type": "object" } }));
    before.pins = Some(Pins::from([("calc/add".to_owned(), definition.expect("a definition"))]));
    publish::write(node.store.as_ref(), &before).await.expect("written");
    let keys = folder.path().join("owner");
    let rotate = |node: &Node| {
        owner::rotate(&keys, None, Duration::ZERO, &clock(), node.entropy()).expect("it rotates");
    };
    let is_signed = |node: &Node| {
        let after = known(node, "helper").expect("it is kept");
        assert_eq!(after.pins, before.pins);
        after.is_signed(&node.owner(), node.network())
    };
    rotate(&node);
    let read = Owner::read(&keys).expect("its keys");
    let known = read.stamp;
    told.send_replace(read);
    assert!(!is_signed(&node));
    node.agents.start_stored().await.expect("as a new start does");
    assert!(is_signed(&node));
    // And while it runs.
    let key = node.owner().key.public();
    rotate(&node);
    tokio::select! {
        ((), ()) = async { tokio::join!(node.follow_owner(), owner::follow(&keys, known, &told)) } => {}
        () = until("its agents are signed anew", || node.owner().key.public() != key && is_signed(&node)) => {}
    }
    node.shut_down().await;
}

#[tokio::test]
async fn an_agent_that_runs_is_ready_once_it_can_be_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    let endpoint = json!({ "url": "http://127.0.0.1:9/v1", "model": "none" });
    let file = agent("helper", json!({ "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } } }));
    node.host.start_pinned(&file, folder.path(), None).expect("it runs");
    let state = || node.agents.status("helper").map(|status| status.state);
    assert_eq!(state(), Some(AgentState::Starting));
    let added = node.agents.signed(file, folder.path(), Stay::UntilRemoved).expect("it is signed");
    tools::publish_agent(&node.agents, &added).expect("it is published");
    assert_eq!(state(), Some(AgentState::Ready));
}
