//! What is said of a model on a machine, and which machines are alike. Pure.

use althing_protocol::{PublisherId, is_hidden};
use serde::{Deserialize, Serialize};

/// Characters of a processor's name.
const CPU_CHARS_MAX: usize = 96;

/// A machine, as far as the speed of a model depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineFacts {
    /// Its architecture, such as `x86_64`.
    pub architecture: String,
    /// Its processor, as the kernel names it; empty if it does not.
    pub cpu: String,
    /// Processor cores.
    pub cores: u32,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// GPUs.
    pub gpus: u32,
}

/// What was measured of a model on a machine: the finding of an attestation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Tokens of each second after the first one, the median of the rounds.
    pub tokens_per_second: f64,
    /// Milliseconds to the first token, the median of the rounds.
    pub first_token_ms: u64,
    /// Most memory of the model's server and what it started, MiB; none if the kernel does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Answers that were measured.
    pub rounds: u32,
    /// Tokens of one answer.
    pub tokens: u64,
    /// Whether the tokens were counted by the pieces in which they came, since the model does not tell their number.
    #[serde(default)]
    pub estimated: bool,
    /// The quantisation of the weights, as the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantisation: Option<String>,
    /// The machine.
    pub machine: MachineFacts,
}

/// How alike two machines are; the more alike come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// The same processor with as many cores.
    Same,
    /// At most twice or half the cores, of the same architecture.
    Like,
}

impl Likeness {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Likeness::Same => "same",
            Likeness::Like => "like",
        }
    }
}

/// A measurement of somebody.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// The model's name where it was measured.
    pub model: String,
    /// What was measured.
    pub figures: Figures,
    /// Who measured it.
    pub by: PublisherId,
    /// Whether that is the owner, or somebody whom the owner trusts.
    pub is_trusted: bool,
    /// When the registry accepted it, Unix milliseconds.
    pub at_ms: u64,
}

/// A model that may run here as it did there.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// What was measured.
    pub measurement: Measurement,
    /// How alike the machines are.
    pub likeness: Likeness,
}

impl MachineFacts {
    /// For people.
    #[must_use]
    pub fn name(&self) -> String {
        let cpu = if self.cpu.is_empty() { self.architecture.as_str() } else { self.cpu.as_str() };
        let cpu: String = cpu.chars().filter(|c| !c.is_control() && !is_hidden(*c)).take(CPU_CHARS_MAX).collect();
        let gpus = if self.gpus > 0 { format!(", {} GPUs", self.gpus) } else { String::new() };
        format!("{cpu}, {} cores, {:.1} GiB{gpus}", self.cores, f64::from(self.memory_mib) / 1_024.0)
    }

    /// How alike it is to another one; none if what was measured there says nothing of here.
    #[must_use]
    pub fn likeness(&self, other: &MachineFacts) -> Option<Likeness> {
        if self.architecture != other.architecture || (self.gpus > 0) != (other.gpus > 0) {
            return None;
        }
        if self.cpu == other.cpu && self.cores == other.cores {
            return Some(Likeness::Same);
        }
        let (few, many) = (self.cores.min(other.cores), self.cores.max(other.cores));
        (few > 0 && many <= 2 * few).then_some(Likeness::Like)
    }
}

/// What may run here: measured on a machine like this one, and small enough for its memory. What trusted people measured comes
/// first, since a measurement is its signer's word; then the most alike, then the fastest.
#[must_use]
pub fn suggestions(here: &MachineFacts, measured: Vec<Measurement>) -> Vec<Suggestion> {
    let fits = |figures: &Figures| {
        // Without its own figure it needs no more than that machine had.
        let needs = figures.memory_mib.unwrap_or(u64::from(figures.machine.memory_mib));
        needs <= u64::from(here.memory_mib)
    };
    let is_rate = |figures: &Figures| figures.tokens_per_second.is_finite() && figures.tokens_per_second > 0.0;
    let mut all: Vec<Suggestion> = measured
        .into_iter()
        .filter(|one| fits(&one.figures) && is_rate(&one.figures))
        .filter_map(|measurement| {
            let likeness = here.likeness(&measurement.figures.machine)?;
            Some(Suggestion { measurement, likeness })
        })
        .collect();
    all.sort_by(|one, other| {
        let (a, b) = (&one.measurement, &other.measurement);
        let speed = b.figures.tokens_per_second.total_cmp(&a.figures.tokens_per_second);
        b.is_trusted
            .cmp(&a.is_trusted)
            .then_with(|| one.likeness.cmp(&other.likeness))
            .then(speed)
            .then_with(|| a.model.cmp(&b.model))
    });
    all
}

/// The middle one of some numbers; the higher one of two.
#[must_use]
pub fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpu: &str, cores: u32, memory_mib: u32) -> MachineFacts {
        MachineFacts { architecture: "x86_64".to_owned(), cpu: cpu.to_owned(), cores, memory_mib, gpus: 0 }
    }

    fn measured(model: &str, tokens_per_second: f64, machine: MachineFacts, is_trusted: bool) -> Measurement {
        let figures = Figures {
            tokens_per_second,
            first_token_ms: 100,
            memory_mib: Some(4_096),
            rounds: 3,
            tokens: 128,
            estimated: false,
            quantisation: None,
            machine,
        };
        let by = PublisherId::from_digest([1; 32]);
        Measurement { model: model.to_owned(), figures, by, is_trusted, at_ms: 0 }
    }

    fn models(here: &MachineFacts, all: Vec<Measurement>) -> Vec<String> {
        suggestions(here, all).into_iter().map(|one| one.measurement.model).collect()
    }

    #[test]
    fn only_machines_like_this_one_say_something() {
        let here = machine("A", 8, 16_384);
        assert_eq!(here.likeness(&machine("A", 8, 1)), Some(Likeness::Same));
        assert_eq!(here.likeness(&machine("A", 16, 1)), Some(Likeness::Like));
        assert_eq!(here.likeness(&machine("B", 4, 1)), Some(Likeness::Like));
        assert_eq!(here.likeness(&machine("B", 17, 1)), None);
        assert_eq!(here.likeness(&machine("B", 3, 1)), None);
        assert_eq!(here.likeness(&machine("B", 0, 1)), None);
        assert_eq!(here.likeness(&MachineFacts { gpus: 1, ..here.clone() }), None);
        assert_eq!(here.likeness(&MachineFacts { architecture: "aarch64".to_owned(), ..here.clone() }), None);
    }

    #[test]
    fn the_trusted_come_first_then_the_most_alike_then_the_fastest() {
        let here = machine("A", 8, 16_384);
        let all = vec![
            measured("like", 90.0, machine("B", 8, 16_384), true),
            measured("strange", 50.0, here.clone(), false),
            measured("slow", 5.0, here.clone(), true),
            measured("fast", 20.0, here.clone(), true),
            measured("elsewhere", 500.0, machine("C", 64, 16_384), true),
        ];
        assert_eq!(models(&here, all), ["fast", "slow", "like", "strange"]);
    }

    #[test]
    fn what_does_not_fit_or_is_no_rate_is_left_out() {
        let here = machine("A", 8, 4_095);
        assert_eq!(models(&here, vec![measured("large", 9.0, here.clone(), true)]), [""; 0]);
        let here = machine("A", 8, 4_096);
        assert_eq!(models(&here, vec![measured("fits", 9.0, here.clone(), true)]), ["fits"]);
        let mut unknown = measured("unknown", 9.0, machine("A", 8, 8_192), true);
        unknown.figures.memory_mib = None;
        assert_eq!(models(&here, vec![unknown]), [""; 0], "it may need all that the other machine has");
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(models(&here, vec![measured("odd", rate, here.clone(), true)]), [""; 0]);
        }
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(4.0));
    }

    #[test]
    fn a_machine_is_named_for_people() {
        assert_eq!(machine("A\u{1b}\u{202E}B", 8, 16_384).name(), "AB, 8 cores, 16.0 GiB");
        assert_eq!(MachineFacts { gpus: 2, ..machine("", 2, 512) }.name(), "x86_64, 2 cores, 0.5 GiB, 2 GPUs");
    }
}
