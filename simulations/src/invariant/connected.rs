//! Who is connected to a node finds its agents, whatever surrounds the place where the DHT keeps them.

use super::{Invariant, Search, Truth};

pub(super) struct Connected;

impl Invariant for Connected {
    fn name(&self) -> &'static str {
        "the-connected-are-found"
    }

    fn check(&mut self, search: &Search, _: &Truth) -> Result<(), String> {
        let is_missing = |node: &&_| !search.found.iter().any(|(_, found)| found == *node);
        match search.connected.iter().find(is_missing) {
            Some(node) if search.undisturbed => {
                let (seeker, capability) = (search.seeker, &search.capability);
                Err(format!("node {seeker} did not find {capability:?} on {node}, to which it is connected"))
            }
            _ => Ok(()),
        }
    }
}
