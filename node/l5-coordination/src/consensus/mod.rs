//! Consensus of one group's members, by openraft. No type of openraft leaves this module, none is on disk or on the wire: its
//! next version is a matter of this folder alone.

mod agreement;
pub(crate) mod arriving;
mod config;
pub(crate) mod heartbeats;
mod image;
mod log_cache;
mod log_rows;
mod log_store;
mod moves;
mod network;
mod pen;
mod records;
mod replica;
mod runtime;
pub(crate) mod serve;
mod state_store;
mod tally;
mod types;
pub mod watch;
pub mod wire;

#[cfg(test)]
mod tests;

pub use config::ReplicaConfig;
pub use log_rows::{RAFT_LOG, RAFT_STATE};
pub use moves::Moves;
pub use replica::{Replica, ReplicaError, Role, Status, View};
pub use runtime::seed_randomness;
pub use state_store::RAFT_SNAPSHOTS;
