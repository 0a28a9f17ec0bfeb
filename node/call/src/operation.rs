//! The operations of A2A 1.0.

use crate::error::OperationError;

/// The operations that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Sends a message; waits for the answer unless asked not to.
    SendMessage,
    /// Sends a message; the answer is streamed.
    SendStreamingMessage,
    /// Reads a task.
    GetTask,
    /// Lists the caller's tasks with this agent.
    ListTasks,
    /// Cancels a task.
    CancelTask,
    /// Streams the further events of a task.
    SubscribeToTask,
    /// Has the events of a task sent to a URL.
    CreatePushConfig,
    /// Reads who is told about a task.
    GetPushConfig,
    /// Lists who is told about a task.
    ListPushConfigs,
    /// Tells somebody about a task no more.
    DeletePushConfig,
    /// Reads the card for those who may call the agent. Gateways answer it; it is not sent to other nodes.
    ExtendedCard,
}

impl Operation {
    /// The operation of that name.
    ///
    /// # Errors
    /// A2A's error for operations that are not served or do not exist.
    pub fn parse(name: &str) -> Result<Operation, OperationError> {
        match name {
            a2a::methods::SEND_MESSAGE => Ok(Operation::SendMessage),
            a2a::methods::SEND_STREAMING_MESSAGE => Ok(Operation::SendStreamingMessage),
            a2a::methods::GET_TASK => Ok(Operation::GetTask),
            a2a::methods::LIST_TASKS => Ok(Operation::ListTasks),
            a2a::methods::CANCEL_TASK => Ok(Operation::CancelTask),
            a2a::methods::SUBSCRIBE_TO_TASK => Ok(Operation::SubscribeToTask),
            a2a::methods::CREATE_PUSH_CONFIG => Ok(Operation::CreatePushConfig),
            a2a::methods::GET_PUSH_CONFIG => Ok(Operation::GetPushConfig),
            a2a::methods::LIST_PUSH_CONFIGS => Ok(Operation::ListPushConfigs),
            a2a::methods::DELETE_PUSH_CONFIG => Ok(Operation::DeletePushConfig),
            a2a::methods::GET_EXTENDED_AGENT_CARD => Ok(Operation::ExtendedCard),
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
            Operation::CreatePushConfig => a2a::methods::CREATE_PUSH_CONFIG,
            Operation::GetPushConfig => a2a::methods::GET_PUSH_CONFIG,
            Operation::ListPushConfigs => a2a::methods::LIST_PUSH_CONFIGS,
            Operation::DeletePushConfig => a2a::methods::DELETE_PUSH_CONFIG,
            Operation::ExtendedCard => a2a::methods::GET_EXTENDED_AGENT_CARD,
        }
    }

    /// Whether it sends a message, so that an agent works.
    #[must_use]
    pub fn is_message(self) -> bool {
        matches!(self, Operation::SendMessage | Operation::SendStreamingMessage)
    }

    /// Whether it is answered by a stream of events.
    #[must_use]
    pub fn streams(self) -> bool {
        matches!(self, Operation::SendStreamingMessage | Operation::SubscribeToTask)
    }
}
