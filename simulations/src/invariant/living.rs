//! Who lives, and can be reached, is found.

use super::{Invariant, Look, Truth};

pub(super) struct Living;

impl Invariant for Living {
    fn name(&self) -> &'static str {
        "the-living-are-found"
    }

    fn check(&mut self, look: &Look, _: &Truth) -> Result<(), String> {
        let is_found = |node| look.found.iter().any(|(_, found)| *found == node);
        if !look.calm || look.living.is_empty() || look.living.iter().any(|node| is_found(*node)) {
            return Ok(());
        }
        let there: Vec<String> = look.living.iter().map(|node| node.did()).collect();
        let (seeker, capability, there) = (look.seeker, &look.capability, there.join(", "));
        Err(format!("node {seeker} did not find {capability:?}, which is on {there}: {:?}", look.sought))
    }
}
