//! What must hold in every run of a group, one file each.

mod accused;
mod acknowledged;
mod admitted;
mod calm;
mod committed;
mod ended;
mod fenced;
mod once;
mod one_leader;
mod one_vote;
pub mod queue;
pub mod register;
mod same_log;
mod same_state;
mod search;
mod serves;
mod unbroken;

use super::evidence::Evidence;
use super::replay::Replay;

/// All that was seen in a run.
pub struct Seen {
    /// What the members, their disks, their workers and the clients did.
    pub evidence: Evidence,
    /// What the committed log leads to.
    pub replay: Replay,
}

/// A property that must hold in every run.
pub trait Invariant: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Judges a run.
    ///
    /// # Errors
    /// How it does not hold.
    fn check(&self, seen: &Seen) -> Result<(), String>;
}

/// All of them.
pub const ALL: &[&dyn Invariant] = &[
    &one_leader::OneLeader,
    &one_vote::OneVote,
    &same_log::SameLog,
    &committed::Committed,
    &same_state::SameState,
    &admitted::Admitted,
    &acknowledged::Acknowledged,
    &once::Once,
    &fenced::Fenced,
    &register::Register,
    &queue::Queue,
    &unbroken::Unbroken,
    &serves::Serves,
    &calm::Calm,
    &ended::Ended,
    &accused::Accused,
];

/// All names.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|invariant| invariant.name()).collect()
}
