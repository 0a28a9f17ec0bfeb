//! Calls of turns that are over, decided again: by the contract that bound their agent, and by the policies in force where these are the
//! ones that decided then. Nobody is asked, and nothing is recorded.

mod evidence;
mod findings;
mod past;
mod reviewer;

pub use findings::ReviewFinding;
pub use past::{PastCall, PastTurn};
pub use reviewer::{CallReview, review_calls};
