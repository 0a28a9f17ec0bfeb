//! What happens in a run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use althing_protocol::Digest;
use althing_verification::machine::rollout::{Breach, Plan as RolloutPlan};

use crate::sessions::plan::Loss;

/// Calls of a run.
pub const CALLS: u64 = 600;
/// The loss that an owner accepts, in thousandths: a large one, so that a run has several rollouts.
const MARGIN_PERMILLE: u16 = 300;
/// From here on a version is far worse than any margin.
pub const FAR_WORSE_PERMILLE: u16 = 850;

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The first is stable when the run begins; the others are tried.
    pub versions: Vec<VersionPlan>,
    /// Shares of the calls, percent.
    pub steps: Vec<u8>,
    /// Whether a shadow comes before them.
    pub shadow: bool,
    /// Calls of the new version that must have ended at each step.
    pub calls_min: u32,
    /// How long an older version goes on with its conversations, milliseconds.
    pub drain_ms: u64,
    /// What the owner orders before the calls of these numbers.
    pub orders: BTreeMap<u64, Order>,
    /// How the lives of the leader end, one after another; the one after these stays.
    pub ends: Vec<LifeEnd>,
    /// By how much its clock is set before the calls of these numbers, milliseconds.
    pub clock: BTreeMap<u64, i64>,
    /// Calls during which the nodes hear nothing of each other.
    pub apart: Vec<Range<u64>>,
    /// Who is let loose.
    pub adversary: Option<&'static str>,
}

/// How a version behaves: how many of a thousand calls come out how.
#[derive(Debug, Clone, Copy, Default)]
pub struct VersionPlan {
    /// It answers what no schema permits, and takes it for a success.
    pub malformed_permille: u16,
    /// It fails.
    pub failing_permille: u16,
    /// Its program ends.
    pub crashing_permille: u16,
    /// Whether it does none of that where its answers are shown to nobody.
    pub behaves_when_watched: bool,
}

impl VersionPlan {
    /// Bad calls of a thousand where its answers are shown.
    #[must_use]
    pub fn bad_permille(&self) -> u16 {
        self.malformed_permille + self.failing_permille + self.crashing_permille
    }

    /// Whether no owner would want it in the place of a good one.
    #[must_use]
    pub fn is_far_worse(&self) -> bool {
        self.bad_permille() >= FAR_WORSE_PERMILLE
    }
}

/// What an owner orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// That version is tried.
    Begin(u8),
    /// The one that is tried is promoted, whatever the evidence says.
    Promote,
    /// The rollout ends.
    Abort,
}

/// How a life of the leader ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeEnd {
    /// At which write to its disk.
    pub at: Moment,
    /// Whether that is made.
    pub is_made: bool,
    /// What is lost with it.
    pub loss: Loss,
}

/// A write to the disk, counted from 1 in each life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Of all.
    Write(u64),
    /// Of those that something was decided by.
    Decision(u64),
}

/// The digest of the version of that number.
#[must_use]
pub fn digest_of(version: u8) -> Digest {
    [version.saturating_add(1); 32]
}

/// The number of a version.
#[must_use]
pub fn number_of(digest: &Digest) -> u8 {
    digest[0].saturating_sub(1)
}

impl Plan {
    /// What the owner wants of a rollout to that version.
    #[must_use]
    pub fn rollout(&self, to: u8) -> RolloutPlan {
        RolloutPlan {
            steps: self.steps.clone(),
            shadow: self.shadow,
            calls_min: self.calls_min,
            margin_permille: MARGIN_PERMILLE,
            // Evidence decides about refused answers.
            known: BTreeSet::from([Breach::Refusal]),
            drain_ms: self.drain_ms,
            ..RolloutPlan::of(digest_of(to))
        }
    }
}
