//! The codes of google.rpc, by which A2A's bindings other than JSON-RPC tell refusals (specification 1.0.1 §5.4).

use a2a::error_code;

use crate::error::Refusal;

/// A code of google.rpc, as gRPC and A2A's HTTP+JSON binding use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcCode {
    /// The request breaks a rule, whatever the state of the node.
    InvalidArgument,
    /// No answer in time.
    DeadlineExceeded,
    /// There is no such thing, or none that the caller may see.
    NotFound,
    /// The caller may not.
    PermissionDenied,
    /// Too much at once.
    ResourceExhausted,
    /// Not in the present state, or not by this agent.
    FailedPrecondition,
    /// There is no such operation.
    Unimplemented,
    /// This node or the agent failed.
    Internal,
    /// Not reachable now; a later attempt may succeed.
    Unavailable,
}

impl RpcCode {
    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            RpcCode::InvalidArgument => 3,
            RpcCode::DeadlineExceeded => 4,
            RpcCode::NotFound => 5,
            RpcCode::PermissionDenied => 7,
            RpcCode::ResourceExhausted => 8,
            RpcCode::FailedPrecondition => 9,
            RpcCode::Unimplemented => 12,
            RpcCode::Internal => 13,
            RpcCode::Unavailable => 14,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RpcCode::InvalidArgument => "INVALID_ARGUMENT",
            RpcCode::DeadlineExceeded => "DEADLINE_EXCEEDED",
            RpcCode::NotFound => "NOT_FOUND",
            RpcCode::PermissionDenied => "PERMISSION_DENIED",
            RpcCode::ResourceExhausted => "RESOURCE_EXHAUSTED",
            RpcCode::FailedPrecondition => "FAILED_PRECONDITION",
            RpcCode::Unimplemented => "UNIMPLEMENTED",
            RpcCode::Internal => "INTERNAL",
            RpcCode::Unavailable => "UNAVAILABLE",
        }
    }
}

impl Refusal {
    /// Its code in google.rpc.
    #[must_use]
    pub fn rpc_code(&self) -> RpcCode {
        match self {
            Refusal::TaskNotFound | Refusal::AgentUnknown | Refusal::AgentNotHere => RpcCode::NotFound,
            Refusal::TaskNotCancelable
            | Refusal::PushNotSupported
            | Refusal::Unsupported
            | Refusal::VersionNotSupported
            | Refusal::AlreadyDone { .. }
            | Refusal::OfAgent(error_code::EXTENDED_CARD_NOT_CONFIGURED | error_code::EXTENSION_SUPPORT_REQUIRED) => {
                RpcCode::FailedPrecondition
            }
            Refusal::ContentType
            | Refusal::Parse
            | Refusal::InvalidRequest
            | Refusal::InvalidParams
            | Refusal::MessageIdReused => RpcCode::InvalidArgument,
            Refusal::MethodNotFound => RpcCode::Unimplemented,
            Refusal::CallerNotAllowed | Refusal::ConsentRequired { .. } | Refusal::AgentRevoked => {
                RpcCode::PermissionDenied
            }
            Refusal::AgentUnreachable | Refusal::StoreStopped => RpcCode::Unavailable,
            Refusal::DeadlineExceeded => RpcCode::DeadlineExceeded,
            Refusal::Overloaded
            | Refusal::TurnLeft
            | Refusal::DiskFull
            | Refusal::Redirected { .. }
            | Refusal::TaskMoved { .. } => RpcCode::ResourceExhausted,
            Refusal::Internal | Refusal::InvalidAgentResponse | Refusal::OfAgent(_) | Refusal::OfNewerNode(_) => {
                RpcCode::Internal
            }
        }
    }
}
