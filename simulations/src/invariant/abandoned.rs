//! No turn goes on for a caller that no longer waits for it.

use super::Invariant;

pub(super) struct Abandoned;

impl Invariant for Abandoned {
    fn name(&self) -> &'static str {
        "abandoned-turns-end"
    }

    fn check_at_rest(&mut self, node: u32, turns: usize, _: usize) -> Result<(), String> {
        if turns == 0 { Ok(()) } else { Err(format!("{turns} turns run on node {node}, and nobody waits for them")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_for_nobody_breaks_it() {
        assert!(Abandoned.check_at_rest(1, 0, 1).is_ok() && Abandoned.check_at_rest(1, 1, 0).is_err());
    }
}
