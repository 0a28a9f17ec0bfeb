//! Counts by key.

use std::collections::BTreeMap;

/// Counts by key; a key whose count is zero takes no memory.
#[derive(Debug)]
pub(crate) struct Tally<K>(BTreeMap<K, usize>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Tally(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Tally<K> {
    pub fn of(&self, what: K) -> usize {
        self.0.get(&what).copied().unwrap_or_default()
    }

    pub fn add(&mut self, what: K) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Decrements, down to zero.
    pub fn remove(&mut self, what: K) {
        if let Some(count) = self.0.get_mut(&what) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_a_count_is_dropped() {
        let mut tally = Tally::default();
        tally.add('a');
        tally.add('a');
        tally.add('b');
        tally.remove('b');
        tally.remove('b');
        assert_eq!((tally.of('a'), tally.of('b'), tally.0.len()), (2, 0, 1));
    }
}
