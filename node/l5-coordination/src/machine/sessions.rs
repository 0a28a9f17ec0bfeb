//! Which batches were executed: each author counts its batches in sessions, and each is executed once.
//!
//! Batches of one session may arrive out of order, within a window. An author's oldest session is forgotten for a new one;
//! what belongs to a forgotten session is refused from then on, since nobody can tell whether it was executed.

use std::collections::BTreeMap;

use althing_protocol::group::Author;
use minicbor::{Decode, Encode};

/// Sessions of one author: one for each program that writes under its name at one time.
pub const SESSIONS_MAX: usize = 16;
/// Nodes that have sessions when another one joins: the members, and those whose join was refused in this epoch.
pub const NODES_MAX: usize = 4_096;
/// Numbers below the highest one that may still arrive.
pub const WINDOW: u64 = 1_024;

/// The sessions of all authors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sessions {
    authors: BTreeMap<Author, AuthorSessions>,
}

/// The sessions of one author.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AuthorSessions {
    /// Sessions up to this one are forgotten.
    pub(crate) forgotten: Option<u64>,
    pub(crate) open: BTreeMap<u64, Window>,
}

/// The numbers of one session that were executed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Window {
    /// The highest one.
    #[n(0)]
    highest: u64,
    /// Bit i of word w: whether `highest - (64 w + i)` was executed.
    #[n(1)]
    executed: Vec<u64>,
}

/// Whether a batch may be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It was not executed before, and counts as executed from now on.
    First,
    /// It was executed before.
    Again,
    /// It cannot be told.
    Unknown,
}

impl Sessions {
    /// Takes the turn of a batch.
    pub fn take(&mut self, author: Author, session: u64, sequence: u64) -> Turn {
        let sessions = self.authors.entry(author).or_default();
        if sessions.forgotten.is_some_and(|forgotten| session <= forgotten) {
            return Turn::Unknown;
        }
        if !sessions.open.contains_key(&session) && sessions.open.len() == SESSIONS_MAX {
            let oldest = *sessions.open.keys().next().expect("it is not empty");
            if session < oldest {
                return Turn::Unknown;
            }
            sessions.open.remove(&oldest);
            sessions.forgotten = Some(oldest);
        }
        sessions.open.entry(session).or_default().take(sequence)
    }

    /// Whether that number was taken.
    #[must_use]
    pub fn has(&self, author: Author, session: u64, sequence: u64) -> bool {
        self.authors
            .get(&author)
            .and_then(|sessions| sessions.open.get(&session))
            .is_some_and(|window| window.has(sequence))
    }

    /// Forgets all but these authors. Their batches must be refused for another reason.
    pub fn retain(&mut self, stays: impl Fn(&Author) -> bool) {
        self.authors.retain(|author, _| stays(author));
    }

    /// Authors that are remembered.
    #[must_use]
    pub fn authors(&self) -> usize {
        self.authors.len()
    }

    /// Nodes that are remembered.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.authors.keys().filter(|author| matches!(author, Author::Node(_))).count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Author, &AuthorSessions)> {
        self.authors.iter()
    }

    pub(crate) fn insert(&mut self, author: Author, sessions: AuthorSessions) {
        self.authors.insert(author, sessions);
    }
}

impl Window {
    /// Whether it has the size that all have.
    #[must_use]
    pub(crate) fn is_sound(&self) -> bool {
        self.executed.is_empty() || self.executed.len() as u64 == WINDOW / 64
    }

    fn has(&self, sequence: u64) -> bool {
        let Some(behind) = self.highest.checked_sub(sequence).filter(|behind| *behind < WINDOW) else { return false };
        let word = usize::try_from(behind / 64).expect("below 16");
        self.executed.get(word).is_some_and(|bits| bits & (1 << (behind % 64)) != 0)
    }

    fn take(&mut self, sequence: u64) -> Turn {
        if self.executed.is_empty() {
            self.executed = vec![0; usize::try_from(WINDOW / 64).expect("16 words")];
            self.highest = sequence;
        }
        if let Some(ahead) = sequence.checked_sub(self.highest) {
            self.shift(ahead);
            self.highest = sequence;
        }
        let behind = self.highest - sequence;
        if behind >= WINDOW {
            return Turn::Unknown;
        }
        let (word, bit) = (usize::try_from(behind / 64).expect("below 16"), 1 << (behind % 64));
        if self.executed[word] & bit != 0 {
            return Turn::Again;
        }
        self.executed[word] |= bit;
        Turn::First
    }

    /// Makes room for `ahead` higher numbers.
    fn shift(&mut self, ahead: u64) {
        if ahead >= WINDOW {
            self.executed.fill(0);
            return;
        }
        let (words, bits) = (usize::try_from(ahead / 64).expect("below 16"), ahead % 64);
        for at in (0..self.executed.len()).rev() {
            let from = at.checked_sub(words).map_or(0, |at| self.executed[at]);
            let below = at.checked_sub(words + 1).map_or(0, |at| self.executed[at]);
            self.executed[at] = if bits == 0 { from } else { from << bits | below >> (64 - bits) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use althing_protocol::SecretKey;
    use proptest::prelude::*;

    use super::*;

    fn author(seed: u8) -> Author {
        Author::Node(SecretKey::from_seed(&[seed; 32]).public())
    }

    proptest! {
        #[test]
        fn each_number_has_one_first_turn(numbers in prop::collection::vec(0..4_000u64, 1..400)) {
            let mut sessions = Sessions::default();
            let (mut executed, mut highest) = (BTreeSet::new(), 0);
            for number in numbers {
                let turn = sessions.take(author(1), 7, number);
                highest = highest.max(number);
                let expected = match (executed.contains(&number), highest - number < WINDOW) {
                    (_, false) => Turn::Unknown,
                    (true, true) => Turn::Again,
                    (false, true) => Turn::First,
                };
                prop_assert_eq!(turn, expected, "number {}", number);
                if turn == Turn::First {
                    executed.insert(number);
                }
            }
        }
    }

    #[test]
    fn a_forgotten_session_is_never_executed_again() {
        let mut sessions = Sessions::default();
        for session in 0..=SESSIONS_MAX as u64 {
            assert_eq!(sessions.take(author(1), 100 + session, 0), Turn::First);
        }
        assert_eq!(sessions.take(author(1), 100, 0), Turn::Unknown);
        assert_eq!(sessions.take(author(1), 100, 1), Turn::Unknown);
        assert_eq!(sessions.take(author(1), 101, 0), Turn::Again);
        assert_eq!(sessions.take(author(2), 100, 0), Turn::First, "another author's sessions are its own");
    }
}
