use althing_protocol::contract::DataLabel;
use althing_protocol::object::{self, Membership};
use althing_protocol::{AgentId, Attributes, Hello, KeyLog, Label, OwnerProof, PublisherId, SecretKey, keylog};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::time::sleep;

use super::*;
use crate::inbound::Answer;
use crate::machine::trust_level::TrustLevel;
use crate::simnet::{LinkConfig, SimNet};
use crate::tap::Passed;

const ECHO: &str = "/test/echo/1";

struct Echo;

impl Inbound for Echo {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        std::future::ready(Answer::Response(request.body)).boxed()
    }
}

const ACTIVATES: &str = "/test/activates/1";

/// Activates what it is asked for; answers at once, or with two events.
struct Activates;

impl Inbound for Activates {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        request.activated.name(request.extensions.iter().map(String::as_str), &request.extensions);
        let answer = match request.operation.as_str() {
            "events" => Answer::Events(futures::stream::iter([Ok(vec![1]), Ok(vec![2])]).boxed()),
            _ => Answer::Response(request.body),
        };
        std::future::ready(answer).boxed()
    }
}

const LABELS: &str = "/test/labels/1";

/// Says of its answer what was said of the request: at once, or from the second of three events on. Its third is restricted too.
struct Labels;

impl Inbound for Labels {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let Request { operation, attributes, answer: said, .. } = request;
        let answer = match operation.as_str() {
            "events" => Answer::Events(
                futures::stream::iter(1..=3)
                    .map(move |number: u8| {
                        match number {
                            1 => {}
                            2 => said.add(&attributes).expect("what a frame carried"),
                            _ => said.add_label(labelled(DataLabel::Restricted, true).label),
                        }
                        Ok(vec![number])
                    })
                    .boxed(),
            ),
            "refuse" => {
                said.add(&attributes).expect("what a frame carried");
                Answer::Error(Vec::new())
            }
            _ => {
                said.add(&attributes).expect("what a frame carried");
                Answer::Response(Vec::new())
            }
        };
        std::future::ready(answer).boxed()
    }
}

fn labelled(level: DataLabel, trusted: bool) -> Attributes {
    Attributes { label: Some(Label { level, trusted }), ..Attributes::default() }
}

fn start(net: &SimNet, seed: u8, config: CommunicationConfig) -> Communication {
    let key = SecretKey::from_seed(&[seed; 32]);
    let shown = watch::channel(None).1;
    let (entropy, limits) = (Entropy::new(move |bytes| bytes.fill(seed)), config.streams);
    let communication = Communication::start(net.join(key.public()), key, shown, config, net.clock(), entropy);
    communication.serve(ECHO, limits, Arc::new(Echo)).expect("nobody else serves it");
    communication
}

/// Peers for which something is kept.
fn kept(communication: &Communication) -> [usize; 4] {
    let shared = &communication.shared;
    [shared.owners().len(), shared.lanes().len(), shared.slots.peers(), shared.pool.peers()]
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_for_a_peer_that_left_while_its_streams_waited() {
    let net = SimNet::new(1, LinkConfig::default());
    let config = CommunicationConfig { stranger_rate: 1, ..CommunicationConfig::default() };
    let node = start(&net, 1, config);
    node.trusts(|_| false);
    let (to, at) = (node.network().local(), node.network().listening());
    let mut streams = Vec::new();
    for seed in 2..10 {
        let stranger = net.join(SecretKey::from_seed(&[seed; 32]).public());
        stranger.dial(Some(to), at.clone()).await.expect("a connection");
        for _ in 0..10 {
            // Beyond the first two they wait for their turn, and open when their peer is gone.
            streams.push(stranger.open(to, ECHO).await.expect("a stream"));
        }
        sleep(Duration::from_millis(100)).await;
        assert!(kept(&node)[1..3].iter().all(|kept| *kept > 0), "{:?}", kept(&node));
        stranger.disconnect(to);
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(kept(&node), [0; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_agent_is_called_is_in_use_and_no_stranger() {
    let net = SimNet::new(1, LinkConfig::default());
    let (a, b) = (start(&net, 1, CommunicationConfig::default()), start(&net, 2, CommunicationConfig::default()));
    let peer = b.network().local();
    a.network().dial(Some(peer), b.network().listening()).await.expect("a connection");
    let trust_level = || a.shared.trust_level(&Caller { node: peer, owner: None });
    assert_eq!(trust_level(), TrustLevel::Trusted, "nobody has said whom it trusts");
    a.trusts(|_| false);
    a.call(peer, ECHO, Request::new("echo", Vec::new())).await.expect("an answer");
    assert_eq!(trust_level(), TrustLevel::Stranger, "what nodes ask each other is no use of agents");
    let agent = AgentId::new(PublisherId::from_digest([9; 32]), "helper").expect("a name");
    let ask = Request { agent: Some(agent), ..Request::new("echo", Vec::new()) };
    a.call(peer, ECHO, ask).await.expect("an answer");
    assert_eq!(trust_level(), TrustLevel::InUse);
}

#[tokio::test(start_paused = true)]
async fn what_is_activated_comes_with_the_answer_or_its_first_event() {
    let net = SimNet::new(1, LinkConfig::default());
    let config = CommunicationConfig::default();
    let (a, b) = (start(&net, 1, config.clone()), start(&net, 2, config.clone()));
    for node in [&a, &b] {
        node.serve(ACTIVATES, config.streams, Arc::new(Activates)).expect("nobody else serves it");
    }
    let peer = b.network().local();
    a.network().dial(Some(peer), b.network().listening()).await.expect("a connection");
    let asking = |operation: &str| {
        let extensions = vec!["https://example.org/1".to_owned()];
        Request { extensions, ..Request::new(operation, b"{}".to_vec()) }
    };
    let one = asking("one");
    let activated = one.activated.clone();
    a.call(peer, ACTIVATES, one).await.expect("an answer");
    assert_eq!(activated.get(), ["https://example.org/1"]);
    let several = asking("events");
    let activated = several.activated.clone();
    let mut events = a.stream(peer, ACTIVATES, several).await.expect("it begins");
    assert_eq!(activated.get(), [""; 0], "nothing is said before the first event");
    assert_eq!(events.next().await.expect("an event"), Some(vec![1]));
    assert_eq!(activated.get(), ["https://example.org/1"]);
    assert_eq!(events.next().await.expect("an event"), Some(vec![2]));
    let plain = Request::new("one", b"{}".to_vec());
    let activated = plain.activated.clone();
    a.call(peer, ACTIVATES, plain).await.expect("an answer");
    assert_eq!(activated.get(), [""; 0]);
}

/// P-201, P-202, P-203: what is said of a request reaches whoever answers, and what is said of the answer comes back.
#[tokio::test(start_paused = true)]
async fn attributes_go_with_a_request_and_come_back_with_its_answer() {
    let net = SimNet::new(1, LinkConfig::default());
    let config = CommunicationConfig::default();
    let (a, b) = (start(&net, 1, config.clone()), start(&net, 2, config.clone()));
    b.serve(LABELS, config.streams, Arc::new(Labels)).expect("nobody else serves it");
    let peer = b.network().local();
    a.network().dial(Some(peer), b.network().listening()).await.expect("a connection");
    let (session, delegation) = (Some([5; 32]), Some(b"by whose authority".to_vec()));
    let sent = Attributes { session, delegation, ..labelled(DataLabel::Confidential, false) };
    let asking = |operation: &str| {
        let request = Request { attributes: sent.clone(), ..Request::new(operation, Vec::new()) };
        (request.answer.clone(), request)
    };
    let (said, one) = asking("one");
    a.call(peer, LABELS, one).await.expect("an answer");
    assert_eq!(said.get(), sent);

    let mut taps = a.tap();
    let (said, several) = asking("events");
    let mut events = a.stream(peer, LABELS, several).await.expect("it begins");
    let restricted = Attributes { label: labelled(DataLabel::Restricted, false).label, ..sent.clone() };
    for (number, by_then) in [(1, Attributes::default()), (2, sent.clone()), (3, restricted.clone())] {
        assert_eq!(events.next().await.expect("an event"), Some(vec![number]));
        assert_eq!(said.get(), by_then, "after event {number}");
    }
    assert_eq!(events.next().await.expect("the end"), None);
    assert_eq!(said.get(), restricted);
    // On the way a label is on each event from the first that has one, and the rest on that one alone.
    let mut passed = Vec::new();
    while passed.len() < 5 {
        let Some(Passed::Message(message)) = taps.next().await else { panic!("a message") };
        // Keys are compared beside it.
        if message.protocol == LABELS {
            passed.push(message.attributes.clone());
        }
    }
    let last = labelled(DataLabel::Restricted, false);
    assert_eq!(passed, [sent.clone(), Attributes::default(), sent.clone(), last, Attributes::default()]);

    let (said, refused) = asking("refuse");
    let why = a.call(peer, LABELS, refused).await.expect_err("a refusal");
    assert!(matches!(why, CallError::Refused { .. }), "{why}");
    assert_eq!(said.get(), Attributes::default(), "a refusal says nothing: another host may be asked then");

    let plain = Request::new("one", Vec::new());
    let said = plain.answer.clone();
    a.call(peer, LABELS, plain).await.expect("an answer");
    assert_eq!(said.get(), Attributes::default());

    // What an agent says without a label counts as what nobody vouches for, whole and streamed.
    let agent = || Some(AgentId::new(PublisherId::from_digest([1; 32]), "echo").expect("a name"));
    let asking = |operation: &str| Request { agent: agent(), ..Request::new(operation, Vec::new()) };
    let unlabelled = Attributes { label: Some(Label::UNLABELLED), ..Attributes::default() };
    let plain = asking("one");
    let said = plain.answer.clone();
    a.call(peer, LABELS, plain).await.expect("an answer");
    assert_eq!(said.get(), unlabelled);
    let several = asking("events");
    let said = several.answer.clone();
    let mut events = a.stream(peer, LABELS, several).await.expect("it begins");
    events.next().await.expect("an event");
    assert_eq!(said.get(), unlabelled);
    let refused = asking("refuse");
    let said = refused.answer.clone();
    a.call(peer, LABELS, refused).await.expect_err("a refusal");
    assert_eq!(said.get(), Attributes::default());
}

/// What a peer of its own owner shows.
fn shows(net: &SimNet, seed: u8) -> (PublicKey, Hello) {
    let (owner, peer) = (SecretKey::from_seed(&[50; 32]), SecretKey::from_seed(&[seed; 32]).public());
    let next = [51, 52].map(|seed| SecretKey::from_seed(&[seed; 32]).public());
    let log = KeyLog::verify(&[keylog::inception(&owner, next, net.now_ms()).bytes]).expect("an inception");
    let body = Membership::new(log.publisher(), peer, net.now_ms(), net.now_ms() + 3_600_000);
    let membership = object::sign(body, "althing", "", &owner).expect("a membership").bytes;
    let hello = Hello {
        version: 1,
        challenge: [9; 32],
        network: "althing".to_owned(),
        owner: Some(OwnerProof::new(membership, &log)),
    };
    (peer, hello)
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_shows_is_not_kept_once_it_has_left() {
    let net = SimNet::new(1, LinkConfig::default());
    let node = start(&net, 1, CommunicationConfig::default());
    let (peer, hello) = shows(&net, 2);
    let there = net.join(peer);
    there.dial(Some(node.network().local()), node.network().listening()).await.expect("a connection");
    assert!(node.shared.note_owner(peer, &hello).is_some());
    assert_eq!(kept(&node)[0], 1);
    there.disconnect(node.network().local());
    sleep(Duration::from_millis(10)).await;
    // Read of a stream that was being opened when its connection ended.
    assert!(node.shared.note_owner(peer, &hello).is_some());
    sleep(3 * SWEEP).await;
    assert_eq!(kept(&node)[0], 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_shows_before_its_connection_is_reported_is_kept() {
    let net = SimNet::new(1, LinkConfig::default());
    let node = start(&net, 1, CommunicationConfig::default());
    let (peer, hello) = shows(&net, 2);
    assert!(node.shared.note_owner(peer, &hello).is_some());
    node.shared.sweep();
    let there = net.join(peer);
    there.dial(Some(node.network().local()), node.network().listening()).await.expect("a connection");
    sleep(3 * SWEEP).await;
    assert!(node.owner(peer).is_some());
}
