//! The agent contract: the guarantees and the limits of an agent.
//!
//! The schema is `schema/contract-1.schema.json`; rules beyond a schema are checked here. A contract means the same on every
//! node: [`Contract::digest`] depends on its content, not on its notation.

mod answer_schema;
mod classes;
mod problem;
mod schema;
#[cfg(test)]
mod tests;
mod verify;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use answer_schema::{ANSWER_DEPTH_MAX, ANSWER_SCHEMA_BYTES_MAX, AnswerSchema, Breach, SchemaFault};
pub use classes::{Arrival, Class, Cost, Dt, Fallback, Hrt, Latency, OnOverrun, SignalLimit, Signals, Srt};
pub use problem::ContractProblem;
pub use schema::{SCHEMA, did_you_mean};
pub use verify::{CHECK_WITHIN_MS_DEFAULT, Check, Delivery, OutputRule, Schemas, Verify};

use crate::Digest;

/// The most memory of a hard real-time agent, bytes: more could not be kept resident, nor filled in a bounded time.
pub const HRT_MEMORY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The default memory of an agent, bytes.
pub const MEMORY_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// The default for tokens of a prompt.
pub const CONTEXT_TOKENS_DEFAULT: u64 = 8_192;
/// The default for tokens of an answer.
pub const OUTPUT_TOKENS_DEFAULT: u64 = 1_024;
/// The default for tool calls of one turn.
pub const CALLS_PER_TURN_DEFAULT: u64 = 16;
/// The default for the memory quota, bytes.
pub const MEMORY_QUOTA_BYTES_DEFAULT: u64 = 16 * 1024 * 1024;
/// The default for passages that are recalled for each message.
pub const RECALL_DEFAULT: u64 = 4;
/// The default memory of a hard real-time agent, bytes.
pub const HRT_MEMORY_BYTES_DEFAULT: u64 = 1024 * 1024;
/// The longest name of a tool at its server, bytes.
pub const TOOL_NAME_MAX: usize = 128;

/// The guarantees and the limits of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// The latency class.
    pub class: Class,
    /// The signals that it shares with other agents of its node.
    #[serde(default, skip_serializing_if = "Signals::is_default")]
    pub signals: Signals,
    /// The only tools that it may call: `server/tool`, or `server/*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// How models and tools are chosen.
    #[serde(default, skip_serializing_if = "BindingMode::is_default")]
    pub binding: BindingMode,
    /// The models that it may use.
    #[serde(default, skip_serializing_if = "ModelPolicy::is_default")]
    pub model: ModelPolicy,
    /// The secrets and consents of the agent.
    #[serde(default, skip_serializing_if = "Security::is_default")]
    pub security: Security,
    /// The limits of its resources.
    #[serde(default, skip_serializing_if = "Compute::is_default")]
    pub compute: Compute,
    /// Its memory beyond its tasks; without it, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Where it may run.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// The label of the data that it works on.
    #[serde(default, skip_serializing_if = "DataLabel::is_default")]
    pub data_label: DataLabel,
    /// What traces record of it.
    #[serde(default, skip_serializing_if = "Observability::is_default")]
    pub observability: Observability,
    /// What is kept of its turns that are over.
    #[serde(default, skip_serializing_if = "TurnRecord::is_default")]
    pub record: TurnRecord,
    /// What an answer must be before anybody sees it.
    #[serde(default, skip_serializing_if = "Verify::is_default")]
    pub verify: Verify,
}

/// The label of data; later ones are stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "lowercase")]
#[cbor(index_only)]
pub enum DataLabel {
    /// May go anywhere.
    #[n(0)]
    Public,
    /// May go to any service that the owner's nodes are configured to use.
    #[default]
    #[n(1)]
    Internal,
    /// May go only to services that are cleared for it.
    #[n(2)]
    Confidential,
    /// May go only to services that are cleared for this strictest label.
    #[n(3)]
    Restricted,
}

impl DataLabel {
    fn is_default(&self) -> bool {
        *self == DataLabel::default()
    }

    /// Its name.
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

/// What traces record of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Observability {
    /// Nothing.
    None,
    /// Turns, models, tools, durations and hashes.
    #[default]
    Calls,
    /// Also the content of messages, model requests and tool calls.
    Content,
}

impl Observability {
    fn is_default(&self) -> bool {
        *self == Observability::default()
    }
}

/// What is kept of an agent's turns that are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnRecord {
    /// Nothing but their tasks.
    #[default]
    None,
    /// Their journals, with their tasks, while the node has room.
    Tape,
}

impl TurnRecord {
    fn is_default(&self) -> bool {
        *self == TurnRecord::default()
    }
}

/// How models and tools are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BindingMode {
    /// The first model and every tool must be available.
    Strict,
    /// The highest version in range of the first available model.
    Smooth,
    /// The cheapest allowed model that meets the latency target.
    #[default]
    Flexible,
}

impl BindingMode {
    fn is_default(&self) -> bool {
        *self == BindingMode::default()
    }
}

/// The models that an agent may use, and their limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelPolicy {
    /// The allowed models by name, or by name and versions (`NAME@RANGE`), the preferred first; empty: any.
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

/// The secrets and consents of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Security {
    /// Secrets of the node that are used for it, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Tools among `capabilities` that it may call only where a person consents: `server/tool`, or `server/*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consent_for: Vec<String>,
    /// The highest tier of tools that it may call, as the profiles of tools say it, and of models that it may be bound to, 0 to 9; without
    /// it, any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tier: Option<u8>,
}

impl Security {
    fn is_default(&self) -> bool {
        *self == Security::default()
    }
}

/// The limits of the resources of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Compute {
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processor time of one turn, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms_per_turn: Option<u64>,
    /// Tool calls of one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_turn: Option<u64>,
    /// Tokens of prompts and answers of one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_turn: Option<u64>,
}

impl Compute {
    fn is_default(&self) -> bool {
        *self == Compute::default()
    }
}

/// The memory of an agent beyond its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The namespace; by default the agent's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Other agents that may use the namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub share_with: Vec<String>,
    /// The retention in seconds; by default unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_s: Option<u64>,
    /// The quota, bytes.
    pub quota_bytes: u64,
    /// The node's secret that encrypts the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_secret: Option<String>,
    /// Whether every answer must cite the memory.
    pub require_grounding: bool,
    /// Passages that are recalled for each message.
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
    /// The minimum grade of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_grade: Option<Grade>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl Placement {
    fn is_default(&self) -> bool {
        *self == Placement::default()
    }
}

/// The real-time grade of a machine; the best one is the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Encode, Decode)]
#[cbor(index_only)]
pub enum Grade {
    /// Real-time scheduling, with stalls only very rarely.
    #[n(0)]
    A,
    /// Real-time scheduling, with stalls.
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

/// Whether a capability (`server/tool` or `server/*`) covers a tool or another capability.
#[must_use]
pub fn covers(capability: &str, tool: &str) -> bool {
    let server = |name: &str| name.split_once('/').map(|(server, _)| server.to_owned());
    capability == tool || capability.strip_suffix("/*").is_some_and(|of| server(tool).as_deref() == Some(of))
}

/// Whether `capabilities` can name a tool that has that name at its server: letters, digits, `_`, `.` and `-`, 1 to
/// [`TOOL_NAME_MAX`] of them. The schema says the same in a pattern.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=TOOL_NAME_MAX).contains(&name.len()) && name.bytes().all(is_one)
}

impl Contract {
    /// The contract of that class in which nothing else is written.
    #[must_use]
    pub fn of(class: Class) -> Contract {
        Contract {
            class,
            signals: Signals::default(),
            capabilities: Vec::new(),
            binding: BindingMode::default(),
            model: ModelPolicy::default(),
            security: Security::default(),
            compute: Compute::default(),
            memory: None,
            placement: Placement::default(),
            data_label: DataLabel::default(),
            observability: Observability::default(),
            record: TurnRecord::default(),
            verify: Verify::default(),
        }
    }

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

    /// The rules beyond the schema; none if all hold.
    #[must_use]
    pub fn check(&self) -> Vec<ContractProblem> {
        let covered = |pattern: &String| self.capabilities.iter().any(|capability| covers(capability, pattern));
        let mut problems = self.verify.problems(covered);
        problems.extend(self.signals.limit_problems());
        let mut refuse = |field: &str, rule, message: String, fix: String| {
            problems.push(ContractProblem::new(field, rule, message, fix));
        };
        let Signals { inputs, outputs, fallback, .. } = &self.signals;
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

    /// SHA-256 of its canonical JSON (RFC 8785) with defaults filled in.
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
