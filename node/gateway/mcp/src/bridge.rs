//! A bridge for clients that start their servers as programs: MCP over standard input and output, passed on to the
//! gateway of a running node.

use std::collections::BTreeSet;
use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RoleServer};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// How long a connection to the gateway may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest message of either side, bytes.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Messages that are passed on at one time; more wait in the pipe. The SDK queues as many.
const MESSAGES_MAX: usize = 16;
/// How long answers are awaited once the client has closed its end.
const GRACE: Duration = Duration::from_secs(2);

/// Why a bridge ends before its client closes it.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// No HTTP client can be made.
    #[error("no HTTP client can be made: {0}")]
    Http(#[from] reqwest::Error),
    /// The client does not read its answers.
    #[error("the client closed its end: {0}")]
    Client(std::io::Error),
    /// The gateway ended the conversation.
    #[error("the node's gateway ended the conversation; look whether the node runs: althing status")]
    Gateway,
}

/// Passes messages between a client and the gateway at `url`, until the client closes `input`.
///
/// # Errors
/// See [`BridgeError`].
pub async fn bridge(
    url: &str,
    token: Option<&str>,
    input: impl AsyncRead + Send + Sync + Unpin + 'static,
    output: impl AsyncWrite + Send + Sync + Unpin + 'static,
) -> Result<(), BridgeError> {
    let http = reqwest::Client::builder()
        .no_proxy()
        // The token is for this gateway only.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .build()?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_sse_event_size(MESSAGE_BYTES_MAX)
        .reinit_on_expired_session(true);
    if let Some(token) = token {
        config = config.auth_header(token);
    }
    let mut gateway = StreamableHttpClientTransport::with_client(http, config);
    let mut client = AsyncRwTransport::<RoleServer, _, _>::new(input, output).with_max_line_length(MESSAGE_BYTES_MAX);
    let outcome = pass(&mut client, &mut gateway).await;
    // An error means that the session is gone already. One that was never begun whole is not ended in order.
    let _ = tokio::time::timeout(GRACE, gateway.close()).await;
    outcome
}

/// A request, and why the gateway did not take it.
type Untaken = (Option<RequestId>, Option<String>);

async fn pass<C, G>(client: &mut C, gateway: &mut G) -> Result<(), BridgeError>
where
    C: Transport<RoleServer, Error = std::io::Error>,
    G: Transport<RoleClient>,
{
    let mut sending: JoinSet<Untaken> = JoinSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut closed: Option<Instant> = None;
    loop {
        if closed.is_some() && open.is_empty() && sending.is_empty() {
            return Ok(());
        }
        let at = closed.unwrap_or_else(Instant::now);
        tokio::select! {
            message = client.receive(), if closed.is_none() && sending.len() < MESSAGES_MAX => match message {
                Some(message) => {
                    let id = requested(&message);
                    open.extend(id.as_ref().map(RequestId::to_string));
                    let mut sent = Box::pin(send(gateway.send(message), id));
                    // Queued now, so that messages keep their order.
                    match futures::poll!(&mut sent) {
                        Poll::Ready(sent) => drop(sending.spawn(std::future::ready(sent))),
                        Poll::Pending => drop(sending.spawn(sent)),
                    }
                }
                None => closed = Some(Instant::now() + GRACE),
            },
            message = gateway.receive() => {
                let message = message.ok_or(BridgeError::Gateway)?;
                open.remove(&answered(&message).map(|id| id.to_string()).unwrap_or_default());
                client.send(message).await.map_err(BridgeError::Client)?;
            }
            Some(sent) = sending.join_next() => {
                if let Ok((Some(id), Some(why))) = sent {
                    open.remove(&id.to_string());
                    let refused = ServerJsonRpcMessage::error(ErrorData::internal_error(why, None), Some(id));
                    client.send(refused).await.map_err(BridgeError::Client)?;
                }
            }
            () = sleep_until(at), if closed.is_some() => return Ok(()),
        }
    }
}

async fn send<E: std::error::Error>(
    sending: impl Future<Output = Result<(), E>> + Send,
    id: Option<RequestId>,
) -> Untaken {
    let why = sending.await.err();
    let why =
        why.map(|why| format!("the node's gateway did not answer; look whether the node runs (althing status): {why}"));
    (id, why)
}

fn requested(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn answered(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        _ => None,
    }
}
