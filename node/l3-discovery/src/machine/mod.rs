//! What decides in L3: plain data in, plain data out, time as an argument.

pub mod announce;
pub mod audience;
pub mod catalogue;
pub(crate) mod contacts;
pub mod dialling;
pub(crate) mod gone;
pub mod index;
pub mod query;
pub mod things;
