//! `[[tools]]`: what the node's owner says of tools, whichever agents have them.

use std::collections::{BTreeMap, BTreeSet};

use althing_td::Effect;
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
    pub effect: Effect,
}

/// Checks a list of them.
pub fn check(tools: &[ToolProfile]) -> Result<(), String> {
    if tools.len() > TOOLS_MAX {
        return Err(format!("`tools` has {} entries, and {TOOLS_MAX} is the most", tools.len()));
    }
    let mut seen = BTreeSet::new();
    for ToolProfile { name, effect } in tools {
        let parts = name.split_once('/').filter(|(server, tool)| {
            !server.is_empty()
                && !server.contains('*')
                && (1..=TOOL_CHARS_MAX).contains(&tool.chars().count())
                && (*tool == "*" || !tool.contains('*'))
        });
        let Some((server, _)) = parts else {
            return Err(format!("`tools` has {name:?}; a tool is named server/tool, and server/* is all of a server"));
        };
        if server == AGENTS && *effect != Effect::Keyed {
            return Err(format!("`tools` has {name:?}, which is the node's own: of an agent only `keyed` can be said"));
        }
        if OWN.contains(&server) {
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
    tools.iter().map(|tool| (tool.name.clone(), tool.effect)).collect()
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
        for (text, told) in [
            (entry("shop", "keyed"), "server/tool"),
            (entry("shop/or*", "keyed"), "server/tool"),
            (entry("*/order", "keyed"), "server/tool"),
            (entry("agents/*", "final"), "the node's own"),
            (entry("agents/far", "none"), "only `keyed`"),
            (entry("session/note", "final"), "the node's own"),
            (entry("a/b", "none") + &entry("a/b", "final"), "twice"),
            (entry("a/b", "idempotent"), "idempotent"),
            ("[[tools]]\nname = \"a/b\"\n".to_owned(), "effect"),
        ] {
            let refused = Config::parse(&text).expect_err("it is refused");
            assert!(refused.contains(told), "{text}: {refused}");
        }
    }
}
