//! `/althing/trace/1` in virtual time: the owner's nodes tell each other, and nobody else; what is told is bounded.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use althing_calls::spans::{SPANS_BYTES_MAX, SPANS_MAX, TRACE};
use althing_communication::refusal::said;
use althing_communication::{Answer, CallError, Caller, CommunicationConfig, Inbound, Request, StreamLimits};
use althing_conformance::mesh::{Node, store};
use althing_conformance::world::Peer;
use althing_conformance::{NETWORK, key};
use althing_simnet::{LinkConfig, SimNet};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value, json};

const OWNER: u8 = 100;
const STRANGER: u8 = 101;

fn span(trace: u128, id: u64, attributes: Vec<KeyValue>) -> SpanData {
    let began = UNIX_EPOCH + Duration::from_micros(id);
    SpanData {
        span_context: SpanContext::new(trace.into(), id.into(), TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: 0.into(),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: "turn".into(),
        start_time: began,
        end_time: began,
        attributes,
        dropped_attributes_count: 0,
        events: Default::default(),
        links: Default::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::default(),
    }
}

fn leads_to(node: &Node) -> Vec<KeyValue> {
    vec![KeyValue::new("peer", node.id().did())]
}

async fn ask(from: &Node, of: &Node, operation: &str, body: &Value) -> Result<Value, (String, String)> {
    let request = Request::new(operation, body.to_string().into_bytes());
    match from.communication.call(of.id(), TRACE, request).await {
        Ok(body) => {
            assert!(body.len() <= SPANS_BYTES_MAX + 64, "{} bytes", body.len());
            Ok(serde_json::from_slice(&body).expect("JSON"))
        }
        Err(CallError::Refused { body, .. }) => Err(said(&body)),
        Err(error) => panic!("{error}"),
    }
}

fn question(trace: u128) -> Value {
    json!({ "trace": TraceId::from(trace).to_string() })
}

/// P-153
#[tokio::test(start_paused = true)]
async fn only_nodes_of_the_same_owner_learn_of_a_trace() {
    let net = SimNet::new(1, LinkConfig::default());
    let host = Node::start(&net, 1, OWNER, &[], store()).await;
    let own = Node::start(&net, 2, OWNER, &[], store()).await;
    let trusted = althing_protocol::CallerId::Node(key(3).public());
    let stranger = Node::start(&net, 3, STRANGER, &[], store()).await;
    host.trust.set(trusted, true).await.expect("it is kept");
    own.connect(&host).await;
    stranger.connect(&host).await;
    host.traces.ring.keep(span(7, 1, vec![KeyValue::new("gen_ai.input.messages", "a secret")]));

    let told = ask(&own, &host, "spans", &question(7)).await.expect("an answer");
    assert_eq!(told["spans"][0]["attributes"]["gen_ai.input.messages"], "a secret");
    let unknown = ask(&own, &host, "spans", &question(8)).await.expect("an answer");
    assert_eq!(unknown, json!({ "spans": [], "more": false }));
    // Nobody else, not even whom the node trusts, and not whether it is known, nor how to ask.
    let refused = ask(&stranger, &host, "spans", &question(7)).await.expect_err("it is refused");
    assert_eq!(refused.0, "CALLER_NOT_ALLOWED");
    for (operation, body) in [("spans", question(8)), ("spans", json!([])), ("other", question(7))] {
        assert_eq!(ask(&stranger, &host, operation, &body).await, Err(refused.clone()));
    }
    let gathered = stranger.traces.gather(7.into()).await;
    assert!(gathered.spans.is_empty() && gathered.untold.is_empty(), "{gathered:?}");
}

/// P-154
#[tokio::test(start_paused = true)]
async fn questions_are_strict_and_answers_are_bounded() {
    let net = SimNet::new(2, LinkConfig::default());
    let host = Node::start(&net, 1, OWNER, &[], store()).await;
    let own = Node::start(&net, 2, OWNER, &[], store()).await;
    own.connect(&host).await;
    let trace = TraceId::from(7u128).to_string();
    let wrong = [
        json!({}),
        json!({ "trace": "7" }),
        json!({ "trace": "0".repeat(32) }),
        json!({ "trace": trace.replace('0', "G") }),
        json!({ "trace": trace.replace('7', "A") }),
        json!({ "trace": trace, "more": true }),
        json!({ "trace": trace, "long": "x".repeat(1_000) }),
    ];
    for body in wrong {
        assert!(ask(&own, &host, "spans", &body).await.is_err(), "{body}");
    }
    assert!(ask(&own, &host, "other", &question(7)).await.is_err());

    // By number, the newest: 3,000 small spans; then by bytes: large ones.
    for id in 1..=3_000 {
        host.traces.ring.keep(span(7, id, Vec::new()));
    }
    let told = ask(&own, &host, "spans", &question(7)).await.expect("an answer");
    let spans = told["spans"].as_array().expect("a list");
    assert_eq!((spans.len(), &told["more"]), (SPANS_MAX, &json!(true)));
    assert_eq!(spans.last().expect("one")["beganUs"], 3_000);
    for id in 1..=500 {
        host.traces.ring.keep(span(8, id, vec![KeyValue::new("said", "x".repeat(4_000))]));
    }
    let told = ask(&own, &host, "spans", &question(8)).await.expect("an answer");
    let spans = told["spans"].as_array().expect("a list");
    assert!(spans.len() > 100 && spans.len() < 500 && told["more"] == true, "{}", spans.len());
    let gathered = own.traces.gather(8.into()).await;
    assert!(gathered.more && gathered.spans.len() == spans.len());
}

/// Tells everybody of spans that never were, among them one of another trace.
struct Liar;

impl Inbound for Liar {
    fn call(&self, _caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let asked: Value = serde_json::from_slice(&request.body).expect("JSON");
        let lie = |trace: &Value| json!({ "trace": trace, "id": "00000000000000aa", "name": "lie", "kind": "server", "beganUs": 1, "tookUs": 1 });
        let body =
            json!({ "spans": [lie(&asked["trace"]), lie(&json!(TraceId::from(1u128).to_string()))], "more": false });
        std::future::ready(Answer::Response(body.to_string().into_bytes())).boxed()
    }
}

/// P-155
#[tokio::test(start_paused = true)]
async fn a_trace_is_followed_over_the_owners_nodes_and_others_are_not_believed() {
    let net = SimNet::new(3, LinkConfig::default());
    let first = Node::start(&net, 1, OWNER, &[], store()).await;
    let second = Node::start(&net, 2, OWNER, &[], store()).await;
    let third = Node::start(&net, 3, OWNER, &[], store()).await;
    let stranger = Node::start(&net, 4, STRANGER, &[], store()).await;
    let gone = Node::start(&net, 5, OWNER, &[], store()).await;
    let config = CommunicationConfig { network: NETWORK.to_owned(), ..CommunicationConfig::default() };
    let liar = Peer::start_on(net.join(key(6).public()), &key(6), config, None);
    let limits = StreamLimits { per_peer_max: 4, total_max: 4, idle_max: 1 };
    liar.communication.serve(TRACE, limits, Arc::new(Liar)).expect("nobody else serves it");
    liar.network().dial(Some(first.id()), first.communication.network().listening()).await.expect("a connection");
    first.connect(&second).await;
    first.connect(&third).await;
    second.connect(&third).await;
    first.connect(&stranger).await;
    first.connect(&gone).await;
    // The first knows of the second only; that one of the third, of a stranger, and of a node that is gone.
    first.traces.ring.keep(span(7, 1, leads_to(&second)));
    for (id, node) in [(2, &third), (3, &stranger), (4, &gone), (5, &first)] {
        second.traces.ring.keep(span(7, id, leads_to(node)));
    }
    first.traces.ring.keep(span(7, 0, vec![KeyValue::new("caller", liar.id().did())]));
    third.traces.ring.keep(span(7, 6, leads_to(&second)));
    third.traces.ring.keep(span(9, 7, Vec::new()));
    stranger.traces.ring.keep(span(7, 8, Vec::new()));
    net.crash(gone.id());

    let gathered = first.traces.gather(7.into()).await;
    let mut told: Vec<_> = gathered.spans.iter().map(|of| (of.node, of.span.began_us)).collect();
    told.sort_by_key(|(_, began)| *began);
    let (a, b, c) = (first.id(), second.id(), third.id());
    assert_eq!(told, [(a, 0), (a, 1), (b, 2), (b, 3), (b, 4), (b, 5), (c, 6)]);
    let untold: Vec<_> = gathered.untold.iter().map(|untold| untold.node).collect();
    let said = gathered.untold.iter().find(|untold| untold.node == liar.id()).map(|untold| untold.why.as_str());
    assert_eq!(said, Some("it is another owner's, so what it says is not taken"));
    assert!(
        untold.len() == 3
            && untold.contains(&liar.id())
            && untold.contains(&stranger.id())
            && untold.contains(&gone.id()),
        "{gathered:?}"
    );
    // A node that saw nothing of it asks the owner's nodes that are connected.
    let from_third = third.traces.gather(9.into()).await;
    assert_eq!(from_third.spans.len(), 1);
    let from_first = first.traces.gather(9.into()).await;
    assert_eq!(from_first.spans.iter().map(|of| of.node).collect::<Vec<_>>(), [third.id()]);
}
