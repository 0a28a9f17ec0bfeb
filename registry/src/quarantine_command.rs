//! `althing-registry quarantine`: the operator hides an agent or a version in this registry, and shows it again.

use std::path::PathBuf;

use althing_protocol::AgentId;
use althing_protocol::registry::Version;

use crate::purge_command::operated;

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
    /// The network whose agents are published there: `network` of the configuration of its nodes.
    #[arg(long, default_value = "althing")]
    network: String,
}

/// Does it, and gives what is printed.
pub async fn run(command: QuarantineCommand) -> Result<String, String> {
    let QuarantineCommand { agent, version, reason, lift, data, network } = command;
    let registry = operated(&data, network).await?;
    let is_new = registry.purging().quarantine(&agent, version.as_ref(), reason.as_deref()).await;
    let is_new = is_new.map_err(|error| error.to_string())?;
    let what = version.map_or_else(|| agent.to_string(), |version| format!("{agent} {version}"));
    if !lift {
        let rest = if is_new { "" } else { "; the registry knew that" };
        return Ok(format!("{what} is in quarantine: this registry hides it{rest}. Nodes that have it go on with it"));
    }
    let listed = registry.releases().versions(&agent, Some(agent.publisher())).unwrap_or_default();
    let hidden = listed.iter().filter(|one| one.released.quarantine.is_some());
    let hidden: Vec<String> = hidden.map(|one| one.version.to_string()).collect();
    let still = match hidden.is_empty() {
        true => String::new(),
        false => format!("; still hidden are {}, by a quarantine of their own or of the whole agent", hidden.join(" ")),
    };
    if is_new {
        Ok(format!("the quarantine of {what} is lifted{still}"))
    } else {
        Err(format!("{what} has no quarantine of its own{still}"))
    }
}
