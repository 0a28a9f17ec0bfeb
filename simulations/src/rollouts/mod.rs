//! Runs of rollouts: an agent of which one version after the other is tried, on a node that ends at its writes, and on another one of
//! the same owner; each tells the other one what came of them, sometimes late and in another order. Everything follows from the seed.
//!
//! What decides is the product's own machine of rollouts, and what judges answers are its own gates; the nodes around them are played.
//! After each run all that was seen is judged: see [`invariant`].

pub mod adversary;
mod agent;
mod disk;
mod draw;
pub mod evidence;
pub mod flaw;
pub mod invariant;
mod mail;
pub mod night;
pub mod plan;
mod world;

use evidence::{Decision, Event, Evidence};
use flaw::Flaw;
use plan::Plan;

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
    /// Rollouts that began.
    pub rollouts: usize,
    /// How often a version took the place of stable at one of the nodes, by its own evidence or by order.
    pub promotions: usize,
    /// How often one went back at one of them, by its own evidence.
    pub reversals: usize,
    /// Orders that were refused.
    pub refusals: usize,
    /// Answers that nobody was shown.
    pub withheld: usize,
    /// Lives that ended.
    pub lives: usize,
    /// Runs with an adversary.
    pub adversaries: usize,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.rollouts += other.rollouts;
        self.promotions += other.promotions;
        self.reversals += other.reversals;
        self.refusals += other.refusals;
        self.withheld += other.withheld;
        self.lives += other.lives;
        self.adversaries += other.adversaries;
    }
}

impl Outcome {
    /// What was seen, a line each, in order.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.evidence.events.iter().map(|event| format!("{event:?}")).collect()
    }
}

/// Runs a seed; `adversary` is let loose, or the one that is drawn, and `flaw` is planted.
#[must_use]
pub fn run(seed: u64, adversary: Option<&'static str>, flaw: &dyn Flaw) -> Outcome {
    run_plan(seed, Plan::draw(seed, adversary), flaw)
}

/// Runs a plan, in which all else is drawn from the seed.
#[must_use]
pub fn run_plan(seed: u64, plan: Plan, flaw: &dyn Flaw) -> Outcome {
    let evidence = world::Scene::new(seed, plan, flaw).run();
    let judged = invariant::ALL.iter().filter_map(|invariant| {
        invariant.check(&evidence).err().map(|why| Violation { invariant: invariant.name(), why })
    });
    let (violations, counts) = (judged.collect(), count(&evidence));
    Outcome { seed, violations, evidence, counts }
}

fn count(evidence: &Evidence) -> Counts {
    let of = |is: fn(&Event) -> bool| evidence.events.iter().filter(|event| is(event)).count();
    let decided = |is: fn(&Decision) -> bool| {
        let decisions = evidence.events.iter().filter_map(|event| match event {
            Event::Decision { decision, .. } => Some(decision),
            _ => None,
        });
        decisions.filter(|decision| is(decision)).count()
    };
    Counts {
        rollouts: of(|event| matches!(event, Event::Order { order: plan::Order::Begin(_), is_taken: true })),
        promotions: decided(|decision| matches!(decision, Decision::Promotion { .. })),
        reversals: decided(|decision| matches!(decision, Decision::Reversal { .. })),
        refusals: of(|event| matches!(event, Event::Order { is_taken: false, .. })),
        withheld: of(|event| matches!(event, Event::End { truth: evidence::Course::Malformed, .. })),
        lives: of(|event| matches!(event, Event::LifeEnd(_))),
        adversaries: usize::from(evidence.plan.adversary.is_some()),
    }
}

/// The program as it is, without a planted bug.
#[must_use]
pub fn as_it_is() -> Box<dyn Flaw> {
    flaw::none()
}
