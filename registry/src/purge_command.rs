//! `althing-registry purge`: the operator deletes a release that is not for everybody.

use std::path::PathBuf;

use althing_protocol::AgentId;
use althing_protocol::registry::Version;
use althing_registry::machine::PurgedBy;

use crate::ordered::{check_begun, operated};

/// What is purged.
#[derive(clap::Args)]
pub struct PurgeCommand {
    /// The agent (urn:althing:z…:name).
    agent: AgentId,
    /// The version.
    version: Version,
    /// Where the registry keeps its data.
    #[arg(long)]
    data: PathBuf,
    /// The network of the registry, where its folder is older than that it keeps it.
    #[arg(long)]
    network: Option<String>,
}

/// Does it, and gives what is printed.
pub async fn run(command: PurgeCommand) -> Result<String, String> {
    let PurgeCommand { agent, version, data, network } = command;
    check_begun(&data)?;
    let registry = operated(&data, network).await.map_err(|error| error.to_string())?;
    let purged = registry.purging().purge(&agent, &version, PurgedBy::Operator).await;
    purged.map_err(|error| error.to_string())?;
    Ok(format!("{agent} {version} is purged, and the log says that something was"))
}
