//! Versions that mean harm, one file each. What must hold must hold all the same.

mod liar;
mod sham;

use super::plan::{Plan, VersionPlan};

/// Nobody.
pub const NONE: &str = "none";

/// Somebody who means harm.
pub trait Adversary: Sync {
    /// As the command line and reports have it.
    fn name(&self) -> &'static str;

    /// Changes what is to happen.
    fn prepare(&self, plan: &mut Plan);
}

const ALL: [&dyn Adversary; 2] = [&liar::Liar, &sham::Sham];

/// All names.
pub const NAMES: [&str; 2] = ["liar", "sham"];

/// The adversary of a name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Adversary> {
    ALL.into_iter().find(|adversary| adversary.name() == name)
}

/// The names that can be asked for, [`NONE`] among them.
pub fn known() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain([NONE])
}
