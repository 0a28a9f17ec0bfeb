//! Requests about organisations, and what waits for their approval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes the owner an organisation.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProveRequest {
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Approves a release that waits.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectRequest {
    /// Its id.
    pub id: String,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Purges a release that is not for everybody.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeRequest {
    /// The agent; a name means the owner's.
    pub agent: String,
    /// The version.
    pub version: String,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}
