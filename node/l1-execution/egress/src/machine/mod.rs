//! What decides: who may ask, which hosts may be reached, what of a request and of an answer passes, and how secrets are taken out
//! of what comes back. Pure.

pub mod headers;
pub mod login;
pub mod paths;
pub mod rules;
pub mod sieve;
