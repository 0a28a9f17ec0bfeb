//! How far data may go to a tool, and what its results are worth.

use std::collections::BTreeMap;

use althing_protocol::contract::DataLabel;
use serde::{Deserialize, Serialize};

/// What an owner says of a tool beside its effect. What is left out is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolTerms {
    /// Whether what it answers can be relied on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// The label of what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<DataLabel>,
    /// The strictest label of data that it may be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clearance: Option<DataLabel>,
    /// How much care it needs, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    /// Whether agents are given a handle in place of what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hide: Option<bool>,
    /// Whether what it is given gets out of this node, as what is searched for or fetched does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<bool>,
}

impl ToolTerms {
    /// The highest tier.
    pub const TIER_MAX: u8 = 9;

    /// Whether anything is said.
    #[must_use]
    pub fn is_said(&self) -> bool {
        *self != ToolTerms::default()
    }

    /// What one says, and what the other one says besides.
    #[must_use]
    pub fn or(self, other: ToolTerms) -> ToolTerms {
        ToolTerms {
            trusted: self.trusted.or(other.trusted),
            label: self.label.or(other.label),
            clearance: self.clearance.or(other.clearance),
            tier: self.tier.or(other.tier),
            hide: self.hide.or(other.hide),
            leaves: self.leaves.or(other.leaves),
        }
    }

    /// What such a list says of a tool (`server/tool`): of the tool itself, and besides of all tools of its server (`server/*`).
    #[must_use]
    pub fn said(list: &BTreeMap<String, ToolTerms>, tool: &str) -> ToolTerms {
        // It is asked of each call, and most lists say nothing.
        if list.is_empty() {
            return ToolTerms::default();
        }
        let server = tool.split_once('/').map(|(server, _)| format!("{server}/*"));
        let of_server = server.and_then(|server| list.get(&server)).copied().unwrap_or_default();
        list.get(tool).copied().unwrap_or_default().or(of_server)
    }
}
