//! Somebody who agreed and lost the role, the key, or the place in the file of people since, and agrees once more.

use super::Adversary;
use crate::desk::{Changes, Draw, PEOPLE, Scene};

pub(super) struct FormerApprover;

impl Adversary for FormerApprover {
    fn name(&self) -> &'static str {
        "former approver"
    }

    fn strike(&self, scene: &mut Scene, draw: &mut Draw) {
        // All but the owner, who is always there.
        let (name, _) = PEOPLE[1 + usize::from(draw.below(3))];
        let lost = match draw.below(3) {
            0 => &mut scene.changes.without_role,
            1 => &mut scene.changes.without_key,
            _ => &mut scene.changes.gone,
        };
        lost.insert(name);
        let is_over = scene.answer(name, true);
        assert_eq!(is_over, None, "an answer after enough people agreed is none");
        let asked = scene.asked.clone();
        scene.call(&asked);
        if scene.made == 0 && draw.below(2) == 0 {
            // The file is as it was: what was agreed to is agreed to again.
            scene.changes = Changes::default();
        }
    }
}
