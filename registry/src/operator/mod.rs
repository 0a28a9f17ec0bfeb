//! What the operator of a registry has done to it by hand: says whose a domain is, hides releases. A registry that runs is asked
//! by a file in its folder; where none runs, the program does it to the folder itself.

mod files;

use std::path::PathBuf;

use althing_protocol::registry::{Domain, DomainFinding, Means, Version};
use althing_protocol::{AgentId, PublisherId};
use althing_store::file::FileError;
use althing_store::keyfile::KeyFileError;
use serde::{Deserialize, Serialize};

pub use files::{ask, prepare, serve};

use crate::service::{Registry, RequestError};

/// What an operator wants done, with ids as they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The network of the registry, if the operator named one.
    #[serde(default)]
    pub network: Option<String>,
    /// What is to be done.
    pub work: Work,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Work {
    /// A domain is an organisation's, by the operator's word, or is it no longer.
    Domain {
        /// The domain.
        domain: String,
        /// The organisation.
        organisation: String,
        /// Whether it is.
        proven: bool,
    },
    /// An agent or a version is hidden, or shown again.
    Quarantine {
        /// The agent.
        agent: String,
        /// The version; none means all.
        version: Option<String>,
        /// Why it is hidden; none shows it again.
        reason: Option<String>,
    },
}

/// Why an order is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// A domain, an id or a version is none.
    #[error("{0}")]
    Word(String),
    /// The registry is of another network.
    #[error(
        "this registry is of the network {kept:?}, and not of {given:?}: leave out --network, or name another folder"
    )]
    OtherNetwork {
        /// Its network.
        kept: String,
        /// The one that was named.
        given: String,
    },
    /// There is nothing to lift.
    #[error("{0}")]
    NoQuarantine(String),
    /// The registry does not take it.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The registry that runs refuses it.
    #[error("{0}")]
    Refused(String),
    /// The order cannot be left for the registry that runs, or the answer for whoever gave it.
    #[error(transparent)]
    Write(#[from] KeyFileError),
    /// The answer cannot be read.
    #[error("cannot use {}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: FileError,
    },
    /// The registry that runs ended meanwhile.
    #[error(
        "the running registry gave no answer: see its log, and repeat the command; what it did already is no error then"
    )]
    Unanswered,
    /// It is too long.
    #[error("what is asked has {bytes} bytes, and at most {max} are read: shorten the reason")]
    TooLong {
        /// Bytes.
        bytes: usize,
        /// Bytes that there may be.
        max: usize,
    },
}

/// Does what the operator wants, and says what became of it. When it completes, it is on disk.
///
/// # Errors
/// See [`OrderError`].
pub async fn carry_out(registry: &Registry, order: Order) -> Result<String, OrderError> {
    if let Some(given) = order.network.filter(|given| given != registry.network()) {
        return Err(OrderError::OtherNetwork { kept: registry.network().to_owned(), given });
    }
    match order.work {
        Work::Domain { domain, organisation, proven } => {
            let domain: Domain = domain.parse().map_err(word)?;
            say_whose(registry, domain, organisation.parse().map_err(word)?, proven).await
        }
        Work::Quarantine { agent, version, reason } => {
            let version: Option<Version> = version.map(|version| version.parse()).transpose().map_err(word)?;
            quarantine(registry, agent.parse().map_err(word)?, version, reason).await
        }
    }
}

fn word(error: impl std::fmt::Display) -> OrderError {
    OrderError::Word(error.to_string())
}

async fn say_whose(
    registry: &Registry,
    domain: Domain,
    organisation: PublisherId,
    proven: bool,
) -> Result<String, OrderError> {
    let finding = DomainFinding { domain: domain.clone(), organisation, means: Means::Operator, proven };
    let is_new = registry.names().found(finding).await?;
    let held = registry.names().domain(&domain, None)?;
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

async fn quarantine(
    registry: &Registry,
    agent: AgentId,
    version: Option<Version>,
    reason: Option<String>,
) -> Result<String, OrderError> {
    let is_new = registry.purging().quarantine(&agent, version.as_ref(), reason.as_deref()).await?;
    let what = version.map_or_else(|| agent.to_string(), |version| format!("{agent} {version}"));
    if reason.is_some() {
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
        Err(OrderError::NoQuarantine(format!("{what} has no quarantine of its own{still}")))
    }
}
