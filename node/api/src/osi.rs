//! The seven layers of the Agent OSI model, and how this node has them.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{HealthStatus, HealthWord};

/// The version of the model whose structure this is.
const VERSION: &str = "1.0.0";

/// A layer: its name, what it is for, what it gives the layer above, and what has it here.
type Layer = (&'static str, &'static str, &'static str, &'static [&'static str]);

const LAYERS: [Layer; 7] = [
    (
        "Execution",
        "Runs agents with proved deadlines or on free capacity, and binds their contracts to models and tools",
        "A running agent that is held to its contract",
        &["admission proofs", "scheduler", "programs in sandboxes", "WebAssembly", "models", "tools", "memory"],
    ),
    (
        "Communication",
        "Signed calls between nodes whose keys are proved, and the faces for other programs",
        "Channels whose ends are known",
        &["libp2p", "key logs", "A2A 1.0", "MCP", "gRPC", "OpenAPI 3.1"],
    ),
    (
        "Discovery",
        "Finds agents by what they can do, on this network and beyond",
        "The nodes that host an agent, proved",
        &["mDNS", "distributed table", "registries with transparency logs", "Thing Descriptions", "llms.txt"],
    ),
    (
        "Session",
        "Keeps tasks, and goes on with turns after a node ended or work was handed over",
        "Work that goes on where it stopped",
        &["task store", "journals of turns", "notes", "handoffs with sign-offs", "checkpoints"],
    ),
    (
        "Coordination",
        "Groups of nodes agree on one state, share tasks, and run workflows",
        "Work that is done once, by somebody",
        &["replicated groups", "leases", "workflows", "schedules", "applications"],
    ),
    (
        "Verification",
        "Holds back what breaks a contract, finds silent failures, tests agents, and takes worse versions back",
        "Answers that were checked, and how they came about",
        &["gates", "findings", "cases and tapes", "rollouts", "run records", "lineage"],
    ),
    (
        "Governance",
        "Decides what may be done, asks people, and records what was done",
        "Evidence of who allowed what",
        &["policies in Cedar", "labels", "consent", "audit log", "witnesses", "stop orders"],
    ),
];

/// What `GET /osi` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OsiModel {
    /// The version of the model.
    pub agent_osi_version: String,
    /// The DID of the node.
    pub node: String,
    /// The layers, L1 first.
    pub layers: Vec<OsiLayer>,
}

/// A layer of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OsiLayer {
    /// 1 to 7.
    pub id: u8,
    /// Its name, as its file has it.
    pub name: String,
    /// What it is for.
    pub responsibility: String,
    /// What it gives the layer above.
    pub interface_up: String,
    /// What has it here.
    pub infrastructure: Vec<String>,
    /// `live`, or `partial` where something is wrong.
    pub status: String,
    /// How it is, as of some seconds ago: `well`, `note` or `wrong`.
    pub health: String,
}

impl OsiModel {
    /// The layers of that node, which are so.
    #[must_use]
    pub fn of(node: &str, health: &HealthStatus) -> OsiModel {
        let layer =
            |((id, (name, responsibility, interface_up, infrastructure)), word): ((u8, Layer), HealthWord)| OsiLayer {
                id,
                name: name.to_owned(),
                responsibility: responsibility.to_owned(),
                interface_up: interface_up.to_owned(),
                infrastructure: infrastructure.iter().map(|&of| of.to_owned()).collect(),
                status: if word == HealthWord::Wrong { "partial" } else { "live" }.to_owned(),
                health: word.name().to_owned(),
            };
        OsiModel {
            agent_osi_version: VERSION.to_owned(),
            node: node.to_owned(),
            layers: (1..).zip(LAYERS).zip(health.words()).map(layer).collect(),
        }
    }

    /// The same as YAML.
    #[must_use]
    pub fn yaml(&self) -> String {
        // A text of JSON is one of YAML too, whatever is in it.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut yaml =
            format!("agent_osi_version: {}\nnode: {}\nlayers:\n", quoted(&self.agent_osi_version), quoted(&self.node));
        for layer in &self.layers {
            let infrastructure: Vec<String> = layer.infrastructure.iter().map(|of| quoted(of)).collect();
            let texts = [
                ("name", quoted(&layer.name)),
                ("responsibility", quoted(&layer.responsibility)),
                ("interface_up", quoted(&layer.interface_up)),
                ("infrastructure", format!("[{}]", infrastructure.join(", "))),
                ("status", quoted(&layer.status)),
                ("health", quoted(&layer.health)),
            ];
            // Text takes text.
            let _ = writeln!(yaml, "  - id: {}", layer.id);
            for (name, value) in texts {
                let _ = writeln!(yaml, "    {name}: {value}");
            }
        }
        yaml
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_are_told_with_how_they_are_here() {
        let health = HealthStatus { l1: HealthWord::Well, l6: HealthWord::Wrong, ..HealthStatus::default() };
        let model = OsiModel::of("did:key:z6Mk", &health);
        let ids: Vec<u8> = model.layers.iter().map(|layer| layer.id).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7]);
        let status = |layer: usize| (model.layers[layer].status.as_str(), model.layers[layer].health.as_str());
        assert_eq!((status(0), status(5)), (("live", "well"), ("partial", "wrong")));
        let of_verification = model.layers[5].infrastructure.join(", ");
        assert!(of_verification.contains("cases and tapes, rollouts"), "{of_verification}");
        let yaml = model.yaml();
        let begins =
            "agent_osi_version: \"1.0.0\"\nnode: \"did:key:z6Mk\"\nlayers:\n  - id: 1\n    name: \"Execution\"\n";
        assert!(yaml.starts_with(begins), "{yaml}");
        assert!(yaml.contains("    status: \"partial\"\n    health: \"wrong\"\n  - id: 7\n"), "{yaml}");
    }
}
