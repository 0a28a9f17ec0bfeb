//! The Thing Description that the gateway serves for an agent: its own document, derived from the one that the publisher
//! signed. Pure.
//!
//! Of the publisher's description only what tells about the agent is taken over. Affordances, forms, links and security
//! are the gateway's own: a form that leads elsewhere would make consumers carry the gateway's token there.

use std::fmt::Write as _;

use althing_edge::Base;
use althing_protocol::AgentId;
use althing_td::Description;
use serde_json::{Map, Value, json};

use super::schemas;
use crate::JSON;

/// Members of a publisher's description that tell about the agent.
const KEPT: [&str; 9] =
    ["id", "title", "titles", "description", "descriptions", "version", "created", "modified", "lmos:capabilities"];

/// The name of the sub-protocol of its WebSocket, as a description states it and as the two sides agree on it.
pub(super) const SUBPROTOCOL: &str = "lmosprotocol";

/// What a served description says.
pub(super) struct Served<'a> {
    pub agent: &'a AgentId,
    pub description: &'a Description,
    /// What addresses of the gateway begin with, for its reader.
    pub base: Base,
    pub token_required: bool,
    /// The node that serves it.
    pub node: String,
}

/// The path below which all of an agent's resources are.
pub(super) fn path(agent: &AgentId) -> String {
    format!("/things/{agent}/")
}

/// The path of the description of a tool that an agent exposes.
pub(super) fn tool_path(agent: &AgentId, tool: &str) -> String {
    format!("/things/{agent}/tools/{}", encoded(tool))
}

/// `securityDefinitions` and `security`, as the gateway enforces them.
pub(super) fn security(td: &mut Map<String, Value>, token_required: bool) {
    let (name, definition) = if token_required {
        // The token is any text that its owner chose, and no JWT, which is what TD 1.1 assumes where nothing is said.
        ("bearer_sc", json!({ "scheme": "bearer", "in": "header", "name": "Authorization", "format": "opaque" }))
    } else {
        ("nosec_sc", json!({ "scheme": "nosec" }))
    };
    td.insert("securityDefinitions".to_owned(), json!({ name: definition }));
    td.insert("security".to_owned(), json!([name]));
}

impl Served<'_> {
    /// The Thing Description 1.1.
    pub fn td(&self) -> Value {
        let published = self.description.value();
        let mut td = Map::new();
        td.insert(
            "@context".to_owned(),
            json!(["https://www.w3.org/2022/wot/td/v1.1", { "lmos": LMOS, "althing": althing_td::ALTHING }]),
        );
        let is_tool = strings(&published["@type"]).any(|kind| kind == "lmos:Tool");
        td.insert("@type".to_owned(), json!(if is_tool { "lmos:Tool" } else { "lmos:Agent" }));
        for (name, value) in published.as_object().into_iter().flatten() {
            if KEPT.contains(&name.as_str()) || name.starts_with("althing:") || name == "lmos:metadata" {
                td.insert(name.clone(), value.clone());
            }
        }
        td.insert("althing:servedBy".to_owned(), json!(self.node));
        td.insert("althing:derivedFrom".to_owned(), json!(format!("sha-256:{}", self.digest())));
        td.insert("base".to_owned(), json!(format!("{}{}", self.base, path(self.agent))));
        security(&mut td, self.token_required);
        td.insert("properties".to_owned(), properties());
        td.insert("actions".to_owned(), self.actions());
        td.insert("events".to_owned(), self.events());
        td.insert("forms".to_owned(), json!([form(&["readallproperties"], "properties")]));
        td.insert("links".to_owned(), self.links());
        Value::Object(td)
    }

    fn digest(&self) -> String {
        self.description.digest().iter().fold(String::new(), |mut text, byte| {
            // Text takes text.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    fn actions(&self) -> Value {
        let chat = json!({
            "title": "Chat",
            "description": "Sends the agent a message and waits for its answer. With the header `Prefer: respond-async`, \
                            or if the answer takes long, the result is 201 with the address of a status",
            "input": schemas::chat_input(),
            "output": schemas::chat_output(),
            "safe": false,
            "idempotent": false,
            "forms": [form(&["invokeaction"], "actions/chat"), self.socket(&["invokeaction"])],
        });
        json!({ "chat": chat })
    }

    fn events(&self) -> Value {
        let subscribe = ["subscribeevent", "unsubscribeevent"];
        let sse = |href: &str| {
            let mut form = form(&subscribe, href);
            form["subprotocol"] = json!("sse");
            form
        };
        let agent_event = json!({
            "title": "Agent event",
            "description": "What happens to the tasks that are invoked through this gateway, as LMOS tells it",
            "data": schemas::agent_event(),
            "forms": [sse("events/agentEvent"), self.socket(&subscribe)],
        });
        let task_update = json!({
            "title": "Task update",
            "description": "The events of one task, as A2A tells them, until it ends",
            "uriVariables": { "task": { "type": "string", "description": "The task's id" } },
            "data": schemas::task_update(),
            "forms": [sse("events/taskUpdate{?task}")],
        });
        json!({ "agentEvent": agent_event, "taskUpdate": task_update })
    }

    /// A form of the LMOS sub-protocol of WebSocket.
    fn socket(&self, op: &[&str]) -> Value {
        let mut form = form(op, &format!("{}{}ws", self.base.socket(), path(self.agent)));
        form["subprotocol"] = json!(SUBPROTOCOL);
        form
    }

    fn links(&self) -> Value {
        let card = format!("{}/a2a/{}/.well-known/agent-card.json", self.base.path(), self.agent);
        let mut links = vec![
            json!({ "rel": "alternate", "href": "published", "type": super::TD }),
            json!({ "rel": "service-desc", "href": card, "type": JSON }),
        ];
        let tools = self.description.capabilities().iter().filter(|capability| capability.is_tool);
        links.extend(tools.map(|tool| json!({ "rel": "item", "href": self.tool_path(&tool.id), "type": super::TD })));
        json!(links)
    }

    /// The path of a tool's description, as the reader needs it.
    fn tool_path(&self, tool: &str) -> String {
        format!("{}{}", self.base.path(), tool_path(self.agent, tool))
    }
}

/// The IRI of the prefix `lmos`.
pub(super) const LMOS: &str = "https://eclipse.dev/lmos/protocol/v1";

pub(super) fn form(op: &[&str], href: &str) -> Value {
    json!({ "op": op, "href": href, "contentType": JSON })
}

fn properties() -> Value {
    let property = |title: &str, about: &str, name: &str, mut schema: Value| {
        schema["title"] = json!(title);
        schema["description"] = json!(about);
        schema["readOnly"] = json!(true);
        schema["observable"] = json!(false);
        schema["forms"] = json!([form(&["readproperty"], &format!("properties/{name}"))]);
        schema
    };
    json!({
        "status": property("Status", "Where the agent runs, as this node knows", "status", schemas::status()),
        "tasks": property("Tasks", "How many tasks the reader has with the agent", "tasks", schemas::tasks()),
    })
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Value::as_str)
}

/// A text as one segment of a path. Ids of tasks and tools are chosen by nodes, which may be anyone's.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use althing_td::{AgentFile, Strictness, describe, validate_as};

    use super::*;

    const AGENT: &str = "urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:echo";

    fn served(description: &Description, token_required: bool) -> Value {
        let agent = AGENT.parse().expect("an id");
        let node = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".to_owned();
        let base = Base::at(false, "127.0.0.1:7420");
        Served { agent: &agent, description, base, token_required, node }.td()
    }

    fn own() -> Description {
        let file = "name: echo\ndescription: Says it again.\nruntime: { native: { builtin: echo } }\n\
                    skills: [{ id: echo.say, name: Say, description: Repeats a text. }]\n";
        describe(&AgentFile::parse(file).expect("a file"), AGENT)
    }

    #[test]
    fn what_is_served_is_valid_with_no_findings() {
        for token_required in [false, true] {
            let td = served(&own(), token_required);
            let report = validate_as(td.to_string().as_bytes(), Strictness::Own);
            assert!(report.findings.is_empty(), "{report}");
            assert_eq!(td["lmos:capabilities"], own().value()["lmos:capabilities"]);
            let digest = own().digest().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            assert_eq!(td["althing:derivedFrom"], format!("sha-256:{digest}"));
        }
    }

    #[test]
    fn behind_a_proxy_every_address_is_the_one_that_the_world_calls() {
        let agent: AgentId = AGENT.parse().expect("an id");
        let base: Base = "https://example.org/mesh".parse().expect("an address");
        let description = own();
        let node = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".to_owned();
        let td = Served { agent: &agent, description: &description, base, token_required: true, node }.td();
        assert_eq!(td["base"], format!("https://example.org/mesh/things/{AGENT}/"));
        let report = validate_as(td.to_string().as_bytes(), Strictness::Own);
        assert!(report.findings.is_empty(), "{report}");
        let socket = format!("wss://example.org/mesh/things/{AGENT}/ws");
        assert!(td["actions"]["chat"]["forms"].to_string().contains(&socket), "{td}");
        let mut hrefs = Vec::new();
        addresses(&td, &mut hrefs);
        assert!(hrefs.len() > 6, "{hrefs:?}");
        // What begins with a slash leaves the base's path out.
        let leaves = |href: &&String| href.starts_with('/') && !href.starts_with("/mesh/");
        assert_eq!(hrefs.iter().find(leaves), None);
    }

    fn addresses(value: &Value, to: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| addresses(item, to)),
            Value::Object(members) => {
                to.extend(members.get("href").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| addresses(member, to));
            }
            _ => {}
        }
    }

    #[test]
    fn security_is_what_the_gateway_enforces() {
        assert_eq!(served(&own(), false)["securityDefinitions"], json!({ "nosec_sc": { "scheme": "nosec" } }));
        let with = served(&own(), true);
        assert_eq!(
            (&with["security"], &with["securityDefinitions"]["bearer_sc"]["in"]),
            (&json!(["bearer_sc"]), &json!("header"))
        );
    }

    /// A publisher who is not trusted writes what a consumer's token must not follow.
    #[test]
    fn nothing_of_a_publishers_forms_links_and_security_is_taken_over() {
        let forms = json!([{ "href": "https://evil.example/chat" }]);
        let evil = json!({
            "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": LMOS }],
            "id": AGENT, "title": "Echo", "base": "https://evil.example/", "@type": ["lmos:Agent", "saref:Device"],
            "securityDefinitions": { "b": { "scheme": "bearer", "authorization": "https://evil.example/token" } },
            "security": "b", "support": "https://evil.example/help",
            "links": [{ "rel": "alternate", "href": "https://evil.example/td" }],
            "forms": [{ "op": "readallproperties", "href": "https://evil.example/all" }],
            "properties": { "status": { "type": "string", "forms": forms } },
            "actions": { "chat": { "forms": forms }, "steal": { "forms": forms } },
            "events": { "agentEvent": { "forms": forms } },
        });
        let td = served(&Description::parse(evil.to_string().as_bytes()).expect("valid"), true);
        assert!(!td.to_string().contains("evil.example"), "{td}");
        assert_eq!(td["actions"].as_object().map(Map::len), Some(1));
        let report = validate_as(td.to_string().as_bytes(), Strictness::Own);
        assert!(report.findings.is_empty(), "{report}");
    }
}
