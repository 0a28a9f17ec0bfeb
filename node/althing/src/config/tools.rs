//! `[[tools]]`: what the node's owner says of tools, whichever agents have them.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::contract::DataLabel;
use althing_td::{Effect, ToolTerms};
use serde::{Deserialize, Serialize};

/// Entries of the list.
const TOOLS_MAX: usize = 256;
/// Characters of the name of a tool, beside its server's.
const TOOL_CHARS_MAX: usize = 128;
/// Servers of the node itself, whose tools have an effect that nobody chooses.
const OWN: [&str; 4] = ["groups", "memory", "mesh", "session"];
/// Other agents: the owner may know of one that it does once what it is told twice with one key.
const AGENTS: &str = "agents";

/// What is said of one tool, or of all tools of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolProfile {
    /// `server/tool`, or `server/*`.
    pub name: String,
    /// What it does outside if it is called once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Whether what it answers can be relied on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// The label of what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<DataLabel>,
    /// The strictest label of data that it may be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clearance: Option<DataLabel>,
    /// How much care it needs, 0 to 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    /// Whether agents are given a handle in place of what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hide: Option<bool>,
    /// Whether what it is given gets out of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<bool>,
}

impl ToolProfile {
    /// What is said beside the effect.
    pub fn terms(&self) -> ToolTerms {
        let ToolProfile { trusted, label, clearance, tier, hide, leaves, .. } = *self;
        ToolTerms { trusted, label, clearance, tier, hide, leaves }
    }
}

/// Checks a list of them.
pub fn check(tools: &[ToolProfile]) -> Result<(), String> {
    if tools.len() > TOOLS_MAX {
        return Err(format!("`tools` has {} entries, and {TOOLS_MAX} is the most", tools.len()));
    }
    let mut seen = BTreeSet::new();
    for profile in tools {
        let ToolProfile { name, effect, .. } = profile;
        let parts = name.split_once('/').filter(|(server, tool)| {
            !server.is_empty()
                && !server.contains('*')
                && (1..=TOOL_CHARS_MAX).contains(&tool.chars().count())
                && (*tool == "*" || !tool.contains('*'))
        });
        let Some((server, _)) = parts else {
            return Err(format!("`tools` has {name:?}; a tool is named server/tool, and server/* is all of a server"));
        };
        if effect.is_none() && !profile.terms().is_said() {
            return Err(format!(
                "`tools` has {name:?} and says nothing of it; add effect, trusted, label, clearance, tier, hide or leaves"
            ));
        }
        if profile.tier.is_some_and(|tier| tier > ToolTerms::TIER_MAX) {
            let most = ToolTerms::TIER_MAX;
            return Err(format!("`tools` has {name:?} with a tier above {most}; choose 0 to {most}"));
        }
        if server == AGENTS && effect.is_some_and(|effect| effect != Effect::Keyed) {
            return Err(format!("`tools` has {name:?}, which is the node's own: of an agent only `keyed` can be said"));
        }
        if OWN.contains(&server) && effect.is_some() {
            return Err(format!("`tools` has {name:?}, which is the node's own: its effect is known, leave it out"));
        }
        if !seen.insert(name) {
            return Err(format!("`tools` has {name:?} twice; keep one of them"));
        }
    }
    Ok(())
}

/// Their effects, by name.
pub fn effects(tools: &[ToolProfile]) -> BTreeMap<String, Effect> {
    tools.iter().filter_map(|tool| Some((tool.name.clone(), tool.effect?))).collect()
}

/// What else is said of them, by name.
pub fn profiles(tools: &[ToolProfile]) -> BTreeMap<String, ToolTerms> {
    let said = tools.iter().map(|tool| (tool.name.clone(), tool.terms()));
    said.filter(|(_, terms)| terms.is_said()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn tools_are_named_with_their_servers_and_have_one_effect_each() {
        let entry = |name: &str, effect: &str| format!("[[tools]]\nname = \"{name}\"\neffect = \"{effect}\"\n");
        let two = entry("shop/search", "repeatable") + &entry("shop/*", "keyed");
        let config = Config::parse(&two).expect("a configuration");
        let all = effects(&config.tools);
        let said = |tool: &str| Effect::said(&all, tool);
        let found = [Some(Effect::Repeatable), Some(Effect::Keyed), None];
        assert_eq!(["shop/search", "shop/order", "shops/order"].map(said), found);
        let far = Config::parse(&entry("agents/far", "keyed")).expect("an agent that compares ids");
        assert_eq!(Effect::said(&effects(&far.tools), "agents/far"), Some(Effect::Keyed));
        let own = "[[tools]]\nname = \"mesh/*\"\ntrusted = true\nclearance = \"restricted\"\ntier = 1\nhide = false\nleaves = true\n";
        let config = Config::parse(own).expect("only their effect is known");
        let profile = &config.tools[0];
        let (trusted, clearance) = (Some(true), Some(DataLabel::Restricted));
        let (hide, leaves) = (Some(false), Some(true));
        let terms = ToolTerms { trusted, label: None, clearance, tier: Some(1), hide, leaves };
        assert_eq!((profile.terms(), profile.effect), (terms, None));
        assert_eq!(profiles(&config.tools), BTreeMap::from([("mesh/*".to_owned(), terms)]));
        assert_eq!(profiles(&far.tools), BTreeMap::new(), "of that only the effect is said");
        for (text, told) in [
            (entry("shop", "keyed"), "server/tool"),
            (entry("shop/or*", "keyed"), "server/tool"),
            (entry("*/order", "keyed"), "server/tool"),
            (entry("agents/*", "final"), "the node's own"),
            (entry("agents/far", "none"), "only `keyed`"),
            (entry("session/note", "final"), "the node's own"),
            (entry("a/b", "none") + &entry("a/b", "final"), "twice"),
            (entry("a/b", "idempotent"), "idempotent"),
            ("[[tools]]\nname = \"a/b\"\ntier = 10\n".to_owned(), "tier"),
            ("[[tools]]\nname = \"a/b\"\nclearance = \"secret\"\n".to_owned(), "secret"),
            ("[[tools]]\nname = \"a/b\"\n".to_owned(), "effect"),
        ] {
            let refused = Config::parse(&text).expect_err("it is refused");
            assert!(refused.contains(told), "{text}: {refused}");
        }
    }
}
