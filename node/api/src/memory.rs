//! Agents' memory.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An operation on a memory namespace.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum MemoryRequest {
    /// Stores a text of a source.
    Add {
        /// The source's name.
        source: String,
        /// The text.
        text: String,
    },
    /// Deletes a source, a passage's source, or a key.
    Forget {
        /// A source, a passage's id, or a key.
        what: String,
    },
}

/// All namespaces of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryNamespaces {
    /// Each of them.
    pub namespaces: Vec<MemoryNamespace>,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryNamespace {
    /// Its name.
    pub namespace: String,
    /// The agent that owns it.
    pub owner: String,
    /// Other agents that may use it.
    pub share_with: Vec<String>,
    /// Seconds after which a row expires; none: never.
    pub retention_s: Option<u64>,
    /// The quota, bytes.
    pub quota_bytes: u64,
    /// The secret that encrypts it, if one does.
    pub encryption_secret: Option<String>,
    /// The name of the embedder of its vectors.
    pub embedder: String,
}

/// A namespace was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryRemoval {
    /// Its name.
    pub removed: String,
}

/// What an operation on a namespace answers: each has its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MemoryReply {
    /// Of `add`.
    Source(MemorySource),
    /// Of `forget`.
    Deletion(MemoryDeletion),
}

/// A source was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySource {
    /// Its name.
    pub source: String,
    /// How many passages it has.
    pub passages: usize,
}

/// Passages that resemble a question, the best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPassages {
    /// Each of them.
    pub passages: Vec<MemoryPassage>,
}

/// A passage of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryPassage {
    /// Its id, by which it is cited.
    pub id: String,
    /// Its source.
    pub source: String,
    /// SHA-256 of the whole source, hexadecimal.
    pub source_hash: String,
    /// Its index in the source, from 0.
    pub place: u32,
    /// When it was stored, milliseconds since 1970.
    pub kept_ms: u64,
    /// How much it resembles the question, 0 to 1; 1 if it was read by its id.
    pub likeness: f64,
    /// Its text.
    pub text: String,
}

/// What is under an id or a key, or was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MemoryEntry {
    /// The passage of that id.
    Passage(MemoryPassage),
    /// The value of that key.
    Value(MemoryValue),
    /// Nothing any more.
    Tombstone(MemoryTombstone),
}

/// A value under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryValue {
    /// The key.
    pub key: String,
    /// The value; what is no UTF-8 in it is replaced.
    pub value: String,
}

/// What was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryTombstone {
    /// Its id or key.
    pub gone: String,
    /// Why.
    pub why: MemoryLoss,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// Why something is in a memory no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MemoryLoss {
    /// Somebody deleted it.
    Forgotten,
    /// It was older than its namespace keeps things.
    Expired,
}

impl MemoryLoss {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoryLoss::Forgotten => "forgotten",
            MemoryLoss::Expired => "expired",
        }
    }
}

/// What was deleted on request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryDeletion {
    /// What was asked to be deleted.
    pub forgotten: String,
    /// How many passages that were; 0 if it was a key.
    pub passages: usize,
}

/// What a namespace holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryContent {
    /// Bytes of all of it.
    pub bytes: u64,
    /// The sources, each with how many passages it has.
    pub sources: BTreeMap<String, usize>,
    /// The keys.
    pub keys: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn passage(likeness: f64) -> MemoryPassage {
        MemoryPassage {
            id: "3f2a".to_owned(),
            source: "rules.txt".to_owned(),
            source_hash: "9c0d".to_owned(),
            place: 2,
            kept_ms: 1_700_000_000_000,
            likeness,
            text: "A cat pays nothing.".to_owned(),
        }
    }

    #[test]
    fn namespaces_are_told_with_what_they_do_not_have() {
        let plain = MemoryNamespace {
            namespace: "clerk".to_owned(),
            owner: "clerk".to_owned(),
            share_with: Vec::new(),
            retention_s: None,
            quota_bytes: 4_096,
            encryption_secret: None,
            embedder: "words".to_owned(),
        };
        let secret = MemoryNamespace {
            share_with: vec!["helper".to_owned()],
            retention_s: Some(60),
            encryption_secret: Some("KEY".to_owned()),
            ..plain.clone()
        };
        assert_json(
            &MemoryNamespaces { namespaces: vec![plain, secret] },
            concat!(
                r#"{"namespaces":[{"namespace":"clerk","owner":"clerk","shareWith":[],"retentionS":null,"quotaBytes":4096,"#,
                r#""encryptionSecret":null,"embedder":"words"},{"namespace":"clerk","owner":"clerk","shareWith":["helper"],"#,
                r#""retentionS":60,"quotaBytes":4096,"encryptionSecret":"KEY","embedder":"words"}]}"#,
            ),
        );
        assert_json(&MemoryRemoval { removed: "clerk".to_owned() }, r#"{"removed":"clerk"}"#);
    }

    #[test]
    fn each_operation_has_its_own_reply() {
        assert_json(&MemorySource { source: "a.txt".to_owned(), passages: 3 }, r#"{"source":"a.txt","passages":3}"#);
        let passages = MemoryPassages { passages: vec![passage(f64::from(0.9_f32))] };
        assert_json(
            &passages,
            concat!(
                r#"{"passages":[{"id":"3f2a","source":"rules.txt","sourceHash":"9c0d","place":2,"keptMs":1700000000000,"#,
                r#""likeness":0.8999999761581421,"text":"A cat pays nothing."}]}"#,
            ),
        );
        let deletion = MemoryDeletion { forgotten: "a.txt".to_owned(), passages: 3 };
        assert_json(&deletion, r#"{"forgotten":"a.txt","passages":3}"#);
        let sources = [("b.txt".to_owned(), 1), ("a.txt".to_owned(), 3)].into_iter().collect();
        let content = MemoryContent { bytes: 812, sources, keys: vec!["last".to_owned()] };
        assert_json(&content, r#"{"bytes":812,"sources":{"a.txt":3,"b.txt":1},"keys":["last"]}"#);
        let reply = serde_json::to_string(&MemoryReply::Deletion(deletion)).expect("a reply is JSON");
        assert_eq!(reply, r#"{"forgotten":"a.txt","passages":3}"#);
    }

    #[test]
    fn what_is_shown_is_a_passage_a_value_or_what_became_of_it() {
        assert_json(
            &MemoryEntry::Passage(passage(1.0)),
            concat!(
                r#"{"id":"3f2a","source":"rules.txt","sourceHash":"9c0d","place":2,"keptMs":1700000000000,"likeness":1.0,"#,
                r#""text":"A cat pays nothing."}"#,
            ),
        );
        let value = MemoryValue { key: "last".to_owned(), value: "7".to_owned() };
        assert_json(&MemoryEntry::Value(value), r#"{"key":"last","value":"7"}"#);
        for (why, word) in [(MemoryLoss::Forgotten, "forgotten"), (MemoryLoss::Expired, "expired")] {
            let gone = MemoryTombstone { gone: "3f2a".to_owned(), why, at_ms: 1_700_000_000_000 };
            let json = format!(r#"{{"gone":"3f2a","why":"{word}","atMs":1700000000000}}"#);
            assert_json(&MemoryEntry::Tombstone(gone), &json);
            assert_eq!(why.name(), word);
        }
    }
}
