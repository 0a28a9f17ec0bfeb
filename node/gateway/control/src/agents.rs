//! Agents in the control API, and `althing run`: agents that run for as long as their client is connected.

use std::sync::Arc;
use std::time::Duration;

use althing_api::{AddRequest, RunLine};
use althing_execution::realtime::{HardwareProfile, Privilege};
use althing_execution::{AgentState, AgentStatus, Level, answered};
use althing_node::doctor::{refused_tools, tool_notes};
use althing_node::publish::Stay;
use althing_node::{Node, agent_statuses};
use althing_protocol::AgentId;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures::stream;
use serde_json::{Value, json};

use crate::{ApiError, logs, ndjson};

/// Between two status lines of `althing run`.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long it is waited for the program, or the server, of an agent that was added.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Lines of a program that ended before it answered, as they are told.
const LAST_LINES: usize = 20;

/// An agent that was added, once its program or its server answered, or is known not to.
pub async fn added(node: &Node, id: &AgentId) -> Value {
    answered(&node.host, id.name(), ANSWER_MAX).await;
    let card = node.gateway.as_ref().map(|gateway| format!("{gateway}/a2a/{}/.well-known/agent-card.json", id.name()));
    let status = node.agents.status(id.name()).map(|status| row(node, &status));
    json!({ "id": id.to_string(), "name": id.name(), "card": card, "status": status })
}

/// That the program of an agent which was added ended before it answered, with what it said last; none if it did not.
pub fn ended(node: &Node, name: &str) -> Option<ApiError> {
    let AgentState::Restarting { why, .. } = node.agents.status(name)?.state else { return None };
    let lines = node.host.process.logs.of(name).page(0).lines;
    let said: Vec<&str> = lines.iter().filter(|line| &*line.program == "runtime").map(|line| &*line.text).collect();
    Some(ApiError::failed(ended_words(name, &why, &said)))
}

fn ended_words(name: &str, why: &str, said: &[&str]) -> String {
    // The last line follows, among those before it.
    let why = if said.is_empty() { why } else { why.split("; it said: ").next().unwrap_or(why) };
    let last: String = said[said.len().saturating_sub(LAST_LINES)..].iter().map(|line| format!("\n  {line}")).collect();
    let said = if last.is_empty() { "it said nothing".to_owned() } else { format!("it said last:{last}") };
    format!("{name:?} was not added: its program did not answer, {why}; {said}")
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

fn row(node: &Node, agent: &AgentStatus) -> Value {
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
        "said": logs::last(node, &agent.name),
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
    let said = |name: &str| logs::last(&node, name);
    let failed = failed.map(|(name, why)| json!({ "name": name, "state": "failed", "why": why, "said": said(name) }));
    let starting = node.agents.starting();
    let starting = starting.iter().filter(|(name, _)| agents.iter().all(|agent| agent.name != **name));
    let starting = starting.map(|(name, class)| json!({ "name": name, "class": class, "state": "starting" }));
    let mut rows: Vec<Value> = agents.iter().map(|agent| row(&node, agent)).chain(starting).chain(failed).collect();
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
        let AddRequest { file, folder, sources, reservation, agreed } = request;
        let how = (Stay::WhileConnected, agreed.as_deref());
        let id =
            node.agents.add_read(file, (folder.as_path(), sources.as_slice()), reservation.as_deref(), how).await?;
        let name = id.name().to_owned();
        let held = EndOnDrop { node: node.clone(), name: name.clone() };
        let first = RunLine::Runs(added(&node, &id).await);
        match ended(&node, &name) {
            Some(ended) => Err(ended),
            None => Ok((held, first)),
        }
    });
    let (held, first) = match adding.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string()))) {
        Ok(running) => running,
        Err(error) => {
            return ndjson(stream::iter([RunLine::Error(error.into())]));
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
        Some((RunLine::Status(row(&held.node, &status)), (held, None)))
    });
    ndjson(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_adds_an_agent_whose_program_ends_reads_its_last_lines() {
        let why = "it ended with exit status 1; it said: No module";
        let said: Vec<String> = (0..30).map(|n| format!("line {n}")).chain(["No module".to_owned()]).collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let words = ended_words("weather", why, &said);
        let first = "\"weather\" was not added: its program did not answer, it ended with exit status 1; it said last:\n  line 11\n";
        assert!(words.starts_with(first) && words.ends_with("\n  line 29\n  No module"), "{words}");
        let silent = ended_words("weather", "it ended with exit status 1", &[]);
        assert!(silent.ends_with("did not answer, it ended with exit status 1; it said nothing"), "{silent}");
    }
}
