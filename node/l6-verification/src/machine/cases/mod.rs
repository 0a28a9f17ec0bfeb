//! Cases: what an agent is asked in a test, and what is right. A file of them has a line of JSON for each, in the form of
//! Inspect's samples (`input`, `target`, `id`, `metadata`); what we add is under `metadata.althing`.
//!
//! A line is written back as it was read, whatever of it is not known here.

mod case;
mod expectation;
mod file;
mod problem;
mod reader;
mod slices;

pub(crate) use case::excerpt;
pub use case::{CASE_BYTES_MAX, CASES_BYTES_MAX, CASES_MAX, Case, ID_BYTES_MAX, MESSAGES_MAX, TARGETS_MAX};
pub use expectation::{CaseSchema, Expectation, Grade, ToolRule};
pub use file::Cases;
pub use problem::{CaseProblem, CasesError};

#[cfg(test)]
mod tests;
