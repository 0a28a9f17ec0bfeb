//! `althing-registry token`: makes, lists and removes the tokens of those who write Things.

use std::path::PathBuf;

use althing_protocol::PublisherId;
use althing_registry::tokens::{TokenError, TokenScope, Tokens};
use clap::Subcommand;
use rand::Rng as _;

use crate::domain_command::DomainCommand;
use crate::publisher_command::PublisherCommand;
use crate::purge_command::PurgeCommand;
use crate::quarantine_command::QuarantineCommand;
use crate::witness_command::WitnessCommand;

/// What the program does instead of serving.
#[derive(Subcommand)]
pub enum Command {
    /// Tokens of those who register Things, and who read a closed directory.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Who may publish, beside those that the registry is started with.
    #[command(subcommand)]
    Publisher(PublisherCommand),
    /// Domains of organisations.
    #[command(subcommand)]
    Domain(DomainCommand),
    /// Delete a release that is not for everybody from the disk, as its publisher asked. Stop the registry first.
    Purge(PurgeCommand),
    /// Hide an agent or a version in this registry, for a reason that readers see; also while the registry runs.
    Quarantine(QuarantineCommand),
    /// Run a witness: it cosigns checkpoints of others' logs after it checked that they only grew (C2SP tlog-witness).
    Witness(WitnessCommand),
}

/// What is done with tokens.
#[derive(Subcommand)]
pub enum TokenCommand {
    /// Makes a token, and prints it once.
    Add {
        /// Whose it is: a-z, 0-9, dot, _ and -.
        name: String,
        /// What its holder may do: things:read, things:write or things:admin; may be repeated. Or releases:stage or
        /// releases:read, of a publisher.
        #[arg(long = "scope", default_value = "things:write")]
        scopes: Vec<TokenScope>,
        /// Whose releases it stages or reads (urn:althing:z…).
        #[arg(long, value_name = "URN")]
        publisher: Option<PublisherId>,
        /// Where the registry keeps its data.
        #[arg(long)]
        data: PathBuf,
    },
    /// Lists the tokens.
    List {
        /// Where the registry keeps its data.
        #[arg(long)]
        data: PathBuf,
    },
    /// Takes a token back; a running registry knows it at once.
    Remove {
        /// Whose it is.
        name: String,
        /// Where the registry keeps its data.
        #[arg(long)]
        data: PathBuf,
    },
}

/// Does it, and gives what is printed.
///
/// # Errors
/// See [`TokenError`].
pub fn run(command: TokenCommand) -> Result<String, TokenError> {
    match command {
        TokenCommand::Add { name, scopes, publisher, data } => {
            let mut random = [0; 32];
            rand::rng().fill(&mut random);
            Tokens::of(&data).add_of(&name, &scopes, publisher, random)
        }
        TokenCommand::List { data } => {
            let all = Tokens::of(&data).all()?;
            let lines = all.iter().map(|(name, token)| format!("{name}  {}", token.scopes.join(" ")));
            Ok(lines.collect::<Vec<_>>().join("\n"))
        }
        TokenCommand::Remove { name, data } => {
            Tokens::of(&data).remove(&name)?;
            Ok(format!("{name} has no token any more"))
        }
    }
}
