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
    /// Who must agree that bodies of the audit log end before their time; nobody but the owner where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<SignOffNeed>,
}

/// How many people must agree, and in which role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignOffNeed {
    /// As the file calls it.
    pub role: String,
    /// At least so many others than the owner.
    pub count: u8,
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
            &PeopleReport { owner: "owner".to_owned(), people: vec![ada], prune: None },
            concat!(
                r#"{"owner":"owner","people":[{"name":"ada","keys":["SHA256:x"],"roles":["auditor"],"users":["maria"],"#,
                r#""reach":["agent secretary"]}]}"#,
            ),
        );
        assert!(serde_json::from_str::<PeopleText>(r#"{"text":"","by":"ada"}"#).is_err());
    }
}
