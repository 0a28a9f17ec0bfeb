//! Who is let loose on sessions, one file each. What must hold must hold all the same.

mod denier;
mod forger;
mod poisoned_handoff;
mod row_hoarder;

use rand::rngs::StdRng;

use super::disk::Disk;
use super::plan::Plan;
use super::world::Surroundings;

/// Nobody.
pub const NONE: &str = "none";

/// Somebody who means harm.
pub trait Adversary: Sync {
    /// As the command line and reports have it.
    fn name(&self) -> &'static str;

    /// Changes what is to happen.
    fn prepare(&self, _plan: &mut Plan) {}

    /// Does something while the node is down.
    fn strike(&self, _world: &Surroundings, _disk: &Disk, _rng: &mut StdRng) {}
}

const ALL: [&dyn Adversary; 4] =
    [&denier::Denier, &forger::Forger, &poisoned_handoff::PoisonedHandoff, &row_hoarder::RowHoarder];

/// All names.
pub const NAMES: [&str; 4] = ["denier", "forger", "poisoned-handoff", "row-hoarder"];

/// Those that a seed may draw. To fill a journal takes seconds, and is done where it is asked for.
pub const DRAWN: [&str; 3] = ["denier", "forger", "poisoned-handoff"];

/// The adversary of a name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Adversary> {
    ALL.into_iter().find(|adversary| adversary.name() == name)
}

/// The names that can be asked for, [`NONE`] among them.
pub fn known() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain([NONE])
}
