//! Each connection is a span, and none tells a secret.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use althing_egress::{Scheme, SecretValue, Target, Traces};
use http::HeaderName;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::support::{Host, Way, ask, ok};

const SECRET: &str = "sk-0123456789";

/// All that spans and lines of the log say: the fields of spans in their order, each with its number, and of lines.
#[derive(Clone, Default)]
struct Told {
    spans: Arc<Mutex<Vec<(u64, Fields)>>>,
    lines: Arc<Mutex<Vec<Fields>>>,
}

#[derive(Debug, Clone, Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Told {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        fields.0.insert("name".to_owned(), attributes.metadata().name().to_owned());
        self.spans.lock().expect("whole").push((id.into_u64(), fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.spans.lock().expect("whole");
        // A number is used again once its span has ended.
        if let Some((_, fields)) = spans.iter_mut().rev().find(|(number, _)| *number == id.into_u64()) {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.lines.lock().expect("whole").push(fields);
    }
}

impl Told {
    /// The spans of connections, in their order.
    fn egress(&self) -> Vec<BTreeMap<String, String>> {
        let spans = self.spans.lock().expect("whole");
        let fields = spans.iter().map(|(_, fields)| &fields.0);
        fields.filter(|fields| fields["name"] == "egress").cloned().collect()
    }
}

#[tokio::test]
async fn each_connection_is_a_span_that_says_where_to_and_how_it_ended() {
    let told = Told::default();
    // While there is one subscriber alone, whether a span is wanted is asked of the thread that comes first, which may be that of
    // another test: it has none.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(told.clone()));
    let way = Way::open();
    let host = Host::new(|request| ok("", request)).await;
    let port = host.at.port();
    let value = SecretValue::new(SECRET, &[SECRET]).expect("a value");
    let headers = vec![(HeaderName::from_static("x-key"), value)];
    let local = way.local(Target::new(Scheme::Http, "127.0.0.1", port, "", headers).expect("a target")).await;
    let asked = "POST / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody";
    ask(local, asked).await;
    let heard = host.last().len();
    let (proxy, _) = way.proxy(&[]).await;
    ask(proxy, "CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;

    let spans = told.egress();
    let is = |at: usize, name: &str, value: &str| {
        let found: Option<&str> = spans[at].get(name).map(String::as_str);
        assert_eq!(found, Some(value), "{name} of {:?}", spans[at]);
    };
    assert_eq!(spans.len(), 2, "{spans:?}");
    for (name, value) in [
        ("server.address", "127.0.0.1"),
        ("server.port", port.to_string().as_str()),
        ("network.transport", "tcp"),
        ("otel.kind", "client"),
        ("althing.egress.outcome", "reached"),
        ("althing.egress.sent", "4"),
        ("althing.egress.received", heard.to_string().as_str()),
    ] {
        is(0, name, value);
    }
    assert!(!spans[0].contains_key("error.type"));
    for (name, value) in [
        ("server.address", "other.example"),
        ("server.port", "443"),
        ("althing.egress.outcome", "denied"),
        ("error.type", "denied"),
    ] {
        is(1, name, value);
    }
    let all = format!("{:?} {:?}", told.spans.lock().expect("whole"), told.lines.lock().expect("whole"));
    assert!(!all.contains(SECRET), "{all}");
}

/// Has connections told or not, and counts those that were.
struct Ledger {
    is_told: bool,
    joined: AtomicUsize,
}

impl Traces for Ledger {
    fn is_told(&self) -> bool {
        self.is_told
    }

    fn join(&self, span: &tracing::Span) {
        span.record("gen_ai.agent.name", "helper");
        self.joined.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn whoever_keeps_the_traces_says_which_a_connection_belongs_to_and_whether_it_is_told() {
    let told = Told::default();
    // As above.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(told.clone()));
    let mut way = Way::open();
    for (is_told, spans) in [(true, 1), (false, 1)] {
        let ledger = Arc::new(Ledger { is_told, joined: AtomicUsize::new(0) });
        way.egress = way.egress.clone().within(ledger.clone());
        let (proxy, _) = way.proxy(&[]).await;
        ask(proxy, "CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        let all = told.egress();
        assert_eq!((all.len(), ledger.joined.load(Ordering::Relaxed)), (spans, usize::from(is_told)), "{all:?}");
        assert_eq!(all[0].get("gen_ai.agent.name").map(String::as_str), Some("helper"));
    }
}
