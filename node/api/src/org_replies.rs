//! What operations on organisations, and on what waits for their approval, answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ReceiptEntry, ReleasePublication, WorkflowOutline};

/// The owner's organisation in one registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrganisationStatus {
    /// The registry's address.
    pub registry: String,
    /// The owner's urn.
    pub organisation: String,
    /// The domain that is its name.
    pub domain: String,
    /// How many must approve a release.
    pub approvals: u8,
    /// In the order in which they were added.
    pub members: Vec<OrganisationMember>,
    /// When the roster was signed last, milliseconds since 1970.
    pub signed_ms: u64,
}

/// A member of an organisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrganisationMember {
    /// Its urn.
    pub publisher: String,
    /// `read`, `stage` and `approve`.
    pub roles: Vec<String>,
    /// Names of agents, or beginnings of names followed by `*`.
    pub names: Vec<String>,
}

/// What a registry found of the owner's domain, and shows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DomainProof {
    /// The owner's urn.
    pub organisation: String,
    /// Which domain.
    pub domain: String,
    /// Whether it names the owner.
    pub proven: bool,
    /// Where: `well-known` or `dns`.
    pub by: Option<String>,
    /// Why it does not.
    pub why: Option<String>,
    /// What the registry shows, if somebody holds the domain.
    pub held: Option<DomainHolder>,
}

/// Who holds a domain, as a registry shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainHolder {
    /// The urn of who does.
    pub organisation: String,
    /// By what that is proven: `well-known`, `dns` or `operator`.
    pub by: String,
    /// Whether the proof counts now.
    pub proven: bool,
    /// When it was found last, milliseconds since 1970.
    pub found_ms: u64,
    /// Who waits for it, if somebody does.
    pub claim: Option<DomainClaim>,
    /// Other domains there that look like it.
    pub twins: Vec<String>,
}

/// An organisation that waits for a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainClaim {
    /// Its urn.
    pub organisation: String,
    /// Where the domain names it.
    pub by: String,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
}

/// What the log of a registry has of the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogWatch {
    /// How many entries the log has.
    pub entries: u64,
    /// Those that are about the owner, or are kept back.
    pub watched: Vec<LogNotice>,
    /// What the registry proved that its log had, and its log has not.
    pub missing: Vec<ReceiptEntry>,
}

/// An entry of a log that concerns the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogNotice {
    /// Its index.
    pub entry: u64,
    /// When the registry accepted it, milliseconds since 1970.
    pub at_ms: u64,
    /// What it says: `release`.
    pub what: String,
    /// Whom it is about: a urn, or a domain; empty if that is not shown.
    pub about: String,
    /// More of it, for people.
    pub detail: String,
}

/// What waits for the owner's approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalList {
    /// The registry's address.
    pub registry: String,
    /// What build machines handed in; the owner signs it first.
    pub staged: Vec<StageSummary>,
    /// What its publisher released, and others have to approve.
    pub waiting: Vec<ApprovalSummary>,
}

/// A release that a build machine handed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageSummary {
    /// By which it is approved.
    pub id: String,
    /// The agent's urn.
    pub agent: String,
    /// Which version: `1.2.0`.
    pub version: String,
    /// The digest of the bundle, hexadecimal.
    pub digest: String,
    /// How many the bundle has.
    pub bytes: u64,
    /// When it was handed in, milliseconds since 1970.
    pub staged_ms: u64,
}

/// A release that waits for more approvals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalSummary {
    /// The agent's urn.
    pub agent: String,
    /// Which version: `1.2.0`.
    pub version: String,
    /// The urns of those beside its publisher who approve it.
    pub approved_by: Vec<String>,
    /// How many must.
    pub wanted: u8,
}

/// What `POST /releases/approve` answers: without an agreement the first, with one the second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ApprovalReply {
    /// What would be signed.
    Offer(Box<ApprovalOffer>),
    /// What was.
    Publication(ReleasePublication),
}

/// A release that would be approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalOffer {
    /// The agent's urn.
    pub agent: String,
    /// Which version: `1.2.0`.
    pub version: String,
    /// The registry's address.
    pub registry: String,
    /// The digest of what is agreed to: of a staged bundle, or of the release that its publisher signed; hexadecimal.
    pub digest: String,
    /// The agent file as JSON, whole; none of a workflow, or if the bundle cannot be read.
    pub file: Option<Value>,
    /// What each of its programs may reach, in words; written of an agent alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaches: Option<Vec<String>>,
    /// What it does, and what it needs; written of a workflow alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowOutline>,
}

/// A staged release was taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageRejection {
    /// Its id.
    pub rejected: String,
    /// The registry's address.
    pub registry: String,
}

/// A release was deleted from the disk of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleasePurge {
    /// The agent's urn.
    pub agent: String,
    /// Which version: `1.2.0`.
    pub version: String,
    /// The registry's address.
    pub registry: String,
}

#[cfg(test)]
mod tests;
