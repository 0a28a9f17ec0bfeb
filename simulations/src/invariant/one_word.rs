//! Of two descriptions under one sequence each node accepts only one (SPEC P-42).

use std::collections::BTreeMap;

use althing_protocol::{AgentId, Digest, PublicKey};

use super::{Invariant, Search, Truth};

/// The description that each seeker found of an agent on a node, by sequence.
#[derive(Default)]
pub(super) struct OneWord {
    seen: BTreeMap<(u32, PublicKey, AgentId, u64), Digest>,
}

impl Invariant for OneWord {
    fn name(&self) -> &'static str {
        "one-word-of-each-sequence"
    }

    fn check(&mut self, search: &Search, _: &Truth) -> Result<(), String> {
        for (node, agent, sequence, digest) in &search.descriptions {
            let before = *self.seen.entry((search.seeker, *node, agent.clone(), *sequence)).or_insert(*digest);
            if before != *digest {
                return Err(format!("node {} saw two descriptions of {agent} with sequence {sequence}", search.seeker));
            }
        }
        Ok(())
    }
}
