//! The people whom an owner's node asks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `GET /people` answers, and `POST /people` once they are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeopleReport {
    /// Who uses the node's machine: they answer without a key.
    pub owner: String,
    /// All of them, by name.
    pub people: Vec<PersonEntry>,
}

/// One person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PersonEntry {
    /// As the file calls them.
    pub name: String,
    /// The fingerprints of their keys, as OpenSSH shows them.
    pub keys: Vec<String>,
    /// In which roles they answer.
    pub roles: Vec<String>,
    /// Users and tokens of the gateway that are this person.
    pub users: Vec<String>,
    /// How they are told that something waits for them, in this order: `url`, `command` or `agent`, and where.
    pub reach: Vec<String>,
}

/// What `POST /people` is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeopleText {
    /// The file of people in YAML, 256 KiB at most.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn people_are_told_by_what_they_answer_with() {
        let ada = PersonEntry {
            name: "ada".to_owned(),
            keys: vec!["SHA256:x".to_owned()],
            roles: vec!["auditor".to_owned()],
            users: vec!["maria".to_owned()],
            reach: vec!["agent secretary".to_owned()],
        };
        assert_json(
            &PeopleReport { owner: "owner".to_owned(), people: vec![ada] },
            concat!(
                r#"{"owner":"owner","people":[{"name":"ada","keys":["SHA256:x"],"roles":["auditor"],"users":["maria"],"#,
                r#""reach":["agent secretary"]}]}"#,
            ),
        );
        assert!(serde_json::from_str::<PeopleText>(r#"{"text":"","by":"ada"}"#).is_err());
    }
}
