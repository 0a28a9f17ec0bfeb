//! `althing-registry purge`: the operator deletes a release that is not for everybody.

use std::path::{Path, PathBuf};

use althing_protocol::AgentId;
use althing_protocol::registry::Version;
use althing_registry::machine::things::Quotas;
use althing_registry::machine::{Admission, PurgedBy};
use althing_registry::service::{DirectoryConfig, Registry};
use althing_registry::tokens::{Access, Tokens};

use crate::{opened, ports};

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
    /// The network whose agents are published there: `network` of the configuration of its nodes.
    #[arg(long, default_value = "althing")]
    network: String,
}

/// Does it, and gives what is printed.
pub async fn run(command: PurgeCommand) -> Result<String, String> {
    let PurgeCommand { agent, version, data, network } = command;
    let registry = operated(&data, network).await?;
    let purged = registry.purging().purge(&agent, &version, PurgedBy::Operator).await;
    purged.map_err(|error| error.to_string())?;
    Ok(format!("{agent} {version} is purged, and the log says that something was"))
}

/// The registry of a data folder, for its operator.
pub async fn operated(data: &Path, network: String) -> Result<Registry, String> {
    // A mistyped folder would begin a registry.
    if !data.join("registry.key").exists() {
        return Err(format!("there is no registry in {}: give the folder that it was started with", data.display()));
    }
    let registry = opened(data, None, network, Admission::Publishers([].into())).await?;
    let access = Access { tokens: Tokens::of(data), is_anyone: false, is_closed: false };
    let directory = DirectoryConfig { quotas: Quotas::default(), access, random: ports().random, is_tls: false };
    Ok(registry.with_directory(directory))
}
