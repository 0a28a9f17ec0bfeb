//! `althing-registry publisher`: lets publishers publish, lists those, and takes them out again.

use std::path::PathBuf;

use althing_protocol::PublisherId;
use althing_registry::publishers::{PublisherError, Publishers};
use clap::Subcommand;

/// What is done with the list of publishers.
#[derive(Subcommand)]
pub enum PublisherCommand {
    /// Lets a publisher publish; a running registry knows it at once.
    Add {
        /// The publisher (urn:althing:z…), which `althing id` prints.
        publisher: PublisherId,
        /// Where the registry keeps its data.
        #[arg(long)]
        data: PathBuf,
    },
    /// Lists those who were added; not those that the registry is started with.
    List {
        /// Where the registry keeps its data.
        #[arg(long)]
        data: PathBuf,
    },
    /// Takes a publisher out that was added; a running registry knows it at once.
    Remove {
        /// The publisher.
        publisher: PublisherId,
        /// Where the registry keeps its data.
        #[arg(long)]
        data: PathBuf,
    },
}

/// Does it, and gives what is printed.
///
/// # Errors
/// See [`PublisherError`].
pub fn run(command: PublisherCommand) -> Result<String, PublisherError> {
    match command {
        PublisherCommand::Add { publisher, data } => {
            let known = if Publishers::of(&data).add(publisher)? { "" } else { "; the registry knew that" };
            // A mistyped folder would be noticed by nobody.
            let rest = match data.join("registry.key").exists() {
                true => String::new(),
                false => format!("; no registry has been started in {} yet", data.display()),
            };
            Ok(format!("{publisher} may publish{known}{rest}"))
        }
        PublisherCommand::List { data } => {
            let all = Publishers::of(&data).all()?;
            Ok(all.iter().map(PublisherId::to_string).collect::<Vec<_>>().join("\n"))
        }
        PublisherCommand::Remove { publisher, data } => {
            Publishers::of(&data).remove(publisher)?;
            Ok(format!("{publisher} is not in the list any more; what it published stays"))
        }
    }
}
