//! Messages that got what they needed without a question of their own: by a yes that counts more than once, or by the one that was used
//! where they left this node for an agent of its own.

use std::collections::BTreeMap;

use althing_protocol::audit::CallTerms;
use althing_protocol::{Digest, digest};

use super::question::Need;

/// What a message is called where people are asked about it: no tool is called so, since the name of its server comes first.
pub const MESSAGE_ACTION: &str = "call";
/// Settlements that are kept. Beyond that the oldest one goes, and its message is counted, or asked about, once more.
const SETTLEMENTS_MAX: usize = 4_096;
/// How long one is kept, milliseconds (48 h): as long as a question whose yes was used.
const SETTLEMENT_LIFE_MS: u64 = 48 * 60 * 60 * 1_000;
/// Messages on their way at one time. Beyond that the oldest one is asked about once more.
const PASSES_MAX: usize = 1_024;
/// How long a message is on its way within a node at most, milliseconds (5 min): other hosts of its agent may be tried before.
const PASS_LIFE_MS: u64 = 5 * 60 * 1_000;

/// The name of the settlement of a message with an id of that digest, for what it needed on these terms.
#[must_use]
pub fn settlement_name(key: &str, terms: &CallTerms, need: &Need) -> Digest {
    let (person, role, count) = match need {
        Need::Consent { person } => (person, None, 0),
        Need::SignOff { role, count, but_for } => (but_for, Some(role), *count),
    };
    let named = minicbor::to_vec(("althing settlement", key, terms, person, role, count));
    digest(&named.expect("writing to a vector cannot fail"))
}

/// Which messages got what they needed so: their turns go on after a restart by that, and nothing is counted again.
#[derive(Debug, Clone, Default)]
pub struct MessageSettlements {
    /// When, Unix milliseconds, by name.
    all: BTreeMap<Digest, u64>,
}

impl MessageSettlements {
    /// Whether there is one of that name.
    #[must_use]
    pub fn has(&self, name: &Digest) -> bool {
        self.all.contains_key(name)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds one; gives those that go for it, whose rows are deleted.
    pub fn add(&mut self, name: Digest, at_ms: u64) -> Vec<Digest> {
        self.all.insert(name, at_ms);
        let mut gone = Vec::new();
        while self.all.len() > SETTLEMENTS_MAX {
            let Some(oldest) = self.all.iter().map(|(name, at_ms)| (*at_ms, *name)).min() else { break };
            self.all.remove(&oldest.1);
            gone.push(oldest.1);
        }
        gone
    }

    /// Forgets old ones; gives those, whose rows are deleted.
    pub fn forget(&mut self, now_ms: u64) -> Vec<Digest> {
        let is_old = |at_ms: &u64| now_ms.saturating_sub(*at_ms) > SETTLEMENT_LIFE_MS;
        let old: Vec<Digest> = self.all.iter().filter(|(_, at_ms)| is_old(at_ms)).map(|(name, _)| *name).collect();
        for name in &old {
            self.all.remove(name);
        }
        old
    }
}

/// What a message got where it left this node.
#[derive(Debug)]
struct Pass {
    given: Vec<Need>,
    at_ms: u64,
}

/// Messages that people agreed to where they left this node, and that may come in to an agent of the same node: nobody is asked twice
/// about one message.
#[derive(Debug, Default)]
pub struct MessagePasses {
    all: BTreeMap<Digest, Pass>,
}

impl MessagePasses {
    /// The message of that name leaves with this. What is not taken in time counts for nothing.
    pub fn add(&mut self, name: Digest, given: Vec<Need>, now_ms: u64) {
        self.all.retain(|_, pass| pass.is_on_its_way(now_ms));
        if self.all.len() >= PASSES_MAX
            && let Some((_, oldest)) = self.all.iter().map(|(name, pass)| (pass.at_ms, *name)).min()
        {
            self.all.remove(&oldest);
        }
        self.all.insert(name, Pass { given, at_ms: now_ms });
    }

    /// With what the message of that name left, once.
    pub fn take(&mut self, name: &Digest, now_ms: u64) -> Vec<Need> {
        let pass = self.all.remove(name).filter(|pass| pass.is_on_its_way(now_ms));
        pass.map(|pass| pass.given).unwrap_or_default()
    }
}

impl Pass {
    fn is_on_its_way(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.at_ms) <= PASS_LIFE_MS
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn name(number: usize) -> Digest {
        digest(&number.to_be_bytes())
    }

    fn consent() -> Vec<Need> {
        vec![Need::Consent { person: "ada".to_owned() }]
    }

    #[test]
    fn a_pass_is_used_once_and_in_time() {
        let mut passes = MessagePasses::default();
        passes.add(name(1), consent(), NOW_MS);
        assert!(passes.take(&name(2), NOW_MS).is_empty());
        assert_eq!(passes.take(&name(1), NOW_MS + PASS_LIFE_MS), consent());
        assert!(passes.take(&name(1), NOW_MS).is_empty());
        passes.add(name(1), consent(), NOW_MS);
        assert!(passes.take(&name(1), NOW_MS + PASS_LIFE_MS + 1).is_empty());
    }

    #[test]
    fn the_oldest_goes_where_there_are_too_many() {
        let (mut passes, mut settlements) = (MessagePasses::default(), MessageSettlements::default());
        for number in 0..=PASSES_MAX {
            passes.add(name(number), consent(), NOW_MS + number as u64 / 8);
        }
        let left = (0..=PASSES_MAX).filter(|number| !passes.take(&name(*number), NOW_MS).is_empty()).count();
        assert_eq!(left, PASSES_MAX);
        for number in 0..SETTLEMENTS_MAX {
            assert!(settlements.add(name(number), NOW_MS + number as u64).is_empty());
        }
        assert_eq!(settlements.add(name(SETTLEMENTS_MAX), NOW_MS + SETTLEMENTS_MAX as u64), [name(0)]);
        assert!(!settlements.has(&name(0)) && settlements.has(&name(1)));
        let old: BTreeSet<Digest> = settlements.forget(NOW_MS + SETTLEMENT_LIFE_MS + 3).into_iter().collect();
        assert_eq!(old, BTreeSet::from([name(1), name(2)]));
    }
}
