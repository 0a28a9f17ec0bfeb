//! What is decided about a program: pure.

pub mod accounts;
pub mod budget;
pub mod facts;
#[cfg(target_os = "linux")]
pub mod filter;
pub mod gaps;
pub mod grants;
pub mod groups;
pub mod plan;
#[cfg(target_os = "linux")]
pub mod refusals;
pub mod rules;
