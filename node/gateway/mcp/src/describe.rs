//! `find_agents` and `describe_agent`: what the catalogue knows, as JSON.

use std::collections::BTreeMap;

use althing_calls::{Among, Calls, OperationError};
use althing_discovery::{Found, Query, TrustRelation};
use althing_protocol::AgentId;
use althing_protocol::object::Health;
use althing_td::Capability;
use serde::Deserialize;
use serde_json::{Value, json};

/// Agents in one answer by default, and at most.
const LIMIT_DEFAULT: usize = 20;
const LIMIT_MAX: usize = 100;
/// Skills that `find_agents` shows of one agent.
const SKILLS_SHOWN: usize = 16;

/// The arguments of `find_agents`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Filter {
    text: Option<String>,
    capability: Option<String>,
    action: Option<String>,
    target: Option<String>,
    max_load: Option<f32>,
    limit: Option<usize>,
}

/// The schema of [`Filter`].
pub(crate) fn filter_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "properties": {
            "text": text("Free text: the best matches come first."),
            "capability": text("A skill's id, such as billing.view; billing.* matches all that begin with billing."),
            "action": text("What the agent does, such as translate."),
            "target": text("What it does it to, such as text."),
            "max_load": { "type": "number", "minimum": 0, "maximum": 1, "description": "Highest load of its node." },
            "limit": { "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT },
        },
        "additionalProperties": false,
    })
}

/// The schema of what `find_agents` answers.
pub(crate) fn found_schema() -> Value {
    let agent = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "name": { "type": "string" },
            "nodes": { "type": "array", "items": { "type": "string" } },
            "skills": { "type": "array", "items": { "type": "object" } },
        },
        "required": ["id", "name", "nodes", "skills"],
    });
    json!({
        "type": "object",
        "properties": {
            "agents": { "type": "array", "items": agent },
            "more": { "type": "integer", "description": "Agents that the limit left out." },
        },
        "required": ["agents", "more"],
    })
}

fn relation(calls: &Calls, agent: &AgentId) -> &'static str {
    match calls.relation(agent.publisher()) {
        TrustRelation::Stranger => "stranger",
        TrustRelation::Trusted => "trusted",
        TrustRelation::Own => "own",
    }
}

fn skill(capability: &Capability) -> Value {
    json!({
        "id": capability.id,
        "name": capability.name,
        "description": capability.description,
        "action": capability.action,
        "target": capability.target,
    })
}

/// `find_agents`: here, and on nodes that were not heard of yet. An agent is shown once, with all its nodes.
pub(crate) async fn find(calls: &Calls, filter: Filter) -> Result<Value, String> {
    let limit = filter.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(format!("`limit` is from 1 to {LIMIT_MAX}"));
    }
    if filter.max_load.is_some_and(|most| !(0.0..=1.0).contains(&most)) {
        return Err("`max_load` is from 0 to 1".to_owned());
    }
    let Filter { text, capability, action, target, max_load, limit: _ } = filter;
    let query =
        Query { text, capability, action, target, max_load, limit: Some(crate::AGENTS_MAX), ..Query::default() };
    let (found, _) = calls.discovery().search(&query).await;
    let mut order: Vec<&Found> = Vec::new();
    let mut nodes: BTreeMap<&AgentId, Vec<String>> = BTreeMap::new();
    for one in &found {
        let hosts = nodes.entry(&one.candidate.verified.agent).or_default();
        if hosts.is_empty() {
            order.push(one);
        }
        hosts.push(one.node.did());
    }
    let more = order.len().saturating_sub(limit);
    let agents = order.into_iter().take(limit).map(|one| {
        let (agent, description) = (&one.candidate.verified.agent, &one.candidate.description);
        json!({
            "id": agent.to_string(),
            "name": agent.name(),
            "title": description.title(),
            "description": description.description(),
            "publisher": relation(calls, agent),
            "nodes": nodes.get(agent),
            "status": match one.health {
                Health::Healthy => "healthy",
                Health::Busy => "busy",
                Health::Leaving => "offline",
            },
            "load": f64::from(one.load_permille) / 1_000.0,
            "skills": description.capabilities().iter().take(SKILLS_SHOWN).map(skill).collect::<Vec<_>>(),
        })
    });
    Ok(json!({ "agents": agents.collect::<Vec<_>>(), "more": more }))
}

/// `describe_agent`: all that its publisher says of an agent, and the nodes that host it.
pub(crate) async fn describe(calls: &Calls, name: &str) -> Result<Value, OperationError> {
    let id = calls.resolve(name, Among::Near).await?;
    calls.find_hosts(&id).await;
    let discovery = calls.discovery();
    let unknown = || OperationError::agent_unknown(format!("no node that hosts {id} is known"));
    let known = discovery.describe(&id).ok_or_else(unknown)?;
    let skills = known.description.capabilities().iter().map(|capability| {
        let mut all = skill(capability);
        all["version"] = json!(capability.version);
        all["tags"] = json!(capability.tags);
        all["examples"] = json!(capability.examples);
        all
    });
    Ok(json!({
        "id": id.to_string(),
        "name": id.name(),
        "title": known.description.title(),
        "description": known.description.description(),
        "version": known.description.version(),
        "publisher": { "id": id.publisher().to_string(), "relation": relation(calls, &id) },
        "nodes": discovery.hosts(&id).iter().map(|node| node.did()).collect::<Vec<_>>(),
        "input_modes": known.description.input_modes(),
        "output_modes": known.description.output_modes(),
        "skills": skills.collect::<Vec<_>>(),
    }))
}
