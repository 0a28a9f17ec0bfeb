//! Running, reachable nodes are found.

use super::{Invariant, Search, Truth};

pub(super) struct Living;

impl Invariant for Living {
    fn name(&self) -> &'static str {
        "the-living-are-found"
    }

    fn check(&mut self, search: &Search, _: &Truth) -> Result<(), String> {
        let is_found = |node| search.found.iter().any(|(_, found)| *found == node);
        if !search.undisturbed || search.expected.is_empty() || search.expected.iter().any(|node| is_found(*node)) {
            return Ok(());
        }
        let there: Vec<String> = search.expected.iter().map(|node| node.did()).collect();
        let (seeker, capability, there) = (search.seeker, &search.capability, there.join(", "));
        Err(format!("node {seeker} did not find {capability:?}, which is on {there}: {:?}", search.sought))
    }
}
