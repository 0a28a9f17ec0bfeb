//! `/metrics`: what the node counts, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;

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
            number(gateway.kept.bytes()),
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
    text(body, MEDIA)
}
