//! The search for an order of operations, by porcupine, with a bound: a history that breaks the rules may have very many
//! orders to try.

use std::cell::Cell;

use porcupine_rs::{Model, Operation, check_operations};

/// Steps of one search.
const STEPS_MAX: u32 = 2_000_000;

thread_local! {
    static STEPS: Cell<u32> = const { Cell::new(0) };
}

/// Whether a search may go on by one step. Each model asks before it judges one.
pub(super) fn may_go_on() -> bool {
    let steps = STEPS.get();
    STEPS.set(steps.saturating_add(1));
    steps < STEPS_MAX
}

/// Whether there is an order that explains a history.
///
/// # Errors
/// Why none was found.
pub(super) fn search<M: Model + std::fmt::Debug>(what: &str, history: &[Operation<M>]) -> Result<(), String> {
    STEPS.set(0);
    if check_operations(history) {
        return Ok(());
    }
    let how = if STEPS.get() < STEPS_MAX { "no order explains" } else { "no order was found in time that explains" };
    Err(format!("{how} {what}: {history:?}"))
}
