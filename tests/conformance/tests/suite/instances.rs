//! Two nodes with one key (SPEC P-200), over the simulated network in virtual time, told by scripted peers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_communication::{
    Answer, CallError, Caller, Communication, CommunicationConfig, Inbound, Request, StreamLimits,
};
use althing_conformance::mesh::{Node, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, entropy, key};
use althing_discovery::PLACEMENTS;
use althing_protocol::record::Contact;
use althing_protocol::{PublicKey, SecretKey, object};
use althing_simnet::{LinkConfig, SimNet};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use minicbor::bytes::ByteVec;
use tokio::sync::watch;
use tokio::time::sleep;

const OWNER: u8 = 100;
const BEAT: Duration = Duration::from_secs(5);

/// Answers whoever tells of its run with these statements.
#[derive(Clone, Default)]
struct Shows(Arc<Mutex<Vec<Vec<u8>>>>);

impl Shows {
    fn set(&self, statements: Vec<Vec<u8>>) {
        *self.0.lock().expect("no test panics with it") = statements;
    }
}

impl Inbound for Shows {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let shown = self.0.lock().expect("no test panics with it").clone();
        let shown: Vec<ByteVec> = shown.into_iter().map(ByteVec::from).collect();
        let body =
            if request.operation == "instance" { minicbor::to_vec(shown).expect("it is written") } else { Vec::new() };
        futures::future::ready(Answer::Response(body)).boxed()
    }
}

/// A peer with the key 2, which is connected to the node.
async fn peer_of(net: &SimNet, node: &Node) -> (Communication, Shows) {
    let (network, clock) = (net.join(key(2).public()), net.clock());
    let (shown, config) = (watch::channel(None).1, CommunicationConfig::default());
    let communication = Communication::start(network, key(2), shown, config, clock, entropy(2));
    let shows = Shows::default();
    communication.serve(PLACEMENTS, StreamLimits::default(), Arc::new(shows.clone())).expect("nobody else serves it");
    let listening = node.communication.network().listening();
    communication.network().dial(Some(node.id()), listening).await.expect("a connection");
    (communication, shows)
}

/// What a run of `node` says of where it is, signed by `signer` at that time.
fn statement(node: PublicKey, signer: &SecretKey, place: &str, at_ms: u64) -> Vec<u8> {
    let contact = Contact::new(node, at_ms, at_ms, at_ms + 60_000, vec![place.to_owned()]);
    object::sign(contact, NETWORK, "instance", signer).expect("a contact").bytes
}

/// Tells the node of a run; gives what it answers.
async fn tell(peer: &Communication, to: &Node, run: u8, statement: &[u8]) -> Result<Vec<Vec<u8>>, CallError> {
    let body = (ByteVec::from(vec![run; 16]), ByteVec::from(statement.to_vec()));
    let request = Request::new("instance", minicbor::to_vec(body).expect("it is written"));
    let answer = peer.call(to.id(), PLACEMENTS, request).await?;
    let shown: Vec<ByteVec> = minicbor::decode(&answer).expect("an answer");
    Ok(shown.into_iter().map(Vec::from).collect())
}

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

/// P-200: two runs that are heard in turn are two nodes, and each is shown what the other one signed; a restart is none.
#[tokio::test(start_paused = true)]
async fn whoever_hears_two_runs_in_turn_knows_that_two_nodes_use_one_key() {
    let net = net();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    let (peer, _) = peer_of(&net, &node).await;
    let said = |place: &str| statement(key(2).public(), &key(2), place, net.now_ms());
    let (here, there) = (said("/ip4/10.0.0.1/tcp/7421"), said("/ip4/10.0.0.2/tcp/7421"));
    let nothing: [Vec<u8>; 0] = [];
    assert_eq!(tell(&peer, &node, 1, &here).await.expect("an answer"), nothing);
    sleep(BEAT).await;
    assert_eq!(tell(&peer, &node, 2, &there).await.expect("an answer"), nothing, "it started again");
    assert!(node.discovery.shared_keys().is_empty());
    sleep(BEAT).await;
    assert_eq!(tell(&peer, &node, 1, &here).await.expect("an answer"), std::slice::from_ref(&there));
    assert_eq!(tell(&peer, &node, 2, &there).await.expect("an answer"), [here]);
    let places =
        [["/ip4/10.0.0.1/tcp/7421"], ["/ip4/10.0.0.2/tcp/7421"]].map(|place| place.map(str::to_owned).to_vec());
    assert_eq!(node.discovery.shared_keys(), [(key(2).public(), places.to_vec())]);
    sleep(Duration::from_secs(61)).await;
    assert!(node.discovery.shared_keys().is_empty(), "neither is heard any more");
}

/// P-200: nobody tells of another's run.
#[tokio::test(start_paused = true)]
async fn what_another_key_signed_says_nothing_of_a_run() {
    let net = net();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    let (peer, _) = peer_of(&net, &node).await;
    let now_ms = net.now_ms();
    let of_another = statement(key(3).public(), &key(3), "a", now_ms);
    let forged = statement(key(2).public(), &key(3), "a", now_ms);
    let outdated = statement(key(2).public(), &key(2), "a", now_ms - 3_600_000);
    let record = Contact::new(key(2).public(), now_ms, now_ms, now_ms + 60_000, vec!["a".to_owned()]);
    let record = object::sign(record, NETWORK, "", &key(2)).expect("a contact").bytes;
    for bad in [of_another, forged, outdated, record, vec![7; 4_096], Vec::new()] {
        let refused = tell(&peer, &node, 1, &bad).await;
        assert!(matches!(refused, Err(CallError::Refused { .. })), "{refused:?}");
    }
    assert!(node.discovery.shared_keys().is_empty());
}

/// P-200: a node believes that another one uses its key only by what its own key signed, since it began, and not itself.
#[tokio::test(start_paused = true)]
async fn a_node_learns_of_its_twin_by_what_only_its_key_can_have_signed() {
    let net = net();
    let node = Node::start(&net, 1, OWNER, &[], store()).await;
    let begun_ms = net.now_ms();
    let (_peer, shows) = peer_of(&net, &node).await;
    sleep(BEAT).await;
    let at = |at_ms: u64, signer: &SecretKey| statement(node.id(), signer, "/ip4/10.0.0.9/tcp/7421", at_ms);
    // A stranger's claim, and what a former run of this node signed.
    shows.set(vec![at(net.now_ms() + 7, &key(3)), at(begun_ms - 1_000, &node.key)]);
    sleep(Duration::from_secs(25)).await;
    assert_eq!(node.discovery.twin(), None);
    shows.set(vec![at(net.now_ms() + 7, &node.key)]);
    until("it knows its twin", || node.discovery.twin().is_some()).await;
    let [_, other] = node.discovery.twin().expect("just seen");
    assert_eq!(other, ["/ip4/10.0.0.9/tcp/7421"]);
    shows.set(Vec::new());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(node.discovery.twin(), None, "nobody shows it any more");
}
