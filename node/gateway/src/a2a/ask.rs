//! Asks an agent, and streams its events: what every binding of A2A does with a call.

use std::convert::Infallible;
use std::time::Duration;

use althing_calls::{CallRequest, Calls, Operation, OperationError, Reply};
use althing_edge::host;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::BoxStream;
use futures::{FutureExt as _, Stream, StreamExt as _};

use super::card;
use crate::Gateway;

/// A comment is sent on a silent stream this often, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long the first event, or a refusal, is awaited before the stream begins without it.
const FIRST_EVENT_AWAITED: Duration = Duration::from_secs(1);

/// The events of an agent.
pub(crate) type Events = BoxStream<'static, Result<Vec<u8>, OperationError>>;

/// The reply to what a binding read. Cards are the gateway's own to make.
pub(crate) async fn answered(
    gateway: &Gateway,
    headers: &HeaderMap,
    request: Result<CallRequest, OperationError>,
) -> Result<Reply, OperationError> {
    let request = request?;
    if request.operation() == Operation::ExtendedCard {
        return card::extended(gateway, &request.target.agent, host(headers).unwrap_or_default()).await;
    }
    ask(gateway.calls.clone(), request).await
}

/// The reply of an agent. If the first event of a stream takes long, the stream begins without it, so that clients and
/// proxies see that the connection is alive.
async fn ask(calls: Calls, request: CallRequest) -> Result<Reply, OperationError> {
    let streams = request.operation().streams();
    let mut asking = async move { calls.ask(request).await }.boxed();
    if !streams {
        return asking.await;
    }
    match tokio::time::timeout(FIRST_EVENT_AWAITED, &mut asking).await {
        Ok(replied) => replied,
        Err(_) => Ok(Reply::Events(futures::stream::once(asking).flat_map(events).boxed())),
    }
}

fn events(reply: Result<Reply, OperationError>) -> Events {
    match reply {
        Ok(Reply::Events(events)) => events,
        Ok(Reply::One(result)) => futures::stream::iter([Ok(result)]).boxed(),
        Err(error) => futures::stream::iter([Err(error)]).boxed(),
    }
}

/// An answer of server-sent events.
pub(crate) fn event_stream(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Sse::new(events.map(Ok::<Event, Infallible>)).keep_alive(keep_alive).into_response()
}

#[cfg(test)]
mod tests {
    use althing_simnet::{LinkConfig, SimNet};
    use althing_simulations::mesh::{self, Node};
    use serde_json::json;

    use super::*;

    /// A node with an agent that takes 90 s until its answer begins.
    async fn slow() -> (Node, CallRequest) {
        let node = Node::start(&SimNet::new(1, LinkConfig::default()), 1, 100, &[], mesh::store()).await;
        let mut program = mesh::file("program", "does as it is told", "acting.do", "do", "play");
        program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
        let id = node.host(&program).await;
        let ask = mesh::ask(&node.calls, &id, Operation::SendStreamingMessage, &mesh::message("late hello")).await;
        (node, ask.expect("good parameters"))
    }

    /// It is worked on for a while, as the message may come again; and then no more, before the answer would have begun.
    async fn given_up_after_a_while(node: &Node) {
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_eq!(node.hosting.live_tasks(), 1, "it goes on");
        let over = async {
            while node.hosting.live_tasks() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), over).await.expect("it is given up");
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_up_before_the_first_event_and_does_not_come_again_gives_the_answer_up() {
        // Before the stream begins.
        let (node, request) = slow().await;
        let asking = ask(node.calls.clone(), request);
        assert!(tokio::time::timeout(FIRST_EVENT_AWAITED / 2, asking).await.is_err(), "it takes its time");
        given_up_after_a_while(&node).await;
        // And after that.
        let (node, request) = slow().await;
        let answer = ask(node.calls.clone(), request).await;
        assert!(matches!(answer, Ok(Reply::Events(_))), "the stream begins");
        assert_eq!(node.hosting.live_tasks(), 1, "it is worked on");
        drop(answer);
        given_up_after_a_while(&node).await;
    }
}
