//! Who strikes between a yes and its call.

mod confused_deputy;
mod former_approver;
mod replayer;
mod rug_puller;

use crate::desk::{Draw, Scene};

/// How often each strikes.
const SEEDS: u64 = 300;

/// Somebody who wants a call made that nobody agreed to.
trait Adversary {
    fn name(&self) -> &'static str;

    fn strike(&self, scene: &mut Scene, draw: &mut Draw);
}

#[test]
fn nothing_is_done_that_nobody_agreed_to_and_what_was_agreed_to_is_done_once() {
    let all: [&dyn Adversary; 4] = [
        &confused_deputy::ConfusedDeputy,
        &former_approver::FormerApprover,
        &replayer::Replayer,
        &rug_puller::RugPuller,
    ];
    for adversary in all {
        let (mut refused, mut made) = (0, 0);
        for seed in 0..SEEDS {
            let mut draw = Draw::new(seed);
            let mut scene = Scene::new(&mut draw);
            adversary.strike(&mut scene, &mut draw);
            let asked = scene.asked.clone();
            // The agent that was asked about, at last: once or never.
            scene.call(&asked);
            scene.call(&asked);
            assert!(scene.made <= 1, "seed {seed}, {}", adversary.name());
            (refused, made) = (refused + scene.refused, made + scene.made);
        }
        assert!(u64::from(refused) > SEEDS, "{} was refused {refused} times", adversary.name());
        assert!(made > 0, "{} makes honest calls impossible", adversary.name());
    }
}
