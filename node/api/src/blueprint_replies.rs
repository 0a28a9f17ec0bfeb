//! What is answered about the speed of models on machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model of this machine was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlueprintMeasurement {
    /// Which model, by name.
    pub model: String,
    /// The machine, for people.
    pub machine: String,
    /// What was measured.
    pub figures: BlueprintFigures,
    /// The signed attestation, hexadecimal.
    pub attestation: String,
    /// The address of the registry that has it, if one was sent it.
    pub registry: Option<String>,
}

/// What was measured of a model on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlueprintFigures {
    /// Tokens of each second after the first one, the median of the rounds.
    pub tokens_per_second: f64,
    /// Milliseconds until there was one, the median of the rounds.
    pub first_token_ms: u64,
    /// Most memory of the model's server and what it started, MiB; not written if the kernel does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// How many answers were measured.
    pub rounds: u32,
    /// How many one answer had.
    pub tokens: u64,
    /// Whether they were counted by the pieces in which they came, since the model does not tell their number.
    pub estimated: bool,
    /// That of the weights: `q4_k_m`; not written if the configuration does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantisation: Option<String>,
    /// Where it was measured.
    pub machine: BlueprintMachine,
}

/// A machine, as far as the speed of a model depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlueprintMachine {
    /// Of its processor: `x86_64`.
    pub architecture: String,
    /// Its processor, as the kernel names it; empty if it does not.
    pub cpu: String,
    /// How many its processor has.
    pub cores: u32,
    /// How much there is, MiB.
    pub memory_mib: u32,
    /// How many it has.
    pub gpus: u32,
}

/// Models that may run here as they did elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlueprintList {
    /// The registry's address.
    pub registry: String,
    /// This machine, for people.
    pub machine: String,
    /// Those that trusted people measured come first, then those of machines that are more alike, then the fastest.
    pub suggestions: Vec<BlueprintSuggestion>,
}

/// A model that may run here as it did there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlueprintSuggestion {
    /// The model's name where it was measured.
    pub model: String,
    /// What was measured.
    pub figures: BlueprintFigures,
    /// The machine, for people.
    pub machine: String,
    /// How alike the machines are: `same` or `like`.
    pub likeness: String,
    /// The urn of who measured it.
    pub by: String,
    /// Whether that is the owner, or somebody whom the owner trusts.
    pub trusted: bool,
    /// When the registry accepted it, milliseconds since 1970.
    pub accepted_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn own(text: &str) -> String {
        text.to_owned()
    }

    fn figures() -> BlueprintFigures {
        BlueprintFigures {
            tokens_per_second: 12.0,
            first_token_ms: 80,
            memory_mib: Some(4_096),
            rounds: 3,
            tokens: 128,
            estimated: false,
            quantisation: Some(own("q4_k_m")),
            machine: BlueprintMachine {
                architecture: own("x86_64"),
                cpu: own("A"),
                cores: 8,
                memory_mib: 16_384,
                gpus: 0,
            },
        }
    }

    /// The same as JSON.
    const FIGURES: &str = concat!(
        r#"{"tokensPerSecond":12.0,"firstTokenMs":80,"memoryMib":4096,"rounds":3,"tokens":128,"estimated":false,"#,
        r#""quantisation":"q4_k_m","machine":{"architecture":"x86_64","cpu":"A","cores":8,"memoryMib":16384,"gpus":0}}"#,
    );

    #[test]
    fn a_measurement_is_told_with_its_attestation() {
        let measured = BlueprintMeasurement {
            model: own("m"),
            machine: own("A, 8 cores"),
            figures: figures(),
            attestation: own("d2"),
            registry: None,
        };
        let begun = r#"{"model":"m","machine":"A, 8 cores","figures":"#;
        let ended = r#","attestation":"d2","registry":null}"#;
        assert_json(&measured, &format!("{begun}{FIGURES}{ended}"));
        let bare = BlueprintFigures { tokens_per_second: 0.25, memory_mib: None, quantisation: None, ..figures() };
        let json = concat!(
            r#"{"tokensPerSecond":0.25,"firstTokenMs":80,"rounds":3,"tokens":128,"estimated":false,"#,
            r#""machine":{"architecture":"x86_64","cpu":"A","cores":8,"memoryMib":16384,"gpus":0}}"#,
        );
        assert_json(&bare, json);
    }

    #[test]
    fn suggestions_are_told_with_who_measured_them() {
        let suggestion = BlueprintSuggestion {
            model: own("m"),
            figures: figures(),
            machine: own("A, 8 cores"),
            likeness: own("same"),
            by: own("urn:p"),
            trusted: true,
            accepted_ms: 5,
        };
        let list = BlueprintList { registry: own("http://r/"), machine: own("B"), suggestions: vec![suggestion] };
        let begun = r#"{"registry":"http://r/","machine":"B","suggestions":[{"model":"m","figures":"#;
        let ended = concat!(
            r#","machine":"A, 8 cores","likeness":"same","by":"urn:p","trusted":true,"#,
            r#""acceptedMs":5}]}"#,
        );
        assert_json(&list, &format!("{begun}{FIGURES}{ended}"));
    }
}
