//! Simulations: the real layers of many nodes in one process, over the simulated network, in virtual time.
//!
//! **Inputs**: scenario files and seeds. **Outputs**: a trace of the nodes' decisions, and the broken invariants. The same scenario
//! and seed give the same trace. Also [`swarm`]: measurements of real nodes over libp2p.
//!
//! **Never knows**, outside `swarm`: real clocks, sockets, disks.

pub mod actor;
pub mod adversary;
pub mod groups;
pub mod invariant;
pub mod mesh;
mod owner;
pub mod program;
pub mod raw_stream;
pub mod rollouts;
pub mod run;
pub mod scenario;
mod seeds;
pub mod sessions;
pub mod swarm;
pub mod trace;

pub use scenario::Scenario;

/// The name of the simulated network.
pub const NETWORK: &str = "althing";
/// The time of day at which a simulation begins.
pub const NOW_MS: u64 = 1_700_000_000_000;

/// The key of a number.
#[must_use]
pub fn key(number: u32) -> althing_protocol::SecretKey {
    let mut seed = [number.to_le_bytes()[0]; 32];
    if number > 255 {
        seed[..4].copy_from_slice(&number.to_le_bytes());
    }
    althing_protocol::SecretKey::from_seed(&seed)
}

/// Random bytes from a seed, the same in every run.
#[must_use]
pub fn entropy(seed: u64) -> althing_communication::Entropy {
    use rand::{RngCore as _, SeedableRng as _};
    let rng = std::sync::Mutex::new(rand::rngs::StdRng::seed_from_u64(seed));
    althing_communication::Entropy::new(move |bytes| rng.lock().expect("nobody panics with it").fill_bytes(bytes))
}
