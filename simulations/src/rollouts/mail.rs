//! What the nodes tell each other: it comes late, in another order, and not at all while they are apart.

use althing_verification::machine::rollout::{RolloutNews, Versions, encode_row};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::evidence::Place;

/// What is told takes so many calls at most.
const DELAY_MAX: u64 = 8;
/// The name of the agent.
const AGENT: &str = "agent";

/// What one node tells the other one.
pub(super) struct Letter {
    pub to: Place,
    pub news: Vec<RolloutNews>,
    /// All that the node knows: only a planted bug reads it.
    pub row: Vec<u8>,
}

impl Letter {
    /// What a node with these versions tells.
    pub fn of(versions: &Versions, to: Place) -> Letter {
        Letter { to, news: versions.news(AGENT), row: encode_row(versions) }
    }
}

/// Letters on their way.
pub(super) struct Mail {
    rng: StdRng,
    /// With the calls at which they come.
    letters: Vec<(u64, Letter)>,
}

impl Mail {
    pub fn new(seed: u64) -> Mail {
        // Neither what the plan is drawn from, nor what the calls are.
        Mail { rng: StdRng::seed_from_u64(seed ^ 0x4d61_696c), letters: Vec::new() }
    }

    pub fn post(&mut self, call: u64, letter: Letter) {
        self.letters.push((call + self.rng.random_range(1..=DELAY_MAX), letter));
    }

    /// Those that come by that call, in no order.
    pub fn take(&mut self, call: u64) -> Vec<Letter> {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.letters).into_iter().partition(|(due, _)| *due <= call);
        self.letters = later;
        due.into_iter().map(|(_, letter)| letter).collect()
    }
}
