//! The pages of a list of tasks, one of each host of an agent.

use a2a::ListTasksResponse;
use althing_call::{OperationError, Refusal, Reply};
use althing_protocol::PublicKey;
use althing_session::listing;

/// What a host answered; none of one that has no tasks.
///
/// # Errors
/// It gave no list.
pub fn read(node: PublicKey, page: Result<Reply, OperationError>) -> Result<Option<ListTasksResponse>, OperationError> {
    let body = match page {
        Ok(Reply::One(body)) => body,
        Ok(Reply::Events(_)) => return Err(OperationError::internal("a list was answered by a stream")),
        // It handed all of them over, to a host that is asked as well.
        Err(error) if matches!(error.refusal, Refusal::TaskMoved { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let not_a_list = |error| OperationError::invalid_agent_response(format!("{node} gave no list: {error}"));
    serde_json::from_slice(&body).map(Some).map_err(not_a_list)
}

/// One list of all of them.
///
/// # Errors
/// It cannot be written as JSON.
pub fn merge(pages: Vec<Option<ListTasksResponse>>) -> Result<Reply, OperationError> {
    let merged = listing::merge(pages.into_iter().flatten().collect());
    let json = serde_json::to_vec(&merged).map_err(|error| OperationError::internal(error.to_string()))?;
    Ok(Reply::One(json))
}
