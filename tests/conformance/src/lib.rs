//! One suite for every implementation of a port; see `tests/`. Here is what its cases are made of.

pub mod hostile;
pub mod mesh;
pub mod probe;
pub mod world;

/// The network that everything here belongs to.
pub const NETWORK: &str = "althing";
/// The stream protocol on which probes answer.
pub const PROTOCOL: &str = "/althing/call/1";
/// What time it is, unless a test says otherwise.
pub const NOW_MS: u64 = 1_700_000_000_000;

/// The key of a number.
#[must_use]
pub fn key(number: u8) -> althing_protocol::SecretKey {
    althing_protocol::SecretKey::from_seed(&[number; 32])
}

/// Random bytes that are the same in every run.
#[must_use]
pub fn entropy(seed: u64) -> althing_communication::Entropy {
    use rand::{RngCore as _, SeedableRng as _};
    let rng = std::sync::Mutex::new(rand::rngs::StdRng::seed_from_u64(seed));
    althing_communication::Entropy::new(move |bytes| rng.lock().expect("nobody panics with it").fill_bytes(bytes))
}
