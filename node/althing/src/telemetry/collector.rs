//! Where telemetry goes, by the configuration and by the variables of OpenTelemetry, and a client that notes how the collector
//! there answers.

use std::sync::Arc;
use std::time::Duration;

use althing_discovery::Url;
use althing_operations::{Collector, CollectorNews, CollectorTrouble};
use futures::future::BoxFuture;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

use super::partial;
use crate::exit::Failure;

/// The target of the lines of the log that this module writes.
pub const TARGET: &str = module_path!();
const TRACES: Signal = Signal {
    path: "/v1/traces",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    exporter: "OTEL_TRACES_EXPORTER",
};
const METRICS: Signal = Signal {
    path: "/v1/metrics",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    exporter: "OTEL_METRICS_EXPORTER",
};
const LOGS: Signal = Signal {
    path: "/v1/logs",
    endpoint: "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    protocol: "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
    exporter: "OTEL_LOGS_EXPORTER",
};
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
/// The protocol that is spoken, and the exporter that there is.
const SPOKEN: &str = "http/protobuf";
const EXPORTER: &str = "otlp";
const NO_EXPORTER: &str = "none";
/// How long the collector may take, in milliseconds, and what it is without that variable.
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const TIMEOUT_MS: u64 = 10_000;

/// One of what is exported: its path below a collector's address, and the variables that are about it alone.
#[derive(Debug, Clone, Copy)]
struct Signal {
    path: &'static str,
    endpoint: &'static str,
    protocol: &'static str,
    exporter: &'static str,
}

/// Where each signal goes, if anywhere.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    pub traces: Option<String>,
    pub metrics: Option<String>,
    pub logs: Option<String>,
    /// The path of a signal that was taken off the collector's address.
    pub cut: Option<String>,
    /// Variables that ask for what there is not, each with what is done instead.
    pub unmet: Vec<String>,
}

impl Endpoints {
    /// By `[telemetry] otlp_endpoint`, and by the variables, which win.
    pub fn new(configured: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Endpoints, String> {
        let variable = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|it| !it.is_empty());
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(Endpoints::default());
        }
        let (from, base) = match variable(ENDPOINT) {
            Some(base) => (ENDPOINT, base),
            None => ("telemetry.otlp_endpoint", configured.trim().to_owned()),
        };
        let mut whole = base.trim_end_matches('/');
        let cut = [TRACES, METRICS, LOGS].into_iter().find(|signal| whole.ends_with(signal.path));
        if let Some(signal) = cut {
            whole = whole.trim_end_matches(signal.path).trim_end_matches('/');
        }
        if !whole.is_empty() {
            check_base(from, whole)?;
        }
        let mut unmet = Vec::new();
        let mut at = |signal: Signal| {
            let place = match variable(signal.endpoint) {
                Some(own) => check(signal.endpoint, &own).map(|()| Some(own))?,
                None => (!whole.is_empty()).then(|| format!("{whole}{}", signal.path)),
            };
            let Some(place) = place else { return Ok::<_, String>(None) };
            let (is_exported, why) = exporters(signal, variable(signal.exporter));
            unmet.extend(why);
            if !is_exported {
                return Ok(None);
            }
            let spoken = variable(signal.protocol).map(|value| (signal.protocol, value));
            let spoken = spoken.or_else(|| variable(PROTOCOL).map(|value| (PROTOCOL, value)));
            if let Some(why) = spoken.and_then(|(name, value)| protocol(name, &value))
                && !unmet.contains(&why)
            {
                unmet.push(why);
            }
            Ok(Some(place))
        };
        let (traces, metrics, logs) = (at(TRACES)?, at(METRICS)?, at(LOGS)?);
        let cut = cut.map(|signal| {
            format!("`{from}` ends with {}, which is taken off: each signal has a path of its own", signal.path)
        });
        Ok(Endpoints { traces, metrics, logs, cut, unmet })
    }
}

/// Whether a signal is exported, by the list of its exporters; and what is to be said of that.
fn exporters(signal: Signal, listed: Option<String>) -> (bool, Option<String>) {
    let Some(listed) = listed else { return (true, None) };
    let is_listed = |wanted: &str| listed.split(',').any(|one| one.trim().eq_ignore_ascii_case(wanted));
    if is_listed(EXPORTER) || is_listed(NO_EXPORTER) {
        return (is_listed(EXPORTER), None);
    }
    let why = format!(
        "`{}` is {listed:?}, which this node does not have, so that signal is not sent: write {EXPORTER} or {NO_EXPORTER}",
        signal.exporter
    );
    (false, Some(why))
}

/// What is to be said of a protocol that is not spoken.
fn protocol(name: &str, value: &str) -> Option<String> {
    let why = if value.eq_ignore_ascii_case("grpc") {
        "HTTP only: port 4318 of most collectors, where gRPC has 4317"
    } else {
        "HTTP with protocol buffers only"
    };
    let is_spoken = value.eq_ignore_ascii_case(SPOKEN);
    (!is_spoken).then(|| format!("`{name}` is {value:?}, which this node does not speak. It speaks {why}"))
}

/// Whether a collector can be at an address to which the path of each signal is added.
fn check_base(from: &str, address: &str) -> Result<(), String> {
    if !address.contains(['?', '#']) {
        return check(from, address);
    }
    Err(format!(
        "`{from}` is {:?} with a query or a fragment, and the path of each signal is added to it: leave that out, and write what \
         the collector wants besides into OTEL_EXPORTER_OTLP_HEADERS",
        shown(address)
    ))
}

/// An address without what in it may be a secret: a user with a password, a query and a fragment. Whether it is one is not known yet.
fn shown(address: &str) -> String {
    let (scheme, rest) = address.split_at(address.find("://").map_or(0, |at| at + 3));
    let (place, secret) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    match place.rsplit_once('@') {
        // A password may have a question mark.
        _ if secret.contains('@') => format!("{scheme}…"),
        Some((_, place)) => format!("{scheme}…@{place}"),
        None => format!("{scheme}{place}"),
    }
}

/// Whether a collector can be at an address.
fn check(from: &str, address: &str) -> Result<(), String> {
    let url =
        Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some());
    url.map(drop).ok_or_else(|| {
        format!(
            "`{from}` is {:?}, which is no address of a collector: write one such as \"http://127.0.0.1:4318\"",
            shown(address)
        )
    })
}

/// A client that notes how the collector answers.
#[derive(Debug, Clone)]
pub struct Client {
    client: reqwest::blocking::Client,
    collector: Arc<Collector>,
}

impl Client {
    pub fn new(collector: Arc<Collector>) -> Result<Client, Failure> {
        let time_ms = std::env::var(TIMEOUT).ok().and_then(|value| value.trim().parse().ok()).unwrap_or(TIMEOUT_MS);
        let make = move || reqwest::blocking::Client::builder().timeout(Duration::from_millis(time_ms)).build();
        // A client that blocks is not to be made by a thread that runs asynchronous code.
        let made = std::thread::spawn(make).join().ok().and_then(Result::ok);
        let client = made.ok_or_else(|| Failure::failed("the client of the collector cannot be made"))?;
        Ok(Client { client, collector })
    }

    fn note(&self, address: &str, answer: Result<(), CollectorTrouble>) {
        match self.collector.note(address, answer) {
            Some(CollectorNews::Failed(address, trouble)) => {
                let taken = if matches!(trouble, CollectorTrouble::Rejected(_)) { "not all" } else { "no" };
                tracing::warn!(
                    "the collector at {address} takes {taken} telemetry: {trouble}; `althing doctor` says what to do, and \
                     another line that it takes it again"
                );
            }
            Some(CollectorNews::Well) => tracing::warn!("the collector takes telemetry again"),
            None => {}
        }
    }
}

impl HttpClient for Client {
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: Request<Bytes>,
    ) -> BoxFuture<'async_trait, Result<Response<Bytes>, HttpError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let uri = request.uri();
            // Without the name and password that it may have.
            let port = uri.port_u16().map_or_else(String::new, |port| format!(":{port}"));
            let (scheme, host) = (uri.scheme_str().unwrap_or("http"), uri.host().unwrap_or_default());
            let address = format!("{scheme}://{host}{port}{}", uri.path());
            let answer = self.client.send_bytes(request).await;
            self.note(&address, judged(&answer));
            answer
        })
    }
}

fn judged(answer: &Result<Response<Bytes>, HttpError>) -> Result<(), CollectorTrouble> {
    match answer {
        Ok(response) if response.status().is_success() => {
            let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            if essence == "text/html" {
                return Err(CollectorTrouble::Page);
            }
            let is_binary = matches!(essence.as_str(), "application/x-protobuf" | "application/protobuf" | "");
            match partial::rejected(response.body()).filter(|_| is_binary) {
                Some(count) => Err(CollectorTrouble::Rejected(count)),
                None => Ok(()),
            }
        }
        Ok(response) => Err(CollectorTrouble::Status(response.status().as_u16())),
        Err(error) if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout) => {
            Err(CollectorTrouble::Silent)
        }
        Err(_) => Err(CollectorTrouble::Unreachable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(configured: &str, variables: &[(&str, &str)]) -> Result<Endpoints, String> {
        let all: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let variable = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        Endpoints::new(configured, variable)
    }

    fn below(base: &str) -> [Option<String>; 3] {
        ["traces", "metrics", "logs"].map(|signal| Some(format!("{base}/v1/{signal}")))
    }

    #[test]
    fn each_signal_goes_below_the_collectors_address_and_the_variables_win() {
        let places = |configured: &str, variables: &[(&str, &str)]| {
            let Endpoints { traces, metrics, logs, .. } = endpoints(configured, variables).expect("an address");
            [traces, metrics, logs]
        };
        assert_eq!(places("", &[]), [None, None, None]);
        assert_eq!(places("http://c:4318", &[]), below("http://c:4318"));
        assert_eq!(places("http://c:4318/otlp/", &[]), below("http://c:4318/otlp"));
        assert_eq!(places("http://c:4318", &[(ENDPOINT, "https://d")]), below("https://d"));
        assert_eq!(places("", &[(ENDPOINT, "https://d/")]), below("https://d"));
        assert_eq!(places("http://c", &[(ENDPOINT, " ")]), below("http://c"), "an empty variable says nothing");
        let own = places("http://c", &[(LOGS.endpoint, "http://e/in")]);
        assert_eq!(own[2].as_deref(), Some("http://e/in"), "it is taken as it is");
        assert_eq!(own[..2], below("http://c")[..2]);
        let alone = places("", &[(TRACES.endpoint, "http://e/in")]);
        assert_eq!(alone, [Some("http://e/in".to_owned()), None, None]);
        assert_eq!(places("http://c", &[("OTEL_SDK_DISABLED", "true")]), [None, None, None]);
    }

    #[test]
    fn a_protocol_that_is_not_spoken_is_told_once() {
        let unmet = |variables: &[(&str, &str)]| endpoints("http://c:4317", variables).expect("an address").unmet;
        for fine in ["http/protobuf", " HTTP/protobuf ", ""] {
            assert_eq!(unmet(&[(PROTOCOL, fine)]), Vec::<String>::new(), "{fine}");
        }
        let others = [("grpc", "HTTP only: port 4318"), ("GRPC", "4317"), ("http/json", "protocol buffers only")];
        for (value, says) in others {
            let told = unmet(&[(PROTOCOL, value)]);
            assert!(told.len() == 1 && told[0].contains(PROTOCOL) && told[0].contains(says), "{told:?}");
        }
        let own = unmet(&[(PROTOCOL, SPOKEN), (LOGS.protocol, "grpc")]);
        assert!(own.len() == 1 && own[0].contains(LOGS.protocol), "{own:?}");
        let none = endpoints("", &[(PROTOCOL, "grpc")]).expect("no address");
        assert_eq!(none, Endpoints::default(), "nothing is exported");
    }

    #[test]
    fn a_signal_without_an_exporter_goes_nowhere() {
        let of = |value: &str| endpoints("http://c", &[(TRACES.exporter, value)]).expect("an address");
        for on in ["otlp", "console, OTLP", " "] {
            assert_eq!((of(on).traces, of(on).unmet), (below("http://c")[0].clone(), Vec::new()), "{on}");
        }
        let off = of("none");
        assert_eq!((off.traces, off.unmet), (None, Vec::new()));
        assert_eq!([off.metrics, off.logs], below("http://c")[1..]);
        let other = of("zipkin");
        assert_eq!(other.traces, None);
        assert!(other.unmet.len() == 1 && other.unmet[0].contains("OTEL_TRACES_EXPORTER"), "{:?}", other.unmet);
    }

    #[test]
    fn an_answer_that_is_well_says_whether_a_collector_took_all() {
        // `partial_success` with `rejected_spans` 3, and with a text alone.
        let (rejected, warned): (&[u8], &[u8]) = (&[0x0a, 2, 0x08, 3], &[0x0a, 3, 0x12, 1, b'x']);
        type Row<'a> = (u16, &'a str, &'a [u8], Result<(), CollectorTrouble>);
        let table: [Row<'_>; 6] = [
            (200, "application/x-protobuf", &[], Ok(())),
            (200, "application/x-protobuf", warned, Ok(())),
            (200, "application/x-protobuf", rejected, Err(CollectorTrouble::Rejected(3))),
            (202, "application/json", b"{}", Ok(())),
            (200, "text/html; charset=utf-8", b"<html>", Err(CollectorTrouble::Page)),
            (404, "text/html", b"", Err(CollectorTrouble::Status(404))),
        ];
        for (status, kind, body, wanted) in table {
            let mut answer = Response::new(Bytes::copy_from_slice(body));
            *answer.status_mut() = status.try_into().expect("a status");
            answer.headers_mut().insert("content-type", kind.parse().expect("a media type"));
            assert_eq!(judged(&Ok(answer)), wanted, "{status} {kind} {body:?}");
        }
    }

    #[test]
    fn the_address_of_a_collector_has_no_query() {
        for address in ["http://c:4318?key=hush", "http://c:4318/v1/traces?key=hush", "http://c/#hush"] {
            let why = endpoints(address, &[]).expect_err(address);
            assert!(
                why.contains("`telemetry.otlp_endpoint`") && why.contains("query") && !why.contains("hush"),
                "{why}"
            );
        }
        for (address, told) in [
            ("http://name:hush@c:4318?x", "\"http://…@c:4318\""),
            ("http://name:hush@c:4318/in#x@y", "\"http://…\""),
            ("http://name:hu?hush@c:4318", "\"http://…\""),
            ("grpc://name:hush@c:4317", "\"grpc://…@c:4317\""),
            ("http://name:hush/hush@c", "\"http://…@c\""),
            ("name:hush@c", "\"…@c\""),
            ("grpc://c:4317", "\"grpc://c:4317\""),
        ] {
            let why = endpoints(address, &[]).expect_err(address);
            assert!(why.contains(&format!("is {told}")) && !why.contains("hush"), "{address}: {why}");
        }
        let own = endpoints("", &[(TRACES.endpoint, "http://e/in?key=1")]).expect("nothing is added to it");
        assert_eq!(own.traces.as_deref(), Some("http://e/in?key=1"));
    }

    #[test]
    fn the_path_of_a_signal_is_taken_off_and_what_is_no_address_is_refused() {
        for path in ["/v1/traces", "/v1/metrics/", "/v1/logs"] {
            let found = endpoints(&format!("http://c:4318{path}"), &[]).expect("an address");
            assert_eq!(found.traces.as_deref(), Some("http://c:4318/v1/traces"));
            assert!(found.cut.is_some_and(|cut| cut.contains("is taken off")), "{path}");
        }
        assert_eq!(endpoints("http://c:4318", &[]).expect("an address").cut, None);
        for address in ["c:4318", "grpc://c:4317", "nonsense", "/v1/traces-x"] {
            let why = endpoints(address, &[]).expect_err(address);
            assert!(why.contains("`telemetry.otlp_endpoint`") && why.contains("http://127.0.0.1:4318"), "{why}");
        }
        let why = endpoints("", &[(METRICS.endpoint, "x")]).expect_err("no address");
        assert!(why.contains(METRICS.endpoint), "{why}");
    }
}
