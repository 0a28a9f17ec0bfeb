//! ListTasks of an agent that several nodes host: all of them are asked, and where the tasks went that one of them handed over.

use std::collections::BTreeSet;
use std::future::Future;

use a2a::ListTasksResponse;
use althing_call::{OperationError, Refusal, Reply};
use althing_protocol::PublicKey;
use althing_session::listing;

use crate::machine::redirects::MOVES_MAX;

/// Lists the caller's tasks. All hosts must answer: a partial list would look complete. So must whoever has by now what one of
/// them handed over: `page` asks a host, `new_home` checks with what proof a host says that another one has all of them.
///
/// # Errors
/// What a host refused, or answered that is no list, and a proof that is none.
pub async fn all<P, H>(
    mut hosts: Vec<PublicKey>,
    page: impl Fn(PublicKey) -> P,
    new_home: impl Fn(PublicKey, String) -> H,
) -> Result<Reply, OperationError>
where
    P: Future<Output = Result<Reply, OperationError>>,
    H: Future<Output = Result<PublicKey, OperationError>>,
{
    let mut known: BTreeSet<PublicKey> = hosts.iter().copied().collect();
    let mut pages = Vec::new();
    for _ in 0..=MOVES_MAX {
        let asking = hosts.iter().map(|node| page(*node));
        let answers = futures::future::join_all(asking).await;
        let mut homes = Vec::new();
        for (node, answer) in hosts.iter().zip(answers) {
            match answer {
                Ok(reply) => pages.push(read(*node, reply)?),
                Err(error) => match error.refusal {
                    Refusal::TaskMoved { proof } => homes.push(new_home(*node, proof).await?),
                    _ => return Err(error),
                },
            }
        }
        homes.retain(|home| known.insert(*home));
        if homes.is_empty() {
            let merged = listing::merge(pages);
            let json = serde_json::to_vec(&merged).map_err(|error| OperationError::internal(error.to_string()))?;
            return Ok(Reply::One(json));
        }
        hosts = homes;
    }
    Err(OperationError::busy("the tasks moved from host to host while they were listed: try again in a moment"))
}

fn read(node: PublicKey, reply: Reply) -> Result<ListTasksResponse, OperationError> {
    let Reply::One(body) = reply else {
        return Err(OperationError::internal("a list was answered by a stream"));
    };
    let not_a_list = |error| OperationError::invalid_agent_response(format!("{node} gave no list: {error}"));
    serde_json::from_slice(&body).map_err(not_a_list)
}
