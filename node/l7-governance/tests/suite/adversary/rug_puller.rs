//! A tool that is another one once somebody agreed: its definition, or whoever has it. Sometimes the node notices before the call.

use althing_governance::machine::consent::ToolChange;
use althing_protocol::audit::CallTerms;

use super::Adversary;
use crate::desk::{Draw, Scene};

pub(super) struct RugPuller;

impl Adversary for RugPuller {
    fn name(&self) -> &'static str {
        "rug puller"
    }

    fn strike(&self, scene: &mut Scene, draw: &mut Draw) {
        let asked = scene.asked.clone();
        let call = match draw.below(3) {
            0 => CallTerms { definition: [9; 32], ..asked },
            1 => CallTerms { server: [9; 32], ..asked },
            _ => CallTerms { definition: [9; 32], server: [9; 32], ..asked },
        };
        if draw.below(2) == 0 {
            let now = Some((call.definition, call.server));
            let change = ToolChange { agent: &call.agent, action: &call.action, now };
            assert_eq!(scene.asks.redefine(&change), [scene.id]);
            scene.is_noticed = true;
        }
        scene.call(&call);
    }
}
