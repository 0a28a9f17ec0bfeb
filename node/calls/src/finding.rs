//! `find_agents` and `describe_agent`: what the catalogue knows, as JSON, for MCP clients and for agents of this node.

use std::collections::BTreeMap;

use althing_call::{Asker, Callee, OperationError, Purpose, Target};
use althing_discovery::{Candidate, Found, Learned, Query, TrustRelation};
use althing_execution::SuccessRate;
use althing_execution::mesh::{LIMIT_DEFAULT, LIMIT_MAX};
use althing_protocol::AgentId;
use althing_protocol::object::Health;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::outgoing::Calls;

pub use althing_execution::mesh::filter_schema;

/// Agents among which is searched.
const AGENTS_MAX: usize = 1_024;
/// Bytes of an answer; agents that do not fit are counted only.
const FOUND_BYTES_MAX: usize = 64 << 10;
/// Bytes of the description of one agent.
const DESCRIBED_BYTES_MAX: usize = 64 << 10;
/// Skills that `find_agents` shows of one agent.
const SKILLS_SHOWN: usize = 16;

/// The arguments of `find_agents`, as [`filter_schema`] describes them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    text: Option<String>,
    capability: Option<String>,
    action: Option<String>,
    target: Option<String>,
    max_load: Option<f32>,
    limit: Option<usize>,
}

/// The schema of what `find_agents` answers.
#[must_use]
pub fn found_schema() -> Value {
    let agent = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "name": { "type": "string" },
            "containment": {
                "type": ["string", "null"],
                "description": "How its programs are contained where it runs; null where it has none, or does not say.",
            },
            "nodes": { "type": "array", "items": { "type": "string" } },
            "success": {
                "type": ["object", "null"],
                "description": "The share of its turns on its first node that went well, from 0 to 1, and its basis: `measured here` by \
                    verdicts, or `claimed` by the agent or its node; null where nothing is known.",
            },
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

/// The share of an agent's turns that went well, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Success {
    /// Whole percents.
    pub percent: u8,
    /// In words: `measured here` by verdicts, or `claimed`, by the agent or by its node.
    pub basis: &'static str,
}

impl Success {
    const MEASURED: &'static str = "measured here";
    const CLAIMED: &'static str = "claimed";

    /// Of an agent on one node; none where nothing is known of its turns.
    #[must_use]
    pub fn of(calls: &Calls, found: &Found) -> Option<Success> {
        let own = || calls.hosting().success(found.candidate.verified.agent.name());
        match found.learned {
            Learned::Local => own().map(Success::of_own),
            Learned::Push | Learned::Asked => found.success.map(|percent| Success { percent, basis: Success::CLAIMED }),
        }
    }

    fn of_own(rate: SuccessRate) -> Success {
        let basis = if rate.is_measured { Success::MEASURED } else { Success::CLAIMED };
        Success { percent: rate.percent, basis }
    }

    /// The share, 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.percent) / 100.0
    }
}

fn relation(calls: &Calls, agent: &AgentId) -> &'static str {
    match calls.relation(agent.publisher()) {
        TrustRelation::Stranger => "stranger",
        TrustRelation::Trusted => "trusted",
        TrustRelation::Own => "own",
    }
}

/// The skills of an agent; with `all` their versions, tags and examples too.
fn skills(known: &Candidate, all: bool) -> impl Iterator<Item = Value> {
    known.description.capabilities().iter().map(move |skill| {
        let mut shown = json!({
            "id": skill.id,
            "name": skill.name,
            "description": skill.description,
            "action": skill.action,
            "target": skill.target,
        });
        if all {
            shown["version"] = json!(skill.version);
            shown["tags"] = json!(skill.tags);
            shown["examples"] = json!(skill.examples);
        }
        shown
    })
}

/// `find_agents`: here, and on nodes that were not heard of yet, those agents of which `asker` may be told. An agent is shown
/// once, with all its nodes.
///
/// # Errors
/// What is wrong with the arguments.
pub async fn find(calls: &Calls, filter: Filter, asker: &Asker) -> Result<Value, String> {
    let limit = filter.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(format!("`limit` is from 1 to {LIMIT_MAX}"));
    }
    if filter.max_load.is_some_and(|most| !(0.0..=1.0).contains(&most)) {
        return Err("`max_load` is from 0 to 1".to_owned());
    }
    let Filter { text, capability, action, target, max_load, limit: _ } = filter;
    let query = Query { text, capability, action, target, max_load, limit: Some(AGENTS_MAX), ..Query::default() };
    let (found, _) = calls.discovery().search(&query).await;
    let mut order: Vec<&Found> = Vec::new();
    let mut nodes: BTreeMap<&AgentId, Vec<String>> = BTreeMap::new();
    let shown = |one: &&Found| calls.allows(asker, &one.candidate.verified.agent, Purpose::Read);
    for one in found.iter().filter(shown) {
        let hosts = nodes.entry(&one.candidate.verified.agent).or_default();
        if hosts.is_empty() {
            order.push(one);
        }
        hosts.push(one.node.did());
    }
    let count = order.len();
    let mut agents: Vec<Value> = Vec::new();
    let mut bytes = 0;
    let rows = order.into_iter().take(limit).map(|one| {
        let (agent, description) = (&one.candidate.verified.agent, &one.candidate.description);
        json!({
            "id": agent.to_string(),
            "name": agent.name(),
            "title": description.title(),
            "description": description.description(),
            "publisher": relation(calls, agent),
            "containment": description.contained().map(|contained| contained.words()),
            "nodes": nodes.get(agent),
            "status": match one.health {
                Health::Healthy => "healthy",
                Health::Busy => "busy",
                Health::Leaving => "offline",
            },
            "load": f64::from(one.load_permille) / 1_000.0,
            "success": Success::of(calls, one).map(|known| json!({ "share": known.share(), "basis": known.basis })),
            "skills": skills(&one.candidate, false).take(SKILLS_SHOWN).collect::<Vec<_>>(),
        })
    });
    for row in rows {
        bytes += row.to_string().len() + 1;
        if bytes > FOUND_BYTES_MAX {
            break;
        }
        agents.push(row);
    }
    let more = count - agents.len();
    Ok(json!({ "agents": agents, "more": more }))
}

/// `describe_agent`: what its publisher says of an agent, and the nodes that host it. Skills that do not fit are counted only.
///
/// # Errors
/// `AGENT_UNKNOWN`; `CALLER_NOT_ALLOWED`, if `asker` is not told of that agent.
pub async fn describe(calls: &Calls, asker: &Asker, name: &str) -> Result<Value, OperationError> {
    let Target { agent: id, .. } = calls.target(asker, &Callee::near(name), Purpose::Read).await?;
    calls.find_hosts(&id).await;
    let discovery = calls.discovery();
    let unknown = || OperationError::agent_unknown(format!("no node that hosts {id} is known"));
    let known = discovery.describe(&id).ok_or_else(unknown)?;
    let (mut shown, mut bytes) = (Vec::new(), 0);
    for skill in skills(&known, true) {
        bytes += skill.to_string().len() + 1;
        if bytes > DESCRIBED_BYTES_MAX {
            break;
        }
        shown.push(skill);
    }
    let more = known.description.capabilities().len() - shown.len();
    Ok(json!({
        "id": id.to_string(),
        "name": id.name(),
        "title": known.description.title(),
        "description": known.description.description(),
        "version": known.description.version(),
        "publisher": { "id": id.publisher().to_string(), "relation": relation(calls, &id) },
        "nodes": discovery.hosts(&id).iter().map(|node| node.did()).collect::<Vec<_>>(),
        "containment": known.description.contained().map(|contained| contained.words()),
        "input_modes": known.description.input_modes(),
        "output_modes": known.description.output_modes(),
        "skills": shown,
        "more_skills": more,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_says_of_itself_is_claimed_here_too() {
        let rate = |is_measured| Success::of_own(SuccessRate { percent: 75, is_measured });
        assert_eq!((rate(true).basis, rate(false).basis), ("measured here", "claimed"));
        assert!((rate(true).share() - 0.75).abs() < f64::EPSILON);
    }
}
