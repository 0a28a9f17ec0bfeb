//! Requests about registries.

use althing_td::Callers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Folder;

/// Follows a registry.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddRegistry {
    /// Its address.
    pub url: String,
    /// The key of its log, as its operator gave it.
    pub key: String,
    /// The keys of witnesses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<String>,
    /// How many of them must have cosigned what is believed; all if that is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<usize>,
}

/// Releases an agent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishRequest {
    /// The folder of its file.
    pub folder: Folder,
    /// The name of the agent file, the workflow file, or the description of a Thing, in that folder.
    pub file: String,
    /// Further files below the folder that the agent needs, as paths relative to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// For whom it is: `public`, `organisation`, or ids of publishers separated by commas; by default public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Changes the standing of a release.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkRequest {
    /// The agent: its id, or the name of one of the owner's.
    pub agent: String,
    /// The version.
    pub version: String,
    /// `good`, `deprecated`, `yanked` or `revoked`.
    pub standing: String,
    /// Why, for people; may be empty.
    pub reason: String,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// How newer releases of what was installed come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UpdateRule {
    /// Whoever owns the node asks for each of them.
    #[default]
    Asked,
    /// Each of them begins a rollout by itself, unless it may do more than the release before.
    Rollout,
}

/// Says how newer releases come from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateRuleRequest {
    /// How they come.
    pub update: UpdateRule,
}

/// Looks at a release, or installs it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(from = "InstallMembers")]
#[schemars(!from, deny_unknown_fields)]
pub struct InstallRequest {
    /// The agent's id, with a range or version after `@`.
    pub reference: String,
    /// The agent's name here; by default its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who may call it.
    #[schemars(with = "Value")]
    pub callers: Callers,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// How newer releases come.
    #[serde(default)]
    pub update: UpdateRule,
    /// What will do, and what was agreed to.
    #[serde(flatten)]
    pub terms: InstallTerms,
}

/// Looks for an update of an installed agent, or makes it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(from = "UpdateMembers")]
#[schemars(!from, deny_unknown_fields)]
pub struct UpdateRequest {
    /// The agent's name here.
    pub name: String,
    /// What will do, and what was agreed to.
    #[serde(flatten)]
    pub terms: InstallTerms,
}

/// Which release will do, and which one was agreed to: of an installation, and of an update.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstallTerms {
    /// Whether a young release of a publisher that is not trusted will do.
    #[serde(default)]
    pub young: bool,
    /// Whether its programs may run without a sandbox, or in a folder outside of the release.
    #[serde(default)]
    pub uncontained: bool,
    /// The id of the publisher whose it must be: where a name led to another one's before, that one must be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// The digest of the release that was agreed to, hexadecimal; without one nothing is installed or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<String>,
}

/// The members of an [`InstallRequest`] as they are read: what nobody knows is refused first only where nothing is flattened.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InstallMembers {
    reference: String,
    name: Option<String>,
    callers: Callers,
    registry: Option<String>,
    #[serde(default)]
    update: UpdateRule,
    #[serde(default)]
    young: bool,
    #[serde(default)]
    uncontained: bool,
    publisher: Option<String>,
    agreed: Option<String>,
}

impl From<InstallMembers> for InstallRequest {
    fn from(members: InstallMembers) -> InstallRequest {
        let InstallMembers { reference, name, callers, registry, update, young, uncontained, publisher, agreed } =
            members;
        let terms = InstallTerms { young, uncontained, publisher, agreed };
        InstallRequest { reference, name, callers, registry, update, terms }
    }
}

/// The members of an [`UpdateRequest`] as they are read, for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateMembers {
    name: String,
    #[serde(default)]
    young: bool,
    #[serde(default)]
    uncontained: bool,
    publisher: Option<String>,
    agreed: Option<String>,
}

impl From<UpdateMembers> for UpdateRequest {
    fn from(members: UpdateMembers) -> UpdateRequest {
        let UpdateMembers { name, young, uncontained, publisher, agreed } = members;
        UpdateRequest { name, terms: InstallTerms { young, uncontained, publisher, agreed } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_of_an_installation_are_members_of_the_request() {
        let terms = InstallTerms { young: true, agreed: Some("0f".to_owned()), ..InstallTerms::default() };
        let update = UpdateRequest { name: "echo".to_owned(), terms: terms.clone() };
        let json = r#"{"name":"echo","young":true,"uncontained":false,"agreed":"0f"}"#;
        assert_eq!(serde_json::to_string(&update).expect("a request is JSON"), json);
        let bare: UpdateRequest = serde_json::from_str(r#"{"name":"echo"}"#).expect("a request");
        assert_eq!(bare.terms, InstallTerms::default(), "nothing is agreed to without a word");
        let json = r#"{"reference":"urn:p:echo@^1","callers":"this-node","young":true,"agreed":"0f"}"#;
        let install: InstallRequest = serde_json::from_str(json).expect("a request");
        assert_eq!((install.terms, install.registry, install.update), (terms, None, UpdateRule::Asked));
        let json = r#"{"reference":"urn:p:echo@^1","callers":"this-node","update":"rollout"}"#;
        let install: InstallRequest = serde_json::from_str(json).expect("a request");
        assert_eq!(install.update, UpdateRule::Rollout);
    }

    #[test]
    fn a_member_of_an_installation_that_nobody_knows_is_refused() {
        let known = r#""reference":"urn:p:echo@^1","callers":"this-node","young":true"#;
        assert!(serde_json::from_str::<InstallRequest>(&format!("{{{known}}}")).is_ok());
        let why = serde_json::from_str::<InstallRequest>(&format!(r#"{{{known},"yuong":true}}"#)).expect_err("a typo");
        assert!(why.to_string().starts_with("unknown field `yuong`"), "{why}");
        let why = serde_json::from_str::<UpdateRequest>(r#"{"terms":{},"name":"echo"}"#).expect_err("they are flat");
        assert!(why.to_string().starts_with("unknown field `terms`"), "{why}");
    }
}
