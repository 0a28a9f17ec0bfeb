//! Values and refusals as tools' results.

use althing_calls::{OperationError, Refusal};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

/// A value as a tool's result: as structure, and as text for clients that know no structures.
pub(crate) fn value(value: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    result
}

/// A tool's error that a model can read and act on.
pub(crate) fn failure(reason: &str, message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("{reason}: {message}"))])
}

/// A refusal as a tool's error.
pub(crate) fn refused(error: &OperationError) -> CallToolResult {
    let advice = match error.refusal {
        Refusal::AgentUnknown | Refusal::AgentNotHere => Some("find_agents shows the agents that are known"),
        Refusal::TaskNotFound => Some("without task_id a message begins a new task"),
        Refusal::Unsupported => Some("a task that has ended takes no more messages; leave task_id out for a new one"),
        Refusal::AgentUnreachable
        | Refusal::Overloaded
        | Refusal::TurnLeft
        | Refusal::StoreStopped
        | Refusal::Redirected { .. }
        | Refusal::TaskMoved { .. }
        | Refusal::DeadlineExceeded => Some("try again later"),
        _ => None,
    };
    let message = match advice {
        Some(advice) => format!("{}. {advice}", error.message.trim_end_matches('.')),
        None => error.message.clone(),
    };
    failure(error.reason(), &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waited_for_a_turn_that_was_left_may_try_again() {
        let left = OperationError { refusal: Refusal::TurnLeft, ..OperationError::busy("its node is being stopped") };
        let told = serde_json::to_value(refused(&left)).expect("a result is JSON");
        assert_eq!(told["content"][0]["text"], "OVERLOADED: its node is being stopped. try again later");
    }
}
