//! How nodes check whether others can dial them (SPEC P-71, P-72), over libp2p.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use althing_communication::network::Incoming;
use althing_communication::{
    AcceptError, Answer, BoxedStream, CallError, Caller, CommunicationConfig, DhtRouting, DialError, DialReport,
    Inbound, Network, OpenError, PeerEvent, PeerInfo, REACH, Request, StreamLimits, WallClock,
};
use althing_conformance::world::{Peer, World, connect, until};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::PublicKey;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::broadcast;

async fn peer(number: u8) -> Peer {
    Peer::start(&World::Libp2p, &key(number), CommunicationConfig::default()).await
}

fn port(network: &Arc<dyn Network>) -> String {
    let address = network.listening().remove(0);
    address.rsplit_once('/').expect("/ip4/127.0.0.1/tcp/PORT").1.to_owned()
}

async fn dial_back(from: &Peer, to: &Peer, transports: &[&str]) -> Result<Vec<DialReport>, CallError> {
    let body = minicbor::to_vec(transports).expect("writing to a vector cannot fail");
    let answer = from.communication.call(to.id(), REACH, Request::new("dial-back", body)).await?;
    Ok(minicbor::decode(&answer).expect("an answer"))
}

fn refusal(outcome: Result<Vec<DialReport>, CallError>) -> String {
    match outcome {
        Err(CallError::Refused { body, .. }) => String::from_utf8(body).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_peer_is_dialled_where_it_comes_from_and_the_connection_stays_as_it_is() {
    // P-71, P-72
    let (a, b) = (peer(1).await, peer(2).await);
    connect(a.network(), b.network()).await;
    let transport = format!("/tcp/{}", port(a.network()));
    a.network().expect_probes(b.id());
    let dialled = dial_back(&a, &b, &[&transport, "/tcp/1"]).await.expect("an answer");
    assert_eq!(dialled[0].address, format!("/ip4/127.0.0.1{transport}"));
    assert!(dialled[0].reached && dialled[0].reason.is_empty(), "{dialled:?}");
    assert!(!dialled[1].reached && !dialled[1].reason.is_empty(), "{dialled:?}");
    assert_eq!(a.network().probes_seen(b.id()), 1);
    let peers = a.network().peers();
    assert_eq!((peers.len(), peers[0].connections, peers[0].dialled), (1, 1, true), "no connection took its place");
}

#[tokio::test]
async fn who_asks_for_what_is_no_transport_or_too_often_is_refused() {
    let (a, b) = (peer(1).await, peer(2).await);
    connect(a.network(), b.network()).await;
    for bad in [&[][..], &["/ip4/192.0.2.1/tcp/1"], &["/tcp/0"], &["/tcp/1"; 5]] {
        assert!(refusal(dial_back(&a, &b, bad).await).contains("transports like"), "{bad:?}");
    }
    assert!(dial_back(&a, &b, &["/tcp/1"]).await.is_ok());
    assert!(refusal(dial_back(&a, &b, &["/tcp/1"]).await).contains("BUSY"));
    let nonsense = a.communication.call(b.id(), REACH, Request::new("nonsense", Vec::new())).await;
    assert!(matches!(nonsense, Err(CallError::Refused { .. })), "{nonsense:?}");
}

/// Claims that every dial succeeded.
struct Liar;

impl Inbound for Liar {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let transports: Vec<String> = minicbor::decode(&request.body).expect("transports");
        let claim = |address: String| DialReport { address, reached: true, reason: String::new() };
        let mut claims: Vec<DialReport> =
            transports.iter().map(|transport| claim(format!("/ip4/5.0.0.9{transport}"))).collect();
        claims.push(claim("/ip4/5.0.0.9/tcp/80".to_owned()));
        let body = minicbor::to_vec(claims).expect("writing to a vector cannot fail");
        futures::future::ready(Answer::Response(body)).boxed()
    }
}

/// A network on which the test serves [`REACH`] in place of L2.
struct Withheld {
    inner: Arc<dyn Network>,
    asked: AtomicBool,
}

impl Network for Withheld {
    fn local(&self) -> PublicKey {
        self.inner.local()
    }
    fn open(&self, peer: PublicKey, protocol: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>> {
        self.inner.open(peer, protocol)
    }
    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError> {
        if protocol == REACH && !self.asked.swap(true, Ordering::Relaxed) {
            return Err(AcceptError::Taken(protocol));
        }
        self.inner.accept(protocol)
    }
    fn dial(&self, peer: Option<PublicKey>, addresses: Vec<String>) -> BoxFuture<'_, Result<PublicKey, DialError>> {
        self.inner.dial(peer, addresses)
    }
    fn disconnect(&self, peer: PublicKey) {
        self.inner.disconnect(peer);
    }
    fn events(&self) -> broadcast::Receiver<PeerEvent> {
        self.inner.events()
    }
    fn peers(&self) -> Vec<PeerInfo> {
        self.inner.peers()
    }
    fn listening(&self) -> Vec<String> {
        self.inner.listening()
    }
    fn routing(&self) -> &dyn DhtRouting {
        self.inner.routing()
    }
}

/// A node that listens on all interfaces: on loopback only it would have nothing to ask for.
async fn everywhere(number: u8) -> Arc<dyn Network> {
    let clock = WallClock::new(|| NOW_MS);
    let config = Libp2pConfig { listen: vec!["/ip4/0.0.0.0/tcp/0".to_owned()], ..Libp2pConfig::new(NETWORK, clock) };
    Arc::new(Libp2pNetwork::start(&key(number), config).await.expect("a network"))
}

#[test]
fn nobody_is_believed_who_did_not_come() {
    // P-72, in a network namespace of this thread's own: what a node may ask for depends on the machine's interfaces.
    if let Err(reason) = beside_loopback() {
        let what = format!("no network namespace with an interface could be made: {reason}");
        return althing_testing::skip(&what, althing_testing::remedy::NAMESPACES);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(a_liar_is_not_believed());
}

/// Gives this thread, and what runs on it, a namespace with an interface beside loopback.
fn beside_loopback() -> Result<(), String> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string())?;
    let commands = [
        "link set lo up",
        "link add outside type veth peer name inside",
        "addr add 10.99.0.1/24 dev outside",
        "link set outside up",
        "link set inside up",
    ];
    for command in commands {
        let ran = std::process::Command::new("ip").args(command.split(' ')).output();
        let ran = ran.map_err(|error| format!("ip {command}: {error}"))?;
        if !ran.status.success() {
            return Err(format!("ip {command}: {}", String::from_utf8_lossy(&ran.stderr)));
        }
    }
    Ok(())
}

async fn a_liar_is_not_believed() {
    let network = everywhere(1).await;
    until("it listens beside loopback", || network.listening().iter().any(|address| !address.contains("/127."))).await;
    let a = Peer::start_on(network, &key(1), CommunicationConfig::default(), None);
    let withheld = Withheld { inner: World::Libp2p.join(&key(2)).await, asked: AtomicBool::default() };
    let liar = Peer::start_on(Arc::new(withheld), &key(2), CommunicationConfig::default(), None);
    liar.communication.serve(REACH, StreamLimits::default(), Arc::new(Liar)).expect("its place was kept free");
    connect(a.network(), liar.network()).await;
    let asked = a.communication.request_dial_backs(1).await;
    let claims = asked[0].outcome.as_ref().expect("it answers");
    assert!(!claims.is_empty() && claims.iter().all(|claim| !claim.address.ends_with("/tcp/80")), "{claims:?}");
    assert!(claims.iter().all(|claim| !claim.reached && claim.reason.contains("no connection arrived")), "{claims:?}");
    assert!(a.communication.reachability().confirmed.is_empty());
}
