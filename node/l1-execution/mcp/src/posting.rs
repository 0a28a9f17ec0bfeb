//! One request of HTTP to a server, and what came back, whatever the server says that it is: a stream of events, or a whole body.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{Stream, StreamExt as _, TryStream, stream};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::Response;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpError,
};

use crate::machine::events::{Events, StreamEvent};

/// Bytes of the body of an answer that refuses.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";

pub type Headers = HashMap<HeaderName, HeaderValue>;
/// An event, as the library's stream has it.
pub type Event = <BoxedSseResponse as TryStream>::Ok;
pub type Failed = StreamableHttpError<reqwest::Error>;

/// A message that is sent, and as what.
pub struct Post {
    pub uri: Arc<str>,
    pub message: ClientJsonRpcMessage,
    pub session: Option<Arc<str>>,
    pub token: Option<String>,
    pub headers: Headers,
    /// Of an event, or of a body.
    pub bytes_max: usize,
}

/// What came back.
pub enum Reply {
    /// Nothing but that it was taken (HTTP 202, 204).
    Accepted,
    Events(BoxedSseResponse, Option<String>),
    Body {
        status: StatusCode,
        /// Its type, as the server says.
        kind: Option<String>,
        body: Vec<u8>,
        session: Option<String>,
    },
}

/// Whether this is the type of JSON.
pub fn is_json(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| kind.starts_with(JSON))
}

/// Sends a message.
///
/// # Errors
/// It was not sent, or not answered; the server wants a secret, or ended the session, or its body is too long.
pub async fn send(client: &reqwest::Client, post: Post) -> Result<Reply, Failed> {
    let Post { uri, message, session, token, headers, bytes_max } = post;
    let mut request = client.post(uri.as_ref()).header(ACCEPT, format!("{EVENTS}, {JSON}"));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let has_session = session.is_some();
    if let Some(session) = session {
        request = request.header(SESSION, session.as_ref());
    }
    let response = request.json(&message).send().await.map_err(StreamableHttpError::Client)?;
    if let Some(refused) = refusal(&response, has_session) {
        return Err(refused);
    }
    let status = response.status();
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(Reply::Accepted);
    }
    let (kind, session) = (header(&response, CONTENT_TYPE), header(&response, HeaderName::from_static(SESSION)));
    if status.is_success() && kind.as_deref().is_some_and(|kind| kind.starts_with(EVENTS)) {
        return Ok(Reply::Events(events(response.bytes_stream(), bytes_max), session));
    }
    let most = if status.is_success() { bytes_max } else { REFUSAL_BYTES_MAX };
    let body = match whole(response, most).await {
        // What refuses does so whatever else it says.
        Err(_) if !status.is_success() => Vec::new(),
        body => body?,
    };
    Ok(Reply::Body { status, kind, body, session })
}

/// What a status says by itself.
fn refusal(response: &Response, has_session: bool) -> Option<Failed> {
    let challenge = || header(response, WWW_AUTHENTICATE);
    match response.status() {
        StatusCode::UNAUTHORIZED => challenge().map(AuthRequiredError::new).map(StreamableHttpError::AuthRequired),
        StatusCode::FORBIDDEN => challenge()
            .map(|challenge| StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None))),
        StatusCode::NOT_FOUND if has_session => Some(StreamableHttpError::SessionExpired),
        status @ StatusCode::TOO_MANY_REQUESTS => {
            Some(HttpStatusError::new(status.as_u16(), header(response, RETRY_AFTER)).into())
        }
        _ => None,
    }
}

fn header(response: &Response, name: HeaderName) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

async fn whole(mut response: Response, most: usize) -> Result<Vec<u8>, Failed> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(StreamableHttpError::Client)? {
        if body.len() + piece.len() > most {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: most });
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The events of a stream. One that is too long ends it with an error, as the library's does.
pub fn events<B, E>(pieces: impl Stream<Item = Result<B, E>> + Send + 'static, bytes_max: usize) -> BoxedSseResponse
where
    B: AsRef<[u8]> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let mut events = Some(Events::new(bytes_max));
    let read = move |piece: Option<Result<B, E>>| {
        let mut all: Vec<Result<Event, SseError>> = Vec::new();
        let Some(reading) = events.as_mut() else { return stream::iter(all) };
        match piece {
            Some(Ok(piece)) => match reading.pass(piece.as_ref()) {
                Ok(told) => all.extend(told.into_iter().map(|told| Ok(told_as(Event::default(), told)))),
                Err(_) => {
                    let why = format!("SSE event exceeded the maximum size of {bytes_max} bytes");
                    all.push(Err(SseError::Body(why.into())));
                    events = None;
                }
            },
            Some(Err(error)) => {
                all.push(Err(SseError::Body(Box::new(error))));
                events = None;
            }
            None => all.extend(reading.end().map(|told| Ok(told_as(Event::default(), told)))),
        }
        stream::iter(all)
    };
    pieces.map(Some).chain(stream::once(std::future::ready(None))).flat_map(read).boxed()
}

fn told_as(mut event: Event, told: StreamEvent) -> Event {
    event.event = told.event;
    event.data = told.data;
    event.id = told.id;
    event.retry = told.retry;
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_gives_its_events_in_spite_of_what_stands_between_and_ends_at_one_that_is_too_long() {
        let piece = |text: &'static str| Ok::<_, std::io::Error>(text.as_bytes());
        let pieces = stream::iter([piece("retry: soon\nodd\ndata: a\n\nda"), piece("ta: b")]);
        let all: Vec<Event> = events(pieces, 64).map(|event| event.expect("an event")).collect().await;
        let data: Vec<Option<&str>> = all.iter().map(|event| event.data.as_deref()).collect();
        assert_eq!(data, [Some("a"), Some("b")]);
        let pieces = stream::iter([piece("data: a\n\ndata: abcdefghij"), piece("\n\ndata: b\n\n")]);
        let all: Vec<Result<Event, SseError>> = events(pieces, 12).collect().await;
        assert!(matches!(all.as_slice(), [Err(SseError::Body(_))]), "{all:?}");
    }
}
