//! The port to what gates refused in a turn: it stays with its task, for the owner of the node, and is shown to nobody else.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Bytes of a refused answer that are kept.
pub const REFUSED_BYTES_MAX: usize = 64 << 10;

/// An answer that a gate refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedAnswer {
    /// Which answer of the agent to the same message it was, from 1.
    pub attempt: u64,
    /// The gate: `schema`, `server/tool`, `agents/NAME`.
    pub gate: String,
    /// Where in the answer; empty for the whole.
    pub place: String,
    /// Where in the contract's rule, as a JSON Pointer; empty if it is one thing.
    pub rule: String,
    /// Why, in the gate's words, which may quote the answer.
    pub reason: String,
    /// Its texts, and its data as JSON; of a longer one the beginning.
    pub answer: String,
    /// Bytes of all of these.
    pub bytes: u64,
}

impl RefusedAnswer {
    /// The same, with no more of the answer than [`REFUSED_BYTES_MAX`].
    #[must_use]
    pub fn cut(mut self) -> RefusedAnswer {
        self.bytes = u64::try_from(self.answer.len()).unwrap_or(u64::MAX);
        self.answer.truncate(self.answer.floor_char_boundary(REFUSED_BYTES_MAX));
        self
    }
}

/// What gates refused in one turn.
pub trait Verdicts: Send + Sync + 'static {
    /// Adds an answer. It is on disk when its task is, and goes with it.
    fn add(&self, refused: RefusedAnswer);
}

/// Where it is told to of a turn.
#[derive(Clone)]
pub struct TurnVerdicts(pub Arc<dyn Verdicts>);

impl fmt::Debug for TurnVerdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TurnVerdicts").finish_non_exhaustive()
    }
}

impl PartialEq for TurnVerdicts {
    fn eq(&self, other: &TurnVerdicts) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TurnVerdicts {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_between_letters_and_its_length_is_told() {
        let refused = |answer: String| {
            let (place, rule, reason) = (String::new(), String::new(), "it is no JSON".to_owned());
            RefusedAnswer { attempt: 1, gate: "schema".to_owned(), place, rule, reason, answer, bytes: 0 }.cut()
        };
        let long = refused("a".to_owned() + &"ü".repeat(REFUSED_BYTES_MAX));
        assert_eq!((long.answer.len(), long.bytes), (REFUSED_BYTES_MAX - 1, 2 * REFUSED_BYTES_MAX as u64 + 1));
        let short = refused("three".to_owned());
        assert_eq!((short.answer.as_str(), short.bytes), ("three", 5));
    }
}
