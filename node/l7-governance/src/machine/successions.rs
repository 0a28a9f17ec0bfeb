//! How often an audit log is followed by another one: what a witness says of it is the word of one alone, which nothing proves.

use std::collections::BTreeMap;

/// The shortest time between two logs that are begun on the word of the same witness, milliseconds.
pub const SUCCESSION_PAUSE_MS: u64 = 60 * 60 * 1_000;
/// Witnesses that can have had a log begun within that time: more than a node has.
const WITNESSES_MAX: usize = 64;

/// On whose word a log was begun lately. It is forgotten when the node ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Successions {
    /// When, Unix milliseconds, by the witness's key.
    begun: BTreeMap<String, u64>,
}

impl Successions {
    /// Whether another log may be begun now, Unix milliseconds, on the word of that witness.
    #[must_use]
    pub fn may_begin(&self, witness: &str, now_ms: u64) -> bool {
        let recent = || self.begun.iter().filter(|(_, at_ms)| is_recent(**at_ms, now_ms));
        recent().all(|(known, _)| known != witness) && recent().count() < WITNESSES_MAX
    }

    /// One was.
    pub fn note(&mut self, witness: &str, now_ms: u64) {
        self.begun.retain(|_, at_ms| is_recent(*at_ms, now_ms));
        self.begun.insert(witness.to_owned(), now_ms);
    }
}

/// A time that is to come says that the clock was set back, and nothing else.
fn is_recent(at_ms: u64, now_ms: u64) -> bool {
    now_ms.checked_sub(at_ms).is_some_and(|passed_ms| passed_ms < SUCCESSION_PAUSE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_790_000_000_000;

    #[test]
    fn the_word_of_one_witness_begins_one_log_in_an_hour_and_that_of_another_one_counts_meanwhile() {
        let mut successions = Successions::default();
        assert!(successions.may_begin("w", NOW_MS));
        successions.note("w", NOW_MS);
        assert!(!successions.may_begin("w", NOW_MS) && !successions.may_begin("w", NOW_MS + SUCCESSION_PAUSE_MS - 1));
        assert!(successions.may_begin("v", NOW_MS) && successions.may_begin("w", NOW_MS + SUCCESSION_PAUSE_MS));
        assert!(successions.may_begin("w", NOW_MS - 1), "the clock was set back");
    }

    #[test]
    fn no_more_witnesses_are_remembered_than_there_can_be() {
        let mut successions = Successions::default();
        for number in 0..WITNESSES_MAX {
            assert!(successions.may_begin(&number.to_string(), NOW_MS), "{number}");
            successions.note(&number.to_string(), NOW_MS);
        }
        assert!(!successions.may_begin("one more", NOW_MS));
        let later_ms = NOW_MS + SUCCESSION_PAUSE_MS;
        assert!(successions.may_begin("one more", later_ms));
        successions.note("one more", later_ms);
        assert_eq!(successions, Successions { begun: BTreeMap::from([("one more".to_owned(), later_ms)]) });
    }
}
