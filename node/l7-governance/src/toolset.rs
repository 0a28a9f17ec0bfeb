//! The agents, tools and models that policies may speak of, as far as this node has met them.

use std::collections::{BTreeMap, BTreeSet};

use althing_policy::{Entry, Schema, ToolSignature};
use althing_protocol::AgentRef;
use althing_protocol::contract::DataLabel;
use althing_td::{Effect, ToolTerms};
use serde_json::Value;

use crate::machine::profile::ToolProfile;

/// What an owner says of the tools of one agent, and who has them.
pub use althing_execution::tools::ToolStatements as Profiles;

/// Agents of other nodes and models that are remembered: a stranger makes no more of them.
const OTHERS_MAX: usize = 4_096;

/// One tool, of all agents that have one of that name.
#[derive(Debug, Clone, PartialEq)]
struct KnownTool {
    /// The schema of its arguments; null where nobody listed it, or two agents have different ones.
    input: Value,
    is_ambiguous: bool,
    profile: ToolProfile,
}

/// All that policies may speak of. It grows, and each growth is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Toolset {
    agents: BTreeMap<String, (String, String)>,
    tools: BTreeMap<String, KnownTool>,
    models: BTreeMap<String, DataLabel>,
    nodes: BTreeSet<String>,
    revision: u64,
}

impl Toolset {
    /// How often it changed.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Takes an agent; says whether it is known from now on.
    pub(crate) fn take_agent(&mut self, agent: &AgentRef) -> bool {
        let publisher = agent.id.publisher().to_string();
        self.take_other(&agent.id.to_string(), &agent.version, &publisher)
    }

    /// Takes an agent by the parts of its name.
    pub(crate) fn take_other(&mut self, id: &str, version: &str, publisher: &str) -> bool {
        let known = (version.to_owned(), publisher.to_owned());
        // Whoever names an agent as a sender may not know its version.
        if self.agents.get(id).is_some_and(|there| *there == known || (version.is_empty() && there.1 == publisher)) {
            return true;
        }
        if self.agents.len() >= OTHERS_MAX && !self.agents.contains_key(id) {
            return false;
        }
        self.agents.insert(id.to_owned(), known);
        self.revision += 1;
        true
    }

    /// Takes a model, by its name.
    pub(crate) fn take_model(&mut self, name: &str) {
        if self.models.len() < OTHERS_MAX && !self.models.contains_key(name) {
            // What may go to it is decided when it is bound; a policy that asks hears of the least.
            self.models.insert(name.to_owned(), DataLabel::Public);
            self.revision += 1;
        }
    }

    /// Takes a node, by its id.
    pub(crate) fn take_node(&mut self, id: &str) {
        if self.nodes.len() < OTHERS_MAX && self.nodes.insert(id.to_owned()) {
            self.revision += 1;
        }
    }

    /// Takes a tool (`server/tool`) of one agent. Of two with one name what needs more care holds.
    pub(crate) fn take_tool(&mut self, tool: &str, input: Option<&Value>, profile: ToolProfile) {
        let tools = self.tools.len();
        let known = self.tools.get(tool);
        let next = match known {
            None if tools >= althing_policy::TOOLS_MAX => return,
            None => KnownTool { input: input.cloned().unwrap_or_default(), is_ambiguous: false, profile },
            Some(known) => {
                let differs = input.is_some_and(|input| !known.input.is_null() && known.input != *input);
                let is_ambiguous = known.is_ambiguous || differs;
                let input = match input {
                    _ if is_ambiguous => Value::Null,
                    Some(input) => input.clone(),
                    None => known.input.clone(),
                };
                KnownTool { input, is_ambiguous, profile: stricter(known.profile, profile) }
            }
        };
        if known != Some(&next) {
            self.tools.insert(tool.to_owned(), next);
            self.revision += 1;
        }
    }

    /// What policies are checked against.
    pub(crate) fn schema(&self) -> Schema {
        let signature = |(name, tool): (&String, &KnownTool)| {
            let (server, name) = name.split_once('/')?;
            Some((server.to_owned(), name.to_owned(), tool.input.clone()))
        };
        let parts: Vec<_> = self.tools.iter().filter_map(signature).collect();
        let signatures: Vec<ToolSignature<'_>> =
            parts.iter().map(|(server, name, input)| ToolSignature { server, name, input }).collect();
        Schema::new(&signatures)
    }

    /// What policies read of all of it.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let agents = self.agents.iter().map(|(id, (version, publisher))| Entry::Agent {
            id: id.clone(),
            version: version.clone(),
            publisher: Some(publisher.clone()),
        });
        let tools = self.tools.iter().filter_map(|(name, tool)| Some(entry(name.split_once('/')?, tool.profile)));
        let models = self.models.iter().map(|(id, clearance)| Entry::Model { id: id.clone(), clearance: *clearance });
        let nodes = self.nodes.iter().map(|id| Entry::Node { id: id.clone() });
        agents.chain(tools).chain(models).chain(nodes).collect()
    }
}

fn entry((server, name): (&str, &str), profile: ToolProfile) -> Entry {
    Entry::Tool {
        server: server.to_owned(),
        name: name.to_owned(),
        effect: word(profile.effect).to_owned(),
        trusted: profile.trusted,
        label: profile.label.unwrap_or(DataLabel::Confidential),
        clearance: profile.clearance,
        tier: u32::from(profile.tier.unwrap_or(ToolTerms::TIER_MAX)),
    }
}

fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "none",
        Effect::Repeatable => "repeatable",
        Effect::Keyed => "keyed",
        Effect::Final => "final",
    }
}

/// How much care an effect needs.
fn care(effect: Effect) -> u8 {
    match effect {
        Effect::None => 0,
        Effect::Repeatable => 1,
        Effect::Keyed => 2,
        Effect::Final => 3,
    }
}

/// The profile of a tool that two agents have by one name.
fn stricter(one: ToolProfile, other: ToolProfile) -> ToolProfile {
    ToolProfile {
        effect: if care(other.effect) > care(one.effect) { other.effect } else { one.effect },
        trusted: one.trusted && other.trusted,
        label: one.label.zip(other.label).map(|(one, other)| one.max(other)),
        clearance: one.clearance.min(other.clearance),
        tier: one.tier.zip(other.tier).map(|(one, other)| one.max(other)),
        is_stated: one.is_stated || other.is_stated,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_two_tools_with_one_name_what_needs_more_care_holds() {
        let mut tools = Toolset::default();
        let trusted = ToolProfile {
            effect: Effect::None,
            trusted: true,
            label: Some(DataLabel::Internal),
            clearance: DataLabel::Restricted,
            tier: Some(1),
            is_stated: true,
        };
        let schema = json!({ "type": "object", "properties": { "to": { "type": "string" } } });
        tools.take_tool("shop/pay", Some(&schema), trusted);
        assert_eq!(tools.tools["shop/pay"], KnownTool { input: schema.clone(), is_ambiguous: false, profile: trusted });
        let at = tools.revision();
        tools.take_tool("shop/pay", Some(&schema), trusted);
        assert_eq!(tools.revision(), at, "nothing changed");
        tools.take_tool("shop/pay", Some(&json!({})), ToolProfile::default());
        let known = &tools.tools["shop/pay"];
        assert_eq!(
            (known.input.clone(), known.profile.effect, known.profile.clearance),
            (Value::Null, Effect::Final, DataLabel::Public)
        );
        assert!(!known.profile.trusted && known.profile.tier.is_none() && known.profile.label.is_none());
        assert!(tools.revision() > at);
        tools.take_tool("shop/pay", Some(&schema), trusted);
        assert!(tools.tools["shop/pay"].input.is_null(), "it is not the first one's again");
    }

    #[test]
    fn strangers_agents_are_known_up_to_a_bound() {
        let mut tools = Toolset::default();
        for number in 0..OTHERS_MAX {
            assert!(tools.take_other(&format!("a{number}"), "1.0.0", "p"));
        }
        assert!(!tools.take_other("one-more", "1.0.0", "p"));
        assert!(tools.take_other("a0", "1.0.1", "p"), "one that is known may change");
    }
}
