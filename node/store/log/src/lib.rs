//! An append-only log on the store: entries, the hashes over them, and what proves its growth to outsiders.
//!
//! **In**: entries of up to 65,535 bytes, written together with rows of the caller. **Out**: entries, the [`Head`] over
//! all of them, proofs of inclusion and of growth, and tiles (C2SP tlog-tiles).
//!
//! Invariants
//! - An entry that was acknowledged is on disk, with the hashes over it and the caller's rows, or none of them is.
//! - An entry is never changed, and its index is never used again.
//! - What is read is compared with its hash: damage is an error, and never another history.
//!
//! Only every eighth level of the tree is stored, as tiles have it; the levels between are computed from at most 255 hashes.
//!
//! [`witness`] is the other side: it cosigns the heads of others' logs.
//!
//! This crate must never know what entries mean, who may write them, or who signs its head.

mod edge;
mod error;
mod log;
mod tile;
pub mod witness;

pub use althing_protocol::tlog::{Head, Span};
pub use error::{AppendError, LogError};
pub use log::{ENTRY_BYTES_MAX, Log, LogFamilies, Writer};
pub use tile::{TILE_WIDTH, Tile};
