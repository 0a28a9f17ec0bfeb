//! Finds out what speaks at an address, or behind a command: an A2A agent, or an MCP server.

use std::path::Path;
use std::time::Duration;

use a2a::AgentCard;
use althing_td::ToolServerSpec;
use tokio::time::timeout;

use crate::definition::Definition;
use crate::host::Host;
use crate::process::remote;
use crate::secrets::{SecretLookupError, lookup};

/// How long a server may take to list its tools; a program is started for it.
const LISTING: Duration = Duration::from_secs(30);

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// An A2A agent, with its card.
    Agent(Box<AgentCard>),
    /// An MCP server, with the tools that may be shown to models, and the names of the others with the reason.
    Tools(Vec<Definition>, Vec<(String, String)>),
}

/// Why nothing was found.
#[derive(Debug, thiserror::Error)]
pub enum Unrecognised {
    /// A secret of the node is missing.
    #[error(transparent)]
    Secret(#[from] SecretLookupError),
    /// What is at an address is neither.
    #[error("neither an A2A agent nor an MCP server answers at {url}. Its agent card: {card}. Its tools: {tools}")]
    Address {
        /// Where.
        url: String,
        /// What became of the request for a card.
        card: String,
        /// What became of the listing.
        tools: String,
    },
    /// A program is no MCP server.
    #[error(
        "{program:?} does not answer as an MCP server on its standard input and output: {why}. A program that serves A2A \
         over HTTP is named by its address, or run by an agent file (`runtime: process`)"
    )]
    Program {
        /// Which.
        program: String,
        /// What became of the listing.
        why: String,
    },
    /// The server has no tools.
    #[error("the MCP server offers no tool that can be called{}", .0.first().map(|(tool, why)| format!("; {tool:?}: {why}")).unwrap_or_default())]
    Empty(Vec<(String, String)>),
}

/// Finds out what is there. A program is started for it, and ended again.
///
/// # Errors
/// See [`Unrecognised`].
pub async fn recognise(host: &Host, at: &ToolServerSpec, folder: &Path) -> Result<Found, Unrecognised> {
    let (card, secret) = match at {
        ToolServerSpec::Url { url, secret } => {
            let secret = secret.as_deref().map(|name| lookup(&host.ports.secrets, name)).transpose()?;
            match remote::card(url, secret.as_deref()).await {
                Ok(card) => return Ok(Found::Agent(Box::new(card))),
                Err(error) => (error.to_string(), secret),
            }
        }
        ToolServerSpec::Command { .. } => (String::new(), None),
    };
    let server = (host.ports.connect)(at, folder, secret);
    let listed = timeout(LISTING, server.tools()).await;
    server.stop().await;
    let failed = |why: String| match at {
        ToolServerSpec::Url { url, .. } => Unrecognised::Address { url: url.clone(), card, tools: why },
        ToolServerSpec::Command { command, .. } => {
            Unrecognised::Program { program: command.first().cloned().unwrap_or_default(), why }
        }
    };
    let tools = match listed {
        Ok(Ok(tools)) => tools,
        Ok(Err(fault)) => return Err(failed(fault.to_string())),
        Err(_) => return Err(failed(format!("no answer within {} s", LISTING.as_secs()))),
    };
    let (mut fit, mut unfit) = (Vec::new(), Vec::new());
    for tool in tools {
        match tool.check() {
            Ok(()) => fit.push(tool),
            Err(why) => unfit.push((tool.name, why.brief())),
        }
    }
    if fit.is_empty() { Err(Unrecognised::Empty(unfit)) } else { Ok(Found::Tools(fit, unfit)) }
}
