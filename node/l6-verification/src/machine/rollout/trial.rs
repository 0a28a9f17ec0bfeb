//! The evidence of one rollout: each signal from its beginning on and from each stage on.

use super::outcome::{Side, Signal, Ticket};
use super::plan::Plan;
use crate::machine::evidence::{Block, EProcess, Null, Tally};

/// Parts of the one coin that is bet against "no worse", by signal. A bet on all failures finds most of what is wrong; the
/// others find one kind that another kind hides, and lateness.
const PARTS: [f64; 4] = [0.8, 0.08, 0.04, 0.08];
/// The part of a signal's coins that is bet from the beginning on. The rest waits for later stages, where it finds a version
/// that was good until then.
const FROM_BEGINNING: f64 = 0.95;
/// So many calls from before the rollout say how stable usually does.
const RECORD_CALLS_MAX: u64 = 200;

/// The evidence in one signal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SignalTrial {
    /// Against "no worse", from the beginning on.
    pub worse: EProcess,
    /// The same from the beginning of this stage on; none at the first stage, where both are one.
    pub fresh: Option<EProcess>,
    /// What came of the stages between, as coins where each began with one.
    pub past: f64,
    /// Against "worse by the margin", in this stage.
    pub no_worse: EProcess,
    /// The calls that are not weighed yet.
    pub open: Block,
    /// All calls.
    pub seen: Block,
}

/// The evidence in all signals.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalTrials {
    pub(super) signals: [SignalTrial; 4],
}

impl SignalTrials {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(plan: &Plan) -> SignalTrials {
        let signals = plan.record.map(|record| {
            let record = record.at_most(RECORD_CALLS_MAX);
            SignalTrial {
                worse: EProcess::new(Null::NoWorse, record),
                fresh: None,
                past: 0.0,
                no_worse: EProcess::new(Null::WorseBy(plan.margin()), record),
                open: Block::default(),
                seen: Block::default(),
            }
        });
        SignalTrials { signals }
    }

    /// All calls of a signal.
    #[must_use]
    pub fn seen(&self, signal: Signal) -> Block {
        self.of(signal).seen
    }

    /// Counts a call. `marks` says for each signal whether it was bad. Returns whether there is new evidence.
    pub(super) fn add(&mut self, plan: &Plan, stage: u8, ticket: &Ticket, marks: [Option<bool>; 4]) -> bool {
        for (signal, mark) in self.signals.iter_mut().zip(marks) {
            let Some(is_bad) = mark else { continue };
            for block in [&mut signal.open, &mut signal.seen] {
                match ticket.side {
                    Side::Stable => block.stable.add(is_bad),
                    Side::New => block.new.add(is_bad),
                }
            }
        }
        // By counts alone: what is weighed together must not depend on how it went.
        let open = self.of(Signal::Failure).open;
        // Both versions are given each case, whatever the share: it does not wait for as many calls of stable as belong to a call.
        let stable_min = if ticket.is_case { 1 } else { plan.stable_per_new(stage) };
        let is_whole = open.new.calls > 0 && open.stable.calls >= stable_min;
        if is_whole {
            self.signals.iter_mut().for_each(SignalTrial::weigh);
        }
        is_whole
    }

    /// The next stage begins.
    pub(super) fn begin_stage(&mut self, plan: &Plan) {
        for signal in &mut self.signals {
            signal.past += signal.fresh.as_ref().map_or(0.0, |fresh| fresh.ln_e().exp());
            let known = signal.worse.calls()[0].at_most(RECORD_CALLS_MAX);
            signal.fresh = Some(EProcess::new(Null::NoWorse, known));
            signal.no_worse = EProcess::new(Null::WorseBy(plan.margin()), known);
        }
    }

    /// The coins against "no worse" where one was there at the beginning, at this stage.
    #[must_use]
    pub fn e_worse(&self, plan: &Plan, stage: u8) -> f64 {
        let parts = compared(plan).map(|signal| (part(signal), self.of(signal).e_worse(plan.stages(), stage)));
        let (coins, all) = parts.fold((0.0, 0.0), |(coins, all), (part, e)| (coins + part * e, all + part));
        coins / all
    }

    /// The signal that has the most coins against "no worse".
    #[must_use]
    pub fn worst(&self, plan: &Plan, stage: u8) -> Signal {
        let coins = |signal: Signal| self.of(signal).e_worse(plan.stages(), stage);
        compared(plan).max_by(|one, other| coins(*one).total_cmp(&coins(*other))).unwrap_or(Signal::Failure)
    }

    /// Whether every signal that is compared says "not worse by the margin" at this stage.
    #[must_use]
    pub fn is_no_worse(&self, plan: &Plan) -> bool {
        compared(plan).all(|signal| self.of(signal).no_worse.is_refuted(plan.alpha()))
    }

    fn of(&self, signal: Signal) -> &SignalTrial {
        &self.signals[signal as usize]
    }
}

impl SignalTrial {
    fn weigh(&mut self) {
        let block = std::mem::take(&mut self.open);
        self.worse.add(block);
        self.no_worse.add(block);
        if let Some(fresh) = &mut self.fresh {
            fresh.add(block);
        }
    }

    fn e_worse(&self, stages: usize, stage: u8) -> f64 {
        let later = stages.saturating_sub(1);
        let from_beginning = self.worse.ln_e().exp();
        if later == 0 {
            return from_beginning;
        }
        let this = self.fresh.as_ref().map_or(0.0, |fresh| fresh.ln_e().exp());
        // What waits for stages to come is one coin for each.
        let waits = later.saturating_sub(usize::from(stage)) as f64;
        FROM_BEGINNING * from_beginning + (1.0 - FROM_BEGINNING) * (self.past + this + waits) / later as f64
    }
}

/// The signals that a plan compares.
fn compared(plan: &Plan) -> impl Iterator<Item = Signal> {
    let with_lateness = plan.first_token_ms.is_some();
    Signal::ALL.into_iter().filter(move |signal| *signal != Signal::Slowness || with_lateness)
}

fn part(signal: Signal) -> f64 {
    PARTS[signal as usize]
}

/// The calls of both versions in one line.
pub(super) fn shares(stable: Tally, new: Tally) -> String {
    format!("{} of its {} calls, and {} of {} of the stable version's", new.bad, new.calls, stable.bad, stable.calls)
}
