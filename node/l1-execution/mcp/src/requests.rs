//! Requests to a server over HTTP: where it sends them on to, whether it has sessions, and what becomes of an answer that is none.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use reqwest::redirect::Policy;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use tokio::time::{Instant, timeout_at};

use crate::answer_stream::{read, with_data};
use crate::bodies::{OpenRequest, unasked};
use crate::lines::MESSAGE_BYTES_MAX;
use crate::machine::greeting::UNREADABLE;
use crate::machine::line::too_long;
use crate::posting::{self, DeadEnds, Destination, Event, Failed, Headers, Reply, is_json};

/// Characters of what a server says beside its status.
const SAID_CHARS_MAX: usize = 200;
/// What is said of a connection of which nothing else is known.
pub const BROKEN_OFF: &str = "the connection broke off";
/// How long a server may take for the question of the newest version, before it is asked as an earlier one is: as long as can be, for
/// servers that start when they are asked. The library goes on after 10 s, and over HTTP its next question waits for this answer.
pub const PROBE: Duration = Duration::from_secs(8);
/// What is said of a server that says nothing.
pub const SILENT: &str = "it did not answer in time";

/// How a server behaves to the requests of one connection. One redirect with the same method and body (307, 308) is followed, if it leads to
/// the same scheme, host and port, and kept; all others are told.
#[derive(Debug, Default)]
pub struct Behaviour(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    kept: Option<Arc<str>>,
    refused: Option<String>,
    has_session: bool,
    is_over: bool,
}

impl Behaviour {
    /// What a client does with a redirect.
    pub fn policy(behaviour: &Arc<Behaviour>) -> Policy {
        let behaviour = behaviour.clone();
        Policy::custom(move |attempt| {
            let (to, before) = (attempt.url().clone(), attempt.previous().to_vec());
            let keeps_body = matches!(attempt.status().as_u16(), 307 | 308);
            let is_own = before.first().is_some_and(|from| from.origin() == to.origin());
            let mut seen = behaviour.lock();
            if keeps_body && is_own && before.len() == 1 {
                seen.kept = Some(to.as_str().into());
                attempt.follow()
            } else {
                seen.refused = Some(to.into());
                attempt.stop()
            }
        })
    }

    /// Where it sent a request that was not sent there.
    pub fn refused(&self) -> Option<String> {
        self.lock().refused.clone()
    }

    /// Whether the server gave the connection a session, in which it can ask its client for something.
    pub fn has_session(&self) -> bool {
        self.lock().has_session
    }

    /// Whether the server ended that session: it knows it no more (HTTP 404).
    pub fn is_over(&self) -> bool {
        self.lock().is_over
    }

    fn note(&self, posted: &Result<StreamableHttpPostResponse, Failed>) {
        match posted {
            Ok(StreamableHttpPostResponse::Json(_, Some(_)) | StreamableHttpPostResponse::Sse(_, Some(_))) => {
                self.lock().has_session = true;
            }
            Err(StreamableHttpError::SessionExpired) => self.lock().is_over = true,
            _ => {}
        }
    }

    /// Where a request for this address goes.
    fn followed(&self, uri: Arc<str>) -> Arc<str> {
        self.lock().kept.clone().unwrap_or(uri)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("no holder of a server's behaviour panics")
    }
}

/// The requests of one connection.
#[derive(Clone)]
pub struct Requests {
    pub client: reqwest::Client,
    pub behaviour: Arc<Behaviour>,
    pub dead_ends: Arc<DeadEnds>,
    /// Whom they go to, for the log.
    pub server: Arc<str>,
    /// See [`PROBE`].
    pub probe: Duration,
}

impl StreamableHttpClient for Requests {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let bytes_max = MESSAGE_BYTES_MAX;
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, bytes_max).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        bytes_max: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(OpenRequest {
                method: request.request.method().to_owned(),
                id: request.id.clone(),
                server: self.server.clone(),
            }),
            _ => None,
        };
        let until = asked.as_ref().filter(|asked| asked.is_probe()).map(|_| Instant::now() + self.probe);
        let to = Destination { uri: self.behaviour.followed(uri), session, token, headers, bytes_max };
        let sending = Box::pin(posting::send(&self.client, to, message));
        let replied = match until {
            Some(until) => timeout_at(until, sending).await.unwrap_or(Err(StreamableHttpError::ControlRequestTimeout)),
            None => sending.await,
        };
        let posted = match asked {
            Some(asked) => {
                let is_final = self.behaviour.refused().is_some() || replied.as_ref().is_err_and(is_final);
                match answered(replied, &asked, until) {
                    Err(failed) if asked.is_probe() && !is_final && !is_denied(&failed) => {
                        Ok(StreamableHttpPostResponse::Json(asked.unreadable(&why(&failed)), None))
                    }
                    posted => posted,
                }
            }
            None => replied.and_then(taken),
        };
        self.behaviour.note(&posted);
        posted
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failed> {
        self.client.delete_session(self.behaviour.followed(uri), session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, Failed> {
        self.get_stream_with_max_sse_event_size(uri, session, last, token, headers, MESSAGE_BYTES_MAX).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
        bytes_max: usize,
    ) -> Result<BoxedSseResponse, Failed> {
        let to = Destination { uri: self.behaviour.followed(uri), session, token, headers, bytes_max };
        let read = |event: Result<Event, SseError>| {
            event.map(|mut event| {
                event.data = event.data.map(unasked);
                event
            })
        };
        Ok(posting::get(&self.client, to, last, &self.dead_ends).await?.map(read).boxed())
    }
}

/// Whether nothing else that is asked there would be answered otherwise: nobody is there, or wants a secret.
pub fn is_final(failed: &Failed) -> bool {
    match failed {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => true,
        StreamableHttpError::Client(error) => error.is_connect(),
        failed => is_denied(failed),
    }
}

/// Whether a server refuses whoever asks, without saying what it wants.
fn is_denied(failed: &Failed) -> bool {
    matches!(failed, StreamableHttpError::UnexpectedServerResponse(said)
        if said.starts_with("HTTP 401") || said.starts_with("HTTP 403"))
}

/// What a message becomes that is no request: nothing is to be read of what comes back.
fn taken(reply: Reply) -> Result<StreamableHttpPostResponse, Failed> {
    match reply {
        Reply::Body { status, body, .. } if !status.is_success() => Err(unexpected(status, &body)),
        Reply::Accepted | Reply::Events(..) | Reply::Body { .. } => Ok(StreamableHttpPostResponse::Accepted),
    }
}

/// What a request is answered with; what comes after `until` is not waited for.
fn answered(
    replied: Result<Reply, Failed>,
    asked: &OpenRequest,
    until: Option<Instant>,
) -> Result<StreamableHttpPostResponse, Failed> {
    let (status, kind, body, session) = match replied {
        Ok(Reply::Body { status, kind, body, session }) => (status, kind, body, session),
        Ok(Reply::Events(events, session)) => {
            return Ok(StreamableHttpPostResponse::Sse(read(events, asked.clone(), until), session));
        }
        Ok(Reply::Accepted) if asked.is_first() => {
            return Ok(StreamableHttpPostResponse::Json(asked.unreadable("it answered with nothing"), None));
        }
        Ok(Reply::Accepted) => return Ok(StreamableHttpPostResponse::Accepted),
        Err(StreamableHttpError::ResponseBodyTooLarge { .. }) => {
            return Ok(StreamableHttpPostResponse::Json(too_long(asked.id.clone()), None));
        }
        Err(failed) => return Err(failed),
    };
    if !status.is_success() {
        let told = asked.refusal(&body).filter(|_| !matches!(status.as_u16(), 401 | 403));
        let told = told.ok_or_else(|| unexpected(status, &body))?;
        return Ok(StreamableHttpPostResponse::Json(asked.typed(told), session));
    }
    match asked.body(&body) {
        Some(mut all) if all.len() == 1 => Ok(StreamableHttpPostResponse::Json(asked.typed(all.remove(0)), session)),
        Some(all) => {
            let all = all.into_iter().map(|message| Ok(with_data(Event::default(), message.to_string())));
            Ok(StreamableHttpPostResponse::Sse(stream::iter(all.collect::<Vec<_>>()).boxed(), session))
        }
        None if is_json(kind.as_deref()) && asked.is_read_here() => {
            Ok(StreamableHttpPostResponse::Json(asked.unreadable(UNREADABLE), None))
        }
        None if is_json(kind.as_deref()) => {
            Err(StreamableHttpError::UnexpectedServerResponse("its body is no message".into()))
        }
        None => Err(StreamableHttpError::UnexpectedContentType(kind)),
    }
}

/// A status that refuses, with what is said beside it.
fn unexpected(status: reqwest::StatusCode, body: &[u8]) -> Failed {
    if status.is_server_error() {
        return HttpStatusError::new(status.as_u16(), None).into();
    }
    let body = String::from_utf8_lossy(body);
    StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {body}").into())
}

/// Why a connection failed, in words.
pub fn why(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let Some(error) = error.downcast_ref::<Failed>() else { return "the connection failed".to_owned() };
    match error {
        StreamableHttpError::AuthRequired(_) => "it wants a secret (HTTP 401)".to_owned(),
        StreamableHttpError::InsufficientScope(_) => "its secret does not permit this (HTTP 403)".to_owned(),
        StreamableHttpError::HttpStatus(status) => format!("it answered with HTTP {}", status.status),
        StreamableHttpError::UnexpectedServerResponse(said) if said.starts_with("HTTP ") => {
            let said: String = said.chars().filter(|c| !c.is_control()).take(SAID_CHARS_MAX).collect();
            format!("it answered with {said}")
        }
        StreamableHttpError::UnexpectedContentType(Some(kind)) => format!("it answered with {kind:?}, which is no MCP"),
        StreamableHttpError::UnexpectedContentType(None) | StreamableHttpError::UnexpectedServerResponse(_) => {
            "it answered with something that is no MCP".to_owned()
        }
        StreamableHttpError::SessionExpired => "its session is over".to_owned(),
        StreamableHttpError::Client(error) if error.is_connect() => "nobody answers there".to_owned(),
        StreamableHttpError::ControlRequestTimeout => SILENT.to_owned(),
        StreamableHttpError::Client(error) if error.is_timeout() => SILENT.to_owned(),
        _ => BROKEN_OFF.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{
        ClientNotification, ClientRequest, DiscoverRequest, DiscoverRequestParams, InitializedNotification, RequestId,
    };
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;
    use crate::machine::line::NO_ANSWER;

    /// How long a test waits for what should come at once.
    const SOON: Duration = Duration::from_secs(20);

    fn asked() -> OpenRequest {
        OpenRequest { method: "tools/call".to_owned(), id: RequestId::Number(4), server: "stub".into() }
    }

    /// Reads a request; gives its head.
    async fn heard(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? <= 2 {
                break;
            }
            let line = line.to_ascii_lowercase();
            length = line.strip_prefix("content-length:").and_then(|said| said.trim().parse().ok()).unwrap_or(length);
            head += &line;
        }
        stream.read_exact(&mut vec![0; length]).await?;
        Ok(head)
    }

    /// A server that answers each request with this, and then breaks off, or says nothing more; and the heads of the requests.
    async fn server(says: &'static str, breaks_off: bool) -> (Arc<str>, Arc<Mutex<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let heads = Arc::<Mutex<String>>::default();
        let of_all = heads.clone();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = BufReader::new(stream);
                let Ok(head) = heard(&mut stream).await else { continue };
                *of_all.lock().expect("nobody panics with it") += &head;
                let _ = stream.write_all(says.as_bytes()).await;
                let _ = stream.flush().await;
                if !breaks_off {
                    open.push(stream);
                }
            }
        });
        (url.into(), heads)
    }

    fn requests() -> Requests {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let probe = Duration::from_millis(50);
        Requests { client, behaviour: Arc::default(), dead_ends: Arc::default(), server: "stub".into(), probe }
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_the_question_of_the_newest_version_is_asked_another() {
        for says in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
            "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream\r\n\r\n: ping\n\n",
        ] {
            let probe = ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}));
            let probe = JsonRpcMessage::request(probe, RequestId::Number(4));
            let ((uri, _), requests) = (server(says, false).await, requests());
            let posted = timeout(SOON, requests.post_message(uri, probe, None, None, Headers::new()));
            let posted = posted.await.expect("it is not waited for").expect("an answer stands for it");
            let posted = timeout(SOON, posted.expect_initialized::<reqwest::Error>());
            let (message, _) = posted.await.expect("it is not waited for").expect("an answer stands for it");
            let JsonRpcMessage::Error(told) = message else { panic!("{says:?}: no error") };
            assert_eq!((told.id, told.error.code), (Some(RequestId::Number(4)), NO_ANSWER), "{says:?}");
        }
    }

    #[tokio::test]
    async fn what_is_said_to_a_notification_is_not_waited_for() {
        let says = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
        let ((uri, _), requests) = (server(says, false).await, requests());
        let notice = InitializedNotification { method: Default::default(), extensions: Default::default() };
        let notice = JsonRpcMessage::notification(ClientNotification::InitializedNotification(notice));
        let posted = timeout(SOON, requests.post_message(uri, notice, None, None, Headers::new()));
        let posted = posted.await.expect("it is not waited for").expect("it is taken");
        assert!(matches!(posted, StreamableHttpPostResponse::Accepted), "{posted:?}");
    }

    #[tokio::test]
    async fn a_stream_is_read_in_spite_of_odd_lines_and_one_that_breaks_off_ends() {
        let says = "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream\r\nContent-Length: 999\r\n\r\nretry: 5s\nodd\n\
                    event: x\nevent: message\nid: 8\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n\
                    id: 9\ndata: {\"jsonrpc\"";
        let ((uri, heads), requests) = (server(says, true).await, requests());
        let (session, last, token) = (Some("s-1".into()), Some("7".to_owned()), Some("hush".to_owned()));
        let events = requests.get_stream(uri, session, last, token, Headers::new()).await.expect("a stream");
        let all: Vec<Result<Event, SseError>> = timeout(SOON, events.collect()).await.expect("it ends");
        let [Ok(event)] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((event.id.as_deref(), event.retry), (Some("8"), None));
        assert!(event.data.as_ref().is_some_and(|data| data.contains("notifications/x")), "{event:?}");
        let heads = heads.lock().expect("nobody panics with it").clone();
        for said in
            ["get /mcp ", "last-event-id: 7", "mcp-session-id: s-1", "authorization: bearer hush", "text/event-stream"]
        {
            assert!(heads.contains(said), "{said}: {heads}");
        }
    }

    #[tokio::test]
    async fn a_server_without_a_stream_says_why() {
        for (says, told) in [
            ("405 No\r\n", "ServerDoesNotSupportSse"),
            ("401 No\r\nWWW-Authenticate: Bearer\r\n", "AuthRequired("),
            ("403 No\r\nWWW-Authenticate: Bearer\r\n", "InsufficientScope("),
            ("429 No\r\nRetry-After: 7\r\n", "HttpStatus("),
            ("503 No\r\n", "HttpStatus("),
            ("404 No\r\n", "Client("),
            ("200 OK\r\nContent-Type: text/html\r\n", "UnexpectedContentType(Some(\"text/html\"))"),
        ] {
            let whole: &'static str = format!("HTTP/1.1 {says}Content-Length: 0\r\n\r\n").leak();
            let ((uri, _), requests) = (server(whole, true).await, requests());
            let refused = requests.get_stream(uri, Some("s-1".into()), None, None, Headers::new()).await;
            let failed = format!("{:?}", refused.err().expect("it has no stream"));
            assert!(failed.starts_with(told), "{says}: {failed}");
        }
    }

    fn replied(status: u16, kind: Option<&str>, body: &str) -> Result<Reply, Failed> {
        let status = reqwest::StatusCode::from_u16(status).expect("a status");
        let (kind, body) = (kind.map(str::to_owned), body.as_bytes().to_vec());
        Ok(Reply::Body { status, kind, body, session: None })
    }

    #[test]
    fn an_answer_is_read_whatever_its_type_and_what_is_none_says_what_it_was() {
        let answer = r#"{"jsonrpc":"2.0","id":4,"result":{"content":[]}}"#;
        let marked = format!("\u{feff}{answer}");
        for kind in [None, Some("text/plain"), Some("application/json")] {
            for body in [answer, marked.as_str(), &format!("[{answer}]")] {
                let read = answered(replied(200, kind, body), &asked(), None);
                let Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Response(response), _)) = read else {
                    panic!("{kind:?} {body}")
                };
                assert_eq!(response.id, RequestId::Number(4));
            }
        }
        let error = r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-1,"message":"no"}}"#;
        for body in [error.to_owned(), error.replace(r#""server-error""#, "null")] {
            let told = answered(replied(400, Some("application/json"), &body), &asked(), None);
            assert!(matches!(told, Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(it), _))
                if it.id == Some(RequestId::Number(4)) && it.error.code.0 == -1));
        }
        for (status, kind, body, says) in [
            (200, Some("text/html"), "<p>", "text/html"),
            (500, Some("text/html"), "<p>", "HTTP 500"),
            (401, None, "no", "HTTP 401"),
        ] {
            let failed = answered(replied(status, kind, body), &asked(), None).expect_err(says);
            assert!(why(&failed).contains(says), "{}", why(&failed));
            assert_eq!(is_final(&failed), status == 401, "{says}");
        }
    }
}
