//! `GET /waits/{agent}`: what a call of an agent waits for now.

use std::sync::Arc;

use althing_api::WaitReply;
use althing_calls::{Asker, Callee, Purpose};
use althing_discovery::Query as Sought;
use althing_execution::{AgentState, AgentStatus};
use althing_operations::Operations;
use althing_operations::doctor::short;
use althing_protocol::{AgentId, PublicKey};
use axum::Json;
use axum::extract::{Path, State};

use crate::body::Parameters;
use crate::{among, logs};

/// Whose agents are meant.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Waits {
    #[serde(default)]
    anyone: bool,
}

/// Tells it in words, without asking anybody.
pub async fn waits(
    State(node): State<Arc<Operations>>,
    Path(agent): Path<String>,
    Parameters(Waits { anyone }): Parameters<Waits>,
) -> Json<WaitReply> {
    let callee = Callee::Named(agent.clone(), among(anyone));
    let words = match node.calls.target(&Asker::Owner, &callee, Purpose::Wait).await {
        Ok(target) => of_agent(&node, &target.agent),
        Err(_) => format!("looking for {agent} on other nodes"),
    };
    Json(WaitReply { waits: words })
}

fn of_agent(node: &Operations, id: &AgentId) -> String {
    if node.hosting.hosts(id)
        && let Some(status) = node.agents.status(id.name())
    {
        let said = logs::last(node, id.name()).map(|line| line.text);
        return of_status(&status, said);
    }
    match node.discovery.hosts(id).first() {
        None => format!("looking for a node that hosts {}", id.name()),
        Some(host) => of_host(node, id, *host),
    }
}

/// What an agent of this node is doing.
fn of_status(status: &AgentStatus, said: Option<String>) -> String {
    let AgentStatus { name, state, .. } = status;
    match state {
        AgentState::Ready | AgentState::Degraded { .. } => format!("waiting for {name}, which has not answered yet"),
        AgentState::Starting => match said {
            Some(said) => format!("{name} is starting; it said: {said}"),
            None => format!("{name} is starting"),
        },
        AgentState::Restarting { why, restarts } => format!("{name} is starting again (restart {restarts}): {why}"),
        AgentState::Unreachable { why } => format!("the server of {name} does not answer: {why}"),
        AgentState::Suspended { why } => format!("{name} is suspended: {why}"),
    }
}

fn of_host(node: &Operations, id: &AgentId, host: PublicKey) -> String {
    let (known, _) = node.discovery.find(&Sought { text: Some(id.name().to_owned()), ..Sought::default() });
    let heard = known.iter().find(|found| found.node == host).map(|found| found.heard_ms_ago);
    of_node(&short(&host.did()), node.communication.network().is_connected(host), heard)
}

/// What is known of the node that is to answer.
fn of_node(node: &str, is_connected: bool, heard_ms_ago: Option<u64>) -> String {
    let heard = heard_ms_ago.map_or_else(String::new, |ms| format!(", last heard {} s ago", ms / 1_000));
    if is_connected { format!("waiting for {node}{heard}") } else { format!("connecting to {node}{heard}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use althing_execution::TurnStatus;

    use super::*;

    #[test]
    fn whoever_waits_is_told_what_the_agent_or_its_node_does() {
        let status = |state: AgentState| AgentStatus {
            name: "weather".to_owned(),
            version: "1.0.0".into(),
            class: "srt",
            runtime: "process",
            state,
            pid: None,
            containment: BTreeMap::new(),
            turns: TurnStatus::default(),
            hard: None,
            gives_tasks: false,
            unfit: BTreeMap::new(),
            away: BTreeMap::new(),
            unauthorised: Vec::new(),
            findings: Vec::new(),
        };
        let again = AgentState::Restarting { why: "it ended with exit status 1".to_owned(), restarts: 4 };
        let words = "weather is starting again (restart 4): it ended with exit status 1";
        assert_eq!(of_status(&status(again), None), words);
        let said = Some("loading".to_owned());
        assert_eq!(of_status(&status(AgentState::Starting), said), "weather is starting; it said: loading");
        assert_eq!(of_node("z6Mkf7…jtZ9C", true, Some(6_400)), "waiting for z6Mkf7…jtZ9C, last heard 6 s ago");
        assert_eq!(of_node("z6Mkf7…jtZ9C", false, None), "connecting to z6Mkf7…jtZ9C");
    }
}
