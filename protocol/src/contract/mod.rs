//! The agent contract: what an agent is promised, and what it is held to.
//!
//! The shape is `schema/contract-1.schema.json`; what a schema cannot say is checked here. The same document means the
//! same on every node: [`Contract::digest`] names what it says, not how it was written.

mod classes;
mod problem;
mod schema;
#[cfg(test)]
mod tests;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use classes::{Arrival, Class, Cost, Dt, Fallback, Hrt, Latency, OnOverrun, Signals, Srt};
pub use problem::ContractProblem;
pub use schema::{SCHEMA, did_you_mean};

use crate::Digest;

/// The most memory of a hard real-time agent, bytes: what is more cannot be kept resident, nor be filled in a bounded
/// time.
pub const HRT_MEMORY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The memory of an agent whose contract names none, bytes.
pub const MEMORY_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// Tokens of a prompt where the contract names none.
pub const CONTEXT_TOKENS_DEFAULT: u64 = 8_192;
/// Tokens of an answer where the contract names none.
pub const OUTPUT_TOKENS_DEFAULT: u64 = 1_024;
/// Tools that one turn may call where the contract names no number.
pub const CALLS_PER_TURN_DEFAULT: u64 = 16;
/// Bytes that an agent may keep where the contract names no number.
pub const MEMORY_QUOTA_BYTES_DEFAULT: u64 = 16 * 1024 * 1024;
/// Passages that a model is handed with each message where the contract names no number.
pub const RECALL_DEFAULT: u64 = 4;
/// The memory of a hard real-time agent whose contract names none, bytes.
pub const HRT_MEMORY_BYTES_DEFAULT: u64 = 1024 * 1024;

/// What an agent is promised, and what it is held to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// The latency class.
    pub class: Class,
    /// The numbers that it shares with others of its node.
    #[serde(default, skip_serializing_if = "Signals::is_default")]
    pub signals: Signals,
    /// The only tools that it may call: `server/tool`, or `server/*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// How models and tools are chosen.
    #[serde(default, skip_serializing_if = "BindingMode::is_default")]
    pub binding: BindingMode,
    /// What models it may use.
    #[serde(default, skip_serializing_if = "ModelPolicy::is_default")]
    pub model: ModelPolicy,
    /// What it is granted.
    #[serde(default, skip_serializing_if = "Security::is_default")]
    pub security: Security,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Compute::is_default")]
    pub compute: Compute,
    /// What it keeps beyond its tasks; without it nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Where it may run.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// How far what it works on may go.
    #[serde(default, skip_serializing_if = "DataLabel::is_default")]
    pub data_label: DataLabel,
    /// What traces tell of it.
    #[serde(default, skip_serializing_if = "Observability::is_default")]
    pub observability: Observability,
}

/// How far data may go; the later words are the narrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataLabel {
    /// To everybody.
    Public,
    /// To whatever the owner's nodes are set up to use.
    #[default]
    Internal,
    /// To what is cleared for it.
    Confidential,
    /// To what is cleared for it, and nothing else.
    Restricted,
}

impl DataLabel {
    fn is_default(&self) -> bool {
        *self == DataLabel::default()
    }

    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DataLabel::Public => "public",
            DataLabel::Internal => "internal",
            DataLabel::Confidential => "confidential",
            DataLabel::Restricted => "restricted",
        }
    }
}

/// What traces tell of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Observability {
    /// Nothing of what it does.
    None,
    /// Which turns, models and tools, how long, and hashes.
    #[default]
    Calls,
    /// What was said to it, to its models and tools, and by them, too.
    Content,
}

impl Observability {
    fn is_default(&self) -> bool {
        *self == Observability::default()
    }
}

/// How models and tools are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BindingMode {
    /// The first model, and every tool, or nothing runs.
    Strict,
    /// The highest version in the range of the first model that is offered.
    Smooth,
    /// Of all models that are allowed, the cheapest that keeps the aim.
    #[default]
    Flexible,
}

impl BindingMode {
    fn is_default(&self) -> bool {
        *self == BindingMode::default()
    }
}

/// What models an agent may use, and how much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelPolicy {
    /// The only ones, by name, or by name and versions (`NAME@RANGE`), the preferred first; any where none is named.
    pub models: Vec<String>,
    /// Tokens that a prompt may have.
    pub context_tokens: u64,
    /// Tokens that an answer may have.
    pub output_tokens: u64,
}

impl ModelPolicy {
    fn is_default(&self) -> bool {
        *self == ModelPolicy::default()
    }
}

impl Default for ModelPolicy {
    fn default() -> ModelPolicy {
        ModelPolicy { models: Vec::new(), context_tokens: CONTEXT_TOKENS_DEFAULT, output_tokens: OUTPUT_TOKENS_DEFAULT }
    }
}

/// What an agent is granted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Security {
    /// Secrets of the node that are used for it, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Tools among `capabilities` that it may call only where a person consents: `server/tool`, or `server/*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consent_for: Vec<String>,
}

impl Security {
    fn is_default(&self) -> bool {
        *self == Security::default()
    }
}

/// What an agent may use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Compute {
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Milliseconds of running that one turn may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms_per_turn: Option<u64>,
    /// Tools that one turn may call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_turn: Option<u64>,
    /// Tokens that prompt and answer of one turn may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_turn: Option<u64>,
}

impl Compute {
    fn is_default(&self) -> bool {
        *self == Compute::default()
    }
}

/// What an agent keeps beyond its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Where; the agent's own name where none is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Agents that may use the namespace too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub share_with: Vec<String>,
    /// Seconds after which what was kept is gone; for ever where none is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_s: Option<u64>,
    /// Bytes that may be kept.
    pub quota_bytes: u64,
    /// The node's secret that encrypts the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_secret: Option<String>,
    /// Whether every answer must cite what is kept.
    pub require_grounding: bool,
    /// Passages that a model is handed with each message.
    pub recall: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            namespace: None,
            share_with: Vec::new(),
            retention_s: None,
            quota_bytes: MEMORY_QUOTA_BYTES_DEFAULT,
            encryption_secret: None,
            require_grounding: false,
            recall: RECALL_DEFAULT,
        }
    }
}

/// Where an agent may run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Placement {
    /// The least that the machine must be capable of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_grade: Option<Grade>,
    /// What the node's owner must say of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl Placement {
    fn is_default(&self) -> bool {
        *self == Placement::default()
    }
}

/// What a machine is capable of; the better one is the lesser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Encode, Decode)]
#[cbor(index_only)]
pub enum Grade {
    /// Real-time scheduling, and hardly ever a stall.
    #[n(0)]
    A,
    /// Real-time scheduling; stalls were seen.
    #[n(1)]
    B,
    /// No privilege for real-time scheduling.
    #[n(2)]
    C,
}

impl std::fmt::Display for Grade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// Does a capability, `server/tool` or `server/*`, cover a tool, or another capability that is no wider?
#[must_use]
pub fn covers(capability: &str, tool: &str) -> bool {
    let server = |name: &str| name.split_once('/').map(|(server, _)| server.to_owned());
    capability == tool || capability.strip_suffix("/*").is_some_and(|of| server(tool).as_deref() == Some(of))
}

impl Contract {
    /// Reads a contract from its JSON form (YAML is read to JSON first).
    ///
    /// # Errors
    /// Everything to change, each with its field, rule and remedy.
    pub fn from_value(value: &Value) -> Result<Contract, Vec<ContractProblem>> {
        let problems = schema::check(value);
        if !problems.is_empty() {
            return Err(problems);
        }
        let unread = |error: serde_json::Error| {
            vec![ContractProblem::new("", "shape", error.to_string(), "Write it as the JSON Schema says")]
        };
        let contract = Contract::deserialize(value).map_err(unread)?;
        let problems = contract.check();
        if problems.is_empty() { Ok(contract) } else { Err(problems) }
    }

    /// What a schema cannot say; nothing where all is well.
    #[must_use]
    pub fn check(&self) -> Vec<ContractProblem> {
        let mut problems = Vec::new();
        let mut refuse = |field: &str, rule, message: String, fix: String| {
            problems.push(ContractProblem::new(field, rule, message, fix));
        };
        let Signals { inputs, outputs, fallback } = &self.signals;
        if let Some(name) = fallback.keys().find(|name| !inputs.contains(name)) {
            let message = format!("{name:?} is not among the inputs");
            let fix = format!("Add {name:?} to signals.inputs, or leave it out here");
            refuse(&format!("signals.fallback.{name}"), "fallback-of-an-input", message, fix);
        }
        if let Some(name) = outputs.iter().find(|name| inputs.contains(name)) {
            let message = format!("{name:?} is among the inputs too");
            let fix = "Keep what a job must remember in its memory".to_owned();
            refuse("signals.outputs", "signal-both-ways", message, fix);
        }
        if let Class::Dt(Dt { cost: Some(cost) }) = &self.class
            && (cost.cpu_ms, cost.tokens, cost.spend) == (None, None, None)
        {
            let fix = "Write cpu_ms, tokens or spend, or leave cost out".to_owned();
            refuse("class.cost", "too-few", "it bounds nothing".to_owned(), fix);
        }
        let covered = |pattern: &String| self.capabilities.iter().any(|capability| covers(capability, pattern));
        if let Some((place, pattern)) = self.security.consent_for.iter().enumerate().find(|(_, it)| !covered(it)) {
            let message = format!("{pattern:?} is not among the capabilities, so that nobody is asked for it");
            let fix = format!("Add {pattern:?} to capabilities, or leave it out here");
            refuse(&format!("security.consent_for[{place}]"), "consent-for-capability", message, fix);
        }
        if let Some(secret) = self.memory.as_ref().and_then(|memory| memory.encryption_secret.as_ref())
            && !self.security.secrets.contains(secret)
        {
            let fix = format!("Add {secret:?} to security.secrets");
            refuse("memory.encryption_secret", "secret-granted", format!("{secret:?} is not granted"), fix);
        }
        let Class::Hrt(hrt) = &self.class else { return problems };
        if self.memory.is_some() {
            let message = "a hard real-time job waits for no disk".to_owned();
            refuse("memory", "hrt-keeps-nothing", message, "Keep it with an agent of another class".to_owned());
        }
        if hrt.budget_us > hrt.deadline_us {
            let message = format!("a job that runs for {} µs is not done within {} µs", hrt.budget_us, hrt.deadline_us);
            let fix = format!("Write a budget of at most {}, or a later deadline", hrt.deadline_us);
            refuse("class.budget_us", "budget-within-deadline", message, fix);
        }
        if hrt.budget_us > hrt.period_us {
            let message = format!("a job of {} µs each {} µs is more than a core has", hrt.budget_us, hrt.period_us);
            let fix = format!("Write a budget of at most {}, or a longer period", hrt.period_us);
            refuse("class.budget_us", "budget-within-period", message, fix);
        }
        if hrt.section_us.is_some_and(|section| section > hrt.budget_us) {
            let fix = format!("Write at most {}, the budget", hrt.budget_us);
            refuse("class.section_us", "section-within-budget", "a section is a part of a job".to_owned(), fix);
        }
        if hrt.jitter_us.is_some_and(|jitter| jitter > hrt.deadline_us) {
            let fix = format!("Write at most {}, the deadline, or leave it out", hrt.deadline_us);
            refuse("class.jitter_us", "jitter-within-deadline", "response times differ by less".to_owned(), fix);
        }
        if self.compute.memory_bytes.is_some_and(|bytes| bytes > HRT_MEMORY_BYTES_MAX) {
            let message = "a hard real-time agent's memory is kept resident".to_owned();
            refuse("compute.memory_bytes", "hrt-memory", message, format!("Write at most {HRT_MEMORY_BYTES_MAX}"));
        }
        problems
    }

    /// Names what the contract says: SHA-256 of its canonical JSON (RFC 8785), defaults filled in.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let json = serde_json_canonicalizer::to_vec(self).expect("a contract holds nothing that JSON does not");
        crate::digest(&json)
    }

    /// Bytes of memory that the agent may use.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.compute.memory_bytes.unwrap_or(match self.class {
            Class::Hrt(_) => HRT_MEMORY_BYTES_DEFAULT,
            Class::Srt(_) | Class::Dt(_) => MEMORY_BYTES_DEFAULT,
        })
    }
}
