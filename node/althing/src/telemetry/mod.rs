//! Logs to standard error, traces to a ring in memory; and traces, metrics and logs to an OTLP collector when one is
//! configured. Trace ids exist in any case, so that a call is one trace across nodes even when only one of them exports.

mod collector;
mod format;
mod measured;
mod partial;
mod people;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use althing_calls::spans::{RingProcessor, SpanRing};
use althing_execution::evaluation::EVALUATIONS;
use althing_operations::doctor::Finding;
use althing_operations::{Collector, Operations};
use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{LogExporter, MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter as _, TracerProviderBuilder};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{Format, JsonFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::Telemetry;
use crate::exit::Failure;
use collector::{Client, Endpoints};
use format::{JsonLines, TextLines};
use measured::Measuring;
use people::PeopleLines;

pub use format::LogFormat;

/// A collector that fails is asked again after so long, whether or not there is something to send.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Whose telemetry it is.
pub struct Origin<'a> {
    /// The node's DID.
    pub node: String,
    /// What its machine's user calls it.
    pub name: &'a str,
    /// The network that it is in.
    pub network: &'a str,
}

impl Origin<'_> {
    /// The resource of all that is exported; what OpenTelemetry's variables say wins.
    fn resource(&self) -> Resource {
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let own = [
            KeyValue::new("service.name", "althing"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", self.node.clone()),
            KeyValue::new("althing.node.name", self.name.to_owned()),
            KeyValue::new("althing.network", self.network.to_owned()),
        ];
        let resource = Resource::builder_empty()
            .with_attributes(own)
            .with_attributes(host.map(|host| KeyValue::new("host.name", host)))
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_detector(Box::new(EnvResourceDetector::new()));
        match std::env::var("OTEL_SERVICE_NAME") {
            Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
            _ => resource.build(),
        }
    }
}

/// Exports what remains when it is closed.
pub struct Exporting {
    traces: SdkTracerProvider,
    meters: Option<SdkMeterProvider>,
    loggers: Option<SdkLoggerProvider>,
    /// How the collector answers, where one is configured; and what ends the asking when it is dropped.
    collector: Option<(Arc<Collector>, SyncSender<()>)>,
}

impl Exporting {
    /// What the node counts is exported too, for as long as the node lives.
    pub fn observe(&self, node: &Arc<Operations>) {
        if let Some((collector, _)) = &self.collector {
            // A node has one collector, from its start on.
            let _ = node.collector.set(collector.clone());
        }
        let Some(meters) = &self.meters else { return };
        let meter = meters.meter("althing");
        let gauge = |name: &'static str, about: &'static str, read: fn(&Operations) -> u64| {
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
            ended.extend(self.meters.map(|meters| meters.shutdown()));
            ended.extend(self.loggers.map(|loggers| loggers.shutdown()));
            ended.into_iter().find_map(Result::err)
        });
        if let Ok(Ok(Some(error))) = tokio::time::timeout(Duration::from_secs(3), flushing).await {
            tracing::debug!(%error, "not everything was exported");
        }
    }
}

/// Starts logs and traces of a node; gives the ring that keeps its recent spans.
pub fn start(config: &Telemetry, origin: &Origin<'_>) -> Result<(Exporting, Arc<SpanRing>), Failure> {
    let resource = origin.resource();
    let ring = Arc::<SpanRing>::default();
    let provider =
        SdkTracerProvider::builder().with_resource(resource.clone()).with_span_processor(RingProcessor(ring.clone()));
    let places = Endpoints::new(&config.otlp_endpoint, |name| std::env::var(name).ok()).map_err(Failure::usage)?;
    let Exporters { traces: provider, meters, loggers, collector } = Exporters::new(&places, provider, resource)?;
    let provider = provider.build();
    // Where in the source, and on which thread: who reads traces has no use for that, and each span would pay for it.
    let traces = tracing_opentelemetry::layer()
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false)
        .with_tracer(provider.tracer("althing"));
    // Beside spans, verdicts: they are events of the spans of turns.
    let spans = tracing_subscriber::filter::filter_fn(|meta| {
        let is_shown = meta.is_span() || meta.target() == EVALUATIONS;
        is_shown && is_ours(meta) && *meta.level() <= Level::INFO
    });
    let exported = loggers.as_ref().map(|loggers| {
        // What is said of the collector is not sent to it.
        let ours = tracing_subscriber::filter::filter_fn(|meta| {
            meta.is_event() && is_ours(meta) && meta.target() != collector::TARGET
        });
        let filter = filter(config).map(|filter| tracing_subscriber::filter::FilterExt::and(filter, ours));
        filter.map(|filter| OpenTelemetryTracingBridge::new(loggers).with_filter(filter))
    });
    tracing_subscriber::registry()
        .with(traces.with_filter(spans))
        .with(lines(config).with_filter(filter(config)?))
        .with(exported.transpose()?)
        .try_init()
        .map_err(|error| Failure::failed(error.to_string()))?;
    for told in places.cut.iter().chain(&places.unmet) {
        tracing::warn!("{told}");
    }
    // Once there is a log to say it in.
    let collector = collector.map(|(collector, probe)| {
        let asking = ask(&collector, probe);
        (collector, asking)
    });
    Ok((Exporting { traces: provider, meters, loggers, collector }, ring))
}

/// What `doctor` says of the variables of OpenTelemetry that ask for what there is not. Where they are wrong, no node starts.
pub fn findings(config: &Telemetry) -> Vec<Finding> {
    let places = Endpoints::new(&config.otlp_endpoint, |name| std::env::var(name).ok()).unwrap_or_default();
    let finding = |what: String| Finding {
        layer: "L7",
        fine: true,
        what,
        remedy: "change that variable in the environment of the node, and start it again".to_owned(),
        next: None,
    };
    places.unmet.into_iter().map(finding).collect()
}

/// This project's own: what the HTTP client of an exporter says must not be exported, which would never end.
fn is_ours(meta: &Metadata<'_>) -> bool {
    meta.target().starts_with("althing")
}

/// What is logged.
fn filter(config: &Telemetry) -> Result<EnvFilter, Failure> {
    let filter = std::env::var("ALTHING_LOG").unwrap_or_else(|_| config.log.clone());
    // A node without peers, and a member of a group that cannot be reached, are in the status, and an MCP client is told
    // of its mistakes; the libraries' warnings, one for each attempt, are not shown. Nor is the grade of the machine, which the
    // status has, and which only hard real-time agents care about: these say so themselves.
    let quiet = "warn,libp2p_kad::behaviour=error,openraft=error,rmcp=error,althing_execution::realtime::grading=error";
    let filter = if filter == "warn" { quiet.to_owned() } else { filter };
    EnvFilter::try_new(&filter).map_err(|error| Failure::usage(format!("`telemetry.log`: {error}")))
}

/// Lines of the log on standard error: for people, unless somebody asked for more or less than warnings.
fn lines<S>(config: &Telemetry) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let to = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let colours = std::io::stderr().is_terminal();
    let is_usual = config.log == "warn" && std::env::var_os("ALTHING_LOG").is_none();
    match config.log_format {
        LogFormat::Text if is_usual => to.with_ansi(false).event_format(PeopleLines).boxed(),
        LogFormat::Text => to.with_ansi(colours).event_format(TextLines(Format::default().with_ansi(colours))).boxed(),
        LogFormat::Json => {
            let objects = Format::default().json().with_current_span(false);
            to.with_ansi(false).fmt_fields(JsonFields::new()).event_format(JsonLines(objects)).boxed()
        }
    }
}

/// What is exported, and where to.
struct Exporters {
    traces: TracerProviderBuilder,
    meters: Option<SdkMeterProvider>,
    loggers: Option<SdkLoggerProvider>,
    /// How the collector answers, and what asks it with nothing to send.
    collector: Option<(Arc<Collector>, Option<SpanExporter>)>,
}

impl Exporters {
    /// Adds the exporters, where a collector is configured.
    fn new(places: &Endpoints, mut traces: TracerProviderBuilder, resource: Resource) -> Result<Exporters, Failure> {
        let Endpoints { traces: for_traces, metrics: for_metrics, logs: for_logs, .. } = places;
        if [for_traces, for_metrics, for_logs].into_iter().all(Option::is_none) {
            return Ok(Exporters { traces, meters: None, loggers: None, collector: None });
        }
        let collector = Arc::<Collector>::default();
        let client = Client::new(collector.clone())?;
        let wrong = |_: opentelemetry_otlp::ExporterBuildError| {
            Failure::usage("the exporter of telemetry cannot be made: check the variables that begin with OTEL_")
        };
        let spans = |at: &String| {
            let exporter =
                SpanExporter::builder().with_http().with_http_client(client.clone()).with_endpoint(at.as_str());
            exporter.build().map_err(wrong)
        };
        let meters = for_metrics.as_ref().map(|at| -> Result<SdkMeterProvider, Failure> {
            let exporter =
                MetricExporter::builder().with_http().with_http_client(client.clone()).with_endpoint(at.as_str());
            let exporter = exporter.build().map_err(wrong)?;
            Ok(SdkMeterProvider::builder().with_resource(resource.clone()).with_periodic_exporter(exporter).build())
        });
        let meters = meters.transpose()?;
        let loggers = for_logs.as_ref().map(|at| -> Result<SdkLoggerProvider, Failure> {
            let exporter =
                LogExporter::builder().with_http().with_http_client(client.clone()).with_endpoint(at.as_str());
            let exporter = exporter.build().map_err(wrong)?;
            Ok(SdkLoggerProvider::builder().with_resource(resource.clone()).with_batch_exporter(exporter).build())
        });
        let loggers = loggers.transpose()?;
        if let Some(at) = for_traces {
            traces = traces.with_batch_exporter(spans(at)?);
        }
        if let Some(meters) = &meters {
            traces = traces.with_span_processor(Measuring::new(&meters.meter("althing")));
        }
        let probe = for_traces.as_ref().map(spans).transpose()?;
        Ok(Exporters { traces, meters, loggers, collector: Some((collector, probe)) })
    }
}

/// Asks the collector with nothing to send: at once, and again for as long as something is wrong with it, so that both are known
/// before there is something to lose. Ends when what it gives is dropped.
fn ask(collector: &Arc<Collector>, probe: Option<SpanExporter>) -> SyncSender<()> {
    let (ends, ended) = sync_channel(1);
    let Some(probe) = probe else { return ends };
    let collector = collector.clone();
    std::thread::spawn(move || {
        let mut asks = true;
        loop {
            if asks {
                // How it answers, the client notes.
                let _ = futures::executor::block_on(probe.export(Vec::new()));
            }
            if ended.recv_timeout(ASK_AGAIN) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            asks = !collector.troubles().is_empty();
        }
    });
    ends
}
