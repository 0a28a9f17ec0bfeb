//! `althing-registry domain`: the operator says whose a domain is, where no network shows it.

use std::path::PathBuf;

use althing_protocol::PublisherId;
use althing_protocol::registry::Domain;
use althing_registry::operator::Work;
use clap::Subcommand;

use crate::ordered::ordered;

/// What is done with domains.
#[derive(Subcommand)]
pub enum DomainCommand {
    /// Says that a domain is an organisation's; everybody sees that it is the operator's word.
    Add(Claim),
    /// Takes that back: nothing more is published under the domain.
    Remove(Claim),
}

/// A domain and an organisation.
#[derive(clap::Args)]
pub struct Claim {
    /// The domain, such as example.org.
    domain: Domain,
    /// The organisation (urn:althing:z…).
    organisation: PublisherId,
    /// Where the registry keeps its data.
    #[arg(long)]
    data: PathBuf,
    /// The network of the registry, where its folder is older than that it keeps it, or begins here.
    #[arg(long)]
    network: Option<String>,
}

/// Does it, and gives what is printed.
pub async fn run(command: DomainCommand) -> Result<String, String> {
    let (claim, proven) = match command {
        DomainCommand::Add(claim) => (claim, true),
        DomainCommand::Remove(claim) => (claim, false),
    };
    let Claim { domain, organisation, data, network } = claim;
    let work = Work::Domain { domain: domain.to_string(), organisation: organisation.to_string(), proven };
    ordered(&data, network, work).await
}
