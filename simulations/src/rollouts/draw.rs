//! What happens in a run is drawn from its seed.

use std::collections::BTreeMap;
use std::ops::Range;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::adversary;
use super::plan::{CALLS, FAR_WORSE_PERMILLE, LifeEnd, Moment, Order, Plan, VersionPlan};
use crate::sessions::plan::Loss;

/// In one of so many runs somebody is let loose.
const ADVERSARY_IN: u32 = 8;
/// Versions that are tried.
const OTHERS: u8 = 3;

impl Plan {
    /// Draws a run; `adversary` is let loose, [`adversary::NONE`] is nobody, and without it the seed decides.
    #[must_use]
    pub fn draw(seed: u64, adversary: Option<&'static str>) -> Plan {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut versions = vec![VersionPlan { malformed_permille: 10, failing_permille: 10, ..VersionPlan::default() }];
        versions.extend((0..OTHERS).map(|_| version(&mut rng)));
        let steps = [[25, 50, 100].to_vec(), [50, 100].to_vec(), [30, 60, 90, 100].to_vec()];
        let mut plan = Plan {
            versions,
            steps: steps.choose(&mut rng).cloned().unwrap_or_else(|| vec![50, 100]),
            shadow: rng.random_ratio(1, 3),
            calls_min: rng.random_range(18..=30),
            drain_ms: if rng.random_ratio(1, 2) { 1_500 } else { 1_000_000 },
            orders: orders(&mut rng),
            ends: (0..rng.random_range(0..=4)).map(|_| life_end(&mut rng)).collect(),
            clock: (0..rng.random_range(0..=4))
                .map(|_| (rng.random_range(0..CALLS), rng.random_range(-5_000..=5_000)))
                .collect(),
            apart: (0..rng.random_range(0..=2)).map(|_| apart(&mut rng)).collect(),
            adversary: None,
        };
        let is_loose = rng.random_ratio(1, ADVERSARY_IN);
        let drawn = adversary::NAMES.choose(&mut rng).copied().filter(|_| is_loose);
        plan.adversary = adversary.or(drawn).filter(|name| *name != adversary::NONE);
        if let Some(loose) = plan.adversary.and_then(adversary::named) {
            loose.prepare(&mut plan);
        }
        plan
    }
}

fn version(rng: &mut StdRng) -> VersionPlan {
    let good = VersionPlan { malformed_permille: 10, failing_permille: 10, ..VersionPlan::default() };
    let bad = rng.random_range(FAR_WORSE_PERMILLE..=950);
    match rng.random_range(0..10) {
        0..=4 => good,
        5..=6 => VersionPlan { malformed_permille: bad, ..good },
        7 => VersionPlan { failing_permille: bad, ..good },
        _ => VersionPlan { crashing_permille: 100, ..good },
    }
}

fn orders(rng: &mut StdRng) -> BTreeMap<u64, Order> {
    let mut orders = BTreeMap::from([(10, Order::Begin(1))]);
    for at in [150, 300, 450] {
        orders.insert(at + rng.random_range(0..40), Order::Begin(rng.random_range(1..=OTHERS)));
    }
    if rng.random_ratio(1, 5) {
        let order = if rng.random_ratio(1, 2) { Order::Promote } else { Order::Abort };
        orders.insert(rng.random_range(40..CALLS), order);
    }
    orders
}

fn life_end(rng: &mut StdRng) -> LifeEnd {
    let at = match rng.random_range(0..3) {
        0 => Moment::Write(rng.random_range(1..=30)),
        _ => Moment::Decision(rng.random_range(1..=4)),
    };
    let loss = if rng.random_ratio(1, 2) { Loss::Power } else { Loss::Process };
    LifeEnd { at, is_made: rng.random_ratio(1, 2), loss }
}

fn apart(rng: &mut StdRng) -> Range<u64> {
    let from = rng.random_range(0..CALLS);
    from..from + rng.random_range(20..150)
}
