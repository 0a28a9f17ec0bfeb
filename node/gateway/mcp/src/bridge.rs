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
use serde_json::Value;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::batch;
use crate::params;

/// How long a connection to the gateway may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest message of either side, bytes: more than the longest answer.
const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Bytes of the pipe between reading lines and passing them on.
const PIPE_BYTES: usize = 64 << 10;
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
    /// The gateway accepts no messages without a token, or with this one.
    #[error("the node's gateway wants a token, and accepts none that it was shown")]
    Unauthorised,
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
    if wants_another(&http, url, token).await {
        return Err(BridgeError::Unauthorised);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_sse_event_size(MESSAGE_BYTES_MAX)
        .reinit_on_expired_session(true);
    if let Some(token) = token {
        config = config.auth_header(token);
    }
    let mut gateway = StreamableHttpClientTransport::with_client(http, config);
    let (messages, passed) = tokio::io::duplex(PIPE_BYTES);
    let (refuse, mut refused) = mpsc::channel(MESSAGES_MAX);
    let mut client =
        AsyncRwTransport::<RoleServer, _, _>::new(messages, output).with_max_line_length(MESSAGE_BYTES_MAX);
    let outcome = tokio::select! {
        outcome = pass(&mut client, &mut gateway, &mut refused) => outcome,
        // The end of the input closes the pipe, which the other side notices.
        never = async {
            sift(BufReader::new(input), passed, refuse).await;
            std::future::pending().await
        } => never,
    };
    // An error means that the session is gone already. One that was never begun whole is not ended in order.
    let _ = tokio::time::timeout(GRACE, gateway.close()).await;
    outcome
}

/// Whether the gateway refuses whoever shows that token. The SDK hides its answer to the first message.
async fn wants_another(http: &reqwest::Client, url: &str, token: Option<&str>) -> bool {
    let mut asking = http.get(url).timeout(CONNECT);
    if let Some(token) = token {
        asking = asking.bearer_auth(token);
    }
    // Whoever does not answer now is asked again by the messages.
    asking.send().await.is_ok_and(|answer| answer.status() == reqwest::StatusCode::UNAUTHORIZED)
}

/// A request, and why the gateway did not take it.
type Untaken = (Option<RequestId>, Option<String>);

/// A message that is not passed on: its id, if that can be read, and the refusal.
struct Fault {
    id: Option<RequestId>,
    error: ErrorData,
}

impl Fault {
    fn of(message: &Value, error: ErrorData) -> Fault {
        Fault { id: serde_json::from_value(batch::id_of(message)).ok(), error }
    }
}

/// Passes lines on, those of a batch one by one, but those that are no messages, of which it says why (JSON-RPC 2.0). The SDK
/// leaves those out without a word, or with one that names no id, and their sender would wait.
async fn sift(mut input: impl AsyncBufRead + Unpin, mut passed: impl AsyncWrite + Unpin, refuse: mpsc::Sender<Fault>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = MESSAGE_BYTES_MAX as u64 + 1;
        match (&mut input).take(most).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let (fit, unread) = if line.len() > MESSAGE_BYTES_MAX {
            if skip_line(&mut input, line.ends_with(b"\n")).await.is_err() {
                return;
            }
            let why = format!("a message has at most {MESSAGE_BYTES_MAX} bytes");
            (Vec::new(), vec![Fault { id: None, error: ErrorData::parse_error(why, None) }])
        } else {
            sorted(&line)
        };
        for one in unread {
            if refuse.send(one).await.is_err() {
                return;
            }
        }
        for message in fit {
            if passed.write_all(&message).await.is_err() {
                return;
            }
        }
    }
}

/// The lines to pass on for a line, and what of it is not passed on.
fn sorted(line: &[u8]) -> (Vec<Vec<u8>>, Vec<Fault>) {
    let (mut fit, mut unread) = (Vec::new(), Vec::new());
    if line.trim_ascii().is_empty() {
        return (fit, unread);
    }
    let messages = match serde_json::from_slice::<Value>(line) {
        Ok(Value::Array(messages)) if messages.is_empty() || messages.len() > batch::MESSAGES_MAX => {
            let why = format!("a batch has 1 to {} messages", batch::MESSAGES_MAX);
            unread.push(Fault { id: None, error: ErrorData::invalid_request(why, None) });
            return (fit, unread);
        }
        Ok(Value::Array(messages)) => messages,
        Ok(message) => vec![message],
        Err(error) => {
            let why = format!("this line is no JSON (column {})", error.column());
            unread.push(Fault { id: None, error: ErrorData::parse_error(why, None) });
            return (fit, unread);
        }
    };
    let is_batch = line.trim_ascii_start().starts_with(b"[");
    for mut message in messages {
        if batch::wrong(&message).is_none() && batch::asks(&message) {
            let refused = if is_batch && message["method"] == "initialize" {
                Some(ErrorData::invalid_request("initialize is sent alone", None))
            } else {
                params::mend(&mut message).err().map(|why| ErrorData::invalid_params(why, None))
            };
            if let Some(error) = refused {
                unread.push(Fault::of(&message, error));
                continue;
            }
        }
        let why = batch::wrong(&message).map(str::to_owned).or_else(|| {
            let is_read = serde_json::from_value::<ClientJsonRpcMessage>(message.clone()).is_ok();
            let method = message["method"].as_str().unwrap_or_default();
            (!is_read).then(|| format!("its members are not those of a message of the method {method:?}"))
        });
        match why {
            None => fit.push([message.to_string().as_bytes(), b"\n"].concat()),
            // A notification has no answer.
            Some(_) if message.get("id").is_none() && message["method"].is_string() => {}
            Some(why) => unread.push(Fault::of(&message, ErrorData::invalid_request(why, None))),
        }
    }
    (fit, unread)
}

/// Leaves the rest of a line out.
async fn skip_line(input: &mut (impl AsyncBufRead + Unpin), ended: bool) -> std::io::Result<()> {
    let mut ended = ended;
    while !ended {
        let waiting = input.fill_buf().await?;
        let (end, length) = match waiting.iter().position(|byte| *byte == b'\n') {
            Some(at) => (true, at + 1),
            None => (waiting.is_empty(), waiting.len()),
        };
        input.consume(length);
        ended = end;
    }
    Ok(())
}

async fn pass<C, G>(client: &mut C, gateway: &mut G, refused: &mut mpsc::Receiver<Fault>) -> Result<(), BridgeError>
where
    C: Transport<RoleServer, Error = std::io::Error>,
    G: Transport<RoleClient>,
{
    let mut sending: JoinSet<Untaken> = JoinSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut closed: Option<Instant> = None;
    loop {
        if closed.is_some() && open.is_empty() && sending.is_empty() {
            while let Ok(unread) = refused.try_recv() {
                client.send(unreadable(unread)).await.map_err(BridgeError::Client)?;
            }
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
            Some(unread) = refused.recv() => {
                client.send(unreadable(unread)).await.map_err(BridgeError::Client)?;
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

fn unreadable(unread: Fault) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(unread.error, unread.id)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is passed on, and what is refused.
    async fn sifted(input: &str) -> (String, Vec<Fault>) {
        let (passed, mut read) = tokio::io::duplex(1 << 16);
        let (refuse, mut refused) = mpsc::channel(100);
        sift(input.as_bytes(), passed, refuse).await;
        let mut lines = String::new();
        read.read_to_string(&mut lines).await.expect("it ends");
        let mut unread = Vec::new();
        while let Some(one) = refused.recv().await {
            unread.push(one);
        }
        (lines, unread)
    }

    #[tokio::test]
    async fn a_line_that_is_no_json_is_refused_and_the_others_go_on() {
        let long = "x".repeat(MESSAGE_BYTES_MAX + 10);
        let ping = |id: u8| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let input = format!("{}\nnot json\n\n{long}\n{}\n{{\"b\":", ping(1), ping(2));
        let (lines, unread) = sifted(&input).await;
        assert_eq!(lines, format!("{}\n{}\n", ping(1), ping(2)));
        let why: Vec<&str> = unread.iter().map(|one| one.error.message.as_ref()).collect();
        assert_eq!(why.len(), 3, "{why:?}");
        assert!(why[0].contains("no JSON") && why[1].contains("at most") && why[2].contains("no JSON"), "{why:?}");
    }

    /// Whoever waits for an id is answered with it.
    #[tokio::test]
    async fn each_message_of_a_batch_is_passed_on_or_refused_with_its_id() {
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"two","method":7},
            {"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":3,"method":"tools/list"}]"#;
        let (lines, unread) = sifted(&format!("{}\n[]\n", batch.replace('\n', ""))).await;
        let methods: Vec<String> = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["method"].as_str().expect("one").to_owned())
            .collect();
        assert_eq!(methods, ["ping", "notifications/initialized", "tools/list"]);
        let ids: Vec<Option<String>> = unread.iter().map(|one| one.id.as_ref().map(ToString::to_string)).collect();
        assert_eq!(ids, [Some("two".to_owned()), None]);
    }

    #[tokio::test]
    async fn initialize_is_sent_alone_and_its_parameters_are_mended() {
        let initialize = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#;
        let nameless = r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{}}"#;
        let (lines, unread) = sifted(&format!("[{initialize}]\n{initialize}\n{nameless}\n")).await;
        let passed: Value = serde_json::from_str(&lines).expect("one line");
        assert!(passed["params"]["clientInfo"].is_object(), "{lines}");
        let told: Vec<String> = unread.iter().map(|one| format!("{:?} {}", one.id, one.error.message)).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains('7') && told[0].ends_with("initialize is sent alone"), "{told:?}");
        assert!(told[1].contains('8') && told[1].contains("`name` is missing"), "{told:?}");
    }
}
