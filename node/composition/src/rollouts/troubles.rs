//! What an owner should know of the versions of its agents without asking for each.

use althing_verification::machine::rollout::Phase;

use super::node_rollouts::Rollouts;
use super::rows;

/// Something about the versions of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutTrouble {
    /// The agent's name.
    pub agent: String,
    /// What is the matter.
    pub what: RolloutFault,
}

/// What is the matter with versions of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutFault {
    /// There is a higher version of its model in its range, and no rollout of it could be begun: why.
    Held(String),
    /// The version that was tried last went back: why.
    WentBack(String),
    /// A version does not run that should answer conversations which it began.
    Down {
        /// The version, as its file says it.
        version: String,
        /// What keeps it from running.
        why: String,
    },
}

/// All that is the matter now. What cannot be read is told by the log as soon as it is used.
#[must_use]
pub fn troubles(rollouts: &Rollouts) -> Vec<RolloutTrouble> {
    let held = rollouts.held().all().into_iter();
    let held = held.map(|(agent, why)| RolloutTrouble { agent, what: RolloutFault::Held(why) });
    let down = rollouts.failures().into_iter().map(|(agent, version, why)| {
        let what = RolloutFault::Down { version: version.to_string(), why };
        RolloutTrouble { agent, what }
    });
    held.chain(reversals(rollouts)).chain(down).collect()
}

fn reversals(rollouts: &Rollouts) -> Vec<RolloutTrouble> {
    let names = rows::names(rollouts.store()).unwrap_or_default();
    let went_back = |agent: String| {
        let versions = match rollouts.named(&agent) {
            Some(divided) => divided.versions(),
            None => rows::decided(rollouts.store(), &agent).ok().flatten()?,
        };
        match versions.rollout()?.phase() {
            Phase::WentBack(reason) => Some(RolloutTrouble { agent, what: RolloutFault::WentBack(reason.words()) }),
            _ => None,
        }
    };
    names.into_iter().filter_map(went_back).collect()
}
