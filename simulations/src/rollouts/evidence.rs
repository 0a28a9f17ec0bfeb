//! What was seen in a run, in order. Versions have the numbers of the plan.

use std::collections::BTreeSet;

use althing_verification::machine::rollout::{Phase, Versions};

use super::plan::{Order, Plan, number_of};
use crate::sessions::plan::Loss;

/// A node that answers calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The one at which the owner orders, and whose lives end.
    Leader,
    /// The other one, which tries what that one tries.
    Follower,
}

impl Place {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Place {
        match self {
            Place::Leader => Place::Follower,
            Place::Follower => Place::Leader,
        }
    }
}

/// How a call came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It is answered.
    Good,
    /// Its answer is none that the contract permits.
    Malformed,
    /// It failed.
    Failure,
    /// Its program ended.
    Crash,
}

/// What a node knows of an agent's versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knowledge {
    /// How often something was decided.
    pub revision: u64,
    /// The version that new conversations have.
    pub stable: u8,
    /// The one that is tried.
    pub tried: Option<u8>,
    /// Those that went back.
    pub gone: BTreeSet<u8>,
}

impl Knowledge {
    /// What these say.
    #[must_use]
    pub fn of(versions: &Versions) -> Knowledge {
        let running = versions.rollout().filter(|rollout| rollout.phase() == Phase::Running);
        Knowledge {
            revision: versions.revision(),
            stable: number_of(&versions.stable()),
            tried: running.map(|rollout| number_of(&rollout.plan().to)),
            gone: versions.reversals().keys().map(number_of).collect(),
        }
    }
}

/// What was decided by evidence, or by the owner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// It gets more of the new conversations.
    Share,
    /// It is stable.
    Promotion {
        /// Whether the owner said so.
        by_owner: bool,
    },
    /// It went back; how probable it is that it fails as often where it is watched, if that can be told.
    Reversal {
        /// See `Rollout::behaves_alike`.
        alike: Option<f64>,
    },
}

/// Something that was seen.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The owner ordered something, and that was taken or refused.
    Order {
        /// What.
        order: Order,
        /// Whether it was taken.
        is_taken: bool,
    },
    /// A node goes by this from now on.
    News {
        /// Which one.
        place: Place,
        /// By what.
        knowledge: Knowledge,
        /// The time of that node, Unix milliseconds.
        at_ms: u64,
    },
    /// A version answers a call.
    Answer {
        /// Where.
        place: Place,
        /// The call, by its number in the run.
        call: u64,
        /// The conversation that it is in.
        conversation: Option<u64>,
        /// Who answers it, by its number in the plan.
        version: u8,
        /// The time of that node, Unix milliseconds.
        at_ms: u64,
    },
    /// Somebody was shown an answer.
    Showing {
        /// The call that it answers, by its number in the run.
        call: u64,
        /// Whether the contract does not permit it.
        is_malformed: bool,
        /// Whether it is a shadow's.
        is_shadow: bool,
    },
    /// A version changed something in the world.
    Effect {
        /// The call that it did it in, by its number in the run.
        call: u64,
        /// Whether it is a shadow's.
        is_shadow: bool,
    },
    /// A call ended and was counted.
    End {
        /// Where.
        place: Place,
        /// The call, by its number in the run.
        call: u64,
        /// Who answered it.
        version: u8,
        /// Whether that is the one that is tried.
        is_new: bool,
        /// Whether it is a shadow's.
        is_shadow: bool,
        /// How it came out.
        truth: Course,
        /// As what it was counted.
        counted: Course,
    },
    /// Something was decided of a version, by evidence or by order, and not as the other node told it.
    Decision {
        /// Where.
        place: Place,
        /// Which one.
        version: u8,
        /// What.
        decision: Decision,
    },
    /// A life of the leader ended.
    LifeEnd(Loss),
    /// What was noted of a conversation was lost with the power, or the life of the node ended before it was answered.
    NoteLoss {
        /// Of which one.
        conversation: u64,
    },
}

/// All that was seen in a run.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// What was to happen.
    pub plan: Plan,
    /// What happened, in order.
    pub events: Vec<Event>,
}
