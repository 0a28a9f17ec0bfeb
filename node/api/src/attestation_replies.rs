//! What operations on attestations answer, and all that is known of a release.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ThingForm;

/// What somebody found of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attestation {
    /// What kind of finding: `audit`.
    pub name: String,
    /// The urn of who found it.
    pub by: String,
    /// Of which version; none: of all.
    pub version: Option<String>,
    /// The finding, as its signer wrote it.
    pub finding: Value,
    /// When the registry accepted it, milliseconds since 1970.
    pub accepted_ms: u64,
    /// Until when it is in force, milliseconds since 1970.
    pub until_ms: u64,
}

/// What the owner attested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttestationStatement {
    /// The agent's urn.
    pub agent: String,
    /// Of which version.
    pub version: String,
    /// What kind of finding: `audit`.
    pub name: String,
    /// The finding, as it was given; null takes back what was found before.
    pub finding: Value,
    /// The registry's address.
    pub registry: String,
    /// The digest of the content that it is of, hexadecimal.
    pub content: Option<String>,
}

/// A release, with what was found of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseDetails {
    /// The agent's urn.
    pub agent: String,
    /// Which version: `1.2.0`.
    pub version: String,
    /// The registry's address.
    pub registry: String,
    /// `good`, `deprecated`, `yanked` or `revoked`.
    pub standing: String,
    /// Why, if a mark says so.
    pub reason: Option<String>,
    /// When the registry accepted it, milliseconds since 1970.
    pub accepted_ms: u64,
    /// The digest of its bundle, or of its description where it has none: hexadecimal.
    pub content: String,
    /// Bytes of what it runs from; none: there is nothing to install.
    pub bundle_bytes: Option<u64>,
    /// Whether it is a workflow, and no agent or Thing.
    pub is_workflow: bool,
    /// Its Thing Description, as its publisher signed it.
    pub description: Value,
    /// Where what it offers is asked.
    pub forms: Vec<ThingForm>,
    /// The urns of agents of others that were there before, and whose names look like its own.
    pub twins: Vec<String>,
    /// What was found of it.
    pub attested: Vec<Attestation>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::golden::assert_json;

    fn own(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn what_the_owner_attests_is_told_with_what_it_is_of() {
        let statement = AttestationStatement {
            agent: own("urn:p:echo"),
            version: own("1.0.0"),
            name: own("audit"),
            finding: json!({ "passed": true, "at": 1.5 }),
            registry: own("http://r/"),
            content: Some(own("0f")),
        };
        let json = concat!(
            r#"{"agent":"urn:p:echo","version":"1.0.0","name":"audit","finding":{"passed":true,"at":1.5},"#,
            r#""registry":"http://r/","content":"0f"}"#,
        );
        assert_json(&statement, json);
        let back = AttestationStatement { finding: Value::Null, content: None, ..statement };
        let json = concat!(
            r#"{"agent":"urn:p:echo","version":"1.0.0","name":"audit","finding":null,"registry":"http://r/","#,
            r#""content":null}"#,
        );
        assert_json(&back, json);
    }

    #[test]
    fn a_release_is_told_with_its_description_and_what_was_found_of_it() {
        let found = Attestation {
            name: own("audit"),
            by: own("urn:q"),
            version: Some(own("1.0.0")),
            finding: json!(true),
            accepted_ms: 5,
            until_ms: 9,
        };
        let all = Attestation { version: None, finding: Value::Null, ..found.clone() };
        let form = ThingForm { of: own("actions/on"), href: json!("http://x/on"), op: Value::Null };
        let whole = ReleaseDetails {
            agent: own("urn:p:echo"),
            version: own("1.0.0"),
            registry: own("http://r/"),
            standing: own("yanked"),
            reason: Some(own("it forgets")),
            accepted_ms: 4,
            content: own("0f"),
            bundle_bytes: Some(7),
            is_workflow: true,
            description: json!({ "title": "Echo", "@type": "althing:Workflow" }),
            forms: vec![form],
            twins: vec![own("urn:q:ech0")],
            attested: vec![found, all],
        };
        let json = concat!(
            r#"{"agent":"urn:p:echo","version":"1.0.0","registry":"http://r/","standing":"yanked","#,
            r#""reason":"it forgets","acceptedMs":4,"content":"0f","bundleBytes":7,"isWorkflow":true,"#,
            r#""description":{"title":"Echo","@type":"althing:Workflow"},"#,
            r#""forms":[{"of":"actions/on","href":"http://x/on","op":null}],"twins":["urn:q:ech0"],"#,
            r#""attested":[{"name":"audit","by":"urn:q","version":"1.0.0","finding":true,"acceptedMs":5,"untilMs":9},"#,
            r#"{"name":"audit","by":"urn:q","version":null,"finding":null,"acceptedMs":5,"untilMs":9}]}"#,
        );
        assert_json(&whole, json);
        let bare = ReleaseDetails {
            standing: own("good"),
            reason: None,
            bundle_bytes: None,
            is_workflow: false,
            description: json!({}),
            forms: Vec::new(),
            twins: Vec::new(),
            attested: Vec::new(),
            ..whole
        };
        let json = concat!(
            r#"{"agent":"urn:p:echo","version":"1.0.0","registry":"http://r/","standing":"good","reason":null,"#,
            r#""acceptedMs":4,"content":"0f","bundleBytes":null,"isWorkflow":false,"description":{},"forms":[],"#,
            r#""twins":[],"attested":[]}"#,
        );
        assert_json(&bare, json);
    }
}
