//! What came of one call.

use minicbor::{Decode, Encode};

use super::bins::Bins;

/// Which of the two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that everybody had before.
    Stable,
    /// The one that is tried.
    New,
}

/// In what the two versions are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Signal {
    /// A call that failed in any way: an error, or an output that was refused.
    #[n(0)]
    Failure,
    /// A call that failed.
    #[n(1)]
    Error,
    /// A call whose output a gate refused or could not judge, or a silent failure in it.
    #[n(2)]
    Refusal,
    /// A call whose first token came later than the plan's time.
    #[n(3)]
    Slowness,
}

impl Signal {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Signal; 4] = [Signal::Failure, Signal::Error, Signal::Refusal, Signal::Slowness];

    /// What is said of a call that is counted.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Signal::Failure => "failed",
            Signal::Error => "ended with an error",
            Signal::Refusal => "gave what a gate refused or could not judge, or failed in silence",
            Signal::Slowness => "were late with their first token",
        }
    }
}

/// What the new version must not do, however rarely, if stable does not do it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Breach {
    /// It ended unexpectedly.
    #[n(0)]
    Crash,
    /// Its output was refused, after all repairs; or that of a job, by the limits of its signals.
    #[n(1)]
    Refusal,
    /// It missed a deadline that it was admitted with.
    #[n(2)]
    Deadline,
    /// It passed its budget.
    #[n(3)]
    Budget,
}

impl Breach {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Breach::Crash => "crashed",
            Breach::Refusal => "gave what a gate refused or its limits forbid",
            Breach::Deadline => "missed a deadline",
            Breach::Budget => "passed its budget",
        }
    }
}

/// By what an outcome is counted: given out with the route of a call, and handed back with what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The number of the rollout.
    pub(super) rollout: u64,
    /// The number of its stage, from 0.
    pub(super) stage: u8,
    pub(super) side: Side,
    /// Whether the conversation began under the rollout. Older ones are all stable's: they would not compare like with like.
    pub(super) is_drawn: bool,
    /// Whether the answer is shown to nobody.
    pub(super) is_shadow: bool,
    /// Whether it is no call, but a labelled case.
    pub(super) is_case: bool,
    /// Among which calls it is weighed.
    pub(super) bins: Bins,
}

impl Ticket {
    /// Which version the call went to.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    /// The same for a call that is not compared: by it only what must not be is noted.
    #[must_use]
    pub fn uncompared(self) -> Ticket {
        Ticket { is_drawn: false, ..self }
    }
}

/// What came of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it failed. What a tool was denied, or an effect that a shadow may not have, is no failure.
    pub is_error: bool,
    /// Whether a gate refused its output or could not judge it, or something failed in silence.
    pub is_refused: bool,
    /// Whether no gate could say whether that is a fault of the version: its contract was not applied.
    pub is_unjudged: bool,
    /// How long its first token took, milliseconds; none if there was none, or it is not known.
    pub first_token_ms: Option<u64>,
    /// If something happened that is counted one by one.
    pub breach: Option<Breach>,
    /// Of a shadow: whether its output differs from the one that was shown.
    pub differs: bool,
}

impl Outcome {
    /// Whether it is bad, for each signal; none where nothing is known.
    #[must_use]
    pub fn marks(&self, first_token_ms: Option<u64>) -> [Option<bool>; 4] {
        let is_late = self.first_token_ms.zip(first_token_ms).map(|(took, limit)| took > limit);
        [Some(self.is_error || self.is_refused), Some(self.is_error), Some(self.is_refused), is_late]
    }
}
