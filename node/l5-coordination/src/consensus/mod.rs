//! Consensus of one group's members, by openraft. No type of openraft leaves this module, none is on disk or on the wire: its
//! next version is a matter of this folder alone.

pub(crate) mod heartbeats;
mod log_store;
mod moves;
mod network;
mod records;
mod replica;
mod runtime;
pub(crate) mod serve;
mod state_store;
mod types;
pub mod watch;
pub mod wire;

#[cfg(test)]
mod tests;

pub use log_store::{RAFT_LOG, RAFT_STATE};
pub use moves::Moves;
pub use replica::{Replica, ReplicaConfig, ReplicaError, Role, Status, View};
pub use runtime::seed_randomness;
pub use state_store::RAFT_SNAPSHOTS;
