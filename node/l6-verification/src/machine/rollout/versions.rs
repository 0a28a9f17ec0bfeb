//! The versions of an agent under its one id: which is stable, which is tried, and which went back.

use std::collections::BTreeMap;

use althing_protocol::Digest;
use minicbor::{Decode, Encode};

use super::error::OrderError;
use super::outcome::{Outcome, Ticket};
use super::plan::Plan;
use super::run::{Change, Phase, Reason, Rollout};
use super::split::{Call, Split};

/// Versions that went back and are remembered; the one that did so longest ago is forgotten first.
pub const REVERSALS_MAX: usize = 100;
/// Promotions whose older version still has conversations.
pub(super) const DRAINS_MAX: usize = 8;

/// That a version went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Reversal {
    /// When, Unix milliseconds.
    #[n(0)]
    pub at_ms: u64,
    /// Why, in words for a person.
    #[n(1)]
    pub reason: Reason,
}

/// Where a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The version that answers.
    pub version: Digest,
    /// When its conversation began: to be stored with that, and given with its further calls.
    pub began_ms: u64,
    /// To be handed back with what came of it, under a rollout.
    pub ticket: Option<Ticket>,
    /// A version that gets the same input, has no effects, and whose output is told to nobody.
    pub shadow: Option<(Digest, Ticket)>,
}

/// The versions of one agent. All that changes is in one row; it is written before the next call is routed by it.
#[derive(Debug, Clone, PartialEq)]
pub struct Versions {
    pub(super) stable: Digest,
    /// How often something was decided: a rollout has it for its number.
    pub(super) revision: u64,
    /// The latest time that was seen, or that something was decided for. Time goes on from there where the clock is set back: no
    /// step is taken at a time at which a conversation began before it, which would change that one's version.
    pub(super) latest_ms: u64,
    /// The rollout that is under way, or the last one.
    pub(super) rollout: Option<Rollout>,
    /// Earlier promotions, in their order.
    pub(super) drains: Vec<Split>,
    pub(super) reversals: BTreeMap<Digest, Reversal>,
}

impl Versions {
    /// One version, which everybody has.
    #[must_use]
    pub fn new(stable: Digest) -> Versions {
        Versions { stable, revision: 0, latest_ms: 0, rollout: None, drains: Vec::new(), reversals: BTreeMap::new() }
    }

    /// Those of a row.
    pub(super) fn of_parts(
        (stable, revision, latest_ms): (Digest, u64, u64),
        rollout: Option<Rollout>,
        drains: Vec<Split>,
        reversals: BTreeMap<Digest, Reversal>,
    ) -> Versions {
        Versions { stable, revision, latest_ms, rollout, drains, reversals }
    }

    pub(super) fn latest_ms(&self) -> u64 {
        self.latest_ms
    }

    pub(super) fn drains(&self) -> &[Split] {
        &self.drains
    }

    /// The one version that new conversations have, but for a share of them.
    #[must_use]
    pub fn stable(&self) -> Digest {
        self.stable
    }

    /// How often something was decided.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The rollout that is under way, or the last one.
    #[must_use]
    pub fn rollout(&self) -> Option<&Rollout> {
        self.rollout.as_ref()
    }

    /// The versions that went back.
    #[must_use]
    pub fn reversals(&self) -> &BTreeMap<Digest, Reversal> {
        &self.reversals
    }

    /// Whether a version may answer a call now.
    #[must_use]
    pub fn may_answer(&self, version: Digest) -> bool {
        let is_tried = || self.running().is_some_and(|rollout| rollout.split().to == version);
        let is_drained = || self.splits().any(|split| split.from == version && self.is_draining(split));
        let went_back = self.reversals.contains_key(&version);
        version == self.stable || (!went_back && (is_tried() || is_drained()))
    }

    /// Whether what is stable is what the rollouts made it.
    pub(super) fn is_one(&self) -> bool {
        let last = self.splits().next_back();
        let made = last.map(|split| if split.drains_until_ms().is_some() { split.to } else { split.from });
        made.is_none_or(|made| made == self.stable)
    }

    /// Begins a rollout.
    ///
    /// # Errors
    /// [`OrderError`].
    pub fn begin(&mut self, plan: Plan, now_ms: u64) -> Result<(), OrderError> {
        plan.check()?;
        if self.running().is_some() {
            return Err(OrderError::UnderWay);
        }
        if plan.to == self.stable {
            return Err(OrderError::Same);
        }
        if let Some(reversal) = self.reversals.get(&plan.to) {
            return Err(OrderError::WentBack { reason: reversal.reason.words() });
        }
        // Conversations of this very millisecond began before, also those that a node saw before it ended, and forgot.
        self.see(now_ms.max(self.latest_ms).saturating_add(1));
        let drains = self.kept_splits();
        if drains.len() > DRAINS_MAX {
            return Err(OrderError::Draining { minutes: self.minutes_left(&drains) });
        }
        (self.drains, self.rollout) = (drains, None);
        self.revision = self.revision.saturating_add(1);
        self.rollout = Some(Rollout::new(self.revision, self.stable, plan, self.latest_ms));
        Ok(())
    }

    /// Which version answers a call.
    pub fn route(&mut self, call: &Call) -> Route {
        self.see(call.now_ms);
        let began_ms = call.began_ms().unwrap_or(self.latest_ms);
        let own = self.own_version(call, began_ms);
        let version = if self.may_answer(own) { own } else { self.stable };
        let ticket = self.running().and_then(|rollout| rollout.ticket(version, call, began_ms));
        let shadow = self.running().zip(ticket).and_then(|(rollout, ticket)| rollout.shadow(ticket));
        Route { version, began_ms, ticket, shadow }
    }

    /// The version that answers a call of a conversation of which nothing is noted, as there is no room: the stable one. The call is
    /// not counted.
    pub fn route_unnoted(&mut self, now_ms: u64) -> Digest {
        self.see(now_ms);
        self.stable
    }

    /// Counts what came of a call.
    pub fn outcome(&mut self, ticket: Ticket, outcome: &Outcome, now_ms: u64) -> Option<Change> {
        self.see(now_ms);
        let from_ms = self.latest_ms.saturating_add(1);
        let rollout = self.rollout.as_mut()?;
        let change = rollout.outcome(ticket, outcome, from_ms)?;
        let to = rollout.split().to;
        match change {
            Change::Evidence => {}
            Change::Share(_) => {
                self.revision = self.revision.saturating_add(1);
                self.see(from_ms);
            }
            Change::Promoted => self.replace(to, from_ms),
            Change::WentBack(reason) => {
                self.revision = self.revision.saturating_add(1);
                self.remember(to, Reversal { at_ms: self.latest_ms, reason });
            }
        }
        Some(change)
    }

    /// By what a labelled case is counted that both versions are given: stable, and the one that is tried; none without a rollout.
    #[must_use]
    pub fn case_tickets(&self) -> Option<[Ticket; 2]> {
        self.running()?.pair_tickets(true)
    }

    /// By what the same is counted that both versions did by themselves; none without a rollout.
    #[must_use]
    pub fn job_tickets(&self) -> Option<[Ticket; 2]> {
        self.running()?.pair_tickets(false)
    }

    /// Counts calls of the version that is or was tried which may have changed something, by the names of their tools; not of one
    /// that was promoted. Returns whether that is to be written.
    pub fn note_effects(&mut self, tools: &[String]) -> bool {
        let tried = self.rollout.as_mut().filter(|rollout| !rollout.phase().is_promoted());
        match tried {
            Some(rollout) if !tools.is_empty() => {
                rollout.add_effects(tools);
                true
            }
            _ => false,
        }
    }

    /// The owner promotes the version that is tried, whatever the evidence says.
    ///
    /// # Errors
    /// [`OrderError::NotUnderWay`].
    pub fn promote(&mut self, now_ms: u64) -> Result<(), OrderError> {
        self.see(now_ms);
        let from_ms = self.latest_ms.saturating_add(1);
        let rollout = self.running_mut().ok_or(OrderError::NotUnderWay)?;
        rollout.promote(true, from_ms);
        let to = rollout.split().to;
        self.replace(to, from_ms);
        Ok(())
    }

    /// The owner ends the rollout: stable has all calls.
    ///
    /// # Errors
    /// [`OrderError::NotUnderWay`].
    pub fn abort(&mut self) -> Result<(), OrderError> {
        self.running_mut().ok_or(OrderError::NotUnderWay)?.abort();
        self.revision = self.revision.saturating_add(1);
        Ok(())
    }

    /// Time passed without a call.
    pub fn pass(&mut self, now_ms: u64) {
        self.see(now_ms);
    }

    /// Those of the same agent after somebody put another version in the place of the stable one, outside any rollout: which
    /// versions went back stays known.
    #[must_use]
    pub fn succeeded_by(&self, stable: Digest) -> Versions {
        Versions {
            stable,
            revision: self.revision.saturating_add(1),
            latest_ms: self.latest_ms,
            rollout: None,
            drains: Vec::new(),
            reversals: self.reversals.clone(),
        }
    }

    /// Its row was written.
    pub fn settle(&mut self) {
        if let Some(rollout) = &mut self.rollout {
            rollout.settle();
        }
    }

    pub(super) fn running(&self) -> Option<&Rollout> {
        self.rollout.as_ref().filter(|rollout| rollout.phase() == Phase::Running)
    }

    pub(super) fn running_mut(&mut self) -> Option<&mut Rollout> {
        self.rollout.as_mut().filter(|rollout| rollout.phase() == Phase::Running)
    }

    /// In their order: earlier promotions, then the last rollout.
    pub(super) fn splits(&self) -> impl DoubleEndedIterator<Item = &Split> {
        self.drains.iter().chain(self.rollout.as_ref().map(Rollout::split))
    }

    /// Whether the older version of a promotion still answers for conversations of its own.
    pub(super) fn is_draining(&self, split: &Split) -> bool {
        split.drains_until_ms().is_some_and(|until_ms| self.latest_ms < until_ms)
    }

    /// The version that the conversation of a call belongs to, whether or not that one may still answer.
    fn own_version(&self, call: &Call, began_ms: u64) -> Digest {
        let splits: Vec<&Split> = self.splits().collect();
        let (mut own, mut next) = match splits.iter().rposition(|split| split.covers(began_ms)) {
            Some(at) => {
                let version = splits[at].version(call, began_ms);
                (version, at + usize::from(version == splits[at].to))
            }
            // It began before all that is known here: with what was stable then.
            None => (splits.first().map_or(self.stable, |split| split.from), 0),
        };
        while let Some((version, after)) = self.heir(&splits, own, next) {
            (own, next) = (version, after);
        }
        own
    }

    /// To which version the conversations of another one went, if that one's time is over, and from which split on that one is
    /// replaced; `next` is the first split that can have replaced the other one. They stay with what was stable then.
    fn heir(&self, splits: &[&Split], own: Digest, next: usize) -> Option<(Digest, usize)> {
        let promoted = |split: &Split| split.from == own && split.promoted_ms().is_some();
        let replaced = (next..splits.len()).find(|at| promoted(splits[*at]))?;
        let drained_ms = splits[replaced].drains_until_ms()?;
        let over_ms = self.reversals.get(&own).map_or(drained_ms, |reversal| drained_ms.min(reversal.at_ms));
        if self.latest_ms < over_ms {
            return None;
        }
        // It was tried again before its time was over.
        let is_back = |split: &Split| split.to == own && split.covers(over_ms);
        let back = (replaced + 1..splits.len()).find(|at| is_back(splits[*at]));
        let is_made = |split: &Split| split.promoted_ms().is_some_and(|promoted_ms| promoted_ms <= over_ms);
        let stable = || (replaced..splits.len()).rfind(|at| is_made(splits[*at])).unwrap_or(replaced);
        let at = back.unwrap_or_else(stable);
        Some((splits[at].to, at + 1))
    }

    pub(super) fn see(&mut self, at_ms: u64) {
        self.latest_ms = self.latest_ms.max(at_ms);
    }

    pub(super) fn replace(&mut self, to: Digest, from_ms: u64) {
        self.see(from_ms);
        self.stable = to;
        self.revision = self.revision.saturating_add(1);
    }

    /// What stays known where the last rollout is over: what was promoted, as long as conversations of the older version may go on.
    fn kept_splits(&self) -> Vec<Split> {
        let mut kept: Vec<Split> = Vec::new();
        for split in self.splits().rev() {
            // What is over stays known where its conversations went on with a version that now has others of its own too.
            let is_needed =
                |until_ms: u64| self.latest_ms < until_ms || kept.last().is_some_and(|next| next.covers(until_ms));
            if split.drains_until_ms().is_some_and(is_needed) {
                kept.push(split.clone());
            }
        }
        kept.reverse();
        kept
    }

    /// In how many minutes the first of these has no conversations of its older version any more.
    fn minutes_left(&self, drains: &[Split]) -> u64 {
        let ends = drains.iter().filter_map(Split::drains_until_ms).filter(|until_ms| self.latest_ms < *until_ms);
        ends.min().map_or(1, |until_ms| (until_ms - self.latest_ms).div_ceil(60_000))
    }

    pub(super) fn remember(&mut self, version: Digest, reversal: Reversal) {
        self.reversals.insert(version, reversal);
        if self.reversals.len() > REVERSALS_MAX {
            let oldest = self.reversals.iter().min_by_key(|(_, reversal)| reversal.at_ms).map(|(version, _)| *version);
            self.reversals.retain(|version, _| Some(*version) != oldest);
        }
    }
}
