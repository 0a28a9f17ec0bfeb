//! The latency classes, and the signals that control loops share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The latency class, which decides how turns are scheduled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "latency", rename_all = "lowercase")]
pub enum Class {
    /// Hard real-time: each job is done by its deadline, or the agent is not admitted.
    Hrt(Hrt),
    /// Soft real-time: answers soon, by priority.
    Srt(Srt),
    /// Delay-tolerant: what is left over.
    Dt(Dt),
}

/// A hard real-time class. Times in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hrt {
    /// Between two jobs: exactly for periodic ones, at least for sporadic ones.
    pub period_us: u64,
    /// From a job's release until it must be done.
    pub deadline_us: u64,
    /// Running that a job may take; one that takes more is stopped.
    pub budget_us: u64,
    /// By which the response times of two jobs may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<u64>,
    /// For which a job cannot be interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_us: Option<u64>,
    /// When jobs come.
    #[serde(default)]
    pub arrival: Arrival,
    /// What happens after a job took more than its budget.
    #[serde(default)]
    pub on_overrun: OnOverrun,
}

/// When jobs come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// One each period.
    #[default]
    Periodic,
    /// One for each message, a period apart at least.
    Sporadic,
}

/// What happens after a job took more than its budget. The job itself is always stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnOverrun {
    /// Nothing more: the next job is released as ever.
    #[default]
    Skip,
    /// The agent goes on with what is left over, without a promise.
    Degrade,
    /// The agent is not run until somebody starts it again.
    Suspend,
}

/// A soft real-time class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Srt {
    /// Milliseconds from a message to the first output that the agent aims at.
    #[serde(default = "ttft_ms_default")]
    pub ttft_ms: u64,
    /// Turns of higher priority go first.
    #[serde(default = "priority_default")]
    pub priority: u8,
    /// Whether a new message to a task stops the answer that is under way.
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
    /// Milliseconds to the first output where the contract names none.
    pub const TTFT_MS_DEFAULT: u64 = 250;
    /// The priority where the contract names none.
    pub const PRIORITY_DEFAULT: u8 = 100;
}

/// The delay-tolerant class.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Dt {
    /// What it may cost; no bound where none is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What an agent may cost in a time; what is not written has no bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// That time, seconds; it begins with the first turn.
    #[serde(default = "cost_per_s_default")]
    pub per_s: u64,
    /// Milliseconds of running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Tokens of prompts and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What models cost, millionths of the one currency that their offers have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<u64>,
}

fn cost_per_s_default() -> u64 {
    86_400
}

/// The numbers that an agent shares with others of its node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Signals {
    /// The node's signals that jobs read, by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// The node's signals that jobs write, by place; nobody else may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// What stands in for an input that nobody set lately, by its name: whoever sets it may take longer than a job can
    /// wait, such as a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fallback: BTreeMap<String, Fallback>,
}

/// What stands in for a signal that nobody set lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// Microseconds after which what was set last counts no more.
    pub after_us: u64,
    /// What stands in for it; what was set last, where none is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_json::Number>,
}

impl Signals {
    pub(super) fn is_default(&self) -> bool {
        *self == Signals::default()
    }
}

/// The latency class by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Latency {
    /// Hard real-time.
    Hrt = 0,
    /// Soft real-time.
    Srt = 1,
    /// Delay-tolerant.
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
    /// Which of the three it is.
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
