//! The agent file (`agent.yaml`), which a person writes to run and publish an agent.
//!
//! Everything that others may see goes into the Thing Description ([`crate::describe`]); how it runs, who may call it
//! and who may see it stay on this machine.

mod check;
mod effect;
mod environment;
mod place;
mod read;
mod sandbox;
mod session;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use althing_protocol::Contract;
use althing_protocol::contract::DataLabel;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::reader::yaml::{self, YamlError};
use crate::reader::{FileProblem, lines};

pub(crate) use check::sandbox_problems;
pub use check::{
    ACTION_CHARS_MAX, CALLERS_MAX, COMMAND_ITEMS_MAX, CONFIG_BYTES_MAX, DESCRIPTION_CHARS_MAX, ENV_MAX,
    EXAMPLE_CHARS_MAX, EXAMPLES_MAX, MODES_MAX, NAME_CHARS_MAX, SKILL_ID_CHARS_MAX, SKILLS_MAX, STARTUP_TIMEOUT_MS_MAX,
    STARTUP_TIMEOUT_MS_MIN, TAG_CHARS_MAX, TAGS_MAX, TEXT_BYTES_MAX, TITLE_CHARS_MAX,
};
pub use effect::Effect;
pub use environment::Environment;
pub use place::Place;
pub(crate) use read::sandbox::sandbox as read_sandbox;
pub use sandbox::{Demand, Egress, NoHost, OwnFolder, Sandbox};
pub use session::{Resume, SessionSpec};
pub use terms::ToolTerms;

/// The longest agent file, in bytes.
pub const AGENT_FILE_BYTES_MAX: usize = 256 * 1024;
/// The default version of an agent or a skill.
pub const VERSION_DEFAULT: &str = "1.0.0";
/// The default media type of an agent.
pub const MODE_DEFAULT: &str = "text/plain";
/// The default for how long a process agent may take to answer after its start, in milliseconds.
pub const STARTUP_TIMEOUT_MS_DEFAULT: u64 = 10_000;

/// An agent as its owner wrote it, defaults filled in. It is stored as JSON of the same shape as the YAML.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentFile {
    /// The last part of the agent's URN: `[a-z0-9-]`, 1 to 63 characters.
    pub name: String,
    /// The title for people; by default the name.
    pub title: String,
    /// What it does, for people and for search.
    pub description: String,
    /// Its version (semver 2.0.0).
    pub version: String,
    /// What it can do, ids distinct.
    #[serde(default)]
    pub skills: Vec<Skill>,
    /// How it runs. Local.
    pub runtime: RuntimeSpec,
    /// Its tool servers, by name. Local.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolServerSpec>,
    /// What their tools do outside, where the file says it (`effect` beside a server), by `server/tool` or `server/*`. Local.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, Effect>,
    /// What else it says of them (`profiles` beside a server), by `server/tool` or `server/*`. Local.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub profiles: BTreeMap<String, ToolTerms>,
    /// Which of their tools others may call as they are: `server/tool` or `server/*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expose: Vec<String>,
    /// The model of embeddings for its memory; by default the built-in one. Local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<ModelEndpoint>,
    /// The node's template on which the contract is based. Local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The contract as written, without defaults. Local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Value>,
    /// The contract; without one the agent does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// The file of the contract, if it is not inline.
    #[serde(skip)]
    pub contract_file: Option<PathBuf>,
    /// Who may call it. Local policy, not in the description.
    #[serde(default)]
    pub callers: Callers,
    /// Who may see it. Local policy, not in the description.
    #[serde(default)]
    pub exposure: Exposure,
    /// On whose behalf it calls other agents. Local policy, not in the description.
    #[serde(default, skip_serializing_if = "AsksAs::is_default")]
    pub asks_as: AsksAs,
    /// Whose sign-offs count under handoffs from it and to it, as lines of `.pub` files of OpenSSH. Local policy, not in the
    /// description.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoff_signers: Vec<String>,
    /// What becomes of turns that the node cut off. Local.
    #[serde(default, skip_serializing_if = "SessionSpec::is_default")]
    pub session: SessionSpec,
    /// The media types that it reads.
    pub input_modes: Vec<String>,
    /// The media types that it writes.
    pub output_modes: Vec<String>,
}

/// One thing that an agent can do; it becomes an LMOS capability and an A2A skill.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Skill {
    /// Its identifier: `[a-z0-9._:-]`, 1 to 128 characters.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The verb, for exact search: `reserve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// What the verb acts on: `seat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Words for search.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Example requests.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Its version (semver 2.0.0); that of the agent where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How an agent runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeSpec {
    /// Inside the node.
    Native {
        /// The name of the built-in agent, for example `echo`.
        builtin: String,
        /// The configuration of that agent, which defines its shape.
        #[serde(default)]
        config: Value,
    },
    /// A prompt and a model.
    Model {
        /// The system prompt.
        prompt: String,
        /// The endpoints of models, in the order in which they are tried; those of the node are offered too.
        #[serde(default)]
        endpoints: Vec<ModelEndpoint>,
        /// The sampling temperature; by default that of the endpoint.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        temperature: Option<f64>,
    },
    /// A WebAssembly module, in the node's sandbox.
    Wasm {
        /// The file: `.wasm`, or `.wat` for the text format.
        module: PathBuf,
    },
    /// A program that speaks A2A over HTTP on the Unix socket that it is handed (`LISTEN_FDS`; its path in
    /// `ALTHING_SOCKET`), or on a port.
    Process {
        /// The program and its arguments; never a shell line.
        command: Vec<String>,
        /// The directory it runs in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<PathBuf>,
        /// Variables added to its environment.
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// How long it may take until it answers, in milliseconds.
        #[serde(default = "startup_timeout_ms_default")]
        startup_timeout_ms: u64,
        /// The port that it listens on, for a program that cannot listen on a socket: every account of the machine can
        /// reach it there. None: the socket.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<ProgramPort>,
        /// What it may read, write and reach beside its folder.
        #[serde(default, skip_serializing_if = "Sandbox::is_default")]
        sandbox: Sandbox,
    },
    /// A server elsewhere that speaks A2A over HTTP; the node passes messages on.
    Remote {
        /// Where its agent card is: the base address, without `/.well-known/agent-card.json`.
        url: String,
        /// The node's secret that is sent as a bearer token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// The digest of the card that was agreed to, 64 hexadecimal digits; while the server shows another one, nothing is
        /// passed on. Without it any card will do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        card: Option<String>,
        /// The key that signed that card, as [`crate::SignerKey`] is written; while the server shows a card that is not signed by it, nothing
        /// is passed on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signed_by: Option<String>,
        /// Where the name in the address may lead: where it led when the server was adopted. None: anywhere.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leads_to: Vec<Place>,
    },
}

/// The port of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramPort {
    /// One that the node chooses, on loopback: in the environment variable `PORT`, and as `{port}` in the arguments.
    Tcp,
}

/// Whether a bearer token may be sent there: over https, or to this very machine.
#[must_use]
pub fn keeps_bearer(url: &str) -> bool {
    if url.starts_with("https://") {
        return true;
    }
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if let Some(v6) = authority.strip_prefix('[') {
        let host = v6.split_once(']').map(|(host, _)| host);
        return host.and_then(|host| host.parse::<Ipv6Addr>().ok()).is_some_and(|host| host.is_loopback());
    }
    let host = authority.split_once(':').map_or(authority, |(host, _)| host);
    // With user information the host may be misread.
    !authority.contains('@')
        && (host.eq_ignore_ascii_case("localhost") || host.parse::<Ipv4Addr>().is_ok_and(|host| host.is_loopback()))
}

/// The remedy when [`keeps_bearer`] is false.
pub const BEARER_FIX: &str =
    "Write https://, or an address of this machine (http://127.0.0.1:PORT); or leave `secret` out";

/// A tool server: one that speaks MCP, or a Thing of the Web of Things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolServerSpec {
    /// A program that is started, on its standard input and output.
    Command {
        /// The program and its arguments; never a shell line.
        command: Vec<String>,
        /// The directory it runs in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<PathBuf>,
        /// Variables added to its environment.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
        /// Variables added to its environment whose values are secrets of the node, by the secrets' names.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env_secrets: BTreeMap<String, String>,
        /// What it may read, write and reach beside its folder.
        #[serde(default, skip_serializing_if = "Sandbox::is_default")]
        sandbox: Sandbox,
    },
    /// A Thing, whose affordances are its tools.
    Thing {
        /// Where its Thing Description is: `http://192.0.2.7:8080/lamp`.
        thing: String,
        /// The node's secret that is sent as the description's security says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// Origins beside that of the description which its forms may lead to: `http://192.0.2.7:8081`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow: Vec<String>,
        /// The digest of the description that was agreed to, 64 hexadecimal digits; while the Thing shows another one, nothing
        /// is sent to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        td: Option<String>,
        /// Where the names in its address and under `allow` may lead: where they led when the Thing was adopted. None: anywhere.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leads_to: Vec<Place>,
    },
    /// An address, over streamable HTTP.
    Url {
        /// `http://127.0.0.1:9000/mcp`.
        url: String,
        /// The node's secret that is sent as a bearer token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// Where the name in the address may lead: where it led when the server was adopted. None: anywhere.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leads_to: Vec<Place>,
    },
}

impl ToolServerSpec {
    /// The name of the node's secret that is sent there.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        match self {
            ToolServerSpec::Command { .. } => None,
            ToolServerSpec::Thing { secret, .. } | ToolServerSpec::Url { secret, .. } => secret.as_deref(),
        }
    }

    /// Where the name in its address may lead; anywhere, if that is empty.
    #[must_use]
    pub fn leads_to(&self) -> &[Place] {
        match self {
            ToolServerSpec::Url { leads_to, .. } | ToolServerSpec::Thing { leads_to, .. } => leads_to,
            ToolServerSpec::Command { .. } => &[],
        }
    }

    /// The names of all secrets of the node that it uses: the one that is sent there, or those in its program's environment and
    /// those that the node adds to what its program asks.
    #[must_use]
    pub fn secrets(&self) -> Vec<&str> {
        match self {
            ToolServerSpec::Command { env_secrets, sandbox, .. } => {
                env_secrets.values().map(String::as_str).chain(sandbox.secrets()).collect()
            }
            _ => self.secret().into_iter().collect(),
        }
    }
}

/// An endpoint of a model: any service that speaks OpenAI's chat completions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEndpoint {
    /// The address up to `/chat/completions`: `http://127.0.0.1:8000/v1`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// The node's secret that is shown as a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Its name in contracts; by default the model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version (semver 2.0.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The longest prompt, tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The quantisation of its weights: `q4_k_m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantisation: Option<String>,
    /// The time to the first token, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// The price of a million tokens, in millionths of one currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Its clearance for data; by default internal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clearance: Option<DataLabel>,
    /// How much care it needs, 0 to [`ToolTerms::TIER_MAX`]; one of which nobody wrote it has the highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
}

impl ModelEndpoint {
    /// Its name in contracts.
    #[must_use]
    pub fn named(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.model)
    }
}

fn startup_timeout_ms_default() -> u64 {
    STARTUP_TIMEOUT_MS_DEFAULT
}

/// Who may call an agent; checked at the receiver before anything runs. Written as one of four words or as a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Callers {
    /// `this-node`: only what runs on the same node.
    ThisNode,
    /// `own`: the owner's nodes.
    Own,
    /// `trusted`: those whom the owner trusts too.
    #[default]
    Trusted,
    /// `anyone`: every peer.
    Anyone,
    /// A list of owners (`urn:althing:zQm…`) and nodes (`did:key:z6Mk…`).
    Listed(Vec<String>),
}

impl Callers {
    pub(crate) const WORDS: [&'static str; 4] = ["this-node", "own", "trusted", "anyone"];

    pub(crate) fn from_word(word: &str) -> Option<Callers> {
        match word {
            "this-node" => Some(Callers::ThisNode),
            "own" => Some(Callers::Own),
            "trusted" => Some(Callers::Trusted),
            "anyone" => Some(Callers::Anyone),
            _ => None,
        }
    }

    /// Who sees an agent that those may call, where nobody says more: whoever may call it.
    pub fn exposure(&self) -> Exposure {
        match self {
            Callers::ThisNode => Exposure::Hidden,
            Callers::Own => Exposure::Own,
            Callers::Trusted | Callers::Listed(_) => Exposure::Trusted,
            Callers::Anyone => Exposure::Public,
        }
    }

    /// The word in the file; none for a list.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            Callers::ThisNode => Some("this-node"),
            Callers::Own => Some("own"),
            Callers::Trusted => Some("trusted"),
            Callers::Anyone => Some("anyone"),
            Callers::Listed(_) => None,
        }
    }
}

impl Serialize for Callers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self, self.word()) {
            (Callers::Listed(dids), _) => dids.serialize(serializer),
            (_, word) => word.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Callers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Callers, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Word(String),
            List(Vec<String>),
        }
        match Written::deserialize(deserializer)? {
            Written::List(dids) => Ok(Callers::Listed(dids)),
            Written::Word(word) => Callers::from_word(&word).ok_or_else(|| {
                serde::de::Error::custom(format!("{word:?} is not one of {}", Callers::WORDS.join(", ")))
            }),
        }
    }
}

/// Who may see an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// Everyone, also in lists for others; this does not allow calls.
    #[default]
    Public,
    /// The owner's nodes, and those whom the owner trusts.
    Trusted,
    /// The owner's nodes.
    Own,
    /// Nobody else: never on mDNS, the DHT or in a list for others.
    Hidden,
}

impl Exposure {
    pub(crate) const WORDS: [&'static str; 4] = ["public", "trusted", "own", "hidden"];

    pub(crate) fn from_word(word: &str) -> Option<Exposure> {
        match word {
            "public" => Some(Exposure::Public),
            "trusted" => Some(Exposure::Trusted),
            "own" => Some(Exposure::Own),
            "hidden" => Some(Exposure::Hidden),
            _ => None,
        }
    }
}

/// On whose behalf an agent calls others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AsksAs {
    /// On behalf of its caller: it may not do what the caller may not.
    #[default]
    Caller,
    /// On its own behalf: the called agent does not see the original caller.
    Itself,
}

impl AsksAs {
    pub(crate) const WORDS: [&'static str; 2] = ["caller", "itself"];

    pub(crate) fn from_word(word: &str) -> Option<AsksAs> {
        match word {
            "caller" => Some(AsksAs::Caller),
            "itself" => Some(AsksAs::Itself),
            _ => None,
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's `skip_serializing_if` passes a reference")]
    fn is_default(&self) -> bool {
        *self == AsksAs::default()
    }
}

/// Why an agent file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentFileError {
    /// The file is longer than [`AGENT_FILE_BYTES_MAX`].
    #[error(
        "the agent file has {len} bytes, the limit is {max}: keep data in files of its own and name them in config"
    )]
    TooLarge {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The text is not one YAML document within the reader's limits.
    #[error("the agent file is not YAML that can be read: line {line}, column {column}: {message}")]
    Yaml {
        /// Line, from 1; 0 where unknown.
        line: u64,
        /// Column in characters, from 1; 0 where unknown.
        column: u64,
        /// What was found, and what to do.
        message: String,
    },
    /// The YAML is not an agent.
    #[error("the agent file needs {} change(s):\n{}", .0.len(), lines(.0))]
    Invalid(
        /// Everything to change, in the order of the file's fields.
        Vec<FileProblem>,
    ),
}

impl From<YamlError> for AgentFileError {
    fn from(error: YamlError) -> AgentFileError {
        let YamlError { line, column, message } = error;
        AgentFileError::Yaml { line, column, message }
    }
}

/// Reads a contract that stands in a file of its own (YAML or JSON).
///
/// # Errors
/// [`AgentFileError`]: too large, not YAML, or a list of everything to change.
pub fn parse_contract(text: &str) -> Result<Contract, AgentFileError> {
    read::contract(&contract_tree(text)?, "").map_err(AgentFileError::Invalid)
}

/// Reads a layer of a contract as written; checks only its syntax.
///
/// # Errors
/// [`AgentFileError`]: too large, or not YAML.
pub fn parse_partial_contract(text: &str) -> Result<Value, AgentFileError> {
    Ok(contract_tree(text)?.to_json())
}

fn contract_tree(text: &str) -> Result<yaml::At, AgentFileError> {
    if text.len() > AGENT_FILE_BYTES_MAX {
        return Err(AgentFileError::TooLarge { len: text.len(), max: AGENT_FILE_BYTES_MAX });
    }
    Ok(yaml::parse(text)?)
}

impl AgentFile {
    /// Reads `agent.yaml`. Unknown keys are refused, each with the known key that it resembles.
    ///
    /// # Errors
    /// [`AgentFileError`]: too large, not YAML, or a list of everything to change.
    pub fn parse(text: &str) -> Result<AgentFile, AgentFileError> {
        if text.len() > AGENT_FILE_BYTES_MAX {
            return Err(AgentFileError::TooLarge { len: text.len(), max: AGENT_FILE_BYTES_MAX });
        }
        let root = yaml::parse(text)?;
        let (file, mut problems) = read::read(&root);
        if let Some(file) = &file {
            for mut problem in check::check(file) {
                problem.line = root.line_of(&problem.field);
                problems.push(problem);
            }
        }
        match file {
            Some(file) if problems.is_empty() => Ok(file),
            _ => Err(AgentFileError::Invalid(problems)),
        }
    }

    /// Whether the owner lets others call a tool (`server/tool`) as it is. What the agent may not call itself, nobody calls
    /// through it.
    #[must_use]
    pub fn exposes(&self, tool: &str) -> bool {
        self.expose.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(prefix) => tool.starts_with(prefix),
            None => tool == wanted,
        })
    }

    /// Checks an agent that did not come from [`AgentFile::parse`]: built by a program, or read back from disk.
    ///
    /// # Errors
    /// [`AgentFileError::Invalid`] with everything to change.
    pub fn check(&self) -> Result<(), AgentFileError> {
        let problems = check::check(self);
        if problems.is_empty() { Ok(()) } else { Err(AgentFileError::Invalid(problems)) }
    }
}
