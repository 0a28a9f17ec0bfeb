//! What decides in L3: plain data in, plain data out, time as an argument.

pub mod catalogue;
pub(crate) mod contacts;
pub(crate) mod departed;
pub mod dialling;
mod eviction;
pub mod exchange;
pub mod in_use;
pub mod index;
pub mod instances;
pub mod interfaces;
pub mod known_peers;
pub(crate) mod node;
pub mod publish_schedule;
pub mod push_set;
pub mod query;
pub mod range;
pub mod rank;
pub(crate) mod room;
pub mod search;
mod seen;
pub mod things;
pub mod verification_budget;
