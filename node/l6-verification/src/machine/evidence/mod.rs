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
mod repeats;
mod sizes;
mod tally;

pub use bootstrap::{RESAMPLES, mean_bounds};
pub use comparison::{Comparison, ComparisonError, PairRun, PairSummary, SLICES_MAX, Verdict, compare};
pub use decision::{Criteria, SCORES_MIN};
pub use draws::Draws;
pub use exact::{Interval, fisher, mcnemar, rate_bounds};
pub use process::{EProcess, Null};
pub use repeats::{CaseRuns, Estimate, RepeatError, pass_all, pass_any};
pub use sizes::{PAIRS_MAX, pairs_to_decide, scores_to_decide};
pub use tally::{Block, Tally};
