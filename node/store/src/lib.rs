//! The storage below the layers: ordered bytes that survive a crash.
//!
//! **In**: batches of puts and deletes, grouped by [`Family`] (one per concern, owned by the layer that names it).
//! **Out**: single values, bounded scans in key order, and frozen views ([`Snapshot`]).
//!
//! Two implementations of one port ([`Store`]) pass one contract suite: [`RocksStore`] on disk, and [`MemoryStore`],
//! its twin for simulations, which completes on the caller's runtime and so follows a paused tokio clock.
//!
//! Invariants
//! - A [`Durability::Synced`] write that completed is there after a crash of the process or of the machine.
//! - A batch is applied as a whole or not at all, across families.
//! - Damage is never skipped: a read that meets it fails, the family is stopped, the other families go on.
//! - One process at a time: an open store holds a lock, and the refusal names the holder.
//! - A store written by a newer format is refused before anything touches it.
//! - Memory, queues and results are bounded; a writer waits when the queue is full.
//!
//! This crate must never know what the bytes mean: no type of the protocol, no agent, no task, no time of day.

mod cause;
mod config;
mod durable;
mod error;
mod family;
pub mod file;
mod format;
pub mod keyfile;
mod lock;
mod memory;
mod port;
mod rocks;
pub mod seal;

pub use cause::Cause;
pub use config::StoreConfig;
pub use durable::replace_file;
pub use error::{OpenError, ReadError, WriteError, mebibytes};
pub use family::Family;
pub use memory::MemoryStore;
pub use port::{BATCH_BYTES_MAX, Batch, Durability, LARGE_BATCH_BYTES_MAX, Range, Rows, Snapshot, Store};
pub use rocks::{RocksStore, StoreStats, free_bytes};
