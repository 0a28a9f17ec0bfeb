//! The Thing Description that the gateway serves for a tool: derived from what the description of its agent, which the
//! publisher signed, says of it. Pure.

use althing_edge::Base;
use althing_protocol::{AgentId, hex};
use althing_td::{ALTHING, Tool, affordance};
use serde_json::{Map, Value, json};

use super::td::{LMOS, encoded, form, security, tool_path};

/// What a served description says.
pub(super) struct ServedTool<'a> {
    pub agent: &'a AgentId,
    pub tool: &'a Tool,
    /// SHA-256 of the agent's description.
    pub digest: [u8; 32],
    /// What addresses of the gateway begin with, for its reader.
    pub base: Base,
    pub token_required: bool,
    /// The node that serves it.
    pub node: String,
}

impl ServedTool<'_> {
    /// The Thing Description 1.1.
    pub fn td(&self) -> Value {
        let ServedTool { agent, tool, .. } = self;
        let (id, prefix) = (encoded(&tool.id), self.base.path());
        let mut td = Map::new();
        let mut put = |name: &str, value: Value| drop(td.insert(name.to_owned(), value));
        put("@context", json!(["https://www.w3.org/2022/wot/td/v1.1", { "lmos": LMOS, "althing": ALTHING }]));
        put("@type", json!("lmos:Tool"));
        put("id", json!(format!("{agent}/{id}")));
        put("title", json!(tool.title));
        put("description", json!(tool.description));
        if let Some(version) = &tool.version {
            put("version", json!({ "instance": version }));
        }
        put("althing:servedBy", json!(self.node));
        put("althing:derivedFrom", json!(format!("sha-256:{}", hex(&self.digest))));
        put("althing:definition", json!(format!("sha-256:{}", tool.definition)));
        put("base", json!(format!("{}{}/", self.base, tool_path(agent, &tool.id))));
        let mut action = affordance(tool);
        action.insert("forms".to_owned(), json!([form(&["invokeaction"], &format!("actions/{id}"))]));
        put("actions", json!({ (tool.id.as_str()): action }));
        put(
            "links",
            json!([
                { "rel": "type", "href": "model", "type": "application/tm+json" },
                { "rel": "collection", "href": format!("{prefix}/things/{agent}"), "type": super::TD },
                { "rel": "alternate", "href": format!("{prefix}/things/{agent}/published"), "type": super::TD },
            ]),
        );
        security(&mut td, self.token_required);
        Value::Object(td)
    }
}

#[cfg(test)]
mod tests {
    use althing_td::{Strictness, validate_as};

    use super::*;

    #[test]
    fn a_served_tool_is_valid_and_of_this_gateway_whatever_its_server_wrote() {
        let agent = "urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:files".parse().expect("an id");
        for (id, input) in [
            ("add", json!({ "type": "object", "properties": { "a": { "type": ["integer", "null"] } } })),
            ("urn:x:a b/{c}?d#e", json!({ "type": "object", "forms": [{ "href": "https://evil.example/" }] })),
        ] {
            let tool = Tool {
                id: id.to_owned(),
                title: "Tool".to_owned(),
                description: "Does it.".to_owned(),
                version: Some("1.0.0".to_owned()),
                name: id.to_owned(),
                definition: "0".repeat(64),
                input,
                output: None,
                read_only: true,
                idempotent: false,
            };
            for token_required in [false, true] {
                let node = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".to_owned();
                let base = Base::at(false, "127.0.0.1:7420");
                let served = ServedTool { agent: &agent, tool: &tool, digest: [7; 32], base, token_required, node };
                let td = served.td();
                let report = validate_as(td.to_string().as_bytes(), Strictness::Own);
                assert!(report.findings.is_empty(), "{report}");
                assert!(!td.to_string().contains("evil.example"), "{td}");
                let action = &td["actions"][id];
                let href = action["forms"][0]["href"].as_str().expect("a form");
                assert!(!href[8..].contains(['/', '{', '?', '#', ' ']), "{href}");
                assert_eq!((&action["safe"], &action["idempotent"]), (&json!(true), &json!(true)));
            }
        }
    }
}
