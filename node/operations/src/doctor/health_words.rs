//! A word for each layer, and how long it holds: what tells a node's health is asked often, and found out only now and then.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// For how long words hold, milliseconds.
const FRESH_MS: u64 = 10_000;

/// How a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Health {
    /// Nothing is wrong there.
    #[default]
    Well,
    /// Nothing is wrong, but something can be done.
    Note,
    /// Something is wrong: the doctor says what.
    Wrong,
}

/// How each of the seven layers is, L1 first.
pub type LayerHealth = [Health; 7];

/// The words, and when they were found out, Unix milliseconds.
#[derive(Debug, Default)]
pub struct HealthWords(Mutex<Option<(u64, LayerHealth)>>);

impl HealthWords {
    /// The words, as far as they hold now.
    pub(super) fn fresh(&self, now_ms: u64) -> Option<LayerHealth> {
        let (at_ms, words) = (*self.lock())?;
        (now_ms.abs_diff(at_ms) < FRESH_MS).then_some(words)
    }

    /// Keeps words that were found out now.
    pub(super) fn keep(&self, now_ms: u64, words: LayerHealth) {
        *self.lock() = Some((now_ms, words));
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, LayerHealth)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_for_a_while() {
        let words = HealthWords::default();
        assert_eq!(words.fresh(1_000), None);
        let found = [Health::Wrong; 7];
        words.keep(1_000, found);
        assert_eq!((words.fresh(1_000), words.fresh(10_999)), (Some(found), Some(found)));
        assert_eq!(words.fresh(11_000), None);
    }
}
