//! Requests to a server over HTTP: where it sends them on to, whether it has sessions, and what becomes of an answer that is none.

use std::sync::{Arc, Mutex, MutexGuard};

use althing_execution::tools::RESULT_TOO_LONG;
use futures::{StreamExt as _, stream};
use reqwest::redirect::Policy;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::Value;

use crate::bodies::{Meaning, OpenRequest, unasked};
use crate::lines::{MESSAGE_BYTES_MAX, TOO_LONG};
use crate::machine::greeting::UNREADABLE;
use crate::posting::{self, Event, Failed, Headers, Post, Reply, is_json};

/// Characters of what a server says beside its status.
const SAID_CHARS_MAX: usize = 200;
/// What is said of a connection of which nothing else is known.
pub const BROKEN_OFF: &str = "the connection broke off";
/// What is said where the first question has no answer.
const NO_ANSWER: &str = "it ended before it answered";

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
            JsonRpcMessage::Request(request) => {
                Some(OpenRequest { method: request.request.method().to_owned(), id: request.id.clone() })
            }
            _ => None,
        };
        let uri = self.behaviour.followed(uri);
        let replied = posting::send(&self.client, Post { uri, message, session, token, headers, bytes_max }).await;
        let posted = match asked {
            Some(asked) => {
                let is_final = self.behaviour.refused().is_some() || replied.as_ref().is_err_and(is_final);
                match answered(replied, &asked) {
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
        self.client.get_stream(self.behaviour.followed(uri), session, last, token, headers).await
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
        let uri = self.behaviour.followed(uri);
        let events = self.client.get_stream_with_max_sse_event_size(uri, session, last, token, headers, bytes_max);
        let read = |event: Result<Event, SseError>| {
            event.map(|mut event| {
                event.data = event.data.map(unasked);
                event
            })
        };
        Ok(events.await?.map(read).boxed())
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

/// What a request is answered with.
fn answered(replied: Result<Reply, Failed>, asked: &OpenRequest) -> Result<StreamableHttpPostResponse, Failed> {
    let (status, kind, body, session) = match replied {
        Ok(Reply::Body { status, kind, body, session }) => (status, kind, body, session),
        Ok(Reply::Events(events, session)) => {
            return Ok(StreamableHttpPostResponse::Sse(read(events, asked.clone()), session));
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

/// The events that answer a request, member by member; one that is too long ends them with an error.
fn read(events: BoxedSseResponse, asked: OpenRequest) -> BoxedSseResponse {
    let mut reading = AnswerStream { asked, unaddressed: None, is_answered: false, goes_on: false };
    let all = events.map(Some).chain(stream::once(std::future::ready(None)));
    all.flat_map(move |event| stream::iter(reading.take(event))).boxed()
}

/// A stream that answers a request.
struct AnswerStream {
    asked: OpenRequest,
    /// An error that does not say of what: the answer, if no other comes.
    unaddressed: Option<Value>,
    is_answered: bool,
    /// Whether another stream may go on where this one ends.
    goes_on: bool,
}

impl AnswerStream {
    /// The next that came, or the end.
    fn take(&mut self, event: Option<Result<Event, SseError>>) -> Vec<Result<Event, SseError>> {
        match event {
            Some(Ok(event)) => self.said(event),
            Some(Err(SseError::Body(why))) if why.to_string().contains("maximum size") => {
                self.is_answered = true;
                let told = serde_json::to_string(&too_long(self.asked.id.clone())).unwrap_or_default();
                vec![Ok(with_data(Event::default(), told))]
            }
            Some(Err(_)) if self.asked.is_probe() && !self.is_answered => Vec::new(),
            Some(Err(error)) => vec![Err(error)],
            None => self.ended(),
        }
    }

    fn said(&mut self, mut event: Event) -> Vec<Result<Event, SseError>> {
        self.goes_on |= event.id.is_some();
        let mut told = Vec::new();
        for said in event.data.take().map(|data| self.asked.event(&data)).unwrap_or_default() {
            match said {
                Meaning::Answer(answer) => {
                    self.is_answered = true;
                    told.push(answer);
                }
                Meaning::Beside(message) => told.push(message),
                Meaning::Unaddressed(error) => self.unaddressed = Some(error),
                Meaning::Foreign => {}
            }
        }
        // What else an event says counts once, also without data.
        let mut all: Vec<Result<Event, SseError>> = Vec::new();
        for message in told {
            all.push(Ok(with_data(std::mem::take(&mut event), message.to_string())));
        }
        if all.is_empty() {
            all.push(Ok(event));
        }
        all
    }

    fn ended(&mut self) -> Vec<Result<Event, SseError>> {
        // The first question is not asked for on another stream.
        if self.is_answered || (self.goes_on && !self.asked.is_first()) {
            return Vec::new();
        }
        let no_answer = self.asked.is_first().then(|| self.asked.error(NO_ANSWER));
        let told = self.unaddressed.take().or(no_answer);
        told.map(|told| Ok(with_data(Event::default(), told.to_string()))).into_iter().collect()
    }
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
        StreamableHttpError::Client(error) if error.is_timeout() => "it did not answer in time".to_owned(),
        _ => BROKEN_OFF.to_owned(),
    }
}

fn with_data(mut event: Event, data: String) -> Event {
    event.data = Some(data);
    event
}

fn too_long(id: RequestId) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(TOO_LONG, RESULT_TOO_LONG, None), Some(id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked() -> OpenRequest {
        OpenRequest { method: "tools/call".to_owned(), id: RequestId::Number(4) }
    }

    #[tokio::test]
    async fn an_event_that_is_too_long_is_told_to_whoever_waits_for_it() {
        let why = std::io::Error::other("SSE event exceeded the maximum size of 7 bytes");
        let failed = stream::iter([Err(SseError::Body(why.into()))]).boxed();
        let mut events = read(failed, asked());
        let event = events.next().await.expect("an event").expect("no failure");
        let told: Value = serde_json::from_str(&event.data.expect("data")).expect("JSON");
        assert_eq!((&told["id"], &told["error"]["message"]), (&json!(4), &json!(RESULT_TOO_LONG)));
        let broken = stream::iter([Err(SseError::InvalidLine)]).boxed();
        assert!(read(broken, asked()).next().await.is_some_and(|event| event.is_err()));
    }

    /// The data of events, as they are read for a request of this method.
    async fn read_of(method: &str, data: &[&str]) -> Vec<Value> {
        let events: Vec<_> = data.iter().map(|data| Ok(with_data(Event::default(), (*data).to_owned()))).collect();
        let asked = OpenRequest { method: method.to_owned(), id: RequestId::Number(4) };
        let events = read(stream::iter(events).boxed(), asked);
        let read = events.filter_map(|event| std::future::ready(event.expect("no failure").data));
        read.map(|data| serde_json::from_str(&data).expect("JSON")).collect().await
    }

    #[tokio::test]
    async fn noise_and_answers_to_others_are_passed_over_and_an_error_of_nothing_is_the_answer_if_none_else_comes() {
        let unaddressed = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#;
        let foreign = r#"{"jsonrpc":"2.0","id":"x","result":{}}"#;
        let noise = ["{}", "null", "hello", r#"{"level":"info"}"#, "", unaddressed, foreign];
        for method in ["initialize", "server/discover", "tools/call"] {
            let error = r#"{"jsonrpc":"2.0","id":4,"error":{"code":-7,"message":"mine"}}"#;
            let told = read_of(method, &[&noise[..], &[error]].concat()).await;
            assert_eq!((told.len(), &told[0]["error"]["code"]), (1, &json!(-7)), "{method}");
            let told = read_of(method, &noise).await;
            assert_eq!((told.len(), &told[0]["id"], &told[0]["error"]["code"]), (1, &json!(4), &json!(-1)), "{method}");
        }
        let told = read_of("server/discover", &["{}"]).await;
        assert_eq!(told[0]["error"]["code"], -32_601, "the server may speak an earlier version");
        assert_eq!(read_of("tools/call", &["{}"]).await, Vec::<Value>::new());
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
                let read = answered(replied(200, kind, body), &asked());
                let Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Response(response), _)) = read else {
                    panic!("{kind:?} {body}")
                };
                assert_eq!(response.id, RequestId::Number(4));
            }
        }
        let error = r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-1,"message":"no"}}"#;
        for body in [error.to_owned(), error.replace(r#""server-error""#, "null")] {
            let told = answered(replied(400, Some("application/json"), &body), &asked());
            assert!(matches!(told, Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(it), _))
                if it.id == Some(RequestId::Number(4)) && it.error.code.0 == -1));
        }
        for (status, kind, body, says) in [
            (200, Some("text/html"), "<p>", "text/html"),
            (500, Some("text/html"), "<p>", "HTTP 500"),
            (401, None, "no", "HTTP 401"),
        ] {
            let failed = answered(replied(status, kind, body), &asked()).expect_err(says);
            assert!(why(&failed).contains(says), "{}", why(&failed));
            assert_eq!(is_final(&failed), status == 401, "{says}");
        }
    }
}
