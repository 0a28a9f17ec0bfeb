//! One rollout: its stages, and what ends it.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::{Digest, PublicKey};
use minicbor::{Decode, Encode};

use super::bins::Bins;
use super::outcome::{Breach, Outcome, Side, Signal, Ticket};
use super::plan::Plan;
use super::split::{Call, Share, Split};
use super::trial::{SignalTrials, shares};
use super::weights::{Surplus, Weights, Witnesses};
use crate::machine::evidence::{Tally, fisher};

/// So many outcomes may be forgotten when the node ends between two rows; that ones are missing proves nothing wrong.
const OUTCOMES_UNWRITTEN_MAX: u32 = 64;

/// Tools whose calls are counted by name; those of more are counted as [`OTHER_TOOLS`].
const EFFECTS_MAX: usize = 64;
/// No tool has this name.
const OTHER_TOOLS: &str = "other tools";

/// Why a version went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Reason {
    /// It is worse.
    #[n(0)]
    Worse {
        /// In what, most of all.
        #[n(0)]
        signal: Signal,
        /// Stable's calls in that.
        #[n(1)]
        stable: Tally,
        /// Its own.
        #[n(2)]
        new: Tally,
        /// With an equally good version, this would have been seen in one rollout of so many, at most.
        #[n(3)]
        one_in: u64,
    },
    /// It did what it must not.
    #[n(1)]
    Bound {
        /// What that was.
        #[n(0)]
        breach: Breach,
        /// How often.
        #[n(1)]
        count: u32,
    },
    /// It went back on another node of the owner.
    #[n(2)]
    Elsewhere {
        /// The node that told it.
        #[n(0)]
        node: PublicKey,
    },
}

impl Reason {
    /// In words.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Reason::Worse { signal, stable, new, one_in } => {
                let (what, counts) = (signal.words(), shares(stable, new));
                format!(
                    "it is worse: {counts}, {what}. An equally good one would look so in 1 rollout of {one_in} at most"
                )
            }
            Reason::Bound { breach, count: 1 } => format!("it {}, which the stable version did not", breach.words()),
            Reason::Bound { breach, count } => {
                format!("it {} {count} times, which the stable version did not", breach.words())
            }
            Reason::Elsewhere { node } => format!("it went back on another node of its owner, {node}, which tells why"),
        }
    }
}

/// How far a rollout came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Phase {
    /// Both versions answer.
    #[n(0)]
    Running,
    /// The new version is stable.
    #[n(1)]
    Promoted {
        /// Whether the owner said so before the evidence did.
        #[n(0)]
        by_owner: bool,
    },
    /// Stable has all calls again.
    #[n(2)]
    WentBack(#[n(0)] Reason),
    /// The owner ended it, or what it was compared with went back: the version can be tried again.
    #[n(3)]
    Aborted,
    /// The new version is stable, as on another node of the owner.
    #[n(4)]
    PromotedElsewhere {
        /// The node that told it.
        #[n(0)]
        node: PublicKey,
    },
}

impl Phase {
    /// Whether the new version is stable.
    #[must_use]
    pub fn is_promoted(self) -> bool {
        matches!(self, Phase::Promoted { .. } | Phase::PromotedElsewhere { .. })
    }
}

/// What is to be written, and told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The new version has another share, percent.
    Share(u8),
    /// The new version is stable.
    Promoted,
    /// Stable has all calls again: to be written before anything else is done.
    WentBack(Reason),
    /// Something is known that is in no row yet, and nothing follows of it: evidence, or that a version went back on another node.
    Evidence,
}

/// What was counted besides the evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct Counts {
    /// Calls of the new version that this stage gave out and that ended, but for those that a gate could not judge.
    #[n(0)]
    pub of_stage: u64,
    /// Its calls that were shown to nobody, and the others, with those that failed.
    #[n(1)]
    pub shadow: Tally,
    #[n(2)]
    pub live: Tally,
    /// Shadows whose output was another one.
    #[n(3)]
    pub differing: u64,
    /// What the new version did that it must not.
    #[n(4)]
    pub breaches: BTreeMap<Breach, u32>,
    /// What stable did too.
    #[n(5)]
    pub known: BTreeSet<Breach>,
    /// Outcomes since the last row.
    #[n(6)]
    pub unwritten: u32,
    /// Calls of the new version that may have changed something, by the names of their tools; none before the first.
    #[n(7)]
    pub effects: Option<BTreeMap<String, u32>>,
    /// Labelled cases, with those that were wrong: of stable, and of the new version.
    #[n(8)]
    pub cases: Option<[Tally; 2]>,
    /// The calls of this stage by their origins and conversations; none before the first.
    #[n(9)]
    pub weights: Option<Weights>,
    /// Whose calls of the new version went badly; none before the first.
    #[n(10)]
    pub witnesses: Option<Witnesses>,
    /// Calls that are no evidence, since others of their origin or conversation are enough: of stable, and of the new version; none
    /// before the first.
    #[n(11)]
    pub surplus: Option<[Surplus; 2]>,
}

/// A new version on its way to all calls, or back.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    plan: Plan,
    split: Split,
    phase: Phase,
    stage: u8,
    trial: SignalTrials,
    counts: Counts,
}

impl Rollout {
    /// It begins with the conversations that begin at `from_ms`.
    pub(super) fn new(number: u64, from: Digest, plan: Plan, from_ms: u64) -> Rollout {
        let share = Share { from_ms, percent: plan.share_percent(0) };
        let Plan { by, to, drain_ms, salt, .. } = plan;
        let split = Split { number, by, from, to, shares: vec![share], drain_ms, salt };
        let counts = Counts { known: plan.known.clone(), ..Counts::default() };
        Rollout { trial: SignalTrials::new(&plan), plan, split, phase: Phase::Running, stage: 0, counts }
    }

    /// One as it was.
    pub(super) fn of_parts(
        (plan, split): (Plan, Split),
        (phase, stage): (Phase, u8),
        trial: SignalTrials,
        counts: Counts,
    ) -> Rollout {
        Rollout { plan, split, phase, stage, trial, counts }
    }

    pub(super) fn split(&self) -> &Split {
        &self.split
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What it follows.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How far it came.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The number of its stage, from 0.
    #[must_use]
    pub fn stage(&self) -> u8 {
        self.stage
    }

    /// The share of new conversations that go to the new version, percent.
    #[must_use]
    pub fn share_percent(&self) -> u8 {
        self.split.shares.last().map_or(0, |share| share.percent)
    }

    /// The evidence.
    #[must_use]
    pub fn trial(&self) -> &SignalTrials {
        &self.trial
    }

    /// Calls of the new version that ended at this stage, and were judged where its contract has gates; fewer than the plan's `calls_min` hold it there.
    #[must_use]
    pub fn calls_of_stage(&self) -> u64 {
        self.counts.of_stage
    }

    /// How often the new version gave another output than stable, of so many that nobody saw.
    #[must_use]
    pub fn differing(&self) -> (u64, u64) {
        (self.counts.differing, self.counts.shadow.calls)
    }

    /// Its calls that were shown to nobody, with those that failed, and the others.
    #[must_use]
    pub fn watched(&self) -> (Tally, Tally) {
        (self.counts.shadow, self.counts.live)
    }

    /// Labelled cases that counted, with those that were wrong: of stable, and of the new version.
    #[must_use]
    pub fn cases(&self) -> Option<[Tally; 2]> {
        self.counts.cases
    }

    /// Calls that were left out of the evidence at all steps by now: of stable, and of the new version.
    #[must_use]
    pub fn surplus(&self) -> [Surplus; 2] {
        self.counts.surplus.unwrap_or_default()
    }

    /// How many calls of the new version may have changed something, by the names of their tools.
    pub fn effects(&self) -> impl Iterator<Item = (&str, u32)> {
        self.counts.effects.iter().flatten().map(|(tool, calls)| (tool.as_str(), *calls))
    }

    /// Counts such calls.
    pub(super) fn add_effects(&mut self, tools: &[String]) {
        let effects = self.counts.effects.get_or_insert_default();
        for tool in tools {
            let has_room = effects.len() < EFFECTS_MAX || effects.contains_key(tool);
            let name = if has_room { tool.as_str() } else { OTHER_TOOLS };
            let calls = effects.entry(name.to_owned()).or_default();
            *calls = calls.saturating_add(1);
        }
    }

    /// How often what the new version did that it must not.
    #[must_use]
    pub fn breaches(&self) -> &BTreeMap<Breach, u32> {
        &self.counts.breaches
    }

    /// How probable it is that it fails as often where it is watched as where it is not, if what was seen is chance: a small
    /// number is worth a look at how it knows. None before there are both.
    #[must_use]
    pub fn behaves_alike(&self) -> Option<f64> {
        let Counts { shadow, live, .. } = &self.counts;
        let parts = |tally: &Tally| (tally.bad, tally.calls - tally.bad);
        (shadow.calls > 0 && live.calls > 0).then(|| fisher(parts(shadow), parts(live)))
    }

    /// By what a call is counted that a version answers, if it is one of the two.
    pub(super) fn ticket(&self, version: Digest, call: &Call, began_ms: u64) -> Option<Ticket> {
        let side = match version {
            new if new == self.split.to => Side::New,
            stable if stable == self.split.from => Side::Stable,
            _ => return None,
        };
        let is_drawn = self.split.covers(began_ms) && self.split.divides(call);
        (self.phase == Phase::Running).then_some(Ticket {
            rollout: self.split.number,
            stage: self.stage,
            side,
            is_drawn,
            is_shadow: false,
            is_case: false,
            bins: self.split.bins(call),
        })
    }

    /// By what is counted that both versions are given, or do, at once: stable, and the new one.
    pub(super) fn pair_tickets(&self, is_case: bool) -> Option<[Ticket; 2]> {
        let stable = Ticket {
            rollout: self.split.number,
            stage: self.stage,
            side: Side::Stable,
            is_drawn: true,
            is_shadow: false,
            is_case,
            bins: Bins::default(),
        };
        (self.phase == Phase::Running).then_some([stable, Ticket { side: Side::New, ..stable }])
    }

    /// The version that gets a copy of a call of stable's, and by what that is counted.
    pub(super) fn shadow(&self, ticket: Ticket) -> Option<(Digest, Ticket)> {
        let copies = self.plan.is_shadow(self.stage) && ticket.side == Side::Stable && ticket.is_drawn;
        copies.then_some((self.split.to, Ticket { side: Side::New, is_shadow: true, ..ticket }))
    }

    /// A call ended. What that changes holds for the conversations that begin at `from_ms`.
    pub(super) fn outcome(&mut self, ticket: Ticket, outcome: &Outcome, from_ms: u64) -> Option<Change> {
        if self.phase != Phase::Running || ticket.rollout != self.split.number {
            return None;
        }
        // It goes back whatever the evidence is, but the call that sent it back is one of those that are told.
        let is_weighed = self.weigh(ticket, outcome);
        if let Some(change) = outcome.breach.and_then(|breach| self.breach(ticket.side, breach)) {
            return Some(change);
        }
        if is_weighed? && let Some(reason) = self.finding_against() {
            return Some(self.go_back(reason));
        }
        let has_calls = self.counts.of_stage >= u64::from(self.plan.calls_min);
        if has_calls && self.trial.is_no_worse(&self.plan) {
            return Some(self.go_on(from_ms));
        }
        (self.counts.unwritten >= OUTCOMES_UNWRITTEN_MAX).then_some(Change::Evidence)
    }

    /// Counts a call, if it is to be compared. Returns whether there is new evidence; none of a call that is not counted.
    fn weigh(&mut self, ticket: Ticket, outcome: &Outcome) -> Option<bool> {
        if !ticket.is_drawn || !self.has_weight(ticket) {
            return None;
        }
        self.count(ticket, outcome);
        let marks = outcome.marks(self.plan.first_token_ms);
        if ticket.side == Side::New && marks.contains(&Some(true)) {
            self.counts.witnesses.get_or_insert_default().add(ticket.bins);
        }
        Some(self.trial.add(&self.plan, self.stage, &ticket, marks))
    }

    /// Whether a call is counted: not where others of its origin or conversation are as much of this stage as one may be.
    fn has_weight(&mut self, ticket: Ticket) -> bool {
        let stable_per_new = self.plan.stable_per_new(self.stage);
        let taken = self.counts.weights.get_or_insert_default().take(ticket.side, ticket.bins, stable_per_new);
        if let Err(bound) = taken {
            let [stable, new] = self.counts.surplus.get_or_insert_default();
            let of_version = if ticket.side == Side::Stable { stable } else { new };
            of_version.add(bound);
        }
        taken.is_ok()
    }

    /// The reason to go back that the evidence gives; none as long as it is that of one stranger.
    fn finding_against(&self) -> Option<Reason> {
        if !self.counts.witnesses.as_ref().is_some_and(Witnesses::are_enough) {
            return None;
        }
        let e = self.trial.e_worse(&self.plan, self.stage);
        let signal = self.trial.worst(&self.plan, self.stage);
        let seen = self.trial.seen(signal);
        let reason = Reason::Worse { signal, stable: seen.stable, new: seen.new, one_in: e as u64 };
        (e * self.plan.alpha() >= 1.0).then_some(reason)
    }

    fn count(&mut self, ticket: Ticket, outcome: &Outcome) {
        let counts = &mut self.counts;
        counts.unwritten = counts.unwritten.saturating_add(1);
        let is_bad = outcome.is_error || outcome.is_refused;
        if ticket.is_case {
            let [stable, new] = counts.cases.get_or_insert_default();
            let tally = if ticket.side == Side::Stable { stable } else { new };
            tally.add(is_bad);
        }
        if ticket.side == Side::Stable {
            return;
        }
        // What its gate cannot judge is as bad of both versions: no number of such calls lets it go on.
        let lets_go_on = ticket.stage == self.stage && !outcome.is_unjudged;
        counts.of_stage = counts.of_stage.saturating_add(u64::from(lets_go_on));
        if ticket.is_case {
            return;
        }
        if ticket.is_shadow {
            counts.shadow.add(is_bad);
            counts.differing = counts.differing.saturating_add(u64::from(outcome.differs));
        } else {
            counts.live.add(is_bad);
        }
    }

    /// Counts what must not be. It sends the new version back, unless stable does it as well.
    fn breach(&mut self, side: Side, breach: Breach) -> Option<Change> {
        if side == Side::Stable {
            self.counts.known.insert(breach);
            return None;
        }
        let count = self.counts.breaches.entry(breach).or_default();
        *count = count.saturating_add(1);
        let count = *count;
        let borne = self.plan.bounds.get(&breach).copied().unwrap_or_default();
        let is_known = self.counts.known.contains(&breach);
        (count > borne && !is_known).then(|| self.go_back(Reason::Bound { breach, count }))
    }

    /// Stable has all calls again.
    pub(super) fn go_back(&mut self, reason: Reason) -> Change {
        self.phase = Phase::WentBack(reason);
        self.split.shares.clear();
        // The row that says so has them all.
        self.counts.unwritten = 0;
        Change::WentBack(reason)
    }

    /// The next stage, or the end.
    fn go_on(&mut self, from_ms: u64) -> Change {
        let next = self.stage + 1;
        if usize::from(next) >= self.plan.stages() {
            return self.promote(false, from_ms);
        }
        self.stage = next;
        self.counts.of_stage = 0;
        self.counts.weights = None;
        self.trial.begin_stage(&self.plan);
        let percent = self.plan.share_percent(next);
        self.split.shares.push(Share { from_ms, percent });
        Change::Share(percent)
    }

    /// The new version becomes stable.
    pub(super) fn promote(&mut self, by_owner: bool, from_ms: u64) -> Change {
        self.phase = Phase::Promoted { by_owner };
        self.split.shares.push(Share { from_ms, percent: 100 });
        Change::Promoted
    }

    /// The same, as that node told.
    pub(super) fn promote_as_on(&mut self, node: PublicKey, from_ms: u64) -> Change {
        let change = self.promote(false, from_ms);
        self.phase = Phase::PromotedElsewhere { node };
        change
    }

    /// What it promoted went back, or else what its new version was compared with: `from` is stable, and no conversation is divided
    /// by this any more.
    pub(super) fn undo(&mut self, from: Digest, reason: Reason) {
        self.phase = match self.phase {
            Phase::Running => Phase::Aborted,
            Phase::Promoted { .. } | Phase::PromotedElsewhere { .. } => Phase::WentBack(reason),
            Phase::WentBack(_) | Phase::Aborted => self.phase,
        };
        self.split.from = from;
        self.split.shares.clear();
    }

    /// The owner ends it.
    pub(super) fn abort(&mut self) {
        self.phase = Phase::Aborted;
        self.split.shares.clear();
    }

    /// What it was is in a row.
    pub(super) fn settle(&mut self) {
        self.counts.unwritten = 0;
    }
}
