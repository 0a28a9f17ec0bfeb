//! A registry: publishers hand in what they signed, and anybody reads it with a proof that everybody sees the same.
//!
//! **In**: submissions of publishers. **Out**: releases with evidence, and a log whose growth outsiders can check.
//!
//! Invariants
//! - All that is accepted is an entry of one append-only log; everything else follows from its entries.
//! - What was acknowledged is on disk, and under a checkpoint.
//! - A version of an agent never changes, and only its publisher speaks for it. The registry has no key that speaks for one.
//!
//! This crate must never know nodes: it is asked over HTTP alone.

pub mod domain;
pub mod http;
pub mod machine;
pub mod operator;
pub mod publishers;
mod reach;
pub mod serve;
pub mod service;
mod stamp;
pub mod tokens;
pub mod witness;
