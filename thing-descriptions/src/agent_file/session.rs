//! What an agent file says of turns that their node cut off.

use serde::{Deserialize, Serialize};

/// What is said of the sessions of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionSpec {
    /// What becomes of a turn that had not ended when its node did; none for what the runtime can do by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// What becomes of a turn that had not ended when its node did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resume {
    /// `repeat`: its program is given the message again, and calls that it made before are answered as they were.
    Repeat,
}

impl Resume {
    pub(crate) const WORDS: [&'static str; 1] = ["repeat"];

    pub(crate) fn from_word(word: &str) -> Option<Resume> {
        (word == "repeat").then_some(Resume::Repeat)
    }
}

impl SessionSpec {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's `skip_serializing_if` passes a reference")]
    pub(super) fn is_default(&self) -> bool {
        *self == SessionSpec::default()
    }

    /// Whether a program is given a message again.
    #[must_use]
    pub fn repeats(self) -> bool {
        self.resume == Some(Resume::Repeat)
    }
}
