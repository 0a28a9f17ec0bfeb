//! Runs of whole groups: 3 or 5 members over the simulated network, on disks that lose what was not synced, with faults,
//! clients, sometimes an adversary among the members, and sometimes a planted bug. Everything follows from the seed.
//!
//! After each run all that was seen is judged: see [`invariant`].

pub mod adversary;
mod clients;
mod disk;
pub mod evidence;
mod faults;
pub mod flaw;
pub mod invariant;
mod member;
pub mod night;
pub mod plan;
mod replay;

mod stage;
mod tap;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_protocol::PublicKey;
use serde::{Deserialize, Serialize};

use crate::trace::Trace;
use evidence::Books;
use flaw::Flaw;
use invariant::Seen;
use plan::Plan;
use replay::Replay;
use stage::Stage;

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
    /// Its seed.
    pub seed: u64,
    /// What was drawn from it.
    pub plan: Plan,
    /// What does not hold.
    pub violations: Vec<Violation>,
    /// What happened, in order.
    pub trace: Trace,
    /// Whom each member can prove to have equivocated, and how often a leader did.
    pub proven: Proven,
    /// How much happened.
    pub counts: Counts,
}

/// What came of leaders that equivocate.
pub struct Proven {
    /// The members that keep to the rules, and of each whom it can prove to have equivocated.
    pub by: BTreeMap<PublicKey, BTreeSet<PublicKey>>,
    /// Whom each of these followed at the end.
    pub follows: BTreeMap<PublicKey, Option<PublicKey>>,
    /// How often a leader told two members different things.
    pub lies: usize,
}

/// How much happened in a run, or in many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Operations of clients whose outcome is known.
    pub known: usize,
    /// Those whose outcome nobody knows.
    pub unknown: usize,
    /// Entries that were committed.
    pub entries: usize,
    /// Terms in which somebody led.
    pub terms: usize,
    /// Tasks that workers began.
    pub begun: usize,
    /// Votes that were given to others.
    pub votes: usize,
    /// Snapshots that were sent to members.
    pub snapshots: usize,
    /// Crashes.
    pub crashes: usize,
    /// Runs with an adversary.
    pub adversaries: usize,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.known += other.known;
        self.unknown += other.unknown;
        self.entries += other.entries;
        self.terms += other.terms;
        self.begun += other.begun;
        self.votes += other.votes;
        self.snapshots += other.snapshots;
        self.crashes += other.crashes;
        self.adversaries += other.adversaries;
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread");
    althing_coordination::consensus::seed_randomness(seed);
    let books = runtime.block_on(async {
        let books = Books::new();
        let stage = Stage::form(plan.clone(), seed, flaw, &books).await;
        Box::pin(stage.play()).await;
        books
    });
    // Whatever runs yet ends here.
    drop(runtime);
    let evidence = books.open().clone();
    let counts = Counts { adversaries: usize::from(plan.adversary.is_some()), ..count(&evidence) };
    let replay = Replay::of(&evidence);
    let by = |node: &PublicKey| {
        let proofs = evidence.accused.iter().filter(|(keeper, ..)| keeper == node);
        (*node, proofs.filter_map(|(_, _, proven)| *proven).collect())
    };
    let by = evidence.honest.iter().map(by).collect();
    let proven = Proven { by, follows: evidence.follows.clone(), lies: evidence.lies };
    let seen = Seen { evidence, replay };
    let judged = invariant::ALL
        .iter()
        .filter_map(|invariant| invariant.check(&seen).err().map(|why| Violation { invariant: invariant.name(), why }));
    Outcome { seed, plan, violations: judged.collect(), trace: books.recorder.trace(), proven, counts }
}

fn count(evidence: &evidence::Evidence) -> Counts {
    let known = evidence.history.iter().filter(|operation| operation.returned.is_some()).count();
    Counts {
        known,
        unknown: evidence.history.len() - known,
        entries: evidence.committed.len(),
        terms: evidence.leaders.len(),
        begun: evidence.begun.iter().filter(|begun| begun.between.1 != i64::MAX).count(),
        votes: evidence.votes.iter().filter(|((voter, _), for_whom)| for_whom.iter().any(|node| node != voter)).count(),
        snapshots: evidence.snapshots,
        crashes: evidence.crashes,
        adversaries: 0,
    }
}

/// The program as it is, without a planted bug.
#[must_use]
pub fn as_it_is() -> Arc<dyn Flaw> {
    flaw::none()
}
