//! What decides in L3: plain data in, plain data out, time as an argument.

pub mod allowance;
pub mod announce;
pub mod catalogue;
pub(crate) mod contacts;
pub mod dialling;
pub mod exchange;
pub(crate) mod gone;
pub mod in_use;
pub mod index;
mod making_room;
pub(crate) mod node;
pub mod push_set;
pub mod query;
pub mod room;
pub mod search;
pub mod things;
