mod endings;
mod news;
mod orders;
mod routes;
mod rows;
mod simulated;
mod weights;

use althing_protocol::Digest;

use super::*;
use crate::machine::evidence::{Draws, Tally};

const STABLE: Digest = [1; 32];
const NEW: Digest = [2; 32];
const OTHER: Digest = [3; 32];
/// Owners of those who call.
const OWNERS: u64 = 997;

/// How often the calls of a version fail, are refused, and are late.
#[derive(Clone, Copy, Default)]
struct Rates {
    errors: f64,
    refusals: f64,
    late: f64,
}

impl Rates {
    fn errors(errors: f64) -> Rates {
        Rates { errors, ..Rates::default() }
    }

    /// What a record of many calls says.
    fn record(self) -> [Tally; 4] {
        let any = 1.0 - (1.0 - self.errors) * (1.0 - self.refusals);
        [any, self.errors, self.refusals, self.late].map(|rate| Tally { calls: 2_000, bad: (2_000.0 * rate) as u64 })
    }
}

/// Calls of an agent, one after the other, of many owners, and each in a conversation of its own.
struct Traffic {
    versions: Versions,
    draws: Draws,
    calls: u64,
    /// Calls of the new version that ended, with its shadows.
    of_new: u64,
}

impl Traffic {
    fn new(plan: Plan, seed: u64) -> Traffic {
        let mut versions = Versions::new(STABLE);
        versions.begin(plan, 0).expect("a plan that can be followed");
        Traffic { versions, draws: Draws::new(seed), calls: 0, of_new: 0 }
    }

    /// A call of one of many owners.
    fn route(&mut self) -> Route {
        let owner = format!("owner {}", (self.calls + 1) % OWNERS);
        self.route_of(Some(&owner), None)
    }

    fn route_of(&mut self, origin: Option<&str>, conversation: Option<Conversation>) -> Route {
        self.calls += 1;
        let task = format!("task {} of {}", self.calls, self.draws.below(1 << 40));
        let (caller, channel, group) = (None, None, None);
        self.versions.route(&Call { task: &task, conversation, caller, origin, channel, group, now_ms: self.calls })
    }

    fn outcome(&mut self, rates: Rates) -> Outcome {
        Outcome {
            is_error: self.draws.happens(rates.errors),
            is_refused: self.draws.happens(rates.refusals),
            first_token_ms: Some(if self.draws.happens(rates.late) { 900 } else { 100 }),
            ..Outcome::default()
        }
    }

    /// A call with what came of it, and of its shadow.
    fn call(&mut self, stable: Rates, new: Rates) -> Option<Change> {
        let route = self.route();
        self.end(&route, stable, new)
    }

    /// What comes of a call, and of its shadow.
    fn end(&mut self, route: &Route, stable: Rates, new: Rates) -> Option<Change> {
        let tickets = [route.ticket, route.shadow.map(|(_, ticket)| ticket)];
        let mut change = None;
        for ticket in tickets.into_iter().flatten() {
            let is_new = ticket.side() == Side::New;
            self.of_new += u64::from(is_new);
            let outcome = self.outcome(if is_new { new } else { stable });
            change = change.or(self.versions.outcome(ticket, &outcome, self.calls));
        }
        change
    }

    /// Calls until the rollout ends, or so many were made. Returns how far it came.
    fn run(&mut self, stable: Rates, new: Rates, calls_max: u64) -> Phase {
        while self.phase() == Phase::Running && self.calls < calls_max {
            self.call(stable, new);
        }
        self.phase()
    }

    fn rollout(&self) -> &Rollout {
        self.versions.rollout().expect("one was begun")
    }

    fn phase(&self) -> Phase {
        self.rollout().phase()
    }
}

/// A plan in which everything is found by evidence.
fn plan() -> Plan {
    Plan::of(NEW)
}
