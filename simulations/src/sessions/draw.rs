//! What happens in a run is drawn from its seed.

use althing_execution::journal::Effect;
use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::adversary;
use super::handoff::HandoffPlan;
use super::plan::{Deed, LifeEnd, Loss, Moment, Plan, StepPlan, TurnPlan};

const LEVELS: [DataLabel; 4] = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];
const EFFECTS: [Effect; 6] =
    [Effect::None, Effect::Repeatable, Effect::Keyed, Effect::Keyed, Effect::Final, Effect::Final];
/// In one of so many runs somebody is let loose.
const ADVERSARY_IN: u32 = 8;

impl Plan {
    /// Draws a run; `adversary` is let loose, [`adversary::NONE`] is nobody, and without it the seed decides.
    #[must_use]
    pub fn draw(seed: u64, adversary: Option<&'static str>) -> Plan {
        let mut rng = StdRng::seed_from_u64(seed);
        let turns: Vec<TurnPlan> = (0..rng.random_range(1..=3)).map(|number| turn(&mut rng, number)).collect();
        let ends = (0..rng.random_range(1..=4)).map(|_| life_end(&mut rng)).collect();
        let gives_up = rng.random_ratio(1, 5);
        let handoff = HandoffPlan::draw(&mut rng);
        let is_loose = rng.random_ratio(1, ADVERSARY_IN);
        let drawn = adversary::DRAWN.choose(&mut rng).copied().filter(|_| is_loose);
        let adversary = adversary.or(drawn).filter(|name| *name != adversary::NONE);
        let mut plan = Plan { turns, ends, gives_up, adversary, handoff };
        if let Some(loose) = adversary.and_then(adversary::named) {
            loose.prepare(&mut plan);
        }
        plan
    }
}

fn turn(rng: &mut StdRng, number: u64) -> TurnPlan {
    let mut steps: Vec<StepPlan> = (0..rng.random_range(3..=7)).map(|place| step(rng, place)).collect();
    steps.push(StepPlan { what: Deed::Notes, effect: Effect::Repeatable, of: 1_000, ..step(rng, 0) });
    TurnPlan { at_ms: number * rng.random_range(1..=40), steps, is_too_long: false }
}

fn step(rng: &mut StdRng, place: u64) -> StepPlan {
    let label = rng
        .random_ratio(1, 3)
        .then(|| Label { level: LEVELS.choose(rng).copied().unwrap_or_default(), trusted: rng.random_ratio(1, 2) });
    let is_note = rng.random_ratio(1, 6);
    let drawn = EFFECTS.choose(rng).copied().unwrap_or(Effect::Final);
    StepPlan {
        what: if is_note { Deed::Note } else { Deed::Call },
        effect: if is_note { Effect::Keyed } else { drawn },
        of: if is_note { place } else { rng.random_range(0..2) },
        bytes: 0,
        label,
        checkpoint: place > 0 && rng.random_ratio(1, 4),
        before_ms: rng.random_range(1..=5),
        call_ms: rng.random_range(1..=5),
    }
}

fn life_end(rng: &mut StdRng) -> LifeEnd {
    let at = match rng.random_range(0..4) {
        0 => Moment::Time(rng.random_range(1..=120)),
        _ => {
            // The first writes more often: each life has them.
            let most = rng.random_range(2..=24);
            Moment::Write { number: rng.random_range(1..=most), is_made: rng.random_ratio(1, 2) }
        }
    };
    LifeEnd { at, loss: if rng.random_ratio(1, 2) { Loss::Power } else { Loss::Process } }
}
