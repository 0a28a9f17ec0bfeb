//! L6: whether what an agent answers is right, and whether a version of it is worse than the one before.
//!
//! **Inputs**: what agents emit in their turns, contracts with their gates, the words of checks, passages that answers cite; files
//! of cases, journals of turns that are over; what came of calls, the time, seeds. **Outputs**: what may be shown, refusals with
//! gate, place and reason, findings; verdicts with the figures behind them, reports, answers from tapes; which version answers a
//! call, rows for the store.
//!
//! **Invariants**: what a gate of a contract refuses is shown to nobody; a gate that fails or is late refuses; no judge lets pass
//! what a rule refuses; chance alone makes no verdict more often than stated, however often one looks; what cannot be judged is
//! undecided, and undecided is no pass; what is not on a tape is not made up; one version is stable at a time.
//!
//! **Never knows**: who asked, other nodes, disks, HTTP.

pub mod gates;
pub mod machine;
mod player;
mod trial;

pub use player::Player;
pub use trial::{Trial, TrialNotes};
