//! Which nodes were recently called from here: what strangers take from each other they do not take from those.

use std::collections::BTreeMap;

use althing_protocol::PublicKey;

/// A node counts as in use for this long after it answered a call.
const FOR_MS: u64 = 10 * 60 * 1_000;
/// Nodes that are remembered; of more, the one that was called longest ago is forgotten.
const NODES_MAX: usize = 1_024;

/// When each node was called last, milliseconds.
#[derive(Debug, Default)]
pub struct InUse(BTreeMap<PublicKey, u64>);

impl InUse {
    /// A node answered a call.
    pub fn note(&mut self, node: PublicKey, now_ms: u64) {
        self.0.insert(node, now_ms);
        if self.0.len() > NODES_MAX
            && let Some(oldest) = self.0.iter().min_by_key(|(_, at_ms)| **at_ms).map(|(node, _)| *node)
        {
            self.0.remove(&oldest);
        }
    }

    /// Was it called a while ago?
    #[must_use]
    pub fn contains(&self, node: PublicKey, now_ms: u64) -> bool {
        self.0.get(&node).is_some_and(|at_ms| now_ms < at_ms + FOR_MS)
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    fn node(number: usize) -> PublicKey {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        SecretKey::from_seed(&seed).public()
    }

    #[test]
    fn a_node_is_in_use_for_ten_minutes_and_the_oldest_is_forgotten_first() {
        let mut in_use = InUse::default();
        in_use.note(node(0), 5);
        assert!(in_use.contains(node(0), 4 + FOR_MS) && !in_use.contains(node(0), 5 + FOR_MS));
        assert!(!in_use.contains(node(1), 5));
        (1..=NODES_MAX).for_each(|number| in_use.note(node(number), 6));
        assert!(!in_use.contains(node(0), 6) && in_use.contains(node(1), 6) && in_use.contains(node(NODES_MAX), 6));
    }
}
