//! Logs to standard error, traces to a ring in memory; and traces, metrics and logs to an OTLP collector when one is
//! configured. Trace ids exist in any case, so that a call is one trace across nodes even when only one of them exports.

mod format;
mod measured;

use std::io::IsTerminal as _;
use std::sync::Arc;

use althing_calls::spans::{Keeping, SpanRing};
use althing_node::Node;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{LogExporter, MetricExporter, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracerProvider, TracerProviderBuilder};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{Format, JsonFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::Telemetry;
use crate::exit::Failure;
use format::{JsonLines, TextLines};
use measured::Measuring;

pub use format::LogFormat;

/// Exports what remains when it is closed.
pub struct Exporting {
    traces: SdkTracerProvider,
    /// Where a collector is configured.
    others: Option<(SdkMeterProvider, SdkLoggerProvider)>,
}

impl Exporting {
    /// What the node counts is exported too, for as long as the node lives.
    pub fn observe(&self, node: &Arc<Node>) {
        let Some((meters, _)) = &self.others else { return };
        let meter = meters.meter("althing");
        let gauge = |name: &'static str, about: &'static str, read: fn(&Node) -> u64| {
            let of = Arc::downgrade(node);
            let gauge = meter.u64_observable_gauge(name).with_description(about);
            let gauge = gauge.with_callback(move |observer| {
                if let Some(node) = of.upgrade() {
                    observer.observe(read(&node), &[]);
                }
            });
            let _kept_by_provider = gauge.build();
        };
        gauge("althing.peers", "Nodes with a connection", |node| node.calls.figures().peers as u64);
        gauge("althing.tasks.live", "Turns that run", |node| node.calls.figures().live_tasks as u64);
        gauge("althing.streams.refused", "Streams closed because something on them was refused", |node| {
            node.calls.figures().streams_refused
        });
    }

    /// Exports what remains.
    pub async fn close(self) {
        // The exporters' own threads may wait for a collector that does not answer.
        let flushing = tokio::task::spawn_blocking(move || {
            let mut ended = vec![self.traces.shutdown()];
            if let Some((meters, loggers)) = self.others {
                ended.extend([meters.shutdown(), loggers.shutdown()]);
            }
            ended.into_iter().find_map(Result::err)
        });
        if let Ok(Ok(Some(error))) = tokio::time::timeout(std::time::Duration::from_secs(3), flushing).await {
            tracing::debug!(%error, "not everything was exported");
        }
    }
}

/// Starts logs and traces for the node `name`; gives the ring that keeps its recent spans.
pub fn start(config: &Telemetry, name: &str) -> Result<(Exporting, Arc<SpanRing>), Failure> {
    let resource = Resource::builder()
        .with_service_name("althing")
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(opentelemetry::KeyValue::new("service.instance.id", name.to_owned()))
        .build();
    let ring = Arc::<SpanRing>::default();
    let provider =
        SdkTracerProvider::builder().with_resource(resource.clone()).with_span_processor(Keeping(ring.clone()));
    let (provider, others) = exporting(config, provider, resource)?;
    let provider = provider.build();
    // Where in the source, and on which thread: who reads traces has no use for that, and each span would pay for it.
    let traces = tracing_opentelemetry::layer()
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false)
        .with_tracer(provider.tracer("althing"));
    let spans =
        tracing_subscriber::filter::filter_fn(|meta| meta.is_span() && is_ours(meta) && *meta.level() <= Level::INFO);
    let exported = others.as_ref().map(|(_, loggers): &(_, SdkLoggerProvider)| {
        let ours = tracing_subscriber::filter::filter_fn(|meta| meta.is_event() && is_ours(meta));
        let filter = filter(config).map(|filter| tracing_subscriber::filter::FilterExt::and(filter, ours));
        filter.map(|filter| OpenTelemetryTracingBridge::new(loggers).with_filter(filter))
    });
    tracing_subscriber::registry()
        .with(traces.with_filter(spans))
        .with(lines(config.log_format).with_filter(filter(config)?))
        .with(exported.transpose()?)
        .try_init()
        .map_err(|error| Failure::failed(error.to_string()))?;
    Ok((Exporting { traces: provider, others }, ring))
}

/// This project's own: what the HTTP client of an exporter says must not be exported, which would never end.
fn is_ours(meta: &Metadata<'_>) -> bool {
    meta.target().starts_with("althing")
}

/// What is logged.
fn filter(config: &Telemetry) -> Result<EnvFilter, Failure> {
    let filter = std::env::var("ALTHING_LOG").unwrap_or_else(|_| config.log.clone());
    // A node without peers, and a member of a group that cannot be reached, are in the status, and an MCP client is told
    // of its mistakes; the libraries' warnings, one for each attempt, are not shown.
    let quiet = "warn,libp2p_kad::behaviour=error,openraft=error,rmcp=error";
    let filter = if filter == "warn" { quiet.to_owned() } else { filter };
    EnvFilter::try_new(&filter).map_err(|error| Failure::usage(format!("`telemetry.log`: {error}")))
}

/// Lines of the log on standard error.
fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let to = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let colours = std::io::stderr().is_terminal();
    match format {
        LogFormat::Text => to.with_ansi(colours).event_format(TextLines(Format::default().with_ansi(colours))).boxed(),
        LogFormat::Json => {
            let objects = Format::default().json().with_current_span(false);
            to.with_ansi(false).fmt_fields(JsonFields::new()).event_format(JsonLines(objects)).boxed()
        }
    }
}

type Others = Option<(SdkMeterProvider, SdkLoggerProvider)>;

/// Adds the exporters, where a collector is configured.
fn exporting(
    config: &Telemetry,
    traces: TracerProviderBuilder,
    resource: Resource,
) -> Result<(TracerProviderBuilder, Others), Failure> {
    if config.otlp_endpoint.is_empty() {
        return Ok((traces, None));
    }
    let at = |signal: &str| format!("{}/v1/{signal}", config.otlp_endpoint.trim_end_matches('/'));
    let wrong =
        |error: opentelemetry_otlp::ExporterBuildError| Failure::usage(format!("`telemetry.otlp_endpoint`: {error}"));
    let spans = SpanExporter::builder().with_http().with_endpoint(at("traces")).build().map_err(wrong)?;
    let figures = MetricExporter::builder().with_http().with_endpoint(at("metrics")).build().map_err(wrong)?;
    let logs = LogExporter::builder().with_http().with_endpoint(at("logs")).build().map_err(wrong)?;
    let meters = SdkMeterProvider::builder().with_resource(resource.clone()).with_periodic_exporter(figures).build();
    let loggers = SdkLoggerProvider::builder().with_resource(resource).with_batch_exporter(logs).build();
    let traces = traces.with_batch_exporter(spans).with_span_processor(Measuring::new(&meters.meter("althing")));
    Ok((traces, Some((meters, loggers))))
}
