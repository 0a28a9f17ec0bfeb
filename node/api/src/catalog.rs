//! The tools and models of a node, with what their owner says of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of `GET /catalog`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CatalogQuery {
    /// Only tools and models of this tier, 0 to 9.
    pub tier: Option<u8>,
}

/// What `GET /catalog` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogList {
    /// The tools of each agent that runs, as their servers listed them last.
    pub tools: Vec<CatalogTool>,
    /// The models that agents may be bound to.
    pub models: Vec<CatalogModel>,
}

/// A tool of an agent, which may call it or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogTool {
    /// `server/tool`.
    pub tool: String,
    /// Whose tool it is, by name.
    pub agent: String,
    /// The version of that agent.
    pub version: String,
    /// How much care it needs, 0 to 9; none of what stays within the node.
    pub tier: Option<u8>,
    /// Whether its owner wrote that tier; one that nobody wrote counts as 9.
    pub tier_written: bool,
    /// What it does outside if it is called once more: `none`, `repeatable`, `keyed` or `final`.
    pub effect: String,
    /// Whether what it answers can be relied on.
    pub trusted: bool,
    /// The label of what it answers, if its owner wrote one.
    pub label: Option<String>,
    /// SHA-256 of its definition, hexadecimal, if it is known.
    pub definition: Option<String>,
    /// Why the agent does not call it; none where it does.
    pub why: Option<String>,
}

/// A model that agents may be bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogModel {
    /// Its name in contracts.
    pub name: String,
    /// Its version, if its offer has one.
    pub version: Option<String>,
    /// How much care it needs, 0 to 9.
    pub tier: u8,
    /// Whether its offer has that tier; one that nobody wrote counts as 9.
    pub tier_written: bool,
    /// The strictest label of data that it may be given.
    pub clearance: String,
    /// The longest prompt, tokens, if its offer says it.
    pub context_tokens: Option<u64>,
    /// The price of a million tokens, in millionths of one currency, if its offer says it.
    pub cost: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn tools_and_models_are_told_with_their_tiers() {
        let tool = CatalogTool {
            tool: "shop/order".to_owned(),
            agent: "clerk".to_owned(),
            version: "1.0.0".to_owned(),
            tier: Some(4),
            tier_written: true,
            effect: "final".to_owned(),
            trusted: false,
            label: None,
            definition: Some("0a".to_owned()),
            why: None,
        };
        let model = CatalogModel {
            name: "small".to_owned(),
            version: None,
            tier: 9,
            tier_written: false,
            clearance: "internal".to_owned(),
            context_tokens: Some(8_192),
            cost: None,
        };
        let expected = concat!(
            r#"{"tools":[{"tool":"shop/order","agent":"clerk","version":"1.0.0","tier":4,"tierWritten":true,"#,
            r#""effect":"final","trusted":false,"label":null,"definition":"0a","why":null}],"#,
            r#""models":[{"name":"small","version":null,"tier":9,"tierWritten":false,"clearance":"internal","#,
            r#""contextTokens":8192,"cost":null}]}"#,
        );
        assert_json(&CatalogList { tools: vec![tool], models: vec![model] }, expected);
    }
}
