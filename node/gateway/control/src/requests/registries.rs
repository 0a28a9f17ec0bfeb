//! Requests about registries.

use std::path::PathBuf;

use althing_td::Callers;
use serde::{Deserialize, Serialize};

/// Follows a registry.
#[derive(Debug, Serialize, Deserialize)]
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
#[derive(Debug, Serialize, Deserialize)]
pub struct PublishRequest {
    /// The agent file, as an absolute path.
    pub file: PathBuf,
    /// Further files below its folder that the agent needs, as paths relative to it.
    #[serde(default)]
    pub with: Vec<PathBuf>,
    /// For whom it is: `public`, `organisation`, or ids of publishers separated by commas; by default public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Makes the owner an organisation.
#[derive(Debug, Serialize, Deserialize)]
pub struct OrganiseRequest {
    /// Its domain.
    pub domain: String,
    /// How many must approve a release.
    pub approvals: u8,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Gives a member of the owner's organisation roles and names.
#[derive(Debug, Serialize, Deserialize)]
pub struct MemberRequest {
    /// The member's id.
    pub publisher: String,
    /// `read`, `stage` and `approve`; none: it is no member any more.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Names of agents, or beginnings of names followed by `*`.
    #[serde(default)]
    pub names: Vec<String>,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Lets the registry look for a domain's proof.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProveRequest {
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Approves a release that waits.
#[derive(Debug, Serialize, Deserialize)]
pub struct ApproveRequest {
    /// The id of a staged release, or `urn:…@version`.
    pub what: String,
    /// For whom a staged release will be; by default public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// The digest of what was looked at, hexadecimal; without one nothing is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<String>,
}

/// Takes a staged release away.
#[derive(Debug, Serialize, Deserialize)]
pub struct RejectRequest {
    /// Its id.
    pub id: String,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Purges a release that is not for everybody.
#[derive(Debug, Serialize, Deserialize)]
pub struct PurgeRequest {
    /// The agent; a name means the owner's.
    pub agent: String,
    /// The version.
    pub version: String,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Changes the standing of a release.
#[derive(Debug, Serialize, Deserialize)]
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

/// Looks at a release, or installs it.
#[derive(Debug, Serialize, Deserialize)]
pub struct InstallRequest {
    /// The agent's id, with a range or version after `@`.
    pub reference: String,
    /// The agent's name here; by default its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who may call it.
    pub callers: Callers,
    /// Whether a young release of a publisher that is not trusted will do.
    #[serde(default)]
    pub young: bool,
    /// Whether its programs may run without a sandbox, or in a folder outside of the release.
    #[serde(default)]
    pub uncontained: bool,
    /// The id of the publisher whose it must be: where a name led to another one's before, that one must be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// The digest of the release that was agreed to, hexadecimal; without one nothing is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<String>,
}

/// Looks for an update of an installed agent, or makes it.
#[derive(Debug, Serialize, Deserialize)]
pub struct UpdateRequest {
    /// The agent's name here.
    pub name: String,
    /// Whether a young release of a publisher that is not trusted will do.
    #[serde(default)]
    pub young: bool,
    /// Whether its programs may run without a sandbox, or in a folder outside of the release.
    #[serde(default)]
    pub uncontained: bool,
    /// The id of the publisher whose it must be, if its name leads to another one by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// The digest of the release that was agreed to, hexadecimal; without one nothing is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<String>,
}
