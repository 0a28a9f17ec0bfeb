//! `althing-registry domain`: the operator says whose a domain is, where no network shows it.

use std::path::PathBuf;

use althing_protocol::PublisherId;
use althing_protocol::registry::{Domain, DomainFinding, Means};
use althing_registry::machine::Admission;
use clap::Subcommand;

use crate::opened;

/// What is done with domains.
#[derive(Subcommand)]
pub enum DomainCommand {
    /// Says that a domain is an organisation's; everybody sees that it is the operator's word. Stop the registry first.
    Add {
        /// The domain, such as example.org.
        domain: Domain,
        /// The organisation (urn:althing:z…).
        organisation: PublisherId,
        /// Where the registry keeps its data.
        #[arg(long)]
        data: PathBuf,
        /// The network whose agents are published there: `network` of the configuration of its nodes.
        #[arg(long, default_value = "althing")]
        network: String,
    },
    /// Takes that back: nothing more is published under the domain. Stop the registry first.
    Remove {
        /// The domain, such as example.org.
        domain: Domain,
        /// The organisation (urn:althing:z…).
        organisation: PublisherId,
        /// Where the registry keeps its data.
        #[arg(long)]
        data: PathBuf,
        /// The network whose agents are published there: `network` of the configuration of its nodes.
        #[arg(long, default_value = "althing")]
        network: String,
    },
}

/// Does it, and gives what is printed.
pub async fn run(command: DomainCommand) -> Result<String, String> {
    let (domain, organisation, data, network, proven) = match command {
        DomainCommand::Add { domain, organisation, data, network } => (domain, organisation, data, network, true),
        DomainCommand::Remove { domain, organisation, data, network } => (domain, organisation, data, network, false),
    };
    let registry = opened(&data, None, network, Admission::Publishers([].into())).await?;
    let finding = DomainFinding { domain: domain.clone(), organisation, means: Means::Operator, proven };
    let is_new = registry.names().found(finding).await.map_err(|error| error.to_string())?;
    let held = registry.names().domain(&domain, None).map_err(|error| error.to_string())?;
    let rest = match (is_new, &held.held.claim) {
        (false, _) => "; the registry knew that",
        (true, Some(claim)) if claim.organisation == organisation => {
            "; another organisation holds it, so that this one waits for 30 days, and everybody sees it wait"
        }
        _ => "",
    };
    let is = if proven { "is" } else { "is no longer" };
    Ok(format!("{domain} {is} the domain of {organisation}, by the operator's word{rest}"))
}
