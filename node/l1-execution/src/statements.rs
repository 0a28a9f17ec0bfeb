//! What is said of the tools of an agent's servers, for whoever decides about their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use althing_fetch::Url;
use althing_keeper::Level;
use althing_protocol::contract::DataLabel;
use althing_protocol::{Digest, digest};
use althing_td::{AgentFile, Demand, Effect, ModelEndpoint, ToolServerSpec, ToolTerms};

/// What an owner says of the tools of one agent (by `server/tool` or `server/*`), and who has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolStatements {
    /// Their effects: what the node says, and then what the agent's file does.
    pub effects: [BTreeMap<String, Effect>; 2],
    /// What else there is, in the same order.
    pub terms: [BTreeMap<String, ToolTerms>; 2],
    /// The digest of the address or the program of each server, by its name in the agent's file.
    pub servers: BTreeMap<String, Digest>,
    /// The servers of this machine, as far as that is known before they run: programs that reach no host and whose network is bounded,
    /// and addresses of loopback.
    pub here: BTreeSet<String>,
    /// How far the model is cleared that makes the embeddings of the agent's memory; none of the built-in one, which asks nobody.
    pub embeddings: Option<ModelClearance>,
}

/// How far a model is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelClearance {
    /// The strictest label of data that it may be given; `internal` where nobody wrote one.
    pub level: DataLabel,
    /// Whether somebody wrote it beside the model.
    pub is_written: bool,
}

impl ModelClearance {
    /// That of the model at an endpoint.
    pub(crate) fn of(endpoint: &ModelEndpoint) -> ModelClearance {
        ModelClearance { level: endpoint.clearance.unwrap_or_default(), is_written: endpoint.clearance.is_some() }
    }
}

impl ToolStatements {
    /// What the node says, and what the file of an agent does. `level` is asked how strongly the machine encloses programs, where that
    /// matters; none where nobody knows it.
    pub(crate) fn of(
        file: &AgentFile,
        (effects, terms): (&BTreeMap<String, Effect>, &BTreeMap<String, ToolTerms>),
        level: &dyn Fn() -> Option<Level>,
    ) -> ToolStatements {
        let place = |spec: &ToolServerSpec| digest(&serde_json::to_vec(spec).unwrap_or_default());
        ToolStatements {
            effects: [effects.clone(), file.effects.clone()],
            terms: [terms.clone(), file.profiles.clone()],
            servers: file.tools.iter().map(|(name, spec)| (name.clone(), place(spec))).collect(),
            here: file.tools.iter().filter(|(_, spec)| is_here(spec, level)).map(|(name, _)| name.clone()).collect(),
            embeddings: file.embeddings.as_ref().map(ModelClearance::of),
        }
    }
}

/// Whether what a server is given stays on this machine, which encloses programs so, unless somebody knows better.
fn is_here(spec: &ToolServerSpec, level: &dyn Fn() -> Option<Level>) -> bool {
    match spec {
        // All that is weaker leaves a part of the network open.
        ToolServerSpec::Command { sandbox, .. } => {
            sandbox.demand != Demand::None && sandbox.egress.is_empty() && level() == Some(Level::Namespaces)
        }
        ToolServerSpec::Url { url, .. } => Url::parse(url).is_ok_and(|url| {
            let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }),
        // Where its forms are, only its description says.
        ToolServerSpec::Thing { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_is_here_that_namespaces_enclose_and_that_reaches_no_host_or_that_is_on_loopback() {
        let url = |url: &str| json!({ "url": url });
        let command = |sandbox: serde_json::Value| json!({ "command": ["tool"], "sandbox": sandbox });
        let tools = json!({
            "four": url("http://127.0.0.1:8000/mcp"),
            "six": url("http://[::1]:8000/mcp"),
            "name": url("http://LOCALHOST/mcp"),
            "far": url("https://mcp.example.org/"),
            "posing": url("https://localhost.example.org/"),
            "thing": { "thing": "http://127.0.0.1/td" },
            "plain": { "command": ["tool"] },
            "web": command(json!({ "egress": ["example.org"] })),
            "free": command(json!("none")),
        });
        let file = json!({
            "name": "clerk",
            "description": "Plays a part",
            "runtime": { "model": { "prompt": "Help.", "endpoints": [{ "url": "http://127.0.0.1:9/v1", "model": "mini" }] } },
            "tools": tools,
            "contract": { "class": { "latency": "srt" } },
        });
        let file = AgentFile::parse(&file.to_string()).expect("an agent file");
        let here = |level: Option<Level>| {
            let said = ToolStatements::of(&file, (&BTreeMap::new(), &BTreeMap::new()), &|| level);
            said.here.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(here(Some(Level::Namespaces)), ["four", "name", "plain", "six"]);
        for weaker in [Some(Level::Landlock), Some(Level::Account), Some(Level::None), None] {
            assert_eq!(here(weaker), ["four", "name", "six"], "{weaker:?}: no program");
        }
    }

    #[test]
    fn how_far_the_model_of_embeddings_is_cleared_is_said_and_that_nobody_wrote_it() {
        let of = |clearance: Option<&str>| {
            let mut endpoint = json!({ "url": "http://127.0.0.1:9/v1", "model": "mini" });
            if let Some(clearance) = clearance {
                endpoint["clearance"] = json!(clearance);
            }
            let contract = json!({ "class": { "latency": "srt" }, "memory": {} });
            let runtime = json!({ "model": { "prompt": "Help.", "endpoints": [endpoint.clone()] } });
            let file = json!({
                "name": "clerk",
                "description": "Plays a part",
                "runtime": runtime,
                "embeddings": endpoint,
                "contract": contract,
            });
            let file = AgentFile::parse(&file.to_string()).expect("an agent file");
            ToolStatements::of(&file, (&BTreeMap::new(), &BTreeMap::new()), &|| None).embeddings
        };
        assert_eq!(of(None), Some(ModelClearance { level: DataLabel::Internal, is_written: false }));
        let restricted = ModelClearance { level: DataLabel::Restricted, is_written: true };
        assert_eq!(of(Some("restricted")), Some(restricted));
    }
}
