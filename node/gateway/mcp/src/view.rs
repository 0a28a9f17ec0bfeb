//! Which agents a client wants to see as tools, by the query of the URL that it uses.

use althing_discovery::Query;
use serde::Deserialize;

/// Where the listed agents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Whose {
    /// On this node.
    #[default]
    Local,
    /// Anywhere.
    Mesh,
}

/// The query of `/mcp`: `agents=mesh` lists the agents of all known nodes, the others narrow the list. `agent` alone shows
/// one that is a server of tools as that server.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct View {
    pub agent: Option<String>,
    pub agents: Whose,
    pub text: Option<String>,
    pub capability: Option<String>,
    pub action: Option<String>,
    pub target: Option<String>,
}

impl View {
    /// What is looked for in the catalogue.
    pub fn query(&self) -> Query {
        Query {
            capability: self.capability.clone(),
            action: self.action.clone(),
            target: self.target.clone(),
            text: self.text.clone(),
            limit: Some(crate::AGENTS_MAX),
            ..Query::default()
        }
    }

    /// Whether agents are left out of the list.
    pub fn narrows(&self) -> bool {
        [&self.text, &self.capability, &self.action, &self.target].iter().any(|member| member.is_some())
    }
}
