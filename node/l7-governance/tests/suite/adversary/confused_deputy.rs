//! Another agent, or the same one in another turn, that knows of a yes and has it work for itself.

use althing_governance::machine::arguments::arguments_digest;
use althing_protocol::Label;
use althing_protocol::audit::CallTerms;
use althing_protocol::contract::DataLabel;
use serde_json::json;

use super::Adversary;
use crate::desk::{Draw, Scene, agent};

pub(super) struct ConfusedDeputy;

impl Adversary for ConfusedDeputy {
    fn name(&self) -> &'static str {
        "confused deputy"
    }

    fn strike(&self, scene: &mut Scene, draw: &mut Draw) {
        for _ in 0..=draw.below(3) {
            let asked = scene.asked.clone();
            let call = match draw.below(5) {
                0 => CallTerms { agent: agent(6), ..asked },
                1 => CallTerms { action: "bank/close".to_owned(), ..asked },
                2 => CallTerms { arguments: arguments_digest(&json!({ "to": "eve", "amount": 5 })), ..asked },
                3 => CallTerms { label: Label { level: DataLabel::Restricted, trusted: false }, ..asked },
                _ => CallTerms { policy: None, ..asked },
            };
            scene.call(&call);
        }
    }
}
