//! What a tool does outside, as far as it matters when a call of it was cut off.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What it does outside if a tool is called once more with the same arguments. Its owner says so; what a server says of its own
/// tools is not relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// `none`: it changes nothing.
    None,
    /// `repeatable`: two calls leave what one leaves.
    Repeatable,
    /// `keyed`: its server does once what it is told twice with one key.
    Keyed,
    /// `final`: a second call would do it a second time.
    #[default]
    Final,
}

impl Effect {
    /// All words, in the order in which more care is needed.
    pub const WORDS: [&'static str; 4] = ["none", "repeatable", "keyed", "final"];

    /// The effect of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Effect> {
        match word {
            "none" => Some(Effect::None),
            "repeatable" => Some(Effect::Repeatable),
            "keyed" => Some(Effect::Keyed),
            "final" => Some(Effect::Final),
            _ => None,
        }
    }

    /// What is said of a tool (`server/tool`) in such a list: of the tool itself, or else of all tools of its server
    /// (`server/*`).
    #[must_use]
    pub fn said(list: &BTreeMap<String, Effect>, tool: &str) -> Option<Effect> {
        let of_server = || {
            let (server, _) = tool.split_once('/').filter(|_| !list.is_empty())?;
            list.get(&format!("{server}/*"))
        };
        list.get(tool).or_else(of_server).copied()
    }
}
