//! What is wrong with a node, or with the way from it to an agent, and what its layers add to a call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Remedy;
use crate::problem::known_step;

/// Asks what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DoctorRequest {
    /// The agent whose calls fail, by its name or identifier; none: the node as a whole.
    pub agent: Option<String>,
    /// Whether that may be an untrusted publisher's agent.
    #[serde(default)]
    pub anyone: bool,
}

/// What `POST /doctor` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// Nothing is wrong: so say all findings.
    pub fine: bool,
    /// What was checked, layer by layer.
    pub findings: Vec<DoctorFinding>,
    /// Peers that were asked to dial this node; empty where an agent was asked about.
    pub dialled_back: Vec<DialBack>,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorFinding {
    /// `L1` to `L7`.
    pub layer: String,
    /// Nothing is wrong there.
    pub fine: bool,
    /// What was checked, or what is wrong and why.
    pub what: String,
    /// What to do about it, as far as no step does it; empty if nothing is wrong, or there is nothing to note.
    pub remedy: String,
    /// The step that does it, or goes on from there. Whoever shows the finding says it in words of their own.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_step")]
    pub next: Option<Box<Remedy>>,
}

/// A peer that was asked to dial this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DialBack {
    /// Which, by its short name.
    pub peer: String,
    /// Whether it dials from the internet.
    pub from_internet: bool,
    /// How that went.
    #[serde(flatten)]
    pub outcome: DialBackOutcome,
}

/// What became of the question to dial this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DialBackOutcome {
    /// It dialled these addresses.
    Dials(Vec<DialResult>),
    /// It could not be asked, and why.
    NotAsked(String),
}

/// One dial of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DialResult {
    /// Where it dialled.
    pub address: String,
    /// Whether this node answered there.
    pub reached: bool,
    /// Why it did not; empty where it did.
    pub why: String,
}

/// What `POST /doctor/overhead` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverheadReport {
    /// The parts of a call, each with the layer that adds it.
    pub overhead: Vec<LayerOverhead>,
    /// Whether the way to another node was measured too.
    pub remote: bool,
}

/// What a layer adds to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayerOverhead {
    /// Which: `L2 communication`, or `floor` for what none of them adds.
    pub layer: String,
    /// What was done.
    pub what: String,
    /// How long that took, with what it stands on.
    pub us: OverheadTimes,
    /// How much of the median the layer itself adds, microseconds.
    pub adds_us: f64,
    /// How often it was measured.
    pub rounds: usize,
}

/// How long something took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverheadTimes {
    /// The median, microseconds.
    pub p50: f64,
    /// The 99th percentile, microseconds.
    pub p99: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyStep;
    use crate::golden::assert_json;

    #[test]
    fn findings_are_told_with_who_was_asked_to_dial_back() {
        let finding = |next: Option<Remedy>| DoctorFinding {
            layer: "L2".to_owned(),
            fine: true,
            what: "a key".to_owned(),
            remedy: String::new(),
            next: next.map(Box::new),
        };
        let dials = vec![
            DialResult { address: "/ip4/192.0.2.7/tcp/1".to_owned(), reached: true, why: String::new() },
            DialResult { address: "/ip4/192.0.2.8/tcp/1".to_owned(), reached: false, why: "timed out".to_owned() },
        ];
        let asked = DialBack { peer: "z6Mk".to_owned(), from_internet: true, outcome: DialBackOutcome::Dials(dials) };
        let silent = DialBack {
            peer: "z6Mr".to_owned(),
            from_internet: false,
            outcome: DialBackOutcome::NotAsked("it left".to_owned()),
        };
        assert_json(
            &DoctorReport {
                fine: true,
                findings: vec![finding(None), finding(Some(KeyStep::BringHere.into()))],
                dialled_back: vec![asked, silent],
            },
            concat!(
                r#"{"fine":true,"findings":[{"layer":"L2","fine":true,"what":"a key","remedy":""},"#,
                r#"{"layer":"L2","fine":true,"what":"a key","remedy":"","next":{"keys":"bringHere"}}],"#,
                r#""dialledBack":[{"peer":"z6Mk","fromInternet":true,"#,
                r#""dials":[{"address":"/ip4/192.0.2.7/tcp/1","reached":true,"why":""},"#,
                r#"{"address":"/ip4/192.0.2.8/tcp/1","reached":false,"why":"timed out"}]},"#,
                r#"{"peer":"z6Mr","fromInternet":false,"notAsked":"it left"}]}"#,
            ),
        );
        let asked = DoctorRequest { agent: None, anyone: false };
        assert_json(&asked, r#"{"agent":null,"anyone":false}"#);
    }

    #[test]
    fn what_layers_add_is_told_in_microseconds() {
        let row = LayerOverhead {
            layer: "floor".to_owned(),
            what: "a bare task of the runtime".to_owned(),
            us: OverheadTimes { p50: 2.5, p99: 10.0 },
            adds_us: 2.5,
            rounds: 1_000,
        };
        assert_json(
            &OverheadReport { overhead: vec![row], remote: false },
            concat!(
                r#"{"overhead":[{"layer":"floor","what":"a bare task of the runtime","us":{"p50":2.5,"p99":10.0},"#,
                r#""addsUs":2.5,"rounds":1000}],"remote":false}"#,
            ),
        );
    }
}
