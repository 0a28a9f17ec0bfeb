//! The configuration of a node, independent of any file.

use std::path::PathBuf;
use std::time::Duration;

use althing_communication::CommunicationConfig;
use althing_discovery::{DiscoveryConfig, Net};
use althing_execution::process::ProcessConfig;
use althing_governance::NodeProfile;
use althing_protocol::tlog::NoteKey;

/// The configuration of a node.
#[derive(Debug, Clone, Default)]
pub struct NodeConfig {
    /// L2; names the network.
    pub communication: CommunicationConfig,
    /// L3. The network's name is that of `communication`.
    pub discovery: DiscoveryConfig,
    /// Whether only nodes with the network's key can connect: their publishers are trusted.
    pub private: bool,
    /// Addresses at which others can dial this node, and which it cannot find out itself.
    pub announce: Vec<String>,
    /// Labels that contracts may require.
    pub labels: Vec<String>,
    /// Other people's Things that are read.
    pub things: Things,
    /// How what was adopted is followed.
    pub adopted: Adopted,
    /// Private networks that push notifications may lead into, besides the internet; without it, none are sent.
    pub push: Option<Vec<Net>>,
    /// What contracts are merged with.
    pub policies: Policies,
    /// What is demanded of the node, and who signs its audit log.
    pub governance: GovernanceTerms,
    /// The folder in which the node keeps its data, if it has one.
    pub data: Option<PathBuf>,
}

/// What is demanded of a node, and who signs its audit log.
#[derive(Debug, Clone, Default)]
pub struct GovernanceTerms {
    /// What must be there before it starts.
    pub profile: NodeProfile,
    /// Those who sign the audit log, so that nobody can write another history of it.
    pub witnesses: Vec<AuditWitness>,
}

/// A witness of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditWitness {
    /// Its address, up to `/add-checkpoint`: `https://witness.example.org`.
    pub url: String,
    /// The key that its signatures are verified with.
    pub key: NoteKey,
}

/// Other people's Things that are read.
#[derive(Debug, Clone, Default)]
pub struct Things {
    /// Those that are announced on the LAN.
    pub lan: bool,
    /// Those at these URLs.
    pub urls: Vec<String>,
    /// Private networks that links in these may lead into.
    pub nets: Vec<Net>,
}

/// How what was adopted is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adopted {
    /// Between two listings of the tools of a server that does not say when they change; as between two requests for the card
    /// of an agent elsewhere.
    pub check: Duration,
}

impl Default for Adopted {
    fn default() -> Self {
        Adopted { check: ProcessConfig::default().check }
    }
}

/// What contracts are merged with.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    /// The file of the policy that applies to every contract.
    pub tenant: Option<PathBuf>,
    /// The folder of roles, `NAME.yaml` each.
    pub roles: Option<PathBuf>,
}
