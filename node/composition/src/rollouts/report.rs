//! What is told of a rollout.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_protocol::{Digest, hex};
use althing_verification::machine::evidence::Tally;
use althing_verification::machine::rollout::{Phase, Rollout, Signal, Unit, Versions};

use super::error::RolloutError;
use super::node_rollouts::Rollouts;
use super::orders::RolloutUnit;
use super::rows;
use crate::agents;
use crate::error::NodeError;
use crate::node::Node;

/// How far a rollout came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutPhase {
    /// Both versions answer.
    Running,
    /// The new version has all calls; whether its owner said so before the evidence did.
    Promoted {
        /// Whether it was the owner.
        by_owner: bool,
    },
    /// The new version has all calls, as on the owner's node of that DID.
    PromotedElsewhere(String),
    /// It went back, by itself or as on another node of the owner, and why.
    WentBack(String),
    /// The owner ended it, or what it was compared with went back.
    Aborted,
}

/// What was counted of one of the versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionReport {
    /// What its file says; none where that is not here any more.
    pub version: Option<Arc<str>>,
    /// The digest of its file and code, hexadecimal.
    pub digest: String,
    /// Its share of new conversations, percent.
    pub share_percent: u8,
    /// Why it does not run, where it should.
    pub failure: Option<String>,
}

/// Calls of both versions that were counted, and how many of them were bad in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalReport {
    /// In which: such as "ended with an error".
    pub words: &'static str,
    /// Calls of stable, and the bad ones.
    pub stable: (u64, u64),
    /// Those of the new version.
    pub new: (u64, u64),
}

/// Calls that were given to the new version too, beside the tasks of the node; its answers were told to nobody.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowReport {
    /// Whether that is done now.
    pub is_running: bool,
    /// How many ended, and how many of these failed or were refused.
    pub calls: (u64, u64),
    /// How many of them were answered in another way than by the stable version.
    pub differing: u64,
    /// How many others ended to which a call was denied, and which count as nothing for that, since the rollout began or the node was
    /// started.
    pub denied: u64,
    /// Calls that it answered itself, and how many of these failed or were refused.
    pub live: (u64, u64),
    /// How probable it is that it fails as often where nobody hears it, if what was counted is chance; none before there are both.
    pub alike: Option<f64>,
}

/// A rollout: the one that is under way, or the last one.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutReport {
    /// How far it came.
    pub phase: RolloutPhase,
    /// The version that everybody has.
    pub stable: VersionReport,
    /// The one that is or was tried; it is stable once it was promoted.
    pub new: VersionReport,
    /// The shares of the new version one after the other, percent.
    pub steps: Vec<u8>,
    /// Of what these are shares.
    pub by: RolloutUnit,
    /// Calls of the new version that ended at this step.
    pub calls: u64,
    /// How many of them a step needs, at least.
    pub calls_min: u32,
    /// The evidence that the new version is worse: with an equally good one, it would be seen in one rollout of so many at most.
    pub one_in: f64,
    /// At which evidence it goes back.
    pub limit: f64,
    /// What was counted.
    pub signals: Vec<SignalReport>,
    /// Calls that were left out, as others of their owner or user, or of their conversation, are as much of their step as may be (in
    /// this order): of stable, and of the new version.
    pub left_out: [(u64, u64); 2],
    /// Its shadows, if it has or had any.
    pub shadow: Option<ShadowReport>,
    /// Labelled cases that counted, and those of them that were wrong: of the stable version, and of the new one; none without.
    pub cases: Option<[(u64, u64); 2]>,
    /// How many calls of the new version may have changed something, by the names of their tools.
    pub effects: Vec<(String, u32)>,
    /// Versions that went back and are not tried again: their digests, hexadecimal, and why.
    pub reversals: Vec<(String, String)>,
}

/// The rollout of an agent that is under way, or its last one.
///
/// # Errors
/// [`NodeError::NoAgent`], [`RolloutError::Unknown`], and those of the store.
pub fn report(node: &Node, agent: &str) -> Result<RolloutReport, NodeError> {
    agents::stored(node.store.as_ref(), agent)?;
    let divided = node.rollouts.named(agent);
    let versions = match &divided {
        Some(divided) => Some(divided.versions()),
        None => rows::decided(node.store.as_ref(), agent)?,
    };
    let unknown = || RolloutError::Unknown(agent.to_owned());
    let versions = versions.ok_or_else(unknown)?;
    let rollout = versions.rollout().ok_or_else(unknown)?;
    let stable_file = agents::stored(node.store.as_ref(), agent)?.file.version;
    let name_of = |digest: Digest| {
        let known = divided.as_ref().and_then(|divided| divided.name_of(digest));
        known.or_else(|| (digest == versions.stable()).then(|| Arc::from(stable_file.as_str())))
    };
    let share = new_share(rollout);
    let of = |digest: Digest, share_percent: u8| VersionReport {
        version: name_of(digest),
        digest: hex(&digest),
        share_percent,
        failure: divided.as_ref().and_then(|divided| divided.failure(digest)),
    };
    let is_promoted = rollout.plan().to == versions.stable();
    let stable = of(versions.stable(), if is_promoted { 100 } else { 100 - share });
    let denied = divided.as_ref().map_or(0, |divided| divided.denied());
    Ok(told(&versions, (rollout, denied), stable, of(rollout.plan().to, share)))
}

/// `denied`: to how many of its shadows a call was denied.
fn told(
    versions: &Versions,
    (rollout, denied): (&Rollout, u64),
    stable: VersionReport,
    new: VersionReport,
) -> RolloutReport {
    let phase = match rollout.phase() {
        Phase::Running => RolloutPhase::Running,
        Phase::Promoted { by_owner } => RolloutPhase::Promoted { by_owner },
        Phase::PromotedElsewhere { node } => RolloutPhase::PromotedElsewhere(node.did()),
        Phase::WentBack(reason) => RolloutPhase::WentBack(reason.words()),
        Phase::Aborted => RolloutPhase::Aborted,
    };
    let plan = rollout.plan();
    let signal = |signal: Signal| {
        let seen = rollout.trial().seen(signal);
        let counts = |tally: Tally| (tally.calls, tally.bad);
        SignalReport { words: signal.words(), stable: counts(seen.stable), new: counts(seen.new) }
    };
    let is_compared = |signal: &Signal| *signal != Signal::Slowness || plan.first_token_ms.is_some();
    let by = match plan.by {
        Unit::Caller => RolloutUnit::Caller,
        Unit::Group => RolloutUnit::Group,
        Unit::Channel => RolloutUnit::Channel,
        Unit::Call => RolloutUnit::Call,
    };
    let reversals = versions.reversals().iter();
    RolloutReport {
        phase,
        stable,
        new,
        steps: plan.steps.clone(),
        by,
        calls: rollout.calls_of_stage(),
        calls_min: plan.calls_min,
        // JSON has no infinity.
        one_in: rollout.trial().e_worse(plan, rollout.stage()).min(f64::MAX),
        limit: 1.0 / plan.alpha(),
        signals: Signal::ALL.into_iter().filter(is_compared).map(signal).collect(),
        left_out: rollout.surplus().map(|surplus| (surplus.of_origins, surplus.of_conversations)),
        shadow: plan.shadow.then(|| shadow(rollout, denied)),
        cases: rollout.cases().map(|cases| cases.map(|tally| (tally.calls, tally.bad))),
        effects: rollout.effects().map(|(tool, calls)| (tool.to_owned(), calls)).collect(),
        reversals: reversals.map(|(digest, reversal)| (hex(digest), reversal.reason.words())).collect(),
    }
}

fn shadow(rollout: &Rollout, denied: u64) -> ShadowReport {
    let (watched, live) = rollout.watched();
    let (differing, _) = rollout.differing();
    ShadowReport {
        is_running: rollout.phase() == Phase::Running && rollout.plan().is_shadow(rollout.stage()),
        calls: (watched.calls, watched.bad),
        differing,
        denied,
        live: (live.calls, live.bad),
        alike: rollout.behaves_alike(),
    }
}

/// The share of new conversations that the version has that is or was tried, percent.
fn new_share(rollout: &Rollout) -> u8 {
    match rollout.phase() {
        Phase::Running => rollout.share_percent(),
        Phase::Promoted { .. } | Phase::PromotedElsewhere { .. } => 100,
        Phase::WentBack(_) | Phase::Aborted => 0,
    }
}

impl Rollouts {
    /// The versions that should run here beside others and do not: the names of their agents, what their files say that they are, and
    /// why. Each is tried again every ten seconds.
    #[must_use]
    pub fn failures(&self) -> Vec<(String, Arc<str>, String)> {
        let mut failures = Vec::new();
        for divided in self.all() {
            let of_agent = divided.failures().into_iter();
            failures.extend(of_agent.map(|(version, why)| (divided.name.clone(), version, why)));
        }
        failures
    }
}

/// The shares of new conversations that versions of agents have whose calls are divided, percent, by the names of the agents and
/// the versions.
#[must_use]
pub fn shares(node: &Node) -> BTreeMap<(String, Arc<str>), u8> {
    let mut shares = BTreeMap::new();
    for divided in node.rollouts.all() {
        let versions = divided.versions();
        let new = versions.rollout().map(|rollout| (rollout.plan().to, new_share(rollout)));
        let stable = divided.name_of(versions.stable()).map(|name| (versions.stable(), name));
        for (digest, version) in divided.others().into_iter().chain(stable) {
            let share = match new {
                Some((to, share)) if to == digest => share,
                Some((_, share)) if digest == versions.stable() => 100 - share,
                _ => 0,
            };
            shares.insert((divided.name.clone(), version), share);
        }
    }
    shares
}
