//! What is said of the tools of an agent's servers, for whoever decides about their calls.

use std::collections::BTreeMap;

use althing_protocol::{Digest, digest};
use althing_td::{AgentFile, Effect, ToolServerSpec, ToolTerms};

/// What an owner says of the tools of one agent (by `server/tool` or `server/*`), and who has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolStatements {
    /// Their effects: what the node says, and then what the agent's file does.
    pub effects: [BTreeMap<String, Effect>; 2],
    /// What else there is, in the same order.
    pub terms: [BTreeMap<String, ToolTerms>; 2],
    /// The digest of the address or the program of each server, by its name in the agent's file.
    pub servers: BTreeMap<String, Digest>,
}

impl ToolStatements {
    /// What the node says, and what the file of an agent does.
    pub(crate) fn of(
        file: &AgentFile,
        effects: &BTreeMap<String, Effect>,
        terms: &BTreeMap<String, ToolTerms>,
    ) -> ToolStatements {
        let place = |spec: &ToolServerSpec| digest(&serde_json::to_vec(spec).unwrap_or_default());
        ToolStatements {
            effects: [effects.clone(), file.effects.clone()],
            terms: [terms.clone(), file.profiles.clone()],
            servers: file.tools.iter().map(|(name, spec)| (name.clone(), place(spec))).collect(),
        }
    }
}
