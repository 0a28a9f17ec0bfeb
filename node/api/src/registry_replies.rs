//! What operations on registries and releases answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AgentAddition, Attestation, InstallContents, ReleaseContents, UpdateRule};

/// The registries that a node follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistryList {
    /// Each of them, by address.
    pub registries: Vec<RegistryStatus>,
}

/// A registry that a node follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistryStatus {
    /// Its address.
    pub at: String,
    /// The name in its key.
    pub name: String,
    /// The key of its log.
    pub key: String,
    /// Entries of its log, as of the newest checkpoint that was accepted; none if that cannot be read any more.
    pub entries: Option<u64>,
    /// The evidence that it showed two histories; not written if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<RegistryFork>,
    /// Whose cosignatures are wanted; not written if nobody's are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<RegistryWitnesses>,
}

/// Two checkpoints that a registry signed, neither of which goes on from the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistryFork {
    /// The one that was accepted.
    pub before: String,
    /// The one that was shown then.
    pub now: String,
}

/// The witnesses of which some must have cosigned what a registry shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistryWitnesses {
    /// The key of each of them.
    pub keys: Vec<String>,
    /// How many of them must have.
    pub wanted: usize,
}

/// A registry is followed no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistryRemoval {
    /// Its address.
    pub removed: String,
}

/// A statement about a release is in the log of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleasePublication {
    /// The agent's urn.
    pub agent: String,
    /// Which version: `1.2.0`.
    pub version: String,
    /// The registry's address.
    pub registry: String,
    /// Entries of its log, as of the checkpoint that proves it.
    pub entries: u64,
    /// Bytes of what it runs from; 0 of a Thing, which has nothing to install.
    pub bytes: usize,
}

/// A release has another standing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseMark {
    /// Which release, and what proves it.
    #[serde(flatten)]
    pub publication: ReleasePublication,
    /// `good`, `deprecated`, `yanked` or `revoked`.
    pub standing: String,
}

/// Releases of a registry, as it lists them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseList {
    /// The registry's address.
    pub registry: String,
    /// Each agent; at most a hundred where none was named.
    pub agents: Vec<ReleaseVersions>,
    /// What was found of the agent that was named; not written where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attested: Option<Vec<Attestation>>,
}

/// The releases of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseVersions {
    /// Its urn.
    pub agent: String,
    /// The lowest first.
    pub versions: Vec<ReleaseVersion>,
    /// The urns of agents of others that were there before, and whose names look like its own.
    pub twins: Vec<String>,
}

/// A version, as a registry lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseVersion {
    /// Which: `1.2.0`.
    pub version: String,
    /// The registry's word for what it says of it: `good`, `yanked`.
    pub standing: String,
    /// Why, if it says so.
    pub reason: Option<String>,
}

/// A release that can be installed, as somebody looks at it before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseOffer {
    /// The publisher's agent: its urn.
    pub agent: String,
    /// Which version: `1.2.0`.
    pub version: String,
    /// The registry's address.
    pub registry: String,
    /// The digest of the signed release, which is agreed to: hexadecimal.
    pub digest: String,
    /// Why higher versions were not chosen, as the registry says.
    pub passed_over: Vec<String>,
    /// When the registry accepted it, milliseconds since 1970.
    pub accepted_ms: u64,
    /// The organisation's name that it was found by; none if it was named by its urn.
    pub named: Option<NameProof>,
    /// Whether its publisher is trusted here.
    pub trusted: bool,
    /// `good`, `deprecated`, `yanked` or `revoked`.
    pub standing: String,
    /// Why, if a mark says so.
    pub reason: Option<String>,
    /// The attestations that were demanded, and that it has.
    pub attested: Vec<Attestation>,
    /// The urns of agents of others that were there before, and whose names look like its own.
    pub twins: Vec<String>,
    /// How it is, or would be, called here.
    pub name: String,
    /// What it brings.
    #[serde(flatten)]
    pub contents: ReleaseContents,
}

/// A name that a release was found by, and what proves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameProof {
    /// The domain in it.
    pub domain: String,
    /// The urn of the organisation that holds the domain.
    pub organisation: String,
    /// By what that is proven: `well-known`, `dns` or `operator`.
    pub by: String,
    /// Other domains that the registry knows and that look like this one.
    pub twins: Vec<String>,
}

/// What `POST /install` answers: without an agreement the first, with one the second.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum InstallReply {
    /// What would be installed.
    Offer(Box<InstallOffer>),
    /// What was.
    Completion(Box<InstallCompletion>),
}

/// What would be installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstallOffer {
    /// Which release that is.
    #[serde(flatten)]
    pub release: ReleaseOffer,
    /// Whether something here has its name already.
    pub taken: bool,
}

/// A release was installed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstallCompletion {
    /// Which.
    #[serde(flatten)]
    pub release: ReleaseOffer,
    /// What is here by it now.
    pub added: InstallAddition,
}

/// What is here by a release that was installed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InstallAddition {
    /// One that runs here.
    Agent(Box<AgentAddition>),
    /// One that groups can run.
    Workflow(WorkflowAddition),
}

/// A workflow was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowAddition {
    /// How it is called here.
    pub name: String,
}

/// What `POST /update` answers: without an agreement the first, with one the second.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum UpdateReply {
    /// What there is to update to.
    Look(UpdateLook),
    /// What was done.
    Completion(Box<UpdateCompletion>),
}

/// What there is to update to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum UpdateLook {
    /// A release; it may be the one that is installed.
    Offer(Box<UpdateOffer>),
    /// Nothing.
    Absence(Box<UpdateAbsence>),
}

/// The release that something would be updated to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateOffer {
    /// Which.
    #[serde(flatten)]
    pub release: ReleaseOffer,
    /// The version that is installed.
    pub before: String,
    /// The urn of the agent that is.
    pub before_agent: String,
    /// What that brought; none where it cannot be read.
    pub installed: Option<InstallContents>,
}

/// There is nothing to update to: what is installed was taken back, or is gone, and nothing newer is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateAbsence {
    /// What is installed, and what its registry says.
    #[serde(flatten)]
    pub status: InstallStatus,
    /// The version that is installed, and stays.
    pub before: String,
    /// The urn of the agent that is.
    pub before_agent: String,
}

/// Something was updated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateCompletion {
    /// To which release.
    #[serde(flatten)]
    pub release: ReleaseOffer,
    /// The version that was installed.
    pub before: String,
    /// The urn of the agent that was.
    pub before_agent: String,
    /// What is here by it now.
    pub added: InstallAddition,
}

/// What was installed on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstallList {
    /// Agents first, then workflows; each by name.
    pub installed: Vec<InstallStatus>,
}

/// What was installed, and what its registry has now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallStatus {
    /// How it is called here.
    pub name: String,
    /// The publisher's agent: its urn.
    pub agent: String,
    /// Which version: `1.2.0`.
    pub version: String,
    /// The range that updates stay in: `^1`.
    pub range: String,
    /// The registry's address.
    pub registry: String,
    /// The highest version there is; none if nothing is in its range, or `why` is said.
    pub newest: Option<String>,
    /// Why the registry cannot be asked.
    pub why: Option<String>,
    /// Why higher versions are not chosen, as the registry says.
    pub passed_over: Vec<String>,
    /// Why it must not run, if its publisher revoked it.
    pub revoked: Option<String>,
    /// Why its publisher yanked it, if that is so; empty without a reason.
    pub yanked: Option<String>,
    /// Why the registry's operator hides it, if that is so.
    pub quarantined: Option<String>,
    /// The organisation's name that it was found by: `example.org/billing`.
    pub named: Option<String>,
    /// The urn of the publisher whom that name leads to now, if it is another one.
    pub passed_to: Option<String>,
    /// How newer releases come.
    pub update: UpdateRule,
    /// The version of the newer release whose rollout the node began by itself, while that is under way.
    pub tried: Option<String>,
    /// The newer release that is not tried by itself, and why, where newer releases begin rollouts.
    pub held: Option<String>,
}

/// How newer releases of something that was installed come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateRuleStatus {
    /// How it is called here.
    pub name: String,
    /// How they come.
    pub update: UpdateRule,
}

/// Something that was installed is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstallRemoval {
    /// How it was called here.
    pub removed: String,
}

#[cfg(test)]
mod tests;
