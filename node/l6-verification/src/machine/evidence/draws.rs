//! Draws from a seed: the same on every machine and in every release.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng as _, SeedableRng as _};

/// An endless row of draws.
pub struct Draws(ChaCha20Rng);

impl Draws {
    /// Those of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Draws {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Draws(ChaCha20Rng::from_seed(key))
    }

    /// A whole number from 0 to below `bound`; 0 for a bound of 0. Some come up more often than others, by one part in 2⁶⁴ of
    /// the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.0.next_u64()) * bound as u128;
        usize::try_from(wide >> 64).unwrap_or_default()
    }

    /// Whether something happened that has this probability.
    #[cfg(test)]
    pub fn happens(&mut self, probability: f64) -> bool {
        // The 53 bits that a number between 0 and 1 has.
        let unit = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < probability
    }
}
