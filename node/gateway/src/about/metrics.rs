//! `/metrics`: what the node counts, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use althing_calls::{AgentFigures, DURATION_BOUNDS_S};
use axum::extract::State;
use axum::response::Response;

use super::text;
use crate::Gateway;

/// The media type of the format, with its version.
const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One figure: name, kind, what it says.
type Figure = (&'static str, &'static str, &'static str, u64);

/// `GET /metrics`.
pub(super) async fn show(State(gateway): State<Arc<Gateway>>) -> Response {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let (discovery, work) = (gateway.calls.discovery().status(), gateway.calls.figures());
    let (invocations, sockets) = gateway.wot.running();
    let figures: [Figure; 10] = [
        ("althing_nodes", "gauge", "Nodes believed to be there, this one included.", number(discovery.nodes)),
        (
            "althing_agents",
            "gauge",
            "Agents known, counted once for each node that hosts them.",
            number(discovery.agents),
        ),
        ("althing_catalogue_bytes", "gauge", "Bytes of what is kept of other nodes.", number(discovery.bytes)),
        ("althing_evidence_refused_total", "counter", "Placements and evidence that were refused.", discovery.refused),
        ("althing_peers", "gauge", "Nodes with a connection.", number(work.peers)),
        ("althing_streams_refused_total", "counter", "Streams of peers that were refused.", work.streams_refused),
        ("althing_tasks_running", "gauge", "Tasks whose turn runs on this node.", number(work.live_tasks)),
        (
            "althing_wot_invocations",
            "gauge",
            "Invocations by the Web of Things that are followed.",
            number(invocations),
        ),
        ("althing_websockets", "gauge", "WebSockets that are open.", number(sockets)),
        (
            "althing_kept_bytes",
            "gauge",
            "Bytes of answers and events that wait for clients of the Web of Things.",
            number(gateway.budget.bytes()),
        ),
    ];
    let mut body = format!(
        "# HELP althing_info The node and its version.\n# TYPE althing_info gauge\n\
         althing_info{{node=\"{}\",version=\"{}\"}} 1\n",
        gateway.key.public().did(),
        env!("CARGO_PKG_VERSION")
    );
    for (name, kind, about, value) in figures {
        // Text takes text.
        let _ = write!(body, "# HELP {name} {about}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    body.push_str(&of_agents(&work.agents));
    text(body, MEDIA)
}

/// Reads one figure of an agent.
type Count = fn(&AgentFigures) -> u64;

/// What is counted of each agent's turns: how many, how many failed, and how long they took. Names of agents need no escapes.
fn of_agents(agents: &BTreeMap<String, AgentFigures>) -> String {
    let mut body = String::new();
    if agents.is_empty() {
        return body;
    }
    // Text takes text.
    let counters: [(&str, &str, Count); 2] = [
        ("althing_agent_calls_total", "Turns of an agent on this node that ended.", |of| of.calls),
        ("althing_agent_errors_total", "Those that failed.", |of| of.errors),
    ];
    for (name, about, count) in counters {
        let _ = write!(body, "# HELP {name} {about}\n# TYPE {name} counter\n");
        for (agent, of) in agents {
            let _ = writeln!(body, "{name}{{agent=\"{agent}\"}} {}", count(of));
        }
    }
    let name = "althing_agent_duration_seconds";
    let _ = write!(body, "# HELP {name} How long an agent's turns took.\n# TYPE {name} histogram\n");
    for (agent, of) in agents {
        for (bound, within) in DURATION_BOUNDS_S.iter().zip(of.within) {
            let _ = writeln!(body, "{name}_bucket{{agent=\"{agent}\",le=\"{bound}\"}} {within}");
        }
        let _ = writeln!(body, "{name}_bucket{{agent=\"{agent}\",le=\"+Inf\"}} {}", of.calls);
        let _ = writeln!(body, "{name}_sum{{agent=\"{agent}\"}} {}", of.seconds);
        let _ = writeln!(body, "{name}_count{{agent=\"{agent}\"}} {}", of.calls);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agents_calls_errors_and_durations_are_told() {
        let of = AgentFigures { calls: 3, errors: 1, seconds: 0.5, within: [1; DURATION_BOUNDS_S.len()] };
        let body = of_agents(&BTreeMap::from([("echo".to_owned(), of)]));
        for line in [
            "# TYPE althing_agent_calls_total counter",
            "althing_agent_calls_total{agent=\"echo\"} 3",
            "althing_agent_errors_total{agent=\"echo\"} 1",
            "# TYPE althing_agent_duration_seconds histogram",
            "althing_agent_duration_seconds_bucket{agent=\"echo\",le=\"0.01\"} 1",
            "althing_agent_duration_seconds_bucket{agent=\"echo\",le=\"+Inf\"} 3",
            "althing_agent_duration_seconds_sum{agent=\"echo\"} 0.5",
            "althing_agent_duration_seconds_count{agent=\"echo\"} 3",
        ] {
            assert!(body.lines().any(|one| one == line), "{line}\n{body}");
        }
        assert_eq!(of_agents(&BTreeMap::new()), "");
    }
}
