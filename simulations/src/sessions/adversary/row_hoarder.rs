//! An agent whose turn makes more rows than a turn may have: it is refused by its bounds, and the others go on.

use althing_execution::journal::Effect;

use super::{Adversary, Plan};
use crate::sessions::plan::{Deed, StepPlan, TurnPlan};

pub(super) struct RowHoarder;

/// More than a turn holds, which is 16 MiB.
const STEPS: u64 = 17;
const RESULT_BYTES: usize = 1 << 20;

impl Adversary for RowHoarder {
    fn name(&self) -> &'static str {
        "row-hoarder"
    }

    fn prepare(&self, plan: &mut Plan) {
        let step = |of| StepPlan {
            what: Deed::Call,
            effect: Effect::Repeatable,
            of,
            bytes: RESULT_BYTES,
            label: None,
            checkpoint: false,
            before_ms: 1,
            call_ms: 1,
        };
        plan.turns.push(TurnPlan { at_ms: 0, steps: (0..STEPS).map(step).collect(), is_too_long: true });
        // To read so many rows takes long.
        plan.ends.truncate(1);
    }
}
