//! What kind a failure is, and what to do next about it: once for all rooms, with what the faces answer for each kind.
//!
//! The text of an error says what failed, where and why; its kind says what can be done about it: mend the request, name
//! something else, try again, or read the text. Its [`Remedy`] is the next step, which each face says in its own words. The
//! crate of an error gives it both, and the faces take them over.
//!
//! **Inputs**: kinds, steps. **Outputs**: statuses of HTTP, exit codes, JSON.
//!
//! **Never knows**: what failed, the words of any face.

mod remedy;

pub use remedy::{AgentStep, CallStep, GroupStep, KeyStep, NodeStep, RegistryStep, Remedy};
use serde::{Deserialize, Serialize};

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// The request is invalid.
    Invalid,
    /// The request is longer than what is read.
    TooLarge,
    /// There is no such thing.
    NotFound,
    /// It is not allowed.
    Refused,
    /// What is there already, or its state, is in the way.
    Conflict,
    /// Another node cannot be reached, or did not answer in time.
    Unreachable,
    /// Whoever would do it has too much to do now.
    Busy,
    /// It is not known yet; the node tries again.
    NotYet,
    /// It failed.
    Failed,
}

impl Kind {
    /// What the faces answer: the status in the owner's API, and the exit code of a command. Scripts go by both, so neither
    /// changes.
    const fn answers(self) -> (u16, u8) {
        // As RFC 9110 has them: 403 is also for what no credential would change, 504 for another node that does not answer in
        // time, and 503 for what may be asked again in a moment.
        match self {
            Kind::Invalid => (422, 2),
            Kind::TooLarge => (413, 2),
            Kind::NotFound => (404, 4),
            Kind::Refused => (403, 5),
            Kind::Conflict => (409, 1),
            Kind::Unreachable => (504, 6),
            Kind::Busy => (503, 6),
            Kind::NotYet => (503, 7),
            Kind::Failed => (500, 1),
        }
    }

    /// The status of HTTP with which the owner's API answers.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.answers().0
    }

    /// The exit code of a command.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        self.answers().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_by_its_word_its_status_and_its_exit_code() {
        let table = [
            (Kind::Failed, "failed", 500, 1),
            (Kind::Invalid, "invalid", 422, 2),
            (Kind::TooLarge, "tooLarge", 413, 2),
            (Kind::NotFound, "notFound", 404, 4),
            (Kind::Refused, "refused", 403, 5),
            (Kind::Conflict, "conflict", 409, 1),
            (Kind::Unreachable, "unreachable", 504, 6),
            (Kind::Busy, "busy", 503, 6),
            (Kind::NotYet, "notYet", 503, 7),
        ];
        for (kind, name, status, exit_code) in table {
            assert_eq!((kind.status(), kind.exit_code()), (status, exit_code), "{name}");
            assert_eq!(serde_json::to_value(kind).expect("it is a word"), name);
            assert_eq!(serde_json::from_value::<Kind>(name.into()).expect("the word of a kind"), kind);
        }
    }
}
