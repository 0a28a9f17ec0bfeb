//! What the tools of an agent do outside, if they are called once more.

use std::collections::BTreeMap;

use althing_td::Effect;

/// What is said of the tools of an agent's servers, by `server/tool` or `server/*`.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// What the node says of tools.
    pub node: BTreeMap<String, Effect>,
    /// What the agent file says of them, where the node says nothing.
    pub file: BTreeMap<String, Effect>,
}

impl Effects {
    /// What is said of a tool, if anything is.
    pub fn said(&self, tool: &str) -> Option<Effect> {
        Effect::said(&self.node, tool).or_else(|| Effect::said(&self.file, tool))
    }

    /// What is said of a tool, or else that it is final.
    pub fn of(&self, tool: &str) -> Effect {
        self.said(tool).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_goes_before_the_agent_file_and_what_nobody_tells_is_final() {
        let list = |all: &[(&str, Effect)]| all.iter().map(|(name, effect)| ((*name).to_owned(), *effect)).collect();
        let effects = Effects {
            node: list(&[("shop/order", Effect::Keyed), ("mail/*", Effect::Final)]),
            file: list(&[("shop/*", Effect::Repeatable), ("shop/order", Effect::None), ("mail/send", Effect::None)]),
        };
        let of = ["shop/order", "shop/search", "mail/send", "files/read", "files"].map(|name| effects.of(name));
        assert_eq!(of, [Effect::Keyed, Effect::Repeatable, Effect::Final, Effect::Final, Effect::Final]);
    }
}
