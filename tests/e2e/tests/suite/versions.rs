//! A node of this version beside others: one that speaks newer protocols only, one that speaks another version of frames,
//! one that offers both. Each is told from the others, none does harm, and the node says what is wrong.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{BoxedStream, Network, WallClock};
use althing_e2e::{Machine, Node, cast, until};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::stream::FRAME_VERSION;
use althing_protocol::{Hello, PublicKey, SecretKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

const NETWORK: &str = "althing";
const PLACEMENTS: &str = "/althing/placements/1";
const NEWER: &str = "/althing/placements/2";
const SOON: Duration = Duration::from_secs(30);

/// A peer that is no program of this project: its transport, and nothing above it.
fn peer(runtime: &Runtime, seed: u8, node: &Node) -> Arc<Libp2pNetwork> {
    runtime.block_on(async {
        let listen = vec!["/ip4/127.0.0.1/tcp/0".to_owned()];
        let config = Libp2pConfig { listen, ..Libp2pConfig::new(NETWORK, WallClock::new(|| 0)) };
        let network = Libp2pNetwork::start(&SecretKey::from_seed(&[seed; 32]), config).await.expect("a network");
        let at = vec![node.address("/ip4/127.0.0.1")];
        network.dial(Some(did(node)), at).await.expect("a connection");
        Arc::new(network)
    })
}

fn did(node: &Node) -> PublicKey {
    PublicKey::from_did(&node.did()).expect("a DID")
}

fn hello(version: u8) -> Vec<u8> {
    let hello = Hello { version, challenge: [9; 32], network: NETWORK.to_owned(), owner: None }.encode();
    [&u32::try_from(hello.len()).expect("a length").to_be_bytes()[..], &hello].concat()
}

/// Says hello in a version, and gives the version that comes back; none when the stream is closed instead.
async fn greet(raw: &mut BoxedStream, version: u8) -> Option<u8> {
    raw.write_all(&hello(version)).await.ok()?;
    raw.flush().await.ok()?;
    let len = raw.read_u32().await.ok()?;
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    raw.read_exact(&mut bytes).await.ok()?;
    Hello::decode(&bytes, NETWORK).ok().map(|hello| hello.version)
}

/// What the doctor finds wrong.
fn wrong(machine: &Machine) -> String {
    let doctor = machine.run(&["--json", "doctor"]);
    assert!(doctor.code == 0 || doctor.code == 1, "{doctor:?}");
    let told: serde_json::Value = serde_json::from_str(&doctor.stdout).expect("JSON");
    let findings = told["findings"].as_array().expect("findings").iter().filter(|finding| finding["fine"] == false);
    findings.map(|finding| format!("{} {}\n", finding["what"], finding["remedy"])).collect()
}

#[test]
fn versions_that_do_not_fit_are_named_and_harm_nobody() {
    let (machine, other) = (Machine::new(), Machine::new());
    let node = machine.up_alone(&[]);
    let honest = other.up_alone(&["--peer", &node.address("/ip4/127.0.0.1")]);
    machine.add("here", &cast::echo("here", "anyone"));
    other.add("there", &cast::echo("there", "anyone"));
    until(SOON, "the two find each other", || machine.finds("there") && other.finds("here"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (newer, framed, both) = (peer(&runtime, 11, &node), peer(&runtime, 12, &node), peer(&runtime, 13, &node));

    // It speaks another version of frames on the same protocol: the node opens a stream to say where it is, and is told.
    let mut incoming = framed.accept(PLACEMENTS).expect("nobody else does");
    runtime.spawn(async move {
        while let Some((_, mut raw)) = incoming.recv().await {
            tokio::spawn(async move { greet(&mut raw, FRAME_VERSION + 1).await });
        }
    });
    let said = format!("the peer speaks frame version {}, this node {FRAME_VERSION}", FRAME_VERSION + 1);
    until(SOON, "the doctor names the version", || wrong(&machine).contains(&said));
    assert!(wrong(&machine).contains("upgrade the older node"), "{}", wrong(&machine));

    runtime.block_on(async {
        // What it opens itself is refused.
        let mut raw = framed.open(did(&node), PLACEMENTS).await.expect("a stream");
        assert_ne!(greet(&mut raw, FRAME_VERSION + 1).await, Some(FRAME_VERSION + 1));
        let mut end = Vec::new();
        let _ = raw.read_to_end(&mut end).await;
        assert_eq!(end, b"", "the stream is closed");
        // Of two protocols the one that both speak is used.
        let refused = newer.open(did(&node), NEWER).await.err().expect("nobody speaks that yet");
        assert!(refused.to_string().contains(NEWER), "{refused}");
        assert!(both.open(did(&node), NEWER).await.is_err());
        let mut raw = both.open(did(&node), PLACEMENTS).await.expect("a stream");
        assert_eq!(greet(&mut raw, FRAME_VERSION).await, Some(FRAME_VERSION));
    });

    // Who cannot be spoken with stays connected, is found by nobody, and holds nobody up.
    let peers = machine.json(&["peers"]);
    assert_eq!(peers["peers"].as_array().map(Vec::len), Some(4), "{peers}");
    assert_eq!(machine.found().len(), 2);
    assert_eq!(machine.run(&["call", "--anyone", "there", "hello"]).code, 0);
    assert_eq!(other.run(&["call", "--anyone", "here", "hello"]).code, 0);
    drop((newer, framed, both, honest));
}
