//! Who says two things under one sequence is believed in one of them, by each for itself (SPEC P-42).

use std::collections::BTreeMap;

use althing_protocol::{AgentId, Digest, PublicKey};

use super::{Invariant, Look, Truth};

/// What each seeker was shown of an agent on a node, sequence by sequence.
#[derive(Default)]
pub(super) struct OneWord {
    seen: BTreeMap<(u32, PublicKey, AgentId, u64), Digest>,
}

impl Invariant for OneWord {
    fn name(&self) -> &'static str {
        "one-word-of-each-sequence"
    }

    fn check(&mut self, look: &Look, _: &Truth) -> Result<(), String> {
        for (node, agent, sequence, digest) in &look.words {
            let before = *self.seen.entry((look.seeker, *node, agent.clone(), *sequence)).or_insert(*digest);
            if before != *digest {
                return Err(format!("node {} saw two descriptions of {agent} with sequence {sequence}", look.seeker));
            }
        }
        Ok(())
    }
}
