//! Agents in the control API, and `althing run`: agents that run for as long as their client is connected.

use std::sync::Arc;
use std::time::Duration;

use althing_execution::realtime::{HardwareProfile, Privilege};
use althing_execution::{AgentState, AgentStatus, Level};
use althing_node::doctor::{refused_tools, tool_notes};
use althing_node::{Node, agent_statuses};
use althing_protocol::AgentId;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures::stream;
use serde_json::{Value, json};

use crate::{AddRequest, Problem, RunLine, ndjson};

/// Between two status lines of `althing run`.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// An agent that was added.
pub fn added(node: &Node, id: &AgentId) -> Value {
    let card = node.gateway.as_ref().map(|gateway| format!("{gateway}/a2a/{}/.well-known/agent-card.json", id.name()));
    let status = node.agents.status(id.name()).map(|status| row(&status));
    json!({ "id": id.to_string(), "name": id.name(), "card": card, "status": status })
}

/// What a probe found.
pub fn machine(machine: &HardwareProfile) -> Value {
    json!({
        "grade": machine.grade,
        "realTime": match machine.privilege {
            Privilege::Full => "at every priority",
            Privilege::Limited => "up to a limit",
            Privilege::None => "not permitted",
        },
        "wakeUpUs": {
            "p50": machine.wake_p50_ns as f64 / 1e3,
            "p99": machine.wake_p99_ns as f64 / 1e3,
            "p999": machine.wake_p999_ns as f64 / 1e3,
            "max": machine.wake_max_ns as f64 / 1e3,
            "samples": machine.samples,
        },
    })
}

fn row(agent: &AgentStatus) -> Value {
    let (state, why) = match &agent.state {
        AgentState::Ready => ("ready", (!agent.unfit.is_empty()).then(|| refused_tools(agent).join("; "))),
        AgentState::Starting => ("starting", None),
        AgentState::Restarting { why, restarts } => ("restarting", Some(format!("{why} (restarts: {restarts})"))),
        AgentState::Unreachable { why } => ("unreachable", Some(why.clone())),
        AgentState::Degraded { why } => ("degraded", Some(why.clone())),
        AgentState::Suspended { why } => ("suspended", Some(why.clone())),
    };
    let hard = agent.hard.as_ref().map(|hard| {
        json!({
            "core": hard.core,
            "jobs": hard.jobs,
            "missed": hard.missed,
            "explained": hard.explained,
            "overruns": hard.overruns,
            "failures": hard.failures,
            "fallbacks": hard.fallbacks,
            "responseBoundUs": hard.response_bound_ns as f64 / 1e3,
            "responseP99Us": hard.response_p99_ns as f64 / 1e3,
            "responseMaxUs": hard.response_max_ns as f64 / 1e3,
        })
    });
    json!({
        "name": agent.name,
        "class": agent.class,
        "runtime": agent.runtime,
        "state": state,
        "why": why,
        "pid": agent.pid,
        "containment": agent.containment.iter().map(|(program, how)| json!({
            "program": program,
            "contained": how.level != Level::None,
            "level": how.level,
            "how": how.to_string(),
            "refused": how.lacks.refused.iter().map(|advice| json!({
                "access": advice.refusal.access,
                "path": advice.refusal.path,
                "write": advice.block(),
                "text": advice.words(),
            })).collect::<Vec<_>>(),
            "moreRefused": how.lacks.more,
            "needs": (!how.lacks.needs.is_empty()).then(|| how.lacks.needs.to_string()),
        })).collect::<Vec<_>>(),
        "turns": agent.turns.running,
        "turnsTotal": agent.turns.total,
        "firstOutputUs": {
            "p50": agent.turns.first_p50_ns as f64 / 1e3,
            "p99": agent.turns.first_p99_ns as f64 / 1e3,
            "late": agent.turns.late,
        },
        "hrt": hard,
        "toolsRefused": agent.unfit.iter().map(|(tool, unfit)| json!({
            "tool": tool,
            "reason": unfit.reason(),
            "why": unfit.brief(),
            "differences": unfit.differences(),
        })).collect::<Vec<_>>(),
    })
}

/// `GET /ps`
pub async fn ps(State(node): State<Arc<Node>>) -> Json<Value> {
    let agents = agent_statuses(&node.host, &node.discovery);
    let failed = node.agents.failed();
    // What is started anew runs already before it is no failure any more.
    let failed = failed.iter().filter(|(name, _)| agents.iter().all(|agent| agent.name != **name));
    let failed = failed.map(|(name, why)| json!({ "name": name, "state": "failed", "why": why }));
    let starting = node.agents.starting();
    let starting = starting.iter().filter(|(name, _)| agents.iter().all(|agent| agent.name != **name));
    let starting = starting.map(|(name, class)| json!({ "name": name, "class": class, "state": "starting" }));
    let mut rows: Vec<Value> = agents.iter().map(row).chain(starting).chain(failed).collect();
    for known in node.discovery.local() {
        let (name, notes) = (known.verified.agent.name(), tool_notes(&known));
        if let Some(row) = rows.iter_mut().find(|row| row["name"] == name && row["why"].is_null())
            && !notes.is_empty()
        {
            row["why"] = json!(notes.join("; "));
        }
    }
    Json(json!({ "agents": rows }))
}

/// Ends an agent when its client disconnects.
struct EndOnDrop {
    node: Arc<Node>,
    name: String,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let (node, name) = (self.node.clone(), std::mem::take(&mut self.name));
        tokio::spawn(async move {
            if let Err(error) = node.agents.end(&name).await {
                tracing::error!(name, %error, "an agent could not be ended");
            }
        });
    }
}

/// `POST /run`: runs an agent for as long as the answer is read.
pub async fn run(State(node): State<Arc<Node>>, Json(request): Json<AddRequest>) -> Response {
    // In a task of its own: if the client hangs up meanwhile, the agent is ended on drop.
    let adding = tokio::spawn(async move {
        let id = node.agents.add(request.file, &request.folder, request.reservation.as_deref(), false).await?;
        let first = RunLine::Runs(added(&node, &id));
        Ok((EndOnDrop { node, name: id.name().to_owned() }, first))
    });
    let (held, first) = match adding.await.unwrap_or_else(|error| Err(Problem::failed(error.to_string()))) {
        Ok(running) => running,
        Err(problem) => {
            return ndjson(stream::iter([RunLine::Error(problem)]));
        }
    };
    let lines = stream::unfold((held, Some(first)), |(held, first)| async move {
        if let Some(first) = first {
            return Some((first, (held, None)));
        }
        tokio::select! {
            () = held.node.stop.cancelled() => return None,
            () = tokio::time::sleep(STATUS_INTERVAL) => {}
        }
        let status = held.node.agents.status(&held.name)?;
        Some((RunLine::Status(row(&status)), (held, None)))
    });
    ndjson(lines)
}
