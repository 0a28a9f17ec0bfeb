//! Uses a yes again: at once, after the node started again, and after its end.

use althing_governance::machine::consent::Asks;

use super::Adversary;
use crate::desk::{Draw, END_MS, Scene};

pub(super) struct Replayer;

impl Adversary for Replayer {
    fn name(&self) -> &'static str {
        "replayer"
    }

    fn strike(&self, scene: &mut Scene, draw: &mut Draw) {
        let asked = scene.asked.clone();
        if draw.below(4) == 0 {
            scene.now_ms = END_MS + 1;
        }
        for _ in 0..2 {
            scene.call(&asked);
            let row = scene.asks.row(&scene.id).expect("a question that is over is known for a while");
            scene.asks = Asks::read([(scene.id, &row[..])]).expect("its own row");
            assert!(scene.asks.restart().is_empty(), "who asked goes on");
        }
    }
}
