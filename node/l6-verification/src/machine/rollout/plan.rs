//! What an owner wants of a rollout.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::Digest;
use minicbor::{Decode, Encode};

use super::outcome::{Breach, Signal};
use crate::machine::evidence::Tally;

/// Steps of one rollout.
pub const STEPS_MAX: usize = 16;
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// Fewer calls from before the rollout say too little of how stable usually does.
const RECORD_CALLS_MIN: u64 = 100;

/// What is wrong with a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The steps do not rise to 100.
    #[error(
        "the steps of a rollout rise from 1 to 100 percent and end with 100, {STEPS_MAX} at most: write them like 5,25,50,100"
    )]
    Steps,
    /// No call would be compared.
    #[error(
        "a rollout whose only step is 100 compares nothing: begin with a smaller share, or run it as a shadow first"
    )]
    Nothing,
    /// A step would be decided by no call.
    #[error("a step needs at least one call of the new version")]
    Calls,
    /// A probability is none.
    #[error(
        "alpha must be from 0.001 to 0.5, and the margin from 0.001 to 0.999: nothing would be promoted without one"
    )]
    Shares,
}

/// What is given to a version as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Unit {
    /// A conversation, or a call that is in none.
    #[n(0)]
    Call,
    /// All conversations of a caller.
    #[n(1)]
    Caller,
    /// All of a channel; of what has none, all of a group, and what is no work of a group as [`Unit::Call`].
    #[n(2)]
    Channel,
    /// All of a group; calls without a group stay with stable until the end.
    #[n(3)]
    Group,
}

/// What version is tried, on whose calls, and by what it is judged.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Plan {
    /// The digest of the new version: of its code, prompt, models and contract.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub to: Digest,
    /// Shares of the calls, percent: rising, the last one 100.
    #[n(1)]
    pub steps: Vec<u8>,
    /// What the share is a share of.
    #[n(2)]
    pub by: Unit,
    /// Whether each call goes to the new version too, first, without effects and told to nobody.
    #[n(3)]
    pub shadow: bool,
    /// Calls of the new version that must have ended at each step, at least.
    #[n(4)]
    pub calls_min: u32,
    /// How often chance alone may send back a version that is equally good, or promote at a step one that is worse by the
    /// margin; in thousandths.
    #[n(5)]
    pub alpha_permille: u16,
    /// The loss that is accepted, of all calls, in thousandths.
    #[n(6)]
    pub margin_permille: u16,
    /// When a first token is late, milliseconds; such as what 95 of 100 calls of stable needed at most. Without it, lateness is
    /// not compared.
    #[n(7)]
    pub first_token_ms: Option<u64>,
    /// How calls of stable went before, in the order of [`Signal::ALL`](super::Signal::ALL): no evidence, but a better guess.
    #[n(8)]
    pub record: [Tally; 4],
    /// What stable did before the rollout too: of the new version, evidence decides about it.
    #[n(9)]
    pub known: BTreeSet<Breach>,
    /// How often the new version may do what it must not: not at all where nothing is said.
    #[n(10)]
    pub bounds: BTreeMap<Breach, u32>,
    /// How long conversations of the older version stay with it after a promotion, milliseconds.
    #[n(11)]
    pub drain_ms: u64,
    /// What no caller knows, so that none can choose the version that answers it by how it names its conversation. Shares of groups
    /// and channels are drawn without it: several nodes draw these alike.
    #[n(12)]
    pub salt: Option<u64>,
}

impl Plan {
    /// The usual one: 5, 25, 50, 100 percent of the conversations, at least 50 calls at each step.
    #[must_use]
    pub fn of(to: Digest) -> Plan {
        Plan {
            to,
            steps: vec![5, 25, 50, 100],
            by: Unit::Call,
            shadow: false,
            calls_min: 50,
            alpha_permille: 50,
            margin_permille: 30,
            first_token_ms: None,
            record: [Tally::default(); 4],
            known: BTreeSet::new(),
            bounds: BTreeMap::new(),
            drain_ms: DAY_MS,
            salt: None,
        }
    }

    /// The same with how calls of stable went before, if they are enough: which ones failed is known, and not in which way.
    #[must_use]
    pub fn with_record(mut self, failures: Tally) -> Plan {
        if failures.calls >= RECORD_CALLS_MIN {
            self.record[Signal::Failure as usize] = failures;
        }
        self
    }

    /// Whether it can be followed.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn check(&self) -> Result<(), PlanError> {
        Plan::check_steps(&self.steps, self.shadow)?;
        if self.calls_min == 0 {
            return Err(PlanError::Calls);
        }
        let is_share = (1..=500).contains(&self.alpha_permille) && (1..=999).contains(&self.margin_permille);
        if is_share { Ok(()) } else { Err(PlanError::Shares) }
    }

    /// Whether a version can be tried in those steps, percent, perhaps as a shadow first.
    ///
    /// # Errors
    /// [`PlanError::Steps`] and [`PlanError::Nothing`].
    pub fn check_steps(steps: &[u8], shadow: bool) -> Result<(), PlanError> {
        let rises = steps.windows(2).all(|pair| pair[0] < pair[1]);
        let ends = (steps.first(), steps.last());
        if !rises || ends.0.is_none_or(|first| *first == 0) || ends.1 != Some(&100) || steps.len() > STEPS_MAX {
            return Err(PlanError::Steps);
        }
        if stages(steps, shadow) == 0 { Err(PlanError::Nothing) } else { Ok(()) }
    }

    /// How many stages are decided by evidence: the shadow, and each step below 100.
    #[must_use]
    pub fn stages(&self) -> usize {
        stages(&self.steps, self.shadow)
    }

    /// Whether a stage is the shadow.
    #[must_use]
    pub fn is_shadow(&self, stage: u8) -> bool {
        self.shadow && stage == 0
    }

    /// The share at a stage, percent.
    #[must_use]
    pub fn share_percent(&self, stage: u8) -> u8 {
        match usize::from(stage).checked_sub(usize::from(self.shadow)) {
            None => 0,
            Some(step) => self.steps.get(step).copied().unwrap_or(100),
        }
    }

    /// How many calls of stable there are for each of the new version at a stage; at least one.
    #[must_use]
    pub fn stable_per_new(&self, stage: u8) -> u64 {
        match u64::from(self.share_percent(stage)) {
            0 => 1,
            share => ((100_u64.saturating_sub(share) + share / 2) / share).max(1),
        }
    }

    /// See [`Plan::alpha_permille`].
    #[must_use]
    pub fn alpha(&self) -> f64 {
        f64::from(self.alpha_permille) / 1_000.0
    }

    /// See [`Plan::margin_permille`].
    #[must_use]
    pub fn margin(&self) -> f64 {
        f64::from(self.margin_permille) / 1_000.0
    }
}

fn stages(steps: &[u8], shadow: bool) -> usize {
    usize::from(shadow) + steps.len().saturating_sub(1)
}
