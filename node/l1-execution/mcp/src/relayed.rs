//! Calls that are relayed: what the server asks for, how far it is, and its errors go to whoever called.

use althing_execution::relayed::Relayed;
use althing_execution::tools::Fault;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ProgressNotificationParam,
    RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Notifications of progress that wait to be passed on, of all calls to a server.
const TOLD: usize = 64;

/// How far the calls to a server are.
pub(crate) type Told = broadcast::Sender<ProgressNotificationParam>;

pub(crate) fn told() -> Told {
    broadcast::Sender::new(TOLD)
}

/// Calls a tool.
pub(crate) async fn call(
    peer: &Peer<RoleClient>,
    told: &Told,
    mut params: CallToolRequestParams,
    relayed: Relayed,
) -> Result<Value, Fault> {
    let failed = |error: &dyn std::fmt::Display| Fault::Failed(error.to_string());
    params.input_responses = relayed.input_responses.map(|responses| responses.into_iter().collect());
    params.request_state = relayed.request_state;
    let mut news = told.subscribe();
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let sent = sent.map_err(|error| failed(&error))?;
    let token = sent.progress_token.clone();
    let mut unanswered = Unanswered { peer: peer.clone(), request: Some(sent.id.clone()) };
    let answer = sent.await_response();
    tokio::pin!(answer);
    let answered = loop {
        tokio::select! {
            biased;
            news = news.recv() => match news {
                Ok(news) if news.progress_token == token => relayed.progress.tell(progress(&news)).await,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break (&mut answer).await,
            },
            answered = &mut answer => break answered,
        }
    };
    unanswered.request = None;
    match answered {
        Ok(ServerResult::CallToolResult(result)) => serde_json::to_value(&result).map_err(|error| failed(&error)),
        Ok(ServerResult::InputRequiredResult(asked)) => serde_json::to_value(&asked).map_err(|error| failed(&error)),
        Ok(_) => Err(Fault::Failed("it answered with something else than a result of a tool".to_owned())),
        // The caller gets it as it stands.
        Err(ServiceError::McpError(error)) => Ok(json!({ "error": error })),
        Err(error) => Err(failed(&error)),
    }
}

/// How far a call is, without its token, which is the connection's.
fn progress(news: &ProgressNotificationParam) -> Value {
    json!({ "progress": news.progress, "total": news.total, "message": news.message })
}

/// A request that is cancelled when its caller gives it up.
struct Unanswered {
    peer: Peer<RoleClient>,
    request: Option<RequestId>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let (Some(request), Ok(runtime)) = (self.request.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let cancelled = CancelledNotificationParam::new(Some(request), Some("its caller gave it up".to_owned()));
            // The connection may be gone.
            let _ = peer.notify_cancelled(cancelled).await;
        });
    }
}
