//! What happens in a run: all of it is drawn from the seed.

use std::time::Duration;

use althing_coordination::ReplicaConfig;
use althing_simnet::LinkConfig;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::adversary;

/// A fault. Those with a duration end by themselves.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The power of a member is cut, and comes back.
    Crash(Who),
    /// The power of all members is cut, and comes back.
    Blackout,
    /// A member is cut off from all others.
    Isolate(Who),
    /// The members are cut into two parts: bit n is the side of member n.
    Split(u8),
    /// What the others send does not arrive at a member.
    Deaf(Who),
    /// What a member sends does not arrive at the others.
    Mute(Who),
    /// Two parts that only one member reaches both: bit n is the side of member n.
    Bridge(Who, u8),
    /// So many thousandths of all segments are lost.
    Lossy(u16),
    /// The clock of a member stands still.
    Stopped(Who),
    /// The clock of a member is ahead by so much.
    Ahead(Who, u64),
    /// The leader hands the lead to a member.
    HandOver(Who),
}

/// Which member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Whoever leads then.
    Leader,
    /// The one of this number, from 0.
    Number(u8),
}

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many members keep to the rules.
    pub honest: u8,
    /// The adversary that is a member besides, if there is one.
    pub adversary: Option<&'static str>,
    /// How links behave.
    pub link: LinkConfig,
    /// How long a disk takes to sync.
    pub sync: Duration,
    /// How replicas behave.
    pub replica: ReplicaConfig,
    /// How many clients there are.
    pub clients: u32,
    /// For how long clients work and faults happen.
    pub for_ms: u64,
    /// The faults: when each begins, and how long it lasts, milliseconds.
    pub faults: Vec<(u64, u64, Fault)>,
}

/// How long clients work and faults happen.
const FOR_MS: u64 = 5_000;
/// Faults of one run, at most.
const FAULTS_MAX: usize = 5;
/// Of so many runs one has an adversary.
const ADVERSARY_IN: u32 = 3;

impl Plan {
    /// The run of a seed; with this adversary, or without one, if that is given.
    #[must_use]
    pub fn draw(seed: u64, adversary: Option<&'static str>) -> Plan {
        let mut rng = StdRng::seed_from_u64(seed);
        let rng = &mut rng;
        let size = if rng.random_bool(0.7) { 3 } else { 5 };
        let drawn = (rng.random_ratio(1, ADVERSARY_IN)).then(|| *adversary::NAMES.choose(rng).expect("there are some"));
        let adversary = adversary.or(drawn).filter(|name| *name != adversary::NONE);
        let (low, high) = *[(0, 1), (1, 4), (2, 20)].choose(rng).expect("three");
        let latency = Duration::from_micros(rng.random_range(200..2_000));
        let link = LinkConfig {
            latency,
            jitter: Duration::from_millis(rng.random_range(low..=high)),
            loss: *[0.0, 0.0, 0.01, 0.05].choose(rng).expect("four"),
            retransmit: Duration::from_millis(50),
            dead_after: Duration::from_millis(*[700, 6_000].choose(rng).expect("two")),
        };
        let snapshot_entries = *[20, 40, 5_000].choose(rng).expect("three");
        let count = rng.random_range(1..=FAULTS_MAX);
        let mut faults: Vec<_> = (0..count).map(|_| draw_fault(rng, size)).collect();
        faults.sort_by_key(|(at_ms, ..)| *at_ms);
        Plan {
            honest: size - u8::from(adversary.is_some()),
            adversary,
            link,
            sync: Duration::from_millis(*[0, 1, 5].choose(rng).expect("three")),
            replica: ReplicaConfig { snapshot_entries, ..ReplicaConfig::default() },
            clients: rng.random_range(2..=4),
            for_ms: FOR_MS,
            faults,
        }
    }
}

fn draw_fault(rng: &mut StdRng, size: u8) -> (u64, u64, Fault) {
    let at_ms = rng.random_range(100..FOR_MS - 800);
    let for_ms = rng.random_range(200..2_500);
    let who = if rng.random_bool(0.5) { Who::Leader } else { Who::Number(rng.random_range(0..size)) };
    let sides = rng.random_range(1..(1u8 << size) - 1);
    let fault = match rng.random_range(0..13) {
        0..=2 => Fault::Crash(who),
        3 => Fault::Isolate(who),
        4 => Fault::Split(sides),
        5 => Fault::Deaf(who),
        6 => Fault::Mute(who),
        7 => Fault::Bridge(who, sides),
        8 => Fault::Lossy(rng.random_range(50..400)),
        9 => Fault::Stopped(who),
        10 => Fault::Blackout,
        11 => Fault::Ahead(who, rng.random_range(100..2_000)),
        _ => Fault::HandOver(who),
    };
    (at_ms, for_ms, fault)
}
