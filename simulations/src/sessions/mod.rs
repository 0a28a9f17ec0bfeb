//! Runs of sessions: a node whose agent makes calls, and which ends at its writes and at any time between them, by its process or
//! by its power, and starts again on what is on its disk; and a handoff between two such nodes. Everything follows from the seed.
//!
//! Tasks, journals and notes are the product's own, in the product's own store of memory, and so are both ends of handoffs. After
//! each run all that was seen is judged: see [`invariant`].

pub mod adversary;
mod disk;
mod draw;
pub mod evidence;
pub mod flaw;
pub mod handoff;
pub mod invariant;
mod life;
pub mod night;
pub mod plan;
mod worker;
mod world;

use std::sync::Arc;

use evidence::{Event, Evidence};
use flaw::Flaw;
use handoff::HandoffEvent;
use plan::Plan;
use world::Surroundings;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: &'static str,
    /// How it does not hold.
    pub why: String,
}

/// What came of a run.
pub struct Outcome {
    /// What the run is drawn from: the same one gives the same run.
    pub seed: u64,
    /// What does not hold.
    pub violations: Vec<Violation>,
    /// What was seen.
    pub evidence: Evidence,
    /// How much happened.
    pub counts: Counts,
}

/// How much happened in a run, or in many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks that came to an end.
    pub ends: usize,
    /// Calls that came to the tool.
    pub calls: usize,
    /// Calls that were told to be in doubt.
    pub doubts: usize,
    /// Lives that ended.
    pub lives: usize,
    /// Handoffs whose work began at the recipient.
    pub begun: usize,
    /// Handoffs whose work stayed at the sender, or came back.
    pub stayed: usize,
    /// Turns whose rows somebody changed.
    pub forged: usize,
    /// Runs with an adversary.
    pub adversaries: usize,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.ends += other.ends;
        self.calls += other.calls;
        self.doubts += other.doubts;
        self.lives += other.lives;
        self.begun += other.begun;
        self.stayed += other.stayed;
        self.forged += other.forged;
        self.adversaries += other.adversaries;
    }
}

impl Outcome {
    /// What was seen, a line each, in order.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let events = self.evidence.events.iter().map(|event| format!("{event:?}"));
        events.chain(self.evidence.handoff.iter().map(|event| format!("{event:?}"))).collect()
    }
}

/// Runs a seed; `adversary` is let loose, or the one that is drawn, and `flaw` is planted.
///
/// # Panics
/// When no runtime can be made.
#[must_use]
pub fn run(seed: u64, adversary: Option<&'static str>, flaw: Arc<dyn Flaw>) -> Outcome {
    run_plan(seed, Plan::draw(seed, adversary), flaw)
}

/// Runs a plan, in which all else is drawn from the seed.
///
/// # Panics
/// When no runtime can be made.
#[must_use]
pub fn run_plan(seed: u64, plan: Plan, flaw: Arc<dyn Flaw>) -> Outcome {
    let handoff = handoff::play(&plan.handoff, flaw.clone());
    let world = Surroundings::new(plan, flaw);
    world.evidence().handoff = handoff;
    life::live_all(&world, seed);
    let evidence = world.evidence().clone();
    let judged = invariant::ALL.iter().filter_map(|invariant| {
        invariant.check(&evidence).err().map(|why| Violation { invariant: invariant.name(), why })
    });
    let (violations, counts) = (judged.collect(), count(&evidence));
    Outcome { seed, violations, evidence, counts }
}

fn count(evidence: &Evidence) -> Counts {
    let of = |is: fn(&Event) -> bool| evidence.events.iter().filter(|event| is(event)).count();
    let has = |is: fn(&HandoffEvent) -> bool| usize::from(evidence.handoff.iter().any(is));
    Counts {
        ends: (0..evidence.plan.turns.len())
            .filter(|turn| evidence.last(*turn).is_some_and(evidence::View::is_end))
            .count(),
        calls: of(|event| matches!(event, Event::Call { .. })),
        doubts: of(|event| matches!(event, Event::Doubt { .. })),
        lives: of(|event| matches!(event, Event::LifeEnd(_))),
        begun: has(|event| matches!(event, HandoffEvent::Beginning { .. })),
        stayed: has(|event| matches!(event, HandoffEvent::Keeping)),
        forged: evidence.forged.len(),
        adversaries: usize::from(evidence.plan.adversary.is_some()),
    }
}

/// The program as it is, without a planted bug.
#[must_use]
pub fn as_it_is() -> Arc<dyn Flaw> {
    flaw::none()
}
