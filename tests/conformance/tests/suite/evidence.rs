//! Evidence of strangers is verified at a bounded rate, that of trusted peers at once (threats 2, 14), in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use althing_communication::{Answer, Caller, Communication, CommunicationConfig, Inbound, Request, StreamLimits};
use althing_conformance::mesh::{Node, Owner, agent, file, membership, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, entropy, key};
use althing_discovery::{DESCRIBE, LocalAgent, PLACEMENTS};
use althing_protocol::AgentId;
use althing_protocol::limits::KEYLOG_EVENTS_MAX;
use althing_protocol::object::{self, Hosted, Placement};
use althing_simnet::{LinkConfig, SimNet};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::sleep;

const OWNER: u8 = 100;
const STRANGER: u8 = 101;
/// Agents of the one who shows much.
const AGENTS: usize = 120;

/// Shows evidence for what it is asked for, and counts.
struct Shows {
    evidence: BTreeMap<AgentId, Vec<u8>>,
    shown: AtomicUsize,
}

struct Answers(Arc<Shows>);

impl Inbound for Answers {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let answer = match request.operation.as_str() {
            "describe" => {
                self.0.shown.fetch_add(1, Ordering::Relaxed);
                let agent: AgentId = minicbor::decode(&request.body).expect("an id");
                Answer::Response(self.0.evidence[&agent].clone())
            }
            "placement" => Answer::Response(Vec::new()),
            _ => Answer::Error(br#"{"code":-32601,"message":"there is no such operation here"}"#.to_vec()),
        };
        futures::future::ready(answer).boxed()
    }
}

/// A node that says again and again that it hosts many agents, whose publisher's key log is as long as it may be.
struct Peer {
    communication: Communication,
    shows: Arc<Shows>,
    number: u8,
    locals: Vec<LocalAgent>,
}

impl Peer {
    fn join(net: &SimNet, number: u8, owner: u8) -> Peer {
        let first = Owner::new(key(owner));
        // It shows that it is its owner's node by the owner's first key; the agents are another publisher's.
        let membership = membership(&first, key(number).public(), NOW_MS);
        let publisher = Owner::new(key(owner + 50));
        let publisher = (1..KEYLOG_EVENTS_MAX).fold(publisher, |publisher, _| publisher.rotated(NOW_MS - 1));
        let locals: Vec<LocalAgent> = (0..AGENTS)
            .map(|at| {
                let file = file(&format!("agent{at:03}"), "is one of many", "many.do", "do", "much");
                agent(&publisher, &publisher.key, key(number).public(), &file, 1, NOW_MS)
            })
            .collect();
        let evidence =
            locals.iter().map(|local| (local.verified.agent.clone(), local.verified.evidence().encode())).collect();
        let shows = Arc::new(Shows { evidence, shown: 0.into() });
        let communication = Communication::start(
            net.join(key(number).public()),
            key(number),
            watch::channel(Some(membership)).1,
            CommunicationConfig::default(),
            net.clock(),
            entropy(u64::from(number)),
        );
        for protocol in [PLACEMENTS, DESCRIBE] {
            communication
                .serve(protocol, StreamLimits::default(), Arc::new(Answers(shows.clone())))
                .expect("nobody else serves it");
        }
        Peer { communication, shows, number, locals }
    }

    /// Says what it hosts, of so many agents the last ones.
    async fn push(&self, net: &SimNet, node: &Node, sequence: u64, from: usize) {
        let mut placement = Placement::new(key(self.number).public(), sequence, net.clock().now_ms(), 6_000);
        let hosted = self.locals[from..].iter().map(|local| {
            let (description, grant) = local.verified.digests();
            Hosted { agent: local.verified.agent.clone(), description, grant }
        });
        placement.agents = hosted.collect();
        let placement = object::sign(placement, NETWORK, "", &key(self.number)).expect("a placement").bytes;
        let request = Request::new("placement", placement);
        self.communication.call(node.id(), PLACEMENTS, request).await.expect("it is taken");
    }

    fn shown(&self) -> usize {
        self.shows.shown.load(Ordering::Relaxed)
    }
}

async fn connected(net: &SimNet, number: u8, owner: u8) -> (Node, Peer) {
    let node = Node::start(net, 1, OWNER, &[], store()).await;
    let peer = Peer::join(net, number, owner);
    let listening = node.communication.network().listening();
    peer.communication.network().dial(Some(node.id()), listening).await.expect("a connection");
    (node, peer)
}

#[tokio::test(start_paused = true)]
async fn a_stranger_s_long_key_logs_are_verified_at_its_own_rate_whatever_it_pushes() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (node, peer) = connected(&net, 2, STRANGER).await;
    // Each placement differs, which does not reset its rate limit.
    for round in 0..10 {
        peer.push(&net, &node, NOW_MS + round, usize::try_from(round % 4).expect("few")).await;
        sleep(Duration::from_secs(1)).await;
    }
    // 4,000 at once and 200 a second, 210 each, and the last that was begun.
    let verified = node.discovery.status().agents;
    assert!((20..=30).contains(&verified), "{verified} were verified");
    // Of those that are asked for at one time one at least is verified.
    assert!(peer.shown() <= 8 * verified, "{} were asked for", peer.shown());
    // It is slow, but succeeds.
    let round = std::sync::atomic::AtomicU64::new(NOW_MS + 100);
    for _ in 0..60 {
        peer.push(&net, &node, round.fetch_add(1, Ordering::Relaxed), 0).await;
        sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(node.discovery.status().agents, AGENTS, "after two minutes all are known");
    assert_eq!(node.discovery.status().refused, 0, "to wait is no offence");
}

#[tokio::test(start_paused = true)]
async fn an_own_node_s_agents_are_all_known_at_once() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (node, peer) = connected(&net, 2, OWNER).await;
    peer.push(&net, &node, NOW_MS, 0).await;
    until("all are known", || node.discovery.status().agents == AGENTS).await;
    assert_eq!(peer.shown(), AGENTS);
}
