//! What outcomes prove: statistics whose errors are bounded, and that say *undecided* where chance could explain what was seen.
//!
//! Two questions have two kinds of tests. [`EProcess`] compares two shares of bad calls while they come, and may be looked at
//! after each of them (rollouts). [`compare`] takes cases that both versions ran, once and for all.

mod bootstrap;
mod comparison;
mod decision;
mod draws;
mod exact;
mod process;
mod rate;
mod repeats;
mod sizes;
mod tally;

pub use comparison::{Comparison, ComparisonError, PairRun, PairSummary, SLICES_MAX, Verdict, compare};
pub use decision::Criteria;
pub use draws::Draws;
pub use exact::{Interval, fisher};
pub use process::{EProcess, Null};
pub use rate::{pass_at, pass_hat};
pub use repeats::{CaseRuns, Estimate, RepeatError, pass_all, pass_any};
pub use tally::{Block, Tally};
