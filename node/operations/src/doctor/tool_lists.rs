//! What clients of MCP see of tools, where that is not as their servers wrote it: names that were cut, and schemas with
//! which clients would refuse the whole list.

use althing_calls::Candidate;
use althing_calls::machine::tool_name::{NAME_MAX, plain};
use althing_discovery::Discovery;
use althing_execution::{AgentState, AgentStatus};
use althing_td::listed_schema;
use serde_json::Value;

use super::finding::{Finding, note, wrong};

/// Tools of one agent that are described.
const TOOLS_MAX: usize = 16;
/// What an author does about a name, and about a schema.
const SHORTER: &str =
    "clients put up to 14 characters before a name, and models' APIs take 64: give the skill or the tool a shorter id";
const MENDED: &str = "tell its author: a schema is one of JSON Schema 2020-12, of an object; arguments and results go through \
                      unchanged";

/// What an owner does about a server that does not answer.
const ANSWERING: &str = "check that its command speaks MCP on standard input and output, or that its address is one of \
                         MCP: its tools are not there until it answers; it is asked again with each call";

/// The tool servers of an agent that did not answer when they were asked last. What is not ready says that by itself.
#[must_use]
pub fn silent_servers(agent: &AgentStatus) -> Vec<String> {
    if !matches!(agent.state, AgentState::Ready | AgentState::Degraded { .. }) {
        return Vec::new();
    }
    agent.away.iter().map(|(server, why)| format!("its tool server {server} has not answered: {why}")).collect()
}

/// The agents that run, and what is said of servers of theirs that are silent.
pub(super) fn silent(running: &[AgentStatus]) -> Vec<(String, String)> {
    let of = |agent: &AgentStatus| {
        let name = agent.name.clone();
        silent_servers(agent).into_iter().map(move |what| (name.clone(), what))
    };
    running.iter().flat_map(of).collect()
}

/// The agents of this node, and what is to be noted of their tools.
pub(super) fn all(discovery: &Discovery) -> Vec<(String, String)> {
    let noted = |known: &Candidate| {
        let name = known.verified.agent.name().to_owned();
        tool_notes(known).into_iter().map(move |what| (name.clone(), what)).collect::<Vec<_>>()
    };
    discovery.local().iter().flat_map(noted).collect()
}

/// What clients see otherwise of an agent's tools.
#[must_use]
pub fn tool_notes(known: &Candidate) -> Vec<String> {
    let agent = known.verified.agent.name();
    let skills = known.description.capabilities().iter();
    let ids = skills.map(|skill| if skill.id.is_empty() { &skill.name } else { &skill.id });
    let cut = ids.filter(|id| !plain(agent, id).1).map(|id| {
        format!("the name of {id:?} as a tool was cut to {NAME_MAX} characters, the last of which tell it from others")
    });
    let schemas = known.description.tools().into_iter().flat_map(|tool| {
        let why = |what: &str, shown: &str, schema: &Value| {
            let what = format!("the {what} of {:?} is listed", tool.id);
            match listed_schema(schema) {
                Ok(listed) if listed.notes.is_empty() => None,
                Ok(listed) => Some(format!("{what} {}", listed.notes.join(", "))),
                Err(why) => Some(format!("{what} as {shown}: {why}")),
            }
        };
        let input = why("input schema", "any object's", &tool.input);
        let output = tool.output.as_ref().and_then(|schema| why("output schema", "none", schema));
        [input, output].into_iter().flatten().collect::<Vec<_>>()
    });
    cut.chain(schemas).take(TOOLS_MAX).collect()
}

/// Notes what is listed otherwise, as the tools work; a server that is silent is a fault.
pub(super) fn judge(listed: &[(String, String)], silent: &[(String, String)], findings: &mut Vec<Finding>) {
    findings.extend(silent.iter().map(|(agent, what)| wrong("L1", format!("agent {agent:?}: {what}"), ANSWERING)));
    findings.extend(listed.iter().map(|(agent, what)| {
        let remedy = if what.contains("schema of") { MENDED } else { SHORTER };
        note("L1", format!("agent {agent:?}: {what}"), remedy)
    }));
}
