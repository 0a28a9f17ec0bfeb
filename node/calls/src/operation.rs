//! The operations of A2A 1.0, and how they are asked for and answered between the faces, `calls` and L2.

use althing_communication::{Holder, Priority};
use althing_discovery::Among;
use althing_protocol::AgentId;
use futures::stream::BoxStream;

use crate::error::OperationError;
use crate::machine::chain::Principal;
use crate::params::Params;
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

/// An operation with its parameters, parsed and checked once. The bytes go on as they came.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRequest {
    operation: Operation,
    bytes: Vec<u8>,
    pub(crate) params: Params,
}

impl OperationRequest {
    /// Reads the parameters of an operation.
    ///
    /// # Errors
    /// InvalidParams, naming the member that breaks a rule.
    pub fn parse(operation: Operation, bytes: Vec<u8>) -> Result<OperationRequest, OperationError> {
        let params = Params::parse(operation, &bytes)?;
        Ok(OperationRequest { operation, bytes, params })
    }

    /// Which operation it is.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Its parameters as they came.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Which agent is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callee {
    /// The agent of that identifier.
    Id(AgentId),
    /// The agent that is called so, identifier or name, of those among which it may be.
    Named(String, Among),
}

impl From<AgentId> for Callee {
    fn from(id: AgentId) -> Callee {
        Callee::Id(id)
    }
}

/// One operation asked of one agent.
#[derive(Debug, Clone)]
pub struct CallRequest {
    pub(crate) callee: Callee,
    pub(crate) request: OperationRequest,
    pub(crate) metadata: CallMetadata,
    pub(crate) trace: Trace,
    pub(crate) priority: Priority,
}

impl CallRequest {
    /// A call in the name of `principals`, the origin first.
    #[must_use]
    pub fn new(callee: impl Into<Callee>, request: OperationRequest, principals: Vec<Principal>) -> CallRequest {
        CallRequest {
            callee: callee.into(),
            request,
            metadata: CallMetadata { principals, ..CallMetadata::default() },
            trace: Trace::default(),
            priority: Priority::default(),
        }
    }

    /// Which operation it asks for.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.request.operation
    }

    /// As a part of that trace.
    #[must_use]
    pub fn in_trace(self, trace: Trace) -> CallRequest {
        CallRequest { trace, ..self }
    }

    /// With the URIs of the A2A extensions that the client would like to use.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Vec<String>) -> CallRequest {
        self.metadata.extensions = extensions;
        self
    }

    /// As soon as that: an agent's calls are as urgent as its class.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> CallRequest {
        CallRequest { priority, ..self }
    }
}

/// What travels beside the parameters of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallMetadata {
    /// URIs of the A2A extensions that the client would like to use.
    pub extensions: Vec<String>,
    /// Who asks, the origin first: the last is who proved to call, those before it are that node's word.
    pub principals: Vec<Principal>,
    /// Where the calling node stands; none when the call does not come from another one.
    pub holder: Option<Holder>,
}

/// What an operation comes to.
pub enum Reply {
    /// The result's JSON.
    One(Vec<u8>),
    /// The JSON of one `StreamResponse` each; the first error ends it.
    Events(BoxStream<'static, Result<Vec<u8>, OperationError>>),
}
