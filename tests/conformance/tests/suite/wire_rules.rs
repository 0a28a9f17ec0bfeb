//! Rules of SPEC.md that only a whole node can keep, each on the wire: raw streams against real L2, and frames' bodies
//! against the real operations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_calls::{ByContract, HostedAgent, Hosting, Incoming, Signer};
use althing_communication::{
    Answer, BoxedStream, Caller, CallerRule, Communication, CommunicationConfig, Entropy, Inbound, Network, Priority,
    Request, StreamLimits, Trust, WallClock,
};
use althing_conformance::hostile::{self, read, write};
use althing_conformance::mesh::Owner;
use althing_conformance::{NETWORK, PROTOCOL, key};
use althing_discovery::Learned;
use althing_discovery::machine::catalogue::{Catalogue, Now, PlacementRefused};
use althing_discovery::machine::rank::{Bounds, Source};
use althing_execution::process::ProcessConfig;
use althing_execution::{Builtins, Echo, Host, Ports};
use althing_protocol::object::{self, Placement};
use althing_protocol::{AgentId, AgentRef, CallerId, Frame, FrameKind, FrameSealer, Hello, PublicKey};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::MemoryStore;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, watch};

/// Never answers; tells when it is asked and when it is dropped.
struct Silent(mpsc::Sender<&'static str>);

struct Told(mpsc::Sender<&'static str>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

impl Inbound for Silent {
    fn call(&self, _: Caller, _: Request) -> BoxFuture<'static, Answer> {
        let told = Told(self.0.clone());
        async move {
            let _ = told.0.send("asked").await;
            std::future::pending().await
        }
        .boxed()
    }
}

/// A node with real L2 that answers nothing, and somebody with a raw stream to it.
struct Scene {
    _node: Communication,
    stranger: Arc<dyn Network>,
    heard: mpsc::Receiver<&'static str>,
}

async fn scene() -> Scene {
    let net = SimNet::new(1, LinkConfig::default());
    let communication = Communication::start(
        net.join(key(1).public()),
        key(1),
        watch::channel(None).1,
        CommunicationConfig { frame_timeout: Duration::from_secs(2), ..CommunicationConfig::default() },
        WallClock::new(|| 0),
        Entropy::new(|bytes| bytes.fill(7)),
    );
    let (tell, heard) = mpsc::channel(8);
    communication.serve(PROTOCOL, StreamLimits::default(), Arc::new(Silent(tell))).expect("nobody else serves it");
    let stranger = net.join(key(2).public());
    let address = communication.network().listening();
    stranger.dial(Some(key(1).public()), address).await.expect("a connection");
    Scene { _node: communication, stranger, heard }
}

/// Says hello as the stranger; gives what seals the frames of the stream.
async fn greet(raw: &mut BoxedStream) -> FrameSealer {
    hostile::greet(raw, key(2).public(), key(1).public(), &key(2)).await
}

fn request() -> Frame {
    Frame { operation: Some("GetTask".to_owned()), ..Frame::new(FrameKind::Request, b"{}".to_vec()) }
}

async fn open(scene: &Scene) -> BoxedStream {
    scene.stranger.open(key(1).public(), PROTOCOL).await.expect("a stream")
}

/// P-20: the acceptor's hello comes although the opener has said nothing.
#[tokio::test(start_paused = true)]
async fn the_acceptor_says_hello_without_waiting() {
    let scene = scene().await;
    let mut raw = open(&scene).await;
    let hello = read(&mut raw).await.expect("a hello");
    assert_eq!(Hello::decode(&hello, NETWORK).expect("a hello").challenge.len(), 32);
}

/// P-19: a length beyond the limit closes the stream before any byte of the frame was sent.
#[tokio::test(start_paused = true)]
async fn a_length_beyond_the_limit_is_not_waited_for() {
    let scene = scene().await;
    let begun = tokio::time::Instant::now();
    let mut raw = open(&scene).await;
    read(&mut raw).await.expect("a hello");
    raw.write_all(&4_096u32.to_be_bytes()).await.expect("a write");
    assert_eq!(read(&mut raw).await, None, "the stream is closed");
    assert!(begun.elapsed() < Duration::from_secs(1), "closed by the length, not by a timeout");
}

/// P-33: a second request before the first was answered closes the stream.
#[tokio::test(start_paused = true)]
async fn one_call_at_a_time() {
    let mut scene = scene().await;
    let mut raw = open(&scene).await;
    let mut sealer = greet(&mut raw).await;
    for _ in 0..2 {
        write(&mut raw, &sealer.seal(request()).expect("a frame")).await;
    }
    assert_eq!(read(&mut raw).await, None, "the stream is closed");
    assert_eq!(scene.heard.recv().await, Some("asked"));
    assert_eq!(scene.heard.recv().await, Some("dropped"), "and the first call is stopped");
}

/// P-34: a cancel, and likewise the end of the stream, stops the call.
#[tokio::test(start_paused = true)]
async fn a_cancel_and_an_end_stop_the_call() {
    for says_so in [true, false] {
        let mut scene = scene().await;
        let mut raw = open(&scene).await;
        let mut sealer = greet(&mut raw).await;
        write(&mut raw, &sealer.seal(request()).expect("a frame")).await;
        assert_eq!(scene.heard.recv().await, Some("asked"));
        if says_so {
            write(&mut raw, &sealer.seal(Frame::new(FrameKind::Cancel, Vec::new())).expect("a frame")).await;
            assert_eq!(read(&mut raw).await, None, "closed without an answer");
        } else {
            drop(raw);
        }
        assert_eq!(scene.heard.recv().await, Some("dropped"));
    }
}

async fn hosting() -> (Incoming, AgentId) {
    let mut builtins = Builtins::new();
    builtins.insert("echo", Echo::build);
    let owner = Owner::new(key(3)).id();
    let ports = Ports { owner, ..Ports::none() };
    let host = Arc::new(Host::new(builtins, ProcessConfig::default()).with_ports(ports));
    let file = "name: echo\ndescription: Says it again.\nskills: [{id: echo.say, name: Say, description: Repeats.}]\n\
                runtime: { native: { builtin: echo } }\ncontract: { class: { latency: srt } }\n";
    let file = althing_td::AgentFile::parse(file).expect("an agent file");
    host.start(&file, std::path::Path::new("/")).expect("a native agent");
    let trust = Trust {
        node: key(1).public(),
        owner,
        trusted: BTreeSet::from([CallerId::Node(key(2).public())]),
        private: false,
    };
    let store = Arc::new(MemoryStore::new(&althing_conformance::mesh::FAMILIES));
    let entropy = std::sync::atomic::AtomicU8::new(0);
    let entropy = Entropy::new(move |bytes| bytes.fill(entropy.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
    let decide = ByContract::new(watch::channel(trust).1, None);
    let clock = WallClock::new(|| 1_700_000_000_000);
    let signer = Signer { key: key(1), network: althing_conformance::NETWORK.into() };
    let hosting = Hosting::open(store, host, owner, signer, Arc::new(decide), clock, entropy);
    let hosting = hosting.await.expect("an empty store");
    let agent = AgentRef::new(owner, "echo", &file.version).expect("a name");
    let id = agent.id.clone();
    hosting.add(HostedAgent {
        agent,
        callers: CallerRule::Trusted,
        input_modes: vec!["text/plain".to_owned()],
        barge_in: false,
        is_told_again: false,
        priority: Priority::default(),
    });
    (Incoming(hosting), id)
}

async fn ask(
    incoming: &Incoming,
    who: PublicKey,
    operation: &str,
    agent: Option<AgentId>,
    body: &str,
) -> Result<Value, Value> {
    let request = Request { agent, ..Request::new(operation, body.as_bytes().to_vec()) };
    let json = |bytes: Vec<u8>| serde_json::from_slice(&bytes).expect("JSON");
    match incoming.call(Caller { node: who, owner: None }, request).await {
        Answer::Response(body) => Ok(json(body)),
        Answer::Error(body) => Err(json(body)),
        Answer::Events(_) => panic!("{operation} does not stream"),
    }
}

/// P-53: member 4 names the operation, member 5 the agent. P-55: the body is the operation's JSON. P-56: errors have
/// code, message and ErrorInfo.
#[tokio::test(start_paused = true)]
async fn operations_and_errors_are_those_of_the_binding() {
    let (incoming, id) = hosting().await;
    let agent = || Some(id.clone());
    let message = json!({"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hi"}], "unknown": 1}});
    let who = key(2).public();
    let sent = ask(&incoming, who, "SendMessage", agent(), &message.to_string()).await.expect("an answer");
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(sent["task"]["artifacts"][0]["parts"][0]["text"], "hi");
    let deep = format!("{{\"id\":{}1{}}}", "[".repeat(40), "]".repeat(40));
    let stranger = key(9).public();
    let refusals = [
        (who, "GetTask", agent(), r#"{"id":"none"}"#, -32_001, "a2a-protocol.org", "TASK_NOT_FOUND"),
        (who, "GetTask", agent(), "{}", -32_602, "a2a-protocol.org", "INVALID_PARAMS"),
        (who, "GetTask", agent(), &deep, -32_602, "a2a-protocol.org", "INVALID_PARAMS"),
        (who, "GetTask", agent(), "[]", -32_602, "a2a-protocol.org", "INVALID_PARAMS"),
        (who, "GetTask", None, r#"{"id":"x"}"#, -32_600, "a2a-protocol.org", "INVALID_REQUEST"),
        (who, "Nonsense", agent(), "{}", -32_601, "a2a-protocol.org", "METHOD_NOT_FOUND"),
        (
            who,
            "CreateTaskPushNotificationConfig",
            agent(),
            r#"{"taskId":"x","url":"https://hooks.example/"}"#,
            -32_003,
            "a2a-protocol.org",
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
        // P-53: no card declares an extended one.
        (who, "GetExtendedAgentCard", agent(), "{}", -32_004, "a2a-protocol.org", "UNSUPPORTED_OPERATION"),
        (
            who,
            "ListTasks",
            AgentId::new(Owner::new(key(3)).id(), "other").ok(),
            "{}",
            -32_000,
            "althing.dev",
            "AGENT_NOT_HERE",
        ),
        (stranger, "ListTasks", agent(), "{}", -32_000, "althing.dev", "CALLER_NOT_ALLOWED"),
    ];
    for (who, operation, agent, body, code, domain, reason) in refusals {
        let error = ask(&incoming, who, operation, agent, body).await.expect_err(reason);
        assert_eq!((error["code"].as_i64(), &error["message"].is_string()), (Some(code), &true), "{error}");
        let info = &error["data"][0];
        assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
        assert_eq!((info["domain"].as_str(), info["reason"].as_str()), (Some(domain), Some(reason)), "{error}");
    }
}

/// P-42: the higher sequence wins, whatever the order of arrival, and a placement is believed for its ttl from receipt.
#[test]
fn newer_placements_win_and_silence_ends_belief() {
    let mut catalogue = Catalogue::new(Bounds::for_nodes(8));
    let wall_ms = 1_700_000_000_000;
    let placed = |sequence: u64| {
        let mut placement = Placement::new(key(4).public(), sequence, wall_ms, 6_000);
        placement.load_permille = u16::try_from(sequence).expect("a small sequence");
        object::sign(placement, NETWORK, "", &key(4)).expect("a placement")
    };
    let at = |monotonic_ms| Now { monotonic_ms, wall_ms };
    let source = Source::stranger(key(4).public());
    assert!(catalogue.place(at(1_000), &placed(5), Learned::Push, source).is_ok());
    for old in [5, 4] {
        let refused = catalogue.place(at(2_000), &placed(old), Learned::Push, source);
        assert!(matches!(refused, Err(PlacementRefused::Stale { seen: 5, .. })), "{old}");
    }
    assert_eq!(catalogue.sweep(at(6_999)), []);
    assert_eq!(catalogue.sweep(at(7_000)), [key(4).public()], "the refused ones did not prolong it");
    assert!(catalogue.place(at(8_000), &placed(5), Learned::Push, source).is_err(), "nor does it come back");
    assert!(catalogue.place(at(8_000), &placed(6), Learned::Push, source).is_ok());
}
