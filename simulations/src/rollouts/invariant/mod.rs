//! What must hold in every run of rollouts, one file each.

mod answerer;
mod conversation;
mod promotion;
mod reversal;
mod shadow;
mod showing;
mod stable;
mod verdict;
mod worse;

use super::evidence::Evidence;

/// A property that must hold in every run.
pub trait Invariant: Sync {
    /// As the command line and reports have it.
    fn name(&self) -> &'static str;

    /// Judges a run.
    ///
    /// # Errors
    /// How it does not hold.
    fn check(&self, seen: &Evidence) -> Result<(), String>;
}

/// All of them.
pub const ALL: &[&dyn Invariant] = &[
    &answerer::OnlyAnswerers,
    &stable::OneStable,
    &conversation::FaithfulConversation,
    &promotion::EnoughEvidence,
    &reversal::FinalReversal,
    &showing::JudgedAnswers,
    &shadow::SilentShadow,
    &verdict::Verdicts,
    &worse::PromptReversal,
];

/// All names.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|invariant| invariant.name()).collect()
}
