//! A new version of an agent gets a share of the calls, and all of them only by evidence; it loses them by itself when it is
//! worse.

mod bins;
mod error;
mod news;
mod outcome;
mod plan;
mod row;
mod run;
mod split;
mod trial;
mod versions;
mod weights;

pub use error::OrderError;
pub use news::{NEWS_BYTES_MAX, NEWS_MAX, NewsError, RolloutNews, RolloutWord, decode_news, encode_news};
pub use outcome::{Breach, Outcome, Side, Signal, Ticket};
pub use plan::{Plan, PlanError, STEPS_MAX, Unit};
pub use row::{RowError, VERSIONS_ROW_BYTES_MAX, decode_row, encode_row};
pub use run::{Change, Phase, Reason, Rollout};
pub use split::{Call, Conversation};
pub use trial::SignalTrials;
pub use versions::{REVERSALS_MAX, Reversal, Route, Versions};
pub use weights::Surplus;

#[cfg(test)]
mod tests;
