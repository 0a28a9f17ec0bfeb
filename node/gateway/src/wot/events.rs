//! Events over SSE. They have no names: a stock consumer reads only events without one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use althing_calls::{CallRequest, Callee, Operation, OperationError, OperationRequest, Reply};
use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _};
use serde::Deserialize;
use serde_json::json;

use super::bus::{Observer, Told};
use super::{problem, thing};
use crate::Gateway;
use crate::client::Client;

/// A comment is sent on a silent stream this often, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// `GET /things/{agent}/events/agentEvent`.
pub(super) async fn agent_event(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    client: Client,
) -> Response {
    let observing = async {
        let (id, _) = thing::find(&gateway, &agent).await?;
        let id = client.target(&gateway.calls, &Callee::Id(id)).await?.agent;
        Ok(gateway.wot.bus.observe(&id, &client)?)
    };
    match observing.await {
        Ok(observer) => sse(observed(observer)),
        Err(error) => problem::of(&error),
    }
}

/// All events from now on. One counts as kept until the next is asked for, since the client has it by then.
fn observed(observer: Observer) -> impl Stream<Item = Arc<str>> + Send + 'static {
    let read: Option<Told> = None;
    futures::stream::unfold((observer, read), |(observer, _)| async {
        let told = observer.next().await;
        Some((told.text.clone(), (observer, Some(told))))
    })
}

#[derive(Deserialize)]
pub(super) struct Of {
    task: Option<String>,
}

/// `GET /things/{agent}/events/taskUpdate?task=ID`.
pub(super) async fn task_update(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    Query(of): Query<Of>,
    client: Client,
) -> Response {
    match subscribe(&gateway, &agent, of.task, client).await {
        Ok(Reply::Events(events)) => {
            // An error ends the stream: the consumer connects again, and is told why by the status.
            let events = events.take_while(|event| futures::future::ready(event.is_ok())).filter_map(|event| async {
                event.ok().map(|event| Arc::from(String::from_utf8_lossy(&event).as_ref()))
            });
            sse(events)
        }
        Ok(Reply::One(event)) => {
            let event: Arc<str> = Arc::from(String::from_utf8_lossy(&event).as_ref());
            sse(futures::stream::iter([event]))
        }
        Err(error) => problem::of(&error),
    }
}

async fn subscribe(
    gateway: &Gateway,
    agent: &str,
    task: Option<String>,
    client: Client,
) -> Result<Reply, OperationError> {
    let task = task.ok_or_else(|| OperationError::invalid_params("`task` is missing: the id of the task"))?;
    let target = client.target(&gateway.calls, &Callee::near(agent)).await?;
    let params = json!({ "id": task }).to_string().into_bytes();
    let request = OperationRequest::parse(Operation::SubscribeToTask, params)?;
    gateway.calls.ask(CallRequest::new(target, request, vec![client.principal])).await
}

fn sse(events: impl Stream<Item = Arc<str>> + Send + 'static) -> Response {
    let events = events.map(|event| Ok::<Event, Infallible>(Event::default().data(event)));
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
