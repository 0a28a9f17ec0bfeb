//! Searches beside scripted peers that answer what was not asked (SPEC P-66), in virtual time.

use std::sync::Arc;

use althing_communication::{Answer, Caller, Communication, CommunicationConfig, Inbound, Request, StreamLimits};
use althing_conformance::mesh::{Node, Owner, agent, file, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, entropy, key};
use althing_discovery::{LocalAgent, PLACEMENTS, Query};
use althing_protocol::inquiry::Testimony;
use althing_protocol::object::{self, Hosted, Placement};
use althing_protocol::record::RecordKey;
use althing_simnet::{LinkConfig, SimNet};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;

const OWNER: u8 = 100;
const LIAR: u8 = 9;

/// Answers each inquiry with the valid evidence of its one agent.
struct Answers(LocalAgent);

impl Inbound for Answers {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let mut placement = Placement::new(key(LIAR).public(), NOW_MS, NOW_MS, 6_000);
        let (description, grant) = self.0.verified.digests();
        placement.agents = vec![Hosted { agent: self.0.verified.agent.clone(), description, grant }];
        let placement = object::sign(placement, NETWORK, "", &key(LIAR)).expect("a placement").bytes.into();
        let evidence = vec![self.0.verified.evidence().encode().into()];
        let answer = match request.operation.as_str() {
            "find" => Testimony { placement, evidence }.encode(),
            _ => Vec::new(),
        };
        futures::future::ready(Answer::Response(answer)).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_was_not_asked_for_does_not_end_a_search() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let seeker = Node::start(&net, 1, OWNER, &[], store()).await;
    let liar = Communication::start(
        net.join(key(LIAR).public()),
        key(LIAR),
        watch::channel(None).1,
        CommunicationConfig::default(),
        net.clock(),
        entropy(u64::from(LIAR)),
    );
    let other = file("other", "does something else", "other.do", "do", "other");
    let other = agent(&Owner::new(key(LIAR)), &key(LIAR), key(LIAR).public(), &other, 1, NOW_MS);
    liar.serve(PLACEMENTS, StreamLimits::default(), Arc::new(Answers(other))).expect("nobody else serves it");
    let network = liar.network();
    network.dial(Some(seeker.id()), seeker.communication.network().listening()).await.expect("a connection");
    let table = || seeker.communication.network().routing().nodes();
    until("the seeker's table has it", || !table().is_empty()).await;
    network.routing().provide(RecordKey::capability(NETWORK, "wanted")).await.expect("it is told to somebody");
    let query = Query { capability: Some("wanted.*".to_owned()), ..Query::default() };
    let (found, why) = seeker.discovery.search(&query).await;
    let report = why.sought.expect("it was searched for");
    assert!(found.is_empty());
    assert_eq!((report.asked, report.confirmed, report.without), (1, 0, 1), "{report:?}");
}
