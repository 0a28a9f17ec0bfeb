//! The documents of accepted handoffs, until the work begins: a commit need not bring what its recipient still has.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_protocol::Digest;
use althing_protocol::object::{Authored, Handoff};

use super::HandoffId;

/// Handoffs that a node keeps.
pub const KEPT_MAX: usize = 32;
/// Bytes of all of them: each is held as it was read and as it was signed.
pub const KEPT_BYTES_MAX: usize = 16 << 20;

/// A handoff that was verified when it was offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptHandoff {
    /// As it was verified.
    pub signed: Arc<Authored<Handoff>>,
    /// The digest of its signed bytes.
    pub digest: Digest,
}

impl KeptHandoff {
    fn bytes(&self) -> usize {
        2 * self.signed.bytes.len()
    }
}

/// The handoffs that a node keeps, by the names of the agents that accepted them.
#[derive(Debug, Default)]
pub struct KeptHandoffs {
    /// Each with when its acceptance is over, Unix milliseconds.
    all: BTreeMap<(String, HandoffId), (KeptHandoff, u64)>,
}

impl KeptHandoffs {
    /// Keeps a handoff until its acceptance is over. False where there is no room: its commit has to bring it then.
    pub fn keep(&mut self, key: (&str, &HandoffId), handoff: KeptHandoff, until_ms: u64, now_ms: u64) -> bool {
        self.all.retain(|_, (_, until_ms)| now_ms <= *until_ms);
        let key = owned(key);
        self.all.remove(&key);
        let held: usize = self.all.values().map(|(handoff, _)| handoff.bytes()).sum();
        let has_room = self.all.len() < KEPT_MAX && held + handoff.bytes() <= KEPT_BYTES_MAX;
        if has_room && now_ms <= until_ms {
            self.all.insert(key, (handoff, until_ms));
            return true;
        }
        false
    }

    /// The handoff of that id, if it is kept still.
    #[must_use]
    pub fn get(&self, key: (&str, &HandoffId), now_ms: u64) -> Option<KeptHandoff> {
        let (handoff, until_ms) = self.all.get(&owned(key))?;
        (now_ms <= *until_ms).then(|| handoff.clone())
    }

    /// The work has begun.
    pub fn forget(&mut self, key: (&str, &HandoffId)) {
        self.all.remove(&owned(key));
    }
}

fn owned((agent, id): (&str, &HandoffId)) -> (String, HandoffId) {
    (agent.to_owned(), *id)
}

#[cfg(test)]
mod tests {
    use althing_protocol::object;
    use althing_protocol::{AgentId, PublisherId, SecretKey};

    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;
    const UNTIL_MS: u64 = NOW_MS + 60_000;

    fn id(number: u8) -> HandoffId {
        [0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, number]
    }

    fn handoff(number: u8, state: usize) -> KeptHandoff {
        let agent = |name: &str| AgentId::new(PublisherId::from_digest([1; 32]), name).expect("a name");
        let mut body = Handoff::new(id(number), "t", (agent("clerk"), agent("auditor")), NOW_MS, UNTIL_MS);
        body.context.state_snapshot = Some(vec![7; state]);
        let signed = object::sign(body, "testnet", "", &SecretKey::from_seed(&[1; 32])).expect("a good shape");
        KeptHandoff { digest: signed.digest(), signed: Arc::new(signed) }
    }

    #[test]
    fn a_handoff_is_kept_for_one_agent_until_its_acceptance_is_over_or_the_work_begins() {
        let mut kept = KeptHandoffs::default();
        let one = handoff(1, 10);
        assert!(kept.keep(("auditor", &id(1)), one.clone(), UNTIL_MS, NOW_MS));
        assert_eq!(kept.get(("auditor", &id(1)), UNTIL_MS), Some(one.clone()));
        assert_eq!(kept.get(("auditor", &id(1)), UNTIL_MS + 1), None, "not one millisecond longer");
        assert_eq!(kept.get(("clerk", &id(1)), NOW_MS), None, "of another agent");
        assert_eq!(kept.get(("auditor", &id(2)), NOW_MS), None, "another one");
        assert!(!kept.keep(("clerk", &id(1)), one.clone(), NOW_MS - 1, NOW_MS), "it is over");
        kept.forget(("auditor", &id(1)));
        assert_eq!(kept.get(("auditor", &id(1)), NOW_MS), None);
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for_and_room_comes_back() {
        let mut kept = KeptHandoffs::default();
        let mut count = |size: usize, now_ms: u64| {
            let mut number = 0;
            while kept.keep(("auditor", &id(number)), handoff(number, size), now_ms + 60_000, now_ms) {
                number += 1;
            }
            usize::from(number)
        };
        assert_eq!(count(1, NOW_MS), KEPT_MAX);
        let large = 500 << 10;
        let fit = count(large, NOW_MS + 60_001);
        assert_eq!(fit, KEPT_BYTES_MAX / handoff(0, large).bytes(), "those before are over");
        assert!(fit < KEPT_MAX, "{fit}");
        // The same one again takes no more.
        assert!(kept.keep(("auditor", &id(0)), handoff(0, large), NOW_MS + 130_000, NOW_MS + 60_001));
    }
}
