//! What the turns that run did so far, as far as it matters for the record of their end.

use std::collections::BTreeMap;

/// Turns of which it is known what they did so far; of more the one whose task began first is forgotten.
const TURNS_MAX: usize = 16_384;

/// What the turns that run did so far, by their tasks, whose ids ascend with time.
#[derive(Debug, Default)]
pub(crate) struct TurnNotes(BTreeMap<String, bool>);

impl TurnNotes {
    /// A turn makes a system call; `is_recorded` where that has a leaf.
    pub(crate) fn note(&mut self, task: &str, is_recorded: bool) {
        if task.is_empty() {
            return;
        }
        match self.0.get_mut(task) {
            Some(known) => *known |= is_recorded,
            None => {
                if self.0.len() >= TURNS_MAX {
                    self.0.pop_first();
                }
                self.0.insert(task.to_owned(), is_recorded);
            }
        }
    }

    /// The turn ended: whether a system call of it has a leaf; none where it made none.
    pub(crate) fn take(&mut self, task: &str) -> Option<bool> {
        self.0.remove(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_of_a_turn_whether_it_called_and_whether_that_is_on_record() {
        let mut turns = TurnNotes::default();
        turns.note("", true);
        turns.note("one", false);
        turns.note("two", true);
        turns.note("two", false);
        assert_eq!((turns.take("one"), turns.take("two")), (Some(false), Some(true)));
        assert_eq!((turns.take("one"), turns.take("")), (None, None));
        for number in 0..=TURNS_MAX {
            turns.note(&format!("{number:08}"), true);
        }
        assert_eq!((turns.0.len(), turns.take("00000000")), (TURNS_MAX, None), "the one that began first made room");
    }
}
