//! Metrics out of spans, by the names of OpenTelemetry's conventions for GenAI, MCP, RPC and messaging: what a span took is
//! counted when it ends. Only where metrics are exported.

use std::time::Duration;

use opentelemetry::metrics::{Histogram, Meter};
use opentelemetry::trace::Status;
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanProcessor};

/// Bounds of durations in seconds, as the conventions for GenAI advise.
const SECONDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Bounds of tokens, the same.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// The attributes of a span that its metrics carry too: few values each. None that a stranger chooses.
const KEPT: [&str; 5] =
    ["rpc.method", "gen_ai.operation.name", "gen_ai.request.model", "gen_ai.tool.name", "gen_ai.agent.name"];
/// Tool servers that are the node's own: no MCP.
const OWN_SERVERS: [&str; 5] = ["agents/", "groups/", "memory/", "mesh/", "session/"];
const INPUT: &str = "gen_ai.usage.input_tokens";
const OUTPUT: &str = "gen_ai.usage.output_tokens";

/// Counts what spans took.
#[derive(Debug)]
pub struct Measuring {
    asked: Histogram<f64>,
    served: Histogram<f64>,
    processed: Histogram<f64>,
    models: Histogram<f64>,
    tokens: Histogram<u64>,
    mcp: Histogram<f64>,
}

impl Measuring {
    /// The instruments, of this meter.
    pub fn new(meter: &Meter) -> Measuring {
        let seconds = |name: &'static str, about: &'static str| {
            meter.f64_histogram(name).with_unit("s").with_description(about).with_boundaries(SECONDS.to_vec()).build()
        };
        let tokens = meter.u64_histogram("gen_ai.client.token.usage").with_unit("{token}");
        Measuring {
            asked: seconds("rpc.client.call.duration", "A2A operations asked of agents"),
            served: seconds("rpc.server.call.duration", "A2A operations served for other nodes"),
            processed: seconds("messaging.process.duration", "Messages that agents worked on"),
            models: seconds("gen_ai.client.operation.duration", "Requests to models, and agents' turns"),
            tokens: tokens.with_description("Tokens of requests to models").with_boundaries(TOKENS.to_vec()).build(),
            mcp: seconds("mcp.client.operation.duration", "Calls of tools of MCP servers"),
        }
    }

    fn count(&self, span: &SpanData) {
        let took = span.end_time.duration_since(span.start_time).unwrap_or_default().as_secs_f64();
        let mut kept: Vec<KeyValue> =
            span.attributes.iter().filter(|pair| KEPT.contains(&pair.key.as_str())).cloned().collect();
        if matches!(span.status, Status::Error { .. }) {
            let told = span.attributes.iter().find(|pair| pair.key.as_str() == "error.type").cloned();
            kept.push(told.unwrap_or_else(|| KeyValue::new("error.type", "_OTHER")));
        }
        match span.name.as_ref() {
            "a2a.client" => self.asked.record(took, &system(kept)),
            "a2a.server" => self.served.record(took, &system(kept)),
            "turn" => {
                kept.push(KeyValue::new("messaging.system", "althing"));
                kept.push(KeyValue::new("messaging.operation.name", "process"));
                self.processed.record(took, &kept);
            }
            "chat" => {
                self.models.record(took, &kept);
                for (attribute, kind) in [(INPUT, "input"), (OUTPUT, "output")] {
                    let mut kept = kept.clone();
                    kept.push(KeyValue::new("gen_ai.token.type", kind));
                    if let Some(tokens) = number(span, attribute) {
                        self.tokens.record(tokens, &kept);
                    }
                }
            }
            "invoke_agent" => self.models.record(took, &kept),
            "execute_tool" if is_mcp(span) => {
                kept.push(KeyValue::new("mcp.method.name", "tools/call"));
                self.mcp.record(took, &kept);
            }
            _ => {}
        }
    }
}

fn system(mut kept: Vec<KeyValue>) -> Vec<KeyValue> {
    kept.push(KeyValue::new("rpc.system.name", "a2a"));
    kept
}

fn number(span: &SpanData, name: &str) -> Option<u64> {
    let value = &span.attributes.iter().find(|pair| pair.key.as_str() == name)?.value;
    match value {
        Value::I64(number) => u64::try_from(*number).ok(),
        other => other.as_str().parse().ok(),
    }
}

fn is_mcp(span: &SpanData) -> bool {
    let tool = span.attributes.iter().find(|pair| pair.key.as_str() == "gen_ai.tool.name");
    tool.is_some_and(|tool| !OWN_SERVERS.iter().any(|own| tool.value.as_str().starts_with(own)))
}

impl SpanProcessor for Measuring {
    fn on_start(&self, _span: &mut opentelemetry_sdk::trace::Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.count(&span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}
