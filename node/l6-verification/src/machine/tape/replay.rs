//! Whether a turn that is run again from its tape is the same.

use std::fmt;

use althing_protocol::Digest;

use super::{NotOnTape, Playback};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnOutput {
    /// The hash of the manifest that it was bound to.
    pub binding: String,
    /// The digest of all that it answered.
    pub digest: Digest,
    /// The state of its task, as A2A names it.
    pub state: String,
}

/// Whether it is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayVerdict {
    /// It asked the same, and answered the same.
    Equal,
    /// It did not: where, in the order in which it would show.
    Differs(Vec<Difference>),
}

/// Where it is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It was bound to other models, tools or code.
    Binding {
        /// The hash then.
        was: String,
        /// The hash now.
        is: String,
    },
    /// It asked what it had not asked.
    Request(NotOnTape),
    /// It did not ask what it had asked.
    Unasked {
        /// The first name.
        name: String,
        /// How many there are.
        count: usize,
    },
    /// Its task ended in another state.
    State {
        /// The state then.
        was: String,
        /// The state now.
        is: String,
    },
    /// It answered something else.
    Output,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Binding { was, is } => write!(f, "bound to {is}, and it was bound to {was}"),
            Difference::Request(missing) => write!(f, "{missing}"),
            Difference::Unasked { name, count: 1 } => write!(f, "{name} is on the tape, and was not asked"),
            Difference::Unasked { name, count } => {
                write!(f, "{count} requests are on the tape, and were not asked; the first is {name}")
            }
            Difference::State { was, is } => write!(f, "ended as {is}, and it had ended as {was}"),
            Difference::Output => f.write_str("asked the same, or some of it, and answered something else"),
        }
    }
}

/// Compares how a turn ended with how it ends from its tape.
#[must_use]
pub fn compare(was: &TurnOutput, is: &TurnOutput, played: &Playback) -> ReplayVerdict {
    let mut differences = Vec::new();
    if was.binding != is.binding {
        differences.push(Difference::Binding { was: was.binding.clone(), is: is.binding.clone() });
    }
    differences.extend(played.missing().cloned().map(Difference::Request));
    let unplayed = played.unplayed();
    if let Some(first) = unplayed.first() {
        differences.push(Difference::Unasked { name: (*first).to_owned(), count: unplayed.len() });
    }
    if was.state != is.state {
        differences.push(Difference::State { was: was.state.clone(), is: is.state.clone() });
    }
    if was.digest != is.digest {
        differences.push(Difference::Output);
    }
    if differences.is_empty() { ReplayVerdict::Equal } else { ReplayVerdict::Differs(differences) }
}
