//! One suite for every implementation of a port (see `tests/`), and its helpers.

pub mod co_owned;
pub mod disk;
pub mod gateway;
pub mod groups;
pub mod hostile;
pub mod origins;
pub mod probe;
pub mod receiver;
pub mod world;

pub use althing_simulations::actor::NEVER;
pub use althing_simulations::{NETWORK, NOW_MS, entropy, mesh, program};

/// The stream protocol on which probes answer.
pub const PROTOCOL: &str = "/althing/call/1";

/// The key of a number.
#[must_use]
pub fn key(number: u8) -> althing_protocol::SecretKey {
    althing_simulations::key(u32::from(number))
}
