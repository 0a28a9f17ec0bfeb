//! The owner's keys, the tokens of the gateway, and keys of private networks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The keys of the node's owner, with what became of those before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnerKeys {
    /// The owner's id.
    pub owner: String,
    /// The name of the present key.
    pub key: String,
    /// `active`, `rotating` while the old key is accepted too, or `revoked`.
    pub state: String,
    /// What became of the keys, the oldest first.
    pub events: Vec<KeyEvent>,
    /// Whether the next key is on the node's machine.
    pub next_key_here: bool,
    /// The nodes from which the owner took back what it let them do.
    pub withdrawn: Vec<NodeWithdrawal>,
}

/// What became of the owner's keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyEvent {
    /// `inception`, `rotation` or `revocation`.
    pub change: String,
    /// The name of the key from then on.
    pub key: String,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// Until when the key before is accepted too, milliseconds since 1970.
    pub old_key_until_ms: Option<u64>,
}

/// What the owner took back from a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeWithdrawal {
    /// The node, by its DID.
    pub node: String,
    /// Its memberships and grants of until then are withdrawn, milliseconds since 1970.
    pub until_ms: u64,
}

/// Lets the next key take over, which must be on the node's machine.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateRequest {
    /// How long the old key is accepted too, minutes, at most 1,440; 0 when it was stolen.
    pub overlap_minutes: u64,
}

/// Ends the owner's identity for ever.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// The owner's id, which confirms that this owner is meant.
    pub owner: String,
}

/// Takes back what a node was let do.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
    /// The node, by its DID.
    pub node: String,
}

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenScope {
    /// Look for agents, and read what describes them.
    Read,
    /// Call agents, and see the tasks that come of it.
    Call,
    /// Everything, the figures of the node included.
    Admin,
}

impl TokenScope {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TokenScope::Read => "read",
            TokenScope::Call => "call",
            TokenScope::Admin => "admin",
        }
    }
}

/// Makes a token of the gateway.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddToken {
    /// Who holds it: tasks belong to that name.
    pub name: String,
    /// What its holder may do.
    pub scopes: Vec<TokenScope>,
    /// The agents that its holder may call, by name or id; without one, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenAddition {
    /// Who holds it.
    pub name: String,
    /// The token, which is shown this once.
    pub token: String,
}

/// The tokens of the gateway, without what they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenList {
    /// Each of them.
    pub tokens: Vec<TokenSummary>,
}

/// A token, without what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenSummary {
    /// Who holds it.
    pub name: String,
    /// What its holder may do: `read`, `call`, `admin`, or what a newer version knows.
    pub scopes: Vec<String>,
    /// The agents that its holder may call; none: all.
    pub agents: Vec<String>,
}

/// A token was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenRemoval {
    /// Who held it.
    pub removed: String,
    /// How many there are still. After the last one the gateway stays closed.
    pub left: usize,
}

/// Opens the gateway to everybody on this machine again, once all tokens are taken back: nothing is said of how.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenGateway {}

/// The gateway was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayOpening {
    /// Whether it is.
    pub open: bool,
}

/// Makes a key of a private network: nothing is said of it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeNetworkKey {}

/// A new key of a private network. The node goes on with its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkKeyAddition {
    /// What tells whether two files hold the same key; it gives nothing away.
    pub mark: String,
    /// The text of its file, which is brought to each node of the network; it is stored nowhere.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn keys_are_told_with_what_became_of_them() {
        let began =
            KeyEvent { change: "inception".to_owned(), key: "z6Mk".to_owned(), at_ms: 7, old_key_until_ms: None };
        let withdrawal = NodeWithdrawal { node: "did:key:z6Mb".to_owned(), until_ms: 9 };
        let keys = OwnerKeys {
            owner: "zQm".to_owned(),
            key: "z6Mk".to_owned(),
            state: "active".to_owned(),
            events: vec![began],
            next_key_here: true,
            withdrawn: vec![withdrawal],
        };
        assert_json(
            &keys,
            concat!(
                r#"{"owner":"zQm","key":"z6Mk","state":"active","#,
                r#""events":[{"change":"inception","key":"z6Mk","atMs":7,"oldKeyUntilMs":null}],"nextKeyHere":true,"#,
                r#""withdrawn":[{"node":"did:key:z6Mb","untilMs":9}]}"#,
            ),
        );
    }

    #[test]
    fn tokens_are_listed_without_what_they_are() {
        let summary = TokenSummary { name: "maria".to_owned(), scopes: vec!["read".to_owned()], agents: Vec::new() };
        let list = TokenList { tokens: vec![summary] };
        assert_json(&list, r#"{"tokens":[{"name":"maria","scopes":["read"],"agents":[]}]}"#);
        assert_json(&TokenRemoval { removed: "maria".to_owned(), left: 0 }, r#"{"removed":"maria","left":0}"#);
        for scope in [TokenScope::Read, TokenScope::Call, TokenScope::Admin] {
            assert_json(&scope, &format!("{:?}", scope.name()));
        }
    }
}
