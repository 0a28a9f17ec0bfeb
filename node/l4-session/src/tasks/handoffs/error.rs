//! Why an agent's work is not offered to another one.

use althing_failure::{CallStep, Kind, Remedy};
use althing_protocol::{AgentId, ObjectError};

use crate::machine::handoff::SendError;
use crate::tasks::store::TaskStoreError;

/// Why work is not given away.
#[derive(Debug, thiserror::Error)]
pub enum HandoffError {
    /// There is no such task here.
    #[error("no agent of this node has a task {0:?}")]
    NoTask(String),
    /// It has its result.
    #[error("task {0} is over: there is nothing left of it to hand over")]
    Over(String),
    /// It waits for somebody's consent.
    #[error("task {0} waits for somebody's consent, and can be handed over once that is there")]
    Unallowed(String),
    /// A call of it is in doubt.
    #[error(
        "a call of task {0} is in doubt, and whoever goes on with it could make it twice; it is one of the tasks that wait until \
         somebody says what came of a call"
    )]
    InDoubt(String),
    /// A call of it that must not be made twice has no result yet.
    #[error(
        "step {step} of task {task} calls {name:?}, which must not be made twice and has not answered yet: hand the work over when it \
         has"
    )]
    UnderWay {
        /// Which task.
        task: String,
        /// The number of the step.
        step: u32,
        /// `server/tool`.
        name: String,
    },
    /// It is given away.
    #[error("task {0} was handed over before, or is being offered: ask for the task to see what became of it")]
    Given(String),
    /// It is to be given to whoever has it.
    #[error("{0} has the work already: name another agent")]
    ToItself(AgentId),
    /// The document says something else than the task.
    #[error("the handoff is not of this task: its `{member}` is {found}, and must be {wanted}")]
    Document {
        /// Which member.
        member: &'static str,
        /// What it says.
        found: String,
        /// What it must say.
        wanted: String,
    },
    /// It cannot be signed.
    #[error("the handoff cannot be signed: {0}")]
    Sign(ObjectError),
    /// It must not leave this node, or would be rejected anywhere.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The node is starting, or stopping.
    #[error("this node is starting, or stopping: try again in a moment")]
    NotReady,
    /// The task could not be taken up again to follow the work.
    #[error("the work was not handed over: {0}")]
    Busy(String),
    /// The disk failed.
    #[error(transparent)]
    Store(#[from] TaskStoreError),
}

impl HandoffError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            HandoffError::NoTask(_) => Kind::NotFound,
            HandoffError::Document { .. } | HandoffError::Sign(_) | HandoffError::ToItself(_) => Kind::Invalid,
            HandoffError::Over(_)
            | HandoffError::Unallowed(_)
            | HandoffError::InDoubt(_)
            | HandoffError::Given(_)
            | HandoffError::Send(_) => Kind::Refused,
            HandoffError::NotReady | HandoffError::Busy(_) | HandoffError::UnderWay { .. } => Kind::NotYet,
            HandoffError::Store(_) => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            HandoffError::NoTask(_) => Some(CallStep::NameTask.into()),
            HandoffError::InDoubt(_) => Some(CallStep::ListSessions.into()),
            _ => None,
        }
    }
}
