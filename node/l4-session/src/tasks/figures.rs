//! What is counted of each agent's turns, for whoever looks at this node from outside.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Agents that are counted one by one; those that come after them are counted together.
const AGENTS_MAX: usize = 256;
/// The name of these: no agent's, which has no such character.
const OTHERS: &str = "(others)";
/// Bounds of durations in seconds, as OpenTelemetry's conventions for GenAI advise.
pub const DURATION_BOUNDS_S: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// What is counted of one agent's turns since the node started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AgentFigures {
    /// Turns that ended.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
    /// Seconds that they took together.
    pub seconds: f64,
    /// How many took no more than each of [`DURATION_BOUNDS_S`].
    pub within: [u64; DURATION_BOUNDS_S.len()],
}

impl AgentFigures {
    fn count(&mut self, took: Duration, failed: bool) {
        self.calls += 1;
        self.errors += u64::from(failed);
        self.seconds += took.as_secs_f64();
        for (count, bound) in self.within.iter_mut().zip(DURATION_BOUNDS_S) {
            *count += u64::from(took.as_secs_f64() <= bound);
        }
    }
}

/// The figures of all agents.
#[derive(Debug, Default)]
pub(crate) struct TurnFigures(Mutex<BTreeMap<String, AgentFigures>>);

impl TurnFigures {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, AgentFigures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a turn that ended.
    pub fn count(&self, agent: &str, took: Duration, failed: bool) {
        let mut all = self.lock();
        let name = if all.len() < AGENTS_MAX || all.contains_key(agent) { agent } else { OTHERS };
        match all.get_mut(name) {
            Some(figures) => figures.count(took, failed),
            None => all.entry(name.to_owned()).or_default().count(took, failed),
        }
    }

    /// A copy of them.
    pub fn all(&self) -> BTreeMap<String, AgentFigures> {
        self.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_counted_by_agent_and_the_agents_are_bounded() {
        let figures = TurnFigures::default();
        figures.count("echo", Duration::from_millis(15), false);
        figures.count("echo", Duration::from_secs(100), true);
        let echo = figures.all()["echo"];
        assert_eq!((echo.calls, echo.errors), (2, 1));
        assert_eq!((echo.within[0], echo.within[1], echo.within[13]), (0, 1, 1), "what took too long is in none");
        for number in 0..2 * AGENTS_MAX {
            figures.count(&format!("agent{number}"), Duration::ZERO, false);
        }
        figures.count("echo", Duration::ZERO, false);
        let all = figures.all();
        assert_eq!((all.len(), all["echo"].calls), (AGENTS_MAX + 1, 3));
        assert_eq!(all.values().map(|figures| figures.calls).sum::<u64>(), 2 * AGENTS_MAX as u64 + 3);
    }
}
