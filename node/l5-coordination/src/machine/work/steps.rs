//! What the commands of one batch may cost: one signature must not buy seconds of every member (P-89).

use std::cell::Cell;

use super::super::outcome::Refusal;

/// What the commands of one batch cost until no other one is executed that costs anything. The costliest assignment alone costs
/// 294,912: of one among 4,096 tasks that want the same eight resources.
const STEPS_MAX: usize = 100_000;
/// What the verification of a signature costs. A step is the look-up of a task or of a name, or one less to wait for: about a
/// microsecond, or less.
pub const SIGNATURE_STEPS: usize = 200;

/// What is left for a batch.
#[derive(Debug)]
pub struct Steps(Cell<usize>);

impl Default for Steps {
    fn default() -> Steps {
        Steps(Cell::new(STEPS_MAX))
    }
}

impl Steps {
    /// Whether anything is left for a command that costs something.
    ///
    /// # Errors
    /// [`Refusal::Costly`].
    pub fn check(&self) -> Result<(), Refusal> {
        if self.0.get() > 0 { Ok(()) } else { Err(Refusal::Costly) }
    }

    /// So much was needed.
    pub fn spend(&self, steps: usize) {
        self.0.set(self.0.get().saturating_sub(steps));
    }

    /// What is left.
    #[cfg(test)]
    pub(in super::super) fn left(&self) -> usize {
        self.0.get()
    }
}
