//! Finds out what speaks at an address, or behind a command: a Thing or a directory of Things, an A2A agent, or an MCP server.

use std::path::Path;
use std::time::Duration;

use a2a::AgentCard;
use althing_td::{CardError, ToolServerSpec};
use tokio::time::timeout;

use althing_execution::Lacks;
use althing_execution::definition::Definition;
use althing_execution::secrets::{SecretLookupError, lookup, with_secrets};
use althing_execution::tools::Fault;
use althing_execution::{CardFault, Host, ServerOf, remote_card};

use crate::signing::{CardSignature, signature};
use crate::{Entry, LookError, Omissions, Plan, Seen, Terms, Web, look, plan};
use reqwest::Url;

/// Refusals of a program that are named where it does not answer.
const REFUSALS_SHOWN: usize = 8;
/// How long a server may take to list its tools; a program is started for it.
const LISTING: Duration = Duration::from_secs(30);

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// An A2A agent, with its card, who signed that, and where (a JSON pointer) it was not as it should be, with how it was read.
    Agent(Box<AgentCard>, CardSignature, Vec<(String, String)>),
    /// An MCP server, with the tools that may be shown to models, and the names of the others with the reason.
    Tools(Vec<Definition>, Vec<(String, String)>),
    /// A Thing, whose description is at that address, and what can be done with it.
    Thing(String, Box<Plan>),
    /// A directory, with its Things, and what it has beside.
    Directory(Vec<Entry>, Omissions),
}

/// Why nothing was found.
#[derive(Debug, thiserror::Error)]
pub enum Unrecognised {
    /// A secret of the node is missing.
    #[error(transparent)]
    Secret(#[from] SecretLookupError),
    /// The card of an A2A agent is not what its signature says.
    #[error("the agent's card is refused: {0}")]
    Card(#[from] CardError),
    /// An A2A agent is there, and cannot be called as it is.
    #[error("{url}: {why}")]
    Agent {
        /// Where.
        url: String,
        /// Why, and what to do.
        why: String,
    },
    /// Nothing can be at an address.
    #[error("{0}")]
    Nothing(LookError),
    /// A Thing shows no description any more.
    #[error("no Thing Description is at {url}: {why}")]
    Thing {
        /// Where.
        url: String,
        /// What became of the request for it.
        why: String,
    },
    /// What is at an address is nothing that is known.
    #[error(
        "neither a Thing, nor an A2A agent, nor an MCP server answers at {url}. Its Thing Description: {description}. Its \
         agent card: {card}. Its tools: {tools}"
    )]
    Address {
        /// Where.
        url: String,
        /// What became of the request for a description.
        description: String,
        /// What became of the request for a card.
        card: String,
        /// What became of the listing.
        tools: String,
    },
    /// There is no such program.
    #[error("no such program: {0:?}; write its path, or install it where this node's PATH leads")]
    NoProgram(String),
    /// A program is no MCP server.
    #[error(
        "{program:?} does not answer as an MCP server on its standard input and output: {why}{}. A program that serves A2A \
         over HTTP is named by its address, or run by an agent file (`runtime: process`)",
        refused(.lacks)
    )]
    Program {
        /// Which.
        program: String,
        /// What became of the listing.
        why: String,
        /// What it was refused until then.
        lacks: Box<Lacks>,
    },
    /// The server has no tools.
    #[error("the MCP server offers no tool that can be called{}", .0.first().map(|(tool, why)| format!("; {tool:?}: {why}")).unwrap_or_default())]
    Empty(Vec<(String, String)>),
}

/// Finds out what is there. A program is started for it, and ended again: what it was refused meanwhile is told too. The forms of
/// a Thing may lead to the origins `allow` too.
///
/// # Errors
/// See [`Unrecognised`].
pub async fn recognise(
    host: &Host,
    at: &ToolServerSpec,
    allow: &[String],
    folder: &Path,
) -> Result<(Found, Lacks), Unrecognised> {
    let known = |name: &str| lookup(&host.ports.secrets, name);
    let (at, secrets) = &with_secrets(at, known)?;
    let secret = secrets.bearer.clone();
    let web = Web::leading_to(at.leads_to());
    let (mut description, mut card) = (String::new(), String::new());
    if let ToolServerSpec::Url { url, .. } | ToolServerSpec::Thing { thing: url, .. } = at {
        match thing(&web, url, secret.as_deref(), allow).await {
            Ok(found) => return Ok((found, Lacks::default())),
            Err(error) if error.is_final() => return Err(Unrecognised::Nothing(error)),
            Err(error) => description = error.to_string(),
        }
        if let ToolServerSpec::Thing { thing, .. } = at {
            return Err(Unrecognised::Thing { url: thing.clone(), why: description });
        }
        match remote_card(url, at.leads_to(), secret.as_deref()).await {
            Ok(shown) => {
                let signature = signature(&web, url, &shown.raw).await?;
                return Ok((Found::Agent(Box::new(shown.card), signature, shown.notes), Lacks::default()));
            }
            Err(CardFault::Unfit(why)) => return Err(Unrecognised::Agent { url: url.clone(), why }),
            Err(fault) => card = fault.to_string(),
        }
    }
    let of = ServerOf { agent: "", server: "", folder, memory_kib: 0 };
    let server = (host.ports.connect)(of, at, secrets.clone());
    let listed = timeout(LISTING, server.tools()).await;
    let left_out = server.left_out();
    server.stop().await;
    let lacks = server.containment().map(|containment| containment.lacks).unwrap_or_default();
    let failed = |why: String| match at {
        ToolServerSpec::Url { url, .. } | ToolServerSpec::Thing { thing: url, .. } => {
            Unrecognised::Address { url: url.clone(), description, card, tools: why }
        }
        ToolServerSpec::Command { command, .. } => {
            let program = command.first().cloned().unwrap_or_default();
            Unrecognised::Program { program, why, lacks: Box::new(lacks.clone()) }
        }
    };
    let tools = match listed {
        Ok(Ok(tools)) => tools,
        Ok(Err(Fault::NoProgram(program))) => return Err(Unrecognised::NoProgram(program)),
        Ok(Err(fault)) => return Err(failed(fault.in_full())),
        Err(_) => return Err(failed(format!("no answer within {} s", LISTING.as_secs()))),
    };
    let (mut fit, mut unfit) = (Vec::new(), left_out);
    for tool in tools {
        match tool.check() {
            Ok(()) => fit.push(tool),
            Err(why) => unfit.push((tool.name, why.brief())),
        }
    }
    if fit.is_empty() { Err(Unrecognised::Empty(unfit)) } else { Ok((Found::Tools(fit, unfit), lacks)) }
}

/// What a program was refused, as it follows why it does not answer.
fn refused(lacks: &Lacks) -> String {
    lacks.summary(REFUSALS_SHOWN).map_or_else(String::new, |told| format!("; it was refused: {told}"))
}

/// The Thing or the directory at an address, or where that of its host is.
async fn thing(web: &Web, address: &str, secret: Option<&str>, allow: &[String]) -> Result<Found, LookError> {
    let url: Url = address.parse().map_err(|_| LookError::Neither)?;
    let (seen, url) = match look(web, &url, secret).await {
        Err(error) if url.path() == "/" && error.is_of_address() => {
            let well_known = url.join("/.well-known/wot").map_err(|_| LookError::Neither)?;
            // What is said of the address itself explains more.
            (look(web, &well_known, secret).await.map_err(|_| error)?, well_known)
        }
        seen => (seen?, url),
    };
    Ok(match seen {
        Seen::Directory(entries, unlisted) => Found::Directory(entries, unlisted),
        Seen::Thing(td, notes) => {
            let terms = Terms { allowed: allow.iter().cloned().collect(), has_secret: secret.is_some() };
            let mut plan = plan(&td, &url, &terms);
            let read = notes.into_iter().map(|(at, how)| (format!("its description, {at}"), how));
            plan.left_out = read.chain(plan.left_out).collect();
            Found::Thing(url.into(), Box::new(plan))
        }
    })
}
