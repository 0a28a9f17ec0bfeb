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
    stable: Digest,
    /// How often something was decided: what a node tells another one counts by it.
    revision: u64,
    /// The latest time that was seen, or that something was decided for. Time goes on from there where the clock is set back: no
    /// step is taken at a time at which a conversation began before it, which would change that one's version.
    latest_ms: u64,
    /// The rollout that is under way, or the last one.
    rollout: Option<Rollout>,
    /// Earlier promotions, in their order.
    drains: Vec<Split>,
    reversals: BTreeMap<Digest, Reversal>,
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
        let drains = |split: &Split| {
            split.from == version && split.drains_until_ms().is_some_and(|until_ms| self.latest_ms < until_ms)
        };
        let is_drained = || self.splits().any(drains);
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
        self.see(now_ms.max(self.latest_ms.saturating_add(1)));
        self.retire();
        self.revision += 1;
        self.rollout = Some(Rollout::new(self.revision, self.stable, plan, self.latest_ms));
        Ok(())
    }

    /// Which version answers a call.
    pub fn route(&mut self, call: &Call) -> Route {
        self.see(call.now_ms);
        let began_ms = call.began_ms().unwrap_or(self.latest_ms);
        let own = self.own_version(call, began_ms);
        let version = if self.may_answer(own) { own } else { self.stable };
        let ticket = self.running().and_then(|rollout| rollout.ticket(version, began_ms));
        let shadow = self.running().zip(ticket).and_then(|(rollout, ticket)| rollout.shadow(ticket));
        Route { version, began_ms, ticket, shadow }
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
                self.revision += 1;
                self.see(from_ms);
            }
            Change::Promoted => self.replace(to, from_ms),
            Change::WentBack(reason) => {
                self.revision += 1;
                self.remember(to, Reversal { at_ms: self.latest_ms, reason });
            }
        }
        Some(change)
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
        self.revision += 1;
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
            revision: self.revision + 1,
            latest_ms: self.latest_ms,
            rollout: None,
            drains: Vec::new(),
            reversals: self.reversals.clone(),
        }
    }

    /// Takes what another node knows of the same agent, if more was decided there. Only one node decides, so that of two
    /// states one follows from the other. Returns whether it was taken.
    pub fn adopt(&mut self, other: Versions) -> bool {
        let is_newer = other.revision > self.revision;
        if is_newer {
            *self = Versions { latest_ms: self.latest_ms.max(other.latest_ms), ..other };
        }
        is_newer
    }

    /// Its row was written.
    pub fn settle(&mut self) {
        if let Some(rollout) = &mut self.rollout {
            rollout.settle();
        }
    }

    fn running(&self) -> Option<&Rollout> {
        self.rollout.as_ref().filter(|rollout| rollout.phase() == Phase::Running)
    }

    fn running_mut(&mut self) -> Option<&mut Rollout> {
        self.rollout.as_mut().filter(|rollout| rollout.phase() == Phase::Running)
    }

    /// In their order: earlier promotions, then the last rollout.
    fn splits(&self) -> impl DoubleEndedIterator<Item = &Split> {
        self.drains.iter().chain(self.rollout.as_ref().map(Rollout::split))
    }

    /// The version that the conversation of a call belongs to, whether or not that one may still answer.
    fn own_version(&self, call: &Call, began_ms: u64) -> Digest {
        let covers = self.splits().rev().find(|split| split.covers(began_ms));
        let divided = covers.map(|split| split.version(call, began_ms));
        // It began before all that is known here: with what was stable then.
        divided.or_else(|| self.splits().next().map(|split| split.from)).unwrap_or(self.stable)
    }

    fn see(&mut self, at_ms: u64) {
        self.latest_ms = self.latest_ms.max(at_ms);
    }

    fn replace(&mut self, to: Digest, from_ms: u64) {
        self.see(from_ms);
        self.stable = to;
        self.revision += 1;
    }

    /// The last rollout is over: what it promoted stays known as long as conversations of the older version may go on.
    fn retire(&mut self) {
        let now_ms = self.latest_ms;
        if let Some(rollout) = self.rollout.take() {
            self.drains.push(rollout.split().clone());
        }
        self.drains.retain(|split| split.drains_until_ms().is_some_and(|until_ms| now_ms < until_ms));
        let surplus = self.drains.len().saturating_sub(DRAINS_MAX);
        self.drains.drain(..surplus);
    }

    fn remember(&mut self, version: Digest, reversal: Reversal) {
        self.reversals.insert(version, reversal);
        if self.reversals.len() > REVERSALS_MAX {
            let oldest = self.reversals.iter().min_by_key(|(_, reversal)| reversal.at_ms).map(|(version, _)| *version);
            self.reversals.retain(|version, _| Some(*version) != oldest);
        }
    }
}
