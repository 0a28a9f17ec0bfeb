//! Why a rollout is not begun, or not changed.

use althing_failure::Kind;
use althing_verification::machine::rollout::OrderError;

/// Why a rollout is not begun, or not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RolloutError {
    /// The file is that of another agent.
    #[error("the file is that of the agent {file:?}, and not of {agent:?}: a new version has the name of the old one")]
    OtherName {
        /// The agent that it is about.
        agent: String,
        /// The name in the file.
        file: String,
    },
    /// Both files say the same version.
    #[error("{agent:?} runs in version {version} already: write another `version` into the file, such as the next one")]
    SameVersion {
        /// The agent that it is about.
        agent: String,
        /// Its version, as its file has it.
        version: String,
    },
    /// A control loop, and something else.
    #[error(
        "one of both versions of {0:?} is hard real-time, and the other one is not: a control loop is replaced by a control loop"
    )]
    HardRealTime(String),
    /// Both would write one signal.
    #[error(
        "both versions of {agent:?} put out the signal {signal:?}, which has one writer: only hard real-time loops (`latency: hrt`) are \
         rolled out. Remove the agent, and add the new version in its place"
    )]
    SoftLoop {
        /// The agent that it is about.
        agent: String,
        /// The first signal that both put out.
        signal: String,
    },
    /// The program of the new version ended before it answered.
    #[error("the new version of {agent:?} was not begun: its program did not answer, {why}")]
    Ended {
        /// The agent that it is about.
        agent: String,
        /// What became of it.
        why: String,
    },
    /// What it does beside the tasks could have effects.
    #[error("the new version of {agent:?} was not begun, as it can have no shadow, and no cases: {why}")]
    NoShadow {
        /// The agent that it is about.
        agent: String,
        /// Why not.
        why: String,
    },
    /// Nothing was begun.
    #[error("no rollout of {0:?} was begun on this node")]
    Unknown(String),
    /// It holds, and is not on disk.
    #[error(
        "the rollout of {agent:?} was ended, and its old version has all new calls; but that could not be written: {why}. It is written as \
         soon as that can be; if the node ends before, the rollout goes on"
    )]
    Unwritten {
        /// The agent that it is about.
        agent: String,
        /// Why not.
        why: String,
    },
    /// What is kept of it cannot be read.
    #[error("what is kept of the versions of {agent:?} cannot be read: {why}")]
    Damaged {
        /// The agent that it is about.
        agent: String,
        /// What is wrong.
        why: String,
    },
    /// A file that belongs to a version cannot be read.
    #[error("the version of {agent:?} cannot be told from others: {why}")]
    Unreadable {
        /// The agent that it is about.
        agent: String,
        /// What is wrong.
        why: String,
    },
    /// What was decided of its versions does not allow it.
    #[error(transparent)]
    Order(#[from] OrderError),
}

impl RolloutError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            RolloutError::OtherName { .. }
            | RolloutError::HardRealTime(_)
            | RolloutError::SoftLoop { .. }
            | RolloutError::NoShadow { .. }
            | RolloutError::Unreadable { .. }
            | RolloutError::Order(OrderError::Same | OrderError::Plan(_)) => Kind::Invalid,
            RolloutError::SameVersion { .. }
            | RolloutError::Order(OrderError::UnderWay | OrderError::Draining { .. }) => Kind::Conflict,
            RolloutError::Order(OrderError::WentBack { .. }) => Kind::Refused,
            RolloutError::Unknown(_) | RolloutError::Order(OrderError::NotUnderWay) => Kind::NotFound,
            RolloutError::Ended { .. } | RolloutError::Unwritten { .. } | RolloutError::Damaged { .. } => Kind::Failed,
        }
    }
}
