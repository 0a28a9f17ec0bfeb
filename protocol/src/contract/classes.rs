//! The latency classes, and the signals that control loops share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::ContractProblem;

/// The latency class, which decides how turns are scheduled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "latency", rename_all = "lowercase")]
pub enum Class {
    /// Hard real-time: each job is done by its deadline, or the agent is not admitted.
    Hrt(Hrt),
    /// Soft real-time: answers soon, ahead of delay-tolerant work.
    Srt(Srt),
    /// Delay-tolerant: runs on idle capacity.
    Dt(Dt),
}

/// A hard real-time class. Times in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hrt {
    /// The time between two jobs: exact for periodic ones, the minimum for sporadic ones.
    pub period_us: u64,
    /// From a job's release until it must be done.
    pub deadline_us: u64,
    /// Processor time of a job; a job that exceeds it is stopped.
    pub budget_us: u64,
    /// The tolerated jitter of response times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<u64>,
    /// The longest section of a job that cannot be interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_us: Option<u64>,
    /// The arrival pattern of jobs.
    #[serde(default)]
    pub arrival: Arrival,
    /// The policy after a job exceeded its budget.
    #[serde(default)]
    pub on_overrun: OnOverrun,
}

/// The arrival pattern of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// One each period.
    #[default]
    Periodic,
    /// One for each message, at least a period apart.
    Sporadic,
}

/// The policy after a job exceeded its budget. The job itself is always stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnOverrun {
    /// The next job is released as usual.
    #[default]
    Skip,
    /// The agent runs on idle capacity, without a guarantee.
    Degrade,
    /// The agent does not run until it is started again.
    Suspend,
}

/// A soft real-time class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Srt {
    /// The target for the time from a message to the first output, milliseconds.
    #[serde(default = "ttft_ms_default")]
    pub ttft_ms: u64,
    /// Of WebAssembly turns that wait for a processor those of higher priority run first.
    #[serde(default = "priority_default")]
    pub priority: u8,
    /// Whether a new message to a task interrupts the running turn.
    #[serde(default = "barge_in_default")]
    pub barge_in: bool,
}

fn barge_in_default() -> bool {
    true
}

fn ttft_ms_default() -> u64 {
    Srt::TTFT_MS_DEFAULT
}

fn priority_default() -> u8 {
    Srt::PRIORITY_DEFAULT
}

impl Srt {
    /// The default target for the first output, milliseconds.
    pub const TTFT_MS_DEFAULT: u64 = 250;
    /// The default priority.
    pub const PRIORITY_DEFAULT: u8 = 100;
}

impl Default for Srt {
    fn default() -> Srt {
        Srt { ttft_ms: ttft_ms_default(), priority: priority_default(), barge_in: barge_in_default() }
    }
}

/// The delay-tolerant class.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Dt {
    /// The cost budget; by default unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// The cost budget of an agent in a period; absent members are unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The period, seconds; it begins with the first turn.
    #[serde(default = "cost_per_s_default")]
    pub per_s: u64,
    /// Processor time, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Tokens of prompts and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The cost of models, millionths of the currency of their prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<u64>,
}

fn cost_per_s_default() -> u64 {
    86_400
}

/// The signals that an agent shares with other agents of its node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Signals {
    /// The signals that jobs read, by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// The signals that jobs write, by index, as their only writer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Fallbacks for inputs that were not set recently, by name: the writer, such as a model, may take longer than a job can
    /// wait.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fallback: BTreeMap<String, Fallback>,
    /// What outputs are held to, by name: a value that breaks it is not shown, and the last one that did not stays.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, SignalLimit>,
}

/// The fallback of a signal that was not set recently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// The age in microseconds after which the last value is stale.
    pub after_us: u64,
    /// The fallback value; by default the last value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Number>,
}

/// What the values of an output are held to; absent members are no bound.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SignalLimit {
    /// The smallest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    /// The largest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    /// The largest difference between two values that are shown one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Number>,
}

impl SignalLimit {
    /// The first thing to change in the limit of the output of that name.
    fn problem(&self, name: &str) -> Option<ContractProblem> {
        let number = |bound: &Option<Number>| bound.as_ref().and_then(Number::as_f64);
        let field = |member: &str| format!("signals.limits.{name}.{member}");
        if let (Some(min), Some(max)) = (number(&self.min), number(&self.max))
            && min > max
        {
            let message = format!("no value is at least {min} and at most {max}");
            return Some(ContractProblem::new(field("min"), "limit-range", message, format!("Write at most {max}")));
        }
        let step = number(&self.step).filter(|step| *step <= 0.0)?;
        let message = format!("an output that changes by at most {step} stays what it was");
        let fix = "Write a number greater than 0, or leave it out";
        Some(ContractProblem::new(field("step"), "limit-step", message, fix))
    }
}

impl Signals {
    pub(super) fn is_default(&self) -> bool {
        *self == Signals::default()
    }

    /// What is wrong with the limits of outputs.
    pub(super) fn limit_problems(&self) -> Vec<ContractProblem> {
        let problem = |(name, limit): (&String, &SignalLimit)| {
            if self.outputs.contains(name) {
                return limit.problem(name);
            }
            let message = format!("{name:?} is not among the outputs");
            let fix = format!("Add {name:?} to signals.outputs, or leave it out here");
            Some(ContractProblem::new(format!("signals.limits.{name}"), "limit-of-an-output", message, fix))
        };
        self.limits.iter().filter_map(problem).collect()
    }
}

/// The latency class without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, minicbor::Encode, minicbor::Decode)]
#[cbor(index_only)]
pub enum Latency {
    /// Hard real-time.
    #[n(0)]
    Hrt = 0,
    /// Soft real-time.
    #[n(1)]
    Srt = 1,
    /// Delay-tolerant.
    #[n(2)]
    Dt = 2,
}

impl Latency {
    /// `hrt`, `srt` or `dt`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Latency::Hrt => "hrt",
            Latency::Srt => "srt",
            Latency::Dt => "dt",
        }
    }
}

impl Class {
    /// The latency class without its parameters.
    #[must_use]
    pub fn latency(&self) -> Latency {
        match self {
            Class::Hrt(_) => Latency::Hrt,
            Class::Srt(_) => Latency::Srt,
            Class::Dt(_) => Latency::Dt,
        }
    }

    /// `hrt`, `srt` or `dt`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.latency().name()
    }
}
