//! Requests to a server over HTTP: where it sends them on to, whether it has sessions, and what becomes of an event that is too
//! long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_execution::tools::RESULT_TOO_LONG;
use futures::{StreamExt as _, TryStream};
use http::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};

use crate::bodies::{OpenRequest, unasked};
use crate::lines::TOO_LONG;

/// Characters of what a server says beside its status.
const SAID_CHARS_MAX: usize = 200;
/// How the library begins to say that a body is no message.
const UNPARSED: &str = "could not parse JSON response";

type Headers = HashMap<HeaderName, HeaderValue>;
/// An event, as the library's stream has it.
type Event = <BoxedSseResponse as TryStream>::Ok;
type Failed = StreamableHttpError<reqwest::Error>;

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
        self.client.post_message(self.behaviour.followed(uri), message, session, token, headers).await
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
        let posted = self.client.post_message_with_max_sse_event_size(uri, message, session, token, headers, bytes_max);
        let posted = posted.await;
        self.behaviour.note(&posted);
        match (posted, asked) {
            (Err(StreamableHttpError::ResponseBodyTooLarge { .. }), Some(asked)) => {
                Ok(StreamableHttpPostResponse::Json(too_long(asked.id), None))
            }
            (Err(StreamableHttpError::UnexpectedServerResponse(said)), Some(asked))
                if asked.is_read_here() && said.starts_with(UNPARSED) =>
            {
                Ok(StreamableHttpPostResponse::Json(asked.unreadable(), None))
            }
            (Ok(StreamableHttpPostResponse::Json(message, session)), Some(asked)) if asked.is_read_here() => {
                Ok(StreamableHttpPostResponse::Json(asked.body(message), session))
            }
            (Ok(StreamableHttpPostResponse::Sse(events, session)), Some(asked)) => {
                Ok(StreamableHttpPostResponse::Sse(read(events, asked), session))
            }
            (posted, _) => posted,
        }
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

/// The events that answer a request, member by member; one that is too long ends them with an error.
fn read(events: BoxedSseResponse, asked: OpenRequest) -> BoxedSseResponse {
    let read = move |event: Result<Event, SseError>| match event {
        Ok(mut event) => {
            event.data = event.data.map(|data| asked.event(data));
            Ok(event)
        }
        Err(SseError::Body(why)) if why.to_string().contains("maximum size") => {
            let told = serde_json::to_string(&too_long(asked.id.clone())).unwrap_or_default();
            Ok(with_data(Event::default(), told))
        }
        Err(error) => Err(error),
    };
    events.map(read).boxed()
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
        _ => "the connection broke off".to_owned(),
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
    use futures::stream;
    use serde_json::{Value, json};

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
}
