//! The operations of A2A 1.0, and how they are asked for and answered between the faces, `calls` and L2.

use std::time::Duration;

use althing_communication::{Holder, Priority};
use althing_protocol::AgentId;
use futures::stream::BoxStream;

use crate::error::OperationError;
use crate::trace::Trace;

/// The operations that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// One message; waits for the answer unless told otherwise.
    SendMessage,
    /// One message; the answer as it comes.
    SendStreamingMessage,
    /// One task.
    GetTask,
    /// The caller's tasks with this agent.
    ListTasks,
    /// Ends a task.
    CancelTask,
    /// The further events of a task.
    SubscribeToTask,
}

impl Operation {
    /// The operation of that name.
    ///
    /// # Errors
    /// A2A's error for operations that exist and are not served, or that do not exist.
    pub fn parse(name: &str) -> Result<Operation, OperationError> {
        match name {
            a2a::methods::SEND_MESSAGE => Ok(Operation::SendMessage),
            a2a::methods::SEND_STREAMING_MESSAGE => Ok(Operation::SendStreamingMessage),
            a2a::methods::GET_TASK => Ok(Operation::GetTask),
            a2a::methods::LIST_TASKS => Ok(Operation::ListTasks),
            a2a::methods::CANCEL_TASK => Ok(Operation::CancelTask),
            a2a::methods::SUBSCRIBE_TO_TASK => Ok(Operation::SubscribeToTask),
            a2a::methods::GET_EXTENDED_AGENT_CARD => Err(OperationError::no_extended_card()),
            name if a2a::methods::is_valid(name) => Err(OperationError::push_not_supported()),
            name => Err(OperationError::method_not_found(name)),
        }
    }

    /// Its name in A2A.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::SendMessage => a2a::methods::SEND_MESSAGE,
            Operation::SendStreamingMessage => a2a::methods::SEND_STREAMING_MESSAGE,
            Operation::GetTask => a2a::methods::GET_TASK,
            Operation::ListTasks => a2a::methods::LIST_TASKS,
            Operation::CancelTask => a2a::methods::CANCEL_TASK,
            Operation::SubscribeToTask => a2a::methods::SUBSCRIBE_TO_TASK,
        }
    }

    /// True when it is answered by events.
    #[must_use]
    pub fn streams(self) -> bool {
        matches!(self, Operation::SendStreamingMessage | Operation::SubscribeToTask)
    }
}

/// One operation asked of one agent.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Which operation.
    pub operation: Operation,
    /// Of whom.
    pub agent: AgentId,
    /// The operation's JSON as received.
    pub params: Vec<u8>,
    /// Who asks, the origin first, such as `local`.
    pub principals: Vec<String>,
    /// The trace that it belongs to.
    pub trace: Trace,
    /// URIs of the A2A extensions that the client would like to use.
    pub extensions: Vec<String>,
    /// How long the answer is wanted.
    pub deadline: Option<Duration>,
    /// How soon it is to be asked: an agent's calls are as urgent as its class.
    pub priority: Priority,
}

/// What travels beside the parameters of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    /// URIs of the A2A extensions that the client would like to use.
    pub extensions: Vec<String>,
    /// Who asks, the origin first: the last is who proved to call, those before it are that node's word.
    pub principals: Vec<String>,
    /// Where the calling node stands; none when the call does not come from another one.
    pub holder: Option<Holder>,
}

impl Ask {
    pub(crate) fn beside(&self) -> Beside {
        Beside { extensions: self.extensions.clone(), principals: self.principals.clone(), holder: None }
    }
}

/// What an operation comes to.
pub enum Reply {
    /// The result's JSON.
    One(Vec<u8>),
    /// The JSON of one `StreamResponse` each; the first error ends it.
    Events(BoxStream<'static, Result<Vec<u8>, OperationError>>),
}
