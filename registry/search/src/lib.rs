//! Narrows searches of a directory: which descriptions a JSONPath query (RFC 9535) may select anything in.
//!
//! **In**: descriptions as JSON, each with the key of whom it describes and the entry of the log that it comes from; queries.
//! **Out**: the entries whose descriptions may have what a query needs. An answer is never made from them: whoever asks reads
//! each description and lets the query itself decide.
//!
//! A description is indexed by terms: hashes of what stands at its paths ([`terms`]). A query is turned into the terms that a
//! description has if the query selects anything in it ([`need`]). Neither texts nor ids are kept, only hashes.
//!
//! Invariants
//! - What a query selects something in has what the query needs: a candidate too many is possible, one too few is not.
//! - A view stands for the entries of the log before [`View::entries`], and says so; the others are looked at by the caller.
//! - An index that is damaged, of another format, or of another log is not used: [`Index::open`] begins a new one.
//!
//! This crate must never know what is shown to whom: registries, agents, HTTP.

mod index;
mod need;
mod query;
mod term;

pub use index::{Index, IndexError, Key, Standing, View, Writer};
pub use need::Need;
pub use query::{Looks, looks, need};
pub use term::{Terms, terms};
