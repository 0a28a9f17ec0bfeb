//! What must hold in every run of sessions, one file each.

mod acknowledgement;
mod doubt;
mod hearing;
mod labels;
mod once;
mod one_end;
mod one_owner;

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
    &once::Once,
    &hearing::SameWords,
    &acknowledgement::Acknowledgement,
    &doubt::ToldDoubt,
    &one_end::OneEnd,
    &labels::Labels,
    &one_owner::OneOwner,
];

/// All names.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|invariant| invariant.name()).collect()
}
