//! `althing-registry quarantine`: the operator hides an agent or a version in this registry, and shows it again.

use std::path::PathBuf;

use althing_protocol::AgentId;
use althing_protocol::registry::Version;
use althing_registry::operator::Work;

use crate::ordered::{check_begun, ordered};

/// What is hidden or shown.
#[derive(clap::Args)]
pub struct QuarantineCommand {
    /// The agent (urn:althing:z…:name).
    agent: AgentId,
    /// The version; all of them, later ones too, if none is given.
    version: Option<Version>,
    /// Why; everybody who may see the release reads it as the operator's word.
    #[arg(long, required_unless_present = "lift")]
    reason: Option<String>,
    /// Show it again.
    #[arg(long, conflicts_with = "reason")]
    lift: bool,
    /// Where the registry keeps its data.
    #[arg(long)]
    data: PathBuf,
    /// The network of the registry, where its folder is older than that it keeps it.
    #[arg(long)]
    network: Option<String>,
}

/// Does it, and gives what is printed.
pub async fn run(command: QuarantineCommand) -> Result<String, String> {
    // Lifting is asked for by the reason that is missing.
    let QuarantineCommand { agent, version, reason, lift: _, data, network } = command;
    check_begun(&data)?;
    let version = version.map(|version| version.to_string());
    ordered(&data, network, Work::Quarantine { agent: agent.to_string(), version, reason }).await
}
