//! `GET /events`: what happens on the node, as server-sent events. Whoever comes back says by `Last-Event-ID` what it has heard,
//! and is told what came since; where that is not kept any more, it is told so with a snapshot.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use althing_api::{EventLine, NodeEvent, NodeSnapshot};
use althing_node::{Event, EventNews, TaskCounts};
use althing_operations::Operations;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream;

use crate::error::ApiError;
use crate::{agents, groups, status};

/// Between two signs of life.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Tells events until whoever asked hangs up, or the node stops.
pub async fn events(State(node): State<Arc<Operations>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let follower = node.events.follow(last(&headers)?);
    let told = stream::unfold((follower, node), |(mut follower, node)| async move {
        let news = tokio::select! {
            () = node.stop.cancelled() => return None,
            news = follower.next() => news,
        };
        Some((Ok::<Sent, Infallible>(sent(&line(&node, news))), (follower, node)))
    });
    Ok(Sse::new(told).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

/// The number of the event that was heard last; none if nobody says.
fn last(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(last) = headers.get("last-event-id") else { return Ok(None) };
    let number = last.to_str().ok().and_then(|last| last.trim().parse().ok());
    let wrong = || ApiError::invalid("Last-Event-ID is the number of an event, its `id`; 0 asks for a snapshot first");
    number.map(Some).ok_or_else(wrong)
}

fn sent(line: &EventLine) -> Sent {
    // The names of its members are texts, and nothing in it refuses to be written.
    let data = serde_json::to_string(line).expect("an event is JSON");
    Sent::default().id(line.id.to_string()).event(line.event.name()).data(data)
}

fn line(node: &Operations, news: EventNews) -> EventLine {
    match news {
        EventNews::Entry(entry) => EventLine { id: entry.id, at_ms: entry.at_ms, event: shown(entry.event) },
        EventNews::Gap { missed, id } => {
            let event = NodeEvent::Snapshot(Box::new(snapshot(node, missed)));
            EventLine { id, at_ms: node.clock().now_ms(), event }
        }
    }
}

fn shown(event: Event) -> NodeEvent {
    match event {
        Event::AgentStart { agent, id } => NodeEvent::AgentStart { agent, agent_id: id },
        Event::AgentEnd { agent } => NodeEvent::AgentEnd { agent },
        Event::Task { task, agent, state } => NodeEvent::Task { task, agent, state },
        Event::Group { group, name, standing, leader } => NodeEvent::Group { group, name, standing, leader },
        Event::GroupTasks { group, tasks } => {
            let TaskCounts { waiting, working, completed, failed } = tasks;
            NodeEvent::GroupTasks { group, waiting, working, completed, failed }
        }
        Event::TrustChange { id, trusted } => NodeEvent::TrustChange { whom: id, trusted },
        Event::Registry { registry, followed, forked } => NodeEvent::Registry { registry, followed, forked },
        Event::OwnerKeys { state, key } => NodeEvent::OwnerKeys { state, key },
    }
}

fn snapshot(node: &Operations, missed: Option<u64>) -> NodeSnapshot {
    NodeSnapshot {
        missed,
        agents: agents::entries(node),
        live_tasks: node.hosting.live_tasks(),
        groups: groups::entries(node),
        trusted: node.trust.ids().iter().map(ToString::to_string).collect(),
        registries: node.registries.list().into_keys().collect(),
        owner_keys: status::owner_keys(node),
    }
}
