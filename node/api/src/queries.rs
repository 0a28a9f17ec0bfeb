//! What is asked after the `?` of a path: how something is read.

use althing_protocol::contract::Grade;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of `GET /groups/{group}/value`. A key may be any text, also `..`, which no path keeps.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueQuery {
    /// Which value, by its key.
    pub key: String,
    /// As it has arrived here, without asking the leader.
    #[serde(default)]
    pub stale: bool,
}

/// Of `GET /groups/{group}/values`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeysQuery {
    /// Only keys that begin so.
    pub prefix: String,
    /// As they have arrived here, without asking the leader.
    pub stale: bool,
}

/// Of lists of tasks and of runs.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListQuery {
    /// Those that ended too.
    pub finished: bool,
}

/// Of `GET /groups/{group}/tasks/{task}`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskQuery {
    /// Also what each member lacks for it; known at the leader.
    pub explain: bool,
}

/// Of `GET /memory/{namespace}/passages`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PassagesQuery {
    /// The question that they are to resemble.
    pub question: String,
    /// Maximum number of passages.
    pub most: usize,
}

/// Of `GET /memory/{namespace}/entry`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryQuery {
    /// A passage's id, or a key.
    pub what: String,
}

/// Of `GET /find`. Every member that is given must hold.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FindQuery {
    /// A capability's id, such as `billing.view`; `billing.*` matches all that begin with `billing.`. With `@RANGE` after it,
    /// such as `billing.view@^1.2`, only versions in that range, the highest first.
    pub capability: Option<String>,
    /// What is done.
    pub action: Option<String>,
    /// What it is done to.
    pub target: Option<String>,
    /// Free text, by which results are ranked.
    pub text: Option<String>,
    /// Highest load of the node, 0 to 1.
    pub max_load: Option<f32>,
    /// The least grade of the node's machine; A is the best.
    #[schemars(with = "Option<String>")]
    pub min_grade: Option<Grade>,
    /// How many results at most.
    pub limit: Option<usize>,
    /// Whether registries are told who searches, and find what is for the owner alone.
    pub signed_in: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_said_is_left_open() {
        let nothing: FindQuery = serde_json::from_value(json!({})).expect("nothing must be said");
        assert!(nothing.capability.is_none() && nothing.min_grade.is_none() && !nothing.signed_in);
        let keys: KeysQuery = serde_json::from_value(json!({ "stale": true })).expect("all keys");
        assert!(keys.prefix.is_empty() && keys.stale);
        assert!(serde_json::from_value::<PassagesQuery>(json!({ "most": 3 })).is_err(), "a search has a question");
    }

    #[test]
    fn a_parameter_that_nobody_knows_is_refused() {
        let other = || json!({ "verbose": "true" });
        assert!(serde_json::from_value::<ValueQuery>(json!({ "key": "a", "verbose": "true" })).is_err());
        assert!(serde_json::from_value::<EntryQuery>(json!({ "what": "a", "verbose": "true" })).is_err());
        assert!(serde_json::from_value::<KeysQuery>(other()).is_err());
        assert!(serde_json::from_value::<ListQuery>(other()).is_err());
        assert!(serde_json::from_value::<TaskQuery>(other()).is_err());
        assert!(serde_json::from_value::<FindQuery>(other()).is_err());
    }
}
