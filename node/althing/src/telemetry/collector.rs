//! Where telemetry goes, by the configuration and by the variables of OpenTelemetry, and a client that notes how the collector
//! there answers.

use std::sync::Arc;
use std::time::Duration;

use althing_discovery::Url;
use althing_node::{Collector, CollectorNews, CollectorTrouble};
use futures::future::BoxFuture;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

use crate::exit::Failure;

/// The target of the lines of the log that this module writes.
pub const TARGET: &str = module_path!();
/// The paths of the signals below a collector's address, and the variable that names a place of its own for each.
const TRACES: (&str, &str) = ("/v1/traces", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
const METRICS: (&str, &str) = ("/v1/metrics", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
const LOGS: (&str, &str) = ("/v1/logs", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT");
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// How long the collector may take, in milliseconds, and what it is without that variable.
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const TIMEOUT_MS: u64 = 10_000;

/// Where each signal goes, if anywhere.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    pub traces: Option<String>,
    pub metrics: Option<String>,
    pub logs: Option<String>,
    /// The path of a signal that was taken off the collector's address.
    pub cut: Option<String>,
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
        let cut = [TRACES, METRICS, LOGS].into_iter().find(|(path, _)| whole.ends_with(path));
        if let Some((path, _)) = cut {
            whole = whole.trim_end_matches(path).trim_end_matches('/');
        }
        if !whole.is_empty() {
            check(from, whole)?;
        }
        let at = |(path, own): (&str, &str)| match variable(own) {
            Some(own_place) => check(own, &own_place).map(|()| Some(own_place)),
            None => Ok((!whole.is_empty()).then(|| format!("{whole}{path}"))),
        };
        let cut = cut.map(|(path, _)| {
            format!("`{from}` ends with {path}, which is taken off: each signal has a path of its own")
        });
        Ok(Endpoints { traces: at(TRACES)?, metrics: at(METRICS)?, logs: at(LOGS)?, cut })
    }
}

/// Whether a collector can be at an address.
fn check(from: &str, address: &str) -> Result<(), String> {
    let url =
        Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some());
    url.map(drop).ok_or_else(|| {
        format!(
            "`{from}` is {address:?}, which is no address of a collector: write one such as \"http://127.0.0.1:4318\""
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
            Some(CollectorNews::Failed(address, trouble)) => tracing::warn!(
                "the collector at {address} takes no telemetry: {trouble}; `althing doctor` says what to do, and another line \
                 that it takes it again"
            ),
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
        Ok(response) if response.status().is_success() => Ok(()),
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
        let own = places("http://c", &[(LOGS.1, "http://e/in")]);
        assert_eq!(own[2].as_deref(), Some("http://e/in"), "it is taken as it is");
        assert_eq!(own[..2], below("http://c")[..2]);
        let alone = places("", &[(TRACES.1, "http://e/in")]);
        assert_eq!(alone, [Some("http://e/in".to_owned()), None, None]);
        assert_eq!(places("http://c", &[("OTEL_SDK_DISABLED", "true")]), [None, None, None]);
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
        let why = endpoints("", &[(METRICS.1, "x")]).expect_err("no address");
        assert!(why.contains(METRICS.1), "{why}");
    }
}
