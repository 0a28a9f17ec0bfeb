//! The state of a registry, which follows from the entries of its log alone.
//!
//! Pure: the time and all bytes are handed in. What is judged here is not in the state until it is applied, after the log has
//! it on disk.

mod organisation;
mod organisation_rules;
mod refusal;
mod state;
pub mod things;

pub use organisation::{Claim, HeldDomain, HeldRoster, Organisations};
pub use refusal::Refusal;
pub use state::{Admission, Judged, Machine, Released, Statement, Versions};

#[cfg(test)]
mod tests;
