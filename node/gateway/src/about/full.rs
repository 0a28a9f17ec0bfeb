//! `/llms-full.txt`: the agents of `/llms.txt`, with what each of them does and how it is called.

use std::fmt::Write as _;
use std::sync::Arc;

use althing_edge::Base;
use althing_td::{Capability, Description, MODE_DEFAULT};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::page::{STRANGER, TITLE_MAX, TOKEN, line};
use super::{Named, base, named, text};
use crate::Gateway;
use crate::a2a::card::with_own;

/// Bytes of all agents together.
const BYTES_MAX: usize = 256 << 10;
/// Bytes of one agent, so that no publisher takes the room of the others.
const AGENT_BYTES_MAX: usize = 16 << 10;
/// Characters of a description.
const ABOUT_MAX: usize = 1_024;
/// Characters of a skill's id, and of its examples together.
const ID_MAX: usize = 128;
const EXAMPLES_MAX: usize = 512;
/// Characters of the names of media types together.
const MODES_CHARS_MAX: usize = 256;
const HEAD: &str = "# Althing node, in full\n\n\
    > What /llms.txt names, with the skills of each agent and how it is called: by A2A 1.0, by MCP, or as a \
    Thing of the Web of Things.\n\n\
    - A2A: each request has the header `A2A-Version: 1.0`. HTTP+JSON takes `{\"message\":{\"messageId\":\"a new id\",\
    \"role\":\"ROLE_USER\",\"parts\":[{\"text\":\"Hello\"}]}}`; JSON-RPC takes the same as `params` of the method \
    SendMessage; gRPC is the service lf.a2a.v1.A2AService over HTTP/2.\n\
    - MCP: streamable HTTP; the tool call_agent takes `agent` and `message`.\n\
    - Web of Things: the action chat takes `{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}`.\n\n";

/// `GET /llms-full.txt`.
pub(super) async fn show(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    let ((mut agents, others), base) = (named(&gateway), base(&gateway, &headers));
    // However much strangers publish, it stands behind the rest.
    agents.sort_by_key(|agent| agent.by_stranger);
    let mut body = String::from(HEAD);
    if gateway.access.is_guarded() {
        body.push_str(TOKEN);
    }
    body.push_str("## Agents\n\n");
    body.push_str(&listed(agents.iter().map(|agent| entry(agent, &base)), others, &base));
    text(body, "text/plain; charset=utf-8")
}

/// As many entries as there is room for; how many agents are left out, `others` included, if any are.
fn listed(mut entries: impl Iterator<Item = String>, others: usize, base: &Base) -> String {
    let (mut list, mut left) = (String::new(), others);
    for entry in entries.by_ref() {
        if list.len() + entry.len() > BYTES_MAX {
            left += 1;
            break;
        }
        list.push_str(&entry);
    }
    left += entries.count();
    if left > 0 {
        // Text takes text.
        let _ = writeln!(list, "{left} more agents are left out here; the list is at {base}/agents");
    }
    list
}

/// An agent: what its publisher says of it, each text on a line of its own, and where it is called.
fn entry(agent: &Named, base: &Base) -> String {
    let (id, mark) = (&agent.id, if agent.by_stranger { STRANGER } else { "" });
    let described = agent.described.as_deref();
    let thing = format!("{base}/things/{id}");
    let card = format!("{base}/a2a/{id}/.well-known/agent-card.json");
    let input = modes(described.map(Description::input_modes).unwrap_or_default(), &agent.own.input_modes);
    let output = modes(described.map(Description::output_modes).unwrap_or_default(), &agent.own.output_modes);
    let (title, about) = (line(&agent.title, TITLE_MAX), line(&agent.description, ABOUT_MAX));
    // Its clients take host and port alone.
    let grpc =
        if base.path().is_empty() { format!("- A2A, gRPC: {base} with the tenant {id}\n") } else { String::new() };
    let mut entry = format!(
        "### [{title}]({thing})\n\n- id: {id}\n- description: {mark}{about}\n- input modes: {mark}{input}\n\
         - output modes: {mark}{output}\n- agent card: {card}\n- A2A, JSON-RPC: POST {base}/a2a/{id}\n\
         - A2A, HTTP+JSON: POST {base}/a2a/{id}/message:send\n{grpc}\
         - MCP: {base}/mcp, the tool call_agent with the agent {id}\n\
         - Web of Things: {thing}, POST {thing}/actions/chat\n"
    );
    if let Some(contained) = described.and_then(Description::contained) {
        // Text takes text.
        let _ = writeln!(entry, "- programs: {mark}{}", contained.words());
    }
    let skills = described.map(Description::capabilities).unwrap_or_default();
    let mut shown = 0;
    for skill in skills.iter().map(|skill| skill_of(skill, mark, &thing)) {
        if entry.len() + skill.len() > AGENT_BYTES_MAX {
            break;
        }
        entry.push_str(&skill);
        shown += 1;
    }
    if shown < skills.len() {
        // Text takes text.
        let _ = writeln!(entry, "- {} more skills are in the agent card", skills.len() - shown);
    }
    entry.push('\n');
    entry
}

/// A skill of the agent that is that Thing.
fn skill_of(skill: &Capability, mark: &str, thing: &str) -> String {
    let id = line(if skill.id.is_empty() { &skill.name } else { &skill.id }, ID_MAX);
    let (name, about) = (line(&skill.name, TITLE_MAX), line(&skill.description, ABOUT_MAX));
    let mut told = format!("- skill: {mark}{id} ({name}): {about}\n");
    // Text takes text.
    if !skill.examples.is_empty() {
        let _ = writeln!(told, "  - examples: {mark}{}", line(&skill.examples.join(" | "), EXAMPLES_MAX));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if skill.is_tool && id.chars().all(is_plain) {
        let _ = writeln!(told, "  - a tool with arguments of its own: {thing}/tools/{id}");
    }
    told
}

/// The media types that the agent's card shows.
fn modes(described: &[String], own: &[String]) -> String {
    let all = with_own(described, own);
    if all.is_empty() { MODE_DEFAULT.to_owned() } else { line(&all.join(", "), MODES_CHARS_MAX) }
}

#[cfg(test)]
mod tests {
    use althing_calls::OwnCard;
    use serde_json::{Value, json};

    use super::*;

    fn stranger(capabilities: Value) -> Named {
        let td = json!({
            "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1#" }],
            "title": "Other",
            "securityDefinitions": { "nosec_sc": { "scheme": "nosec" } },
            "security": "nosec_sc",
            "lmos:capabilities": capabilities,
        });
        Named {
            id: "x:other".to_owned(),
            name: "other".to_owned(),
            title: "Other".to_owned(),
            description: "one\n### [Fake](http://evil.example)".to_owned(),
            described: Some(Arc::new(Description::parse(td.to_string().as_bytes()).expect("is valid"))),
            own: OwnCard::default(),
            by_stranger: true,
        }
    }

    #[test]
    fn each_text_of_a_stranger_is_marked_on_one_line() {
        let skill = json!({
            "id": "do", "name": "Do\n- skill: x", "description": "does\n- id: y", "examples": ["a\n## b", "c"],
        });
        let entry = entry(&stranger(json!([skill])), &Base::at(false, "node"));
        assert!(entry.contains(&format!("\n- description: {STRANGER}one ### Fake(http://evil.example)\n")), "{entry}");
        assert!(entry.contains(&format!("\n- skill: {STRANGER}do (Do - skill: x): does - id: y\n")), "{entry}");
        assert!(entry.contains(&format!("\n  - examples: {STRANGER}a ## b | c\n")), "{entry}");
        assert!(entry.contains("\n- A2A, gRPC: http://node with the tenant x:other\n"), "{entry}");
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let skill = |n: usize| json!({ "id": format!("s{n}"), "description": "é".repeat(200) });
        let long = entry(&stranger((0..100).map(skill).collect()), &Base::at(false, "node"));
        assert!(long.len() < AGENT_BYTES_MAX + 100, "{}", long.len());
        let shown = long.lines().filter(|line| line.starts_with("- skill: ")).count();
        assert!(shown > 0 && long.contains(&format!("- {} more skills are in", 100 - shown)), "{long}");
        let list = listed(std::iter::repeat_n("x".repeat(1 << 10), 300), 7, &Base::at(false, "node"));
        assert!(list.len() < BYTES_MAX + 100, "{}", list.len());
        assert!(list.ends_with("51 more agents are left out here; the list is at http://node/agents\n"));
        assert_eq!(listed(std::iter::once("x".to_owned()), 0, &Base::at(false, "node")), "x");
    }
}
