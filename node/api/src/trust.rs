//! Whom the owner trusts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Trusts a node or publisher, or stops to trust it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustRequest {
    /// A node's did:key, or a publisher's urn.
    pub id: String,
    /// Whether it is trusted from now on.
    pub trusted: bool,
}

/// A node or publisher is trusted from now on, or is no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustChange {
    /// Its id, as it was asked for.
    pub id: String,
    /// Whether it is trusted.
    pub trusted: bool,
}

/// Whom the owner trusts beside its own nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustList {
    /// The id of each of them.
    pub trusted: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn who_is_trusted_is_told_by_id() {
        let id = || "did:key:z6Mk".to_owned();
        assert_json(&TrustList { trusted: vec![id()] }, r#"{"trusted":["did:key:z6Mk"]}"#);
        assert_json(&TrustChange { id: id(), trusted: false }, r#"{"id":"did:key:z6Mk","trusted":false}"#);
    }
}
