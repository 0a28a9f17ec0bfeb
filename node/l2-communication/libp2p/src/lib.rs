//! The libp2p shell of L2's [`Network`] port: tcp, noise and yamux, identify, ping, connection limits.
//!
//! **Inputs**: a node's key and addresses to listen on. **Outputs**: streams to proven peers, and who comes and goes.
//!
//! **Invariants**: one connection per peer once things have settled; no peer without an ed25519 identity; nothing that
//! takes time runs on the swarm's task.
//!
//! **Never knows**: frames, calls, agents, how peers are found.

mod behaviour;
mod closing;
mod config;
mod connections;
mod identity;
mod streams;
mod swarm;

pub use config::{Libp2pConfig, ListenError};
pub use swarm::Libp2pNetwork;
