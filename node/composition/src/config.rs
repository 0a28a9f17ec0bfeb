//! What a node is to be like, whatever file or test says so.

use std::path::PathBuf;

use althing_communication::CommunicationConfig;
use althing_discovery::{DiscoveryConfig, Net};

/// What a node is to be like.
#[derive(Debug, Clone, Default)]
pub struct NodeConfig {
    /// How it speaks with others; names the network.
    pub communication: CommunicationConfig,
    /// How it finds others. The network's name is that of `communication`.
    pub discovery: DiscoveryConfig,
    /// Whether only those who have the network's key can connect: these are trusted to publish.
    pub private: bool,
    /// Addresses under which others can dial this node although it cannot know it.
    pub announce: Vec<String>,
    /// What contracts may ask of the node.
    pub labels: Vec<String>,
    /// Other people's Things that are read.
    pub things: Things,
    /// What contracts are made on top of.
    pub policies: Policies,
    /// The folder in which the node keeps its data, if it has one.
    pub data: Option<PathBuf>,
}

/// Other people's Things that are read.
#[derive(Debug, Clone, Default)]
pub struct Things {
    /// Those that are announced on the LAN.
    pub lan: bool,
    /// Those at these URLs.
    pub urls: Vec<String>,
    /// Nets that links in these may lead into, besides what the internet routes.
    pub nets: Vec<Net>,
}

/// What contracts are made on top of.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    /// The file of the policy that holds for every contract.
    pub tenant: Option<PathBuf>,
    /// The folder of roles, `NAME.yaml` each.
    pub roles: Option<PathBuf>,
}
