//! How many of a program's calls are looked at: whoever looks at them takes of the processors what the program makes it take.
//!
//! **Input**: the time of each call, of a clock that goes on alone. **Output**: whether it is looked at.
//!
//! **Invariants**
//! - In each [`WINDOW`], at most [`CALLS_MAX`] are.
//! - What is not looked at goes on as well: the kernel judges it, and nobody names it.
//!
//! **Never knows**: what a call tries.

use std::time::Duration;

/// Calls that are looked at in each [`WINDOW`]: more than installers of packages make.
pub const CALLS_MAX: u32 = 65_536;
/// After it the count begins anew.
pub const WINDOW: Duration = Duration::from_secs(10);

/// What is left of the calls that are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    since: Duration,
    left: u32,
}

impl Budget {
    /// The whole, from that time on.
    #[must_use]
    pub fn new(now: Duration) -> Budget {
        Budget { since: now, left: CALLS_MAX }
    }

    /// Whether a call at that time is looked at.
    pub fn takes(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) >= WINDOW {
            *self = Budget::new(now);
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_calls_some_are_looked_at_in_each_window() {
        let at = |seconds| Duration::from_secs(seconds);
        let mut budget = Budget::new(at(5));
        let taken = (0..3 * CALLS_MAX).filter(|_| budget.takes(at(6))).count();
        assert_eq!(taken, CALLS_MAX as usize);
        assert!(!budget.takes(at(14)), "the window is not over");
        assert!(budget.takes(at(15)));
        let taken = (0..3 * CALLS_MAX).filter(|_| budget.takes(at(16))).count();
        assert_eq!(taken, CALLS_MAX as usize - 1);
    }
}
