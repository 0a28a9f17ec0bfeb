//! The newest of what happened, each with a number by which what follows it is asked for.

use std::collections::VecDeque;

/// The newest entries, and their numbers, which rise by one.
#[derive(Debug)]
pub(super) struct Ring<T> {
    /// The oldest first.
    entries: VecDeque<T>,
    most: usize,
    /// The number of the first entry that there ever was.
    first: u64,
    /// The number of the next one.
    next: u64,
}

/// What follows a number.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Since<T> {
    /// The entry after it.
    Entry(T),
    /// Nothing yet.
    Nothing,
    /// Entries that are gone, or nobody knows: how many, if it is a number of this ring's; and the number of the newest.
    Gap(Option<u64>, u64),
}

impl<T: Clone> Ring<T> {
    /// Keeps `most` entries, at least one; the first has the number `first`, which is more than 0.
    pub fn new(first: u64, most: usize) -> Ring<T> {
        let first = first.max(1);
        Ring { entries: VecDeque::new(), most: most.max(1), first, next: first }
    }

    /// Adds an entry, in place of the oldest if there is no room; gives its number.
    pub fn push(&mut self, entry: impl FnOnce(u64) -> T) -> u64 {
        let number = self.next;
        if self.entries.len() == self.most {
            self.entries.pop_front();
        }
        self.entries.push_back(entry(number));
        self.next += 1;
        number
    }

    /// The number of the newest entry; before the first one, the number before it.
    pub fn newest(&self) -> u64 {
        self.next - 1
    }

    /// What follows the entry of that number.
    pub fn after(&self, number: u64) -> Since<T> {
        if number == self.newest() {
            return Since::Nothing;
        }
        let length = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        let oldest = self.next - length;
        let is_own = (self.first - 1..self.next).contains(&number);
        let place = number.checked_add(1).and_then(|next| next.checked_sub(oldest));
        let entry = place.filter(|_| is_own).and_then(|place| self.entries.get(usize::try_from(place).ok()?));
        match entry {
            Some(entry) => Since::Entry(entry.clone()),
            None => Since::Gap(is_own.then(|| self.newest() - number), self.newest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whoever_asks_is_told_everything_in_order_or_how_much_is_missing(
            first in 0_u64..1_000,
            most in 0_usize..20,
            pushed in 0_u64..60,
            asked in 0_u64..1_200,
        ) {
            let mut ring = Ring::new(first, most);
            let (first, most) = (first.max(1), most.max(1) as u64);
            for count in 0..pushed {
                prop_assert_eq!(ring.push(|number| number), first + count);
            }
            let newest = first + pushed - 1;
            prop_assert_eq!(ring.newest(), newest);
            let oldest = first + pushed.saturating_sub(most);
            let expected = if asked == newest {
                Since::Nothing
            } else if (oldest..=newest).contains(&(asked + 1)) {
                Since::Entry(asked + 1)
            } else {
                let missed = (first - 1..newest).contains(&asked).then(|| newest - asked);
                Since::Gap(missed, newest)
            };
            prop_assert_eq!(ring.after(asked), expected);
        }

        #[test]
        fn whoever_follows_reads_each_entry_once(most in 1_usize..10, steps in prop::collection::vec(0_u8..6, 0..60)) {
            let mut ring = Ring::new(5, most);
            let (mut at, mut read, mut missed) = (ring.newest(), 0, 0);
            let mut pushed = 0_u64;
            for step in steps {
                if step < 4 {
                    pushed += 1;
                    ring.push(|number| number);
                    continue;
                }
                loop {
                    match ring.after(at) {
                        Since::Entry(number) => {
                            prop_assert_eq!(number, at + 1);
                            (at, read) = (number, read + 1);
                        }
                        Since::Nothing => break,
                        Since::Gap(gone, newest) => {
                            missed += gone.expect("it is a number of this ring's");
                            at = newest;
                        }
                    }
                }
                prop_assert_eq!(read + missed, pushed);
            }
        }
    }

    #[test]
    fn numbers_at_the_end_of_what_can_be_asked_for_are_nobodys() {
        let mut ring = Ring::new(7, 2);
        ring.push(|number| number);
        assert_eq!(ring.after(u64::MAX), Since::Gap(None, 7));
        assert_eq!(ring.after(0), Since::Gap(None, 7));
    }
}
