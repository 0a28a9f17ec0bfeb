//! Why a call gives no answer.

use althing_calls::OperationError;
use rmcp::model::CallToolResult;

use crate::result::{failure, refused};

/// What becomes of a request that its client takes back.
const CANCELLED: &str = "the request was cancelled, and the agent's task with it";

/// Why a call gives no answer.
pub(crate) enum Failed {
    /// The arguments break a rule.
    Arguments(String),
    /// The call failed.
    Operation(OperationError),
    /// The answer cannot be used, or did not come.
    Answer(String),
    /// The agent rejects what is relayed to it.
    Unfit(String),
    /// The client took the request back.
    Cancelled,
}

impl From<OperationError> for Failed {
    fn from(error: OperationError) -> Failed {
        Failed::Operation(error)
    }
}

impl Failed {
    /// The tool's result.
    pub fn into_result(self) -> CallToolResult {
        match self {
            Failed::Arguments(why) => failure("INVALID_ARGUMENTS", &why),
            Failed::Operation(error) => refused(&error),
            Failed::Answer(why) => failure("NO_ANSWER", &why),
            Failed::Unfit(why) => failure("REJECTED", &why),
            Failed::Cancelled => failure("CANCELLED", CANCELLED),
        }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Arguments(why) | Failed::Answer(why) | Failed::Unfit(why) => to.write_str(why),
            Failed::Operation(error) => write!(to, "{}: {}", error.reason(), error.message),
            Failed::Cancelled => to.write_str(CANCELLED),
        }
    }
}
