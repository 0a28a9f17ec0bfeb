//! Logs to standard error, traces to a ring in memory, and to an OTLP collector when one is configured. Trace ids exist in
//! any case, so that a call is one trace across nodes even when only one of them exports.

use std::io::IsTerminal as _;
use std::sync::Arc;

use althing_calls::spans::{Keeping, SpanRing};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::config::Telemetry;
use crate::exit::Failure;

/// Exports the remaining traces when it is closed.
pub struct Exporting(SdkTracerProvider);

impl Exporting {
    /// Exports the remaining traces.
    pub async fn close(self) {
        // The exporter's own thread may wait for a collector that does not answer.
        let flushing = tokio::task::spawn_blocking(move || self.0.shutdown());
        if let Ok(Ok(Err(error))) = tokio::time::timeout(std::time::Duration::from_secs(3), flushing).await {
            tracing::debug!(%error, "traces were not all exported");
        }
    }
}

/// Starts logs and traces for the node `name`; gives the ring that keeps its recent spans.
pub fn start(config: &Telemetry, name: &str) -> Result<(Exporting, Arc<SpanRing>), Failure> {
    let filter = std::env::var("ALTHING_LOG").unwrap_or_else(|_| config.log.clone());
    // A node without peers, and a member of a group that cannot be reached, are in the status, and an MCP client is told
    // of its mistakes; the libraries' warnings, one for each attempt, are not shown.
    let quiet = "warn,libp2p_kad::behaviour=error,openraft=error,rmcp=error";
    let filter = if filter == "warn" { quiet.to_owned() } else { filter };
    let filter = EnvFilter::try_new(&filter).map_err(|error| Failure::usage(format!("`telemetry.log`: {error}")))?;
    let resource = Resource::builder()
        .with_service_name("althing")
        .with_attribute(opentelemetry::KeyValue::new("service.instance.id", name.to_owned()));
    let ring = Arc::<SpanRing>::default();
    let mut provider =
        SdkTracerProvider::builder().with_resource(resource.build()).with_span_processor(Keeping(ring.clone()));
    if !config.otlp_endpoint.is_empty() {
        let endpoint = format!("{}/v1/traces", config.otlp_endpoint.trim_end_matches('/'));
        let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint).build();
        let exporter = exporter.map_err(|error| Failure::usage(format!("`telemetry.otlp_endpoint`: {error}")))?;
        provider = provider.with_batch_exporter(exporter);
    }
    let provider = provider.build();
    // Where in the source, and on which thread: what reads traces has no use for that, and each span would pay for it.
    let traces = tracing_opentelemetry::layer()
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false)
        .with_tracer(provider.tracer("althing"));
    let spans = tracing_subscriber::filter::filter_fn(|meta| {
        meta.is_span() && meta.target().starts_with("althing") && *meta.level() <= tracing::Level::INFO
    });
    let colours = std::io::stderr().is_terminal();
    let logs = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(std::io::stderr).with_filter(filter);
    tracing_subscriber::registry()
        .with(logs)
        .with(traces.with_filter(spans))
        .try_init()
        .map_err(|error| Failure::failed(error.to_string()))?;
    Ok((Exporting(provider), ring))
}
