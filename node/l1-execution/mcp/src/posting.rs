//! One request of HTTP to a server, and what came back, whatever the server says that it is: a stream of events, or a whole body.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_execution::sse::{self, TooLong};
use futures::{Stream, StreamExt as _, TryStream, stream};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use reqwest::{RequestBuilder, Response};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpError,
};

use crate::machine::stream_body::StreamBody;

/// Bytes of the body of an answer that refuses.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// The shortest time after which a stream is asked for again, whatever its server says: milliseconds.
const RETRY_MS_MIN: u64 = 100;
/// Dead ends of one connection that are known at one time.
const DEAD_ENDS_MAX: usize = 16;
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";

pub type Headers = HashMap<HeaderName, HeaderValue>;
/// An event, as the library's stream has it.
pub type Event = <BoxedSseResponse as TryStream>::Ok;
pub type Failed = StreamableHttpError<reqwest::Error>;

/// Where a request goes, and as whose.
pub struct Destination {
    pub uri: Arc<str>,
    pub session: Option<Arc<str>>,
    pub token: Option<String>,
    pub headers: Headers,
    /// Of an event, or of a body.
    pub bytes_max: usize,
}

/// An event of a stream that is too long, and ends it.
#[derive(Debug)]
struct OversizeEvent {
    bytes_max: usize,
}

impl fmt::Display for OversizeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of the stream has more than {} bytes", self.bytes_max)
    }
}

impl Error for OversizeEvent {}

/// What ends a stream at an event of more bytes than that.
pub fn oversize(bytes_max: usize) -> SseError {
    SseError::Body(Box::new(OversizeEvent { bytes_max }))
}

/// Whether a stream ended at an event that is too long.
pub fn is_oversize(error: &SseError) -> bool {
    matches!(error, SseError::Body(why) if why.downcast_ref::<OversizeEvent>().is_some())
}

/// Where the next event of a stream was too long: the ids after which that is, or none at the beginning of one without ids. Whoever
/// asks for more there may be sent the same event again, without end.
#[derive(Debug, Default)]
pub struct DeadEnds(Mutex<VecDeque<Option<String>>>);

impl DeadEnds {
    fn add(&self, last: Option<String>) {
        let mut all = self.lock();
        all.push_back(last);
        if all.len() > DEAD_ENDS_MAX {
            all.pop_front();
        }
    }

    /// Whether that is one; it is forgotten then, since whoever is told so does not ask again.
    fn take(&self, last: Option<&str>) -> bool {
        let mut all = self.lock();
        let at = all.iter().position(|one| one.as_deref() == last);
        at.and_then(|at| all.remove(at)).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Option<String>>> {
        self.0.lock().expect("no holder of dead ends panics")
    }
}

/// What came back.
pub enum Reply {
    /// Nothing but that it was taken (HTTP 202, 204), or what nobody waits for.
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

impl Destination {
    fn request(self, client: &reqwest::Client, method: Method) -> RequestBuilder {
        let mut request = client.request(method, self.uri.as_ref()).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = self.token {
            request = request.bearer_auth(token);
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        if let Some(session) = self.session {
            request = request.header(SESSION, session.as_ref());
        }
        request
    }
}

/// Whether this is the type of JSON.
pub fn is_json(kind: Option<&str>) -> bool {
    is_of(kind, JSON)
}

/// Whether this is that type, whatever its parameters are.
fn is_of(kind: Option<&str>, wanted: &str) -> bool {
    let begin = kind.and_then(|kind| kind.trim_start().get(..wanted.len()));
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(wanted))
}

/// Sends a message.
///
/// # Errors
/// It was not sent, or not answered; the server wants a secret, or ended the session, or its body is too long.
pub async fn send(client: &reqwest::Client, to: Destination, message: ClientJsonRpcMessage) -> Result<Reply, Failed> {
    let (has_session, bytes_max) = (to.session.is_some(), to.bytes_max);
    let asks = matches!(message, JsonRpcMessage::Request(_));
    let response = to.request(client, Method::POST).json(&message).send().await.map_err(StreamableHttpError::Client)?;
    if let Some(refused) = refusal(&response, has_session) {
        return Err(refused);
    }
    let status = response.status();
    // Nobody waits for what is said to a message that asks nothing; it may have no end.
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) || (status.is_success() && !asks) {
        return Ok(Reply::Accepted);
    }
    let (kind, session) = (header(&response, CONTENT_TYPE), header(&response, HeaderName::from_static(SESSION)));
    if status.is_success() && is_of(kind.as_deref(), EVENTS) {
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

/// Asks for a stream: what a server says by itself in a session, or the rest of an answer, after the event of the id `last`. One that
/// breaks off ends: after an end the library waits before it asks again, and not after an error. One with an event that is too long
/// ends with that error, and the next request for what follows is refused: the library gives the stream up then.
///
/// # Errors
/// It was not sent, or not answered; the server has no streams, wants a secret, or answers with something else; it is a dead end.
pub async fn get(
    client: &reqwest::Client,
    to: Destination,
    last: Option<String>,
    dead_ends: &Arc<DeadEnds>,
) -> Result<BoxedSseResponse, Failed> {
    if dead_ends.take(last.as_deref()) {
        return Err(StreamableHttpError::ServerDoesNotSupportSse);
    }
    let bytes_max = to.bytes_max;
    let mut request = to.request(client, Method::GET);
    if let Some(last) = &last {
        request = request.header(LAST_EVENT, last.as_str());
    }
    let response = request.send().await.map_err(StreamableHttpError::Client)?;
    let status = response.status();
    if status == StatusCode::METHOD_NOT_ALLOWED {
        return Err(StreamableHttpError::ServerDoesNotSupportSse);
    }
    // Whether a session is over is told by the answer to a message: some servers have no streams, and say 404.
    if let Some(refused) = refusal(&response, false) {
        return Err(refused);
    }
    if status.is_server_error() {
        return Err(HttpStatusError::new(status.as_u16(), header(&response, RETRY_AFTER)).into());
    }
    let response = response.error_for_status().map_err(StreamableHttpError::Client)?;
    let kind = header(&response, CONTENT_TYPE);
    if !is_of(kind.as_deref(), EVENTS) && !is_json(kind.as_deref()) {
        return Err(StreamableHttpError::UnexpectedContentType(kind));
    }
    Ok(after(last, events(response.bytes_stream(), bytes_max), dead_ends.clone()))
}

/// The events after that of the id `last`, as the library may ask for more of them.
fn after(last: Option<String>, events: BoxedSseResponse, dead_ends: Arc<DeadEnds>) -> BoxedSseResponse {
    let read = move |last: &mut Option<String>, event: Result<Event, SseError>| {
        ready(match event {
            Ok(event) => {
                if event.id.is_some() {
                    last.clone_from(&event.id);
                }
                Some(Ok(event))
            }
            Err(error) if is_oversize(&error) => {
                dead_ends.add(last.take());
                Some(Err(error))
            }
            Err(_) => None,
        })
    };
    events.scan(last, read).boxed()
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
fn events<B, E>(pieces: impl Stream<Item = Result<B, E>> + Send + 'static, bytes_max: usize) -> BoxedSseResponse
where
    B: AsRef<[u8]> + Send + 'static,
    E: Error + Send + Sync + 'static,
{
    let read = move |body: &mut Option<StreamBody>, piece: Option<Result<B, E>>| {
        let Some(reading) = body else { return ready(None) };
        let (told, failed) = match piece {
            Some(Ok(piece)) => match reading.pass(piece.as_ref()) {
                Ok(told) => (told, None),
                Err(TooLong(before)) => (before, Some(oversize(bytes_max))),
            },
            Some(Err(error)) => (Vec::new(), Some(SseError::Body(Box::new(error)))),
            None => (reading.end().into_iter().collect(), None),
        };
        if failed.is_some() {
            // A body that failed may say so again whenever it is asked, without end.
            *body = None;
        }
        let told = told.into_iter().map(|told| Ok(told_as(Event::default(), told)));
        let all: Vec<Result<Event, SseError>> = told.chain(failed.map(Err)).collect();
        ready(Some(stream::iter(all)))
    };
    let all = pieces.map(Some).chain(stream::once(ready(None)));
    all.scan(Some(StreamBody::new(bytes_max)), read).flatten().boxed()
}

/// An event as the library has it. An id that no header can hold is none.
fn told_as(mut event: Event, told: sse::Event) -> Event {
    let text = |bytes: Vec<u8>| (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned());
    event.event = text(told.name);
    event.data = text(told.data);
    event.id = told.id.filter(|id| HeaderValue::from_bytes(id.as_bytes()).is_ok());
    event.retry = told.retry.map(|ms| ms.max(RETRY_MS_MIN));
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &'static str) -> std::io::Result<&'static [u8]> {
        Ok(text.as_bytes())
    }

    async fn read(pieces: Vec<std::io::Result<&'static [u8]>>, bytes_max: usize) -> Vec<Result<Event, SseError>> {
        events(stream::iter(pieces), bytes_max).collect().await
    }

    #[tokio::test]
    async fn a_stream_gives_its_events_in_spite_of_what_stands_between_and_ends_at_one_that_is_too_long() {
        let all = read(vec![piece("retry: soon\nodd\nevent: x\nevent: y\ndata: a\n\nda"), piece("ta: {}")], 64).await;
        let [Ok(event), Ok(_)] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((event.data.as_deref(), event.event.as_deref(), event.retry), (Some("a"), Some("y"), None));
        let all = read(vec![piece("data: a\n\ndata: abcdefghij"), piece("\n\ndata: b\n\n")], 12).await;
        let [Ok(event), Err(error)] = all.as_slice() else { panic!("{all:?}") };
        assert!(is_oversize(error), "{error}");
        assert_eq!(event.data.as_deref(), Some("a"), "what came before is not lost");
    }

    #[tokio::test]
    async fn an_event_without_data_has_an_id_that_can_be_asked_for_and_a_time_that_is_no_flood() {
        let all =
            read(vec![piece("id: 1\nretry: 0\n\nid: a\u{7}\nretry: 5000\ndata: a\n\nid: 2\ndata: {\"cut")], 64).await;
        let told: Vec<_> = all.iter().flatten().map(|event| (event.id.as_deref(), event.retry)).collect();
        assert_eq!((told.len(), all.len()), (2, 2), "{all:?}");
        assert_eq!(told, [(Some("1"), Some(RETRY_MS_MIN)), (None, Some(5_000))]);
    }

    /// Threat: a stream over HTTP/2 that was reset gives the same error whenever it is polled, and a thread would poll it for ever.
    #[tokio::test]
    async fn a_stream_that_failed_is_over_however_often_it_would_fail() {
        for (before, bytes_max, told) in [("", 64, 1), ("data: a\n\n", 64, 2), ("data: a\n\ndata: abcdefghij", 12, 2)] {
            let mut polls = 0;
            let failing = stream::repeat_with(move || {
                polls += 1;
                assert!(polls < 4, "it is asked again after it failed");
                Err(std::io::Error::other("reset"))
            });
            let all: Vec<Result<Event, SseError>> =
                events(stream::iter([piece(before)]).chain(failing), bytes_max).collect().await;
            assert_eq!(all.len(), told, "{all:?}");
            let Some(Err(error)) = all.last() else { panic!("{all:?}") };
            assert_eq!(is_oversize(error), bytes_max < 64, "{error}");
        }
    }

    /// Threat: a stream whose next event is too long would be fetched again and again, as fast as its server wants.
    #[tokio::test]
    async fn what_is_too_long_is_noted_where_it_is_asked_for_again_and_what_breaks_off_is_not() {
        for (last, text, at) in [
            (None, "data: abcdefghij", None),
            (Some("7"), "data: abcdefghij", Some("7")),
            (Some("7"), "id: 8\n\ndata: a\n\ndata: abcdefghij", Some("8")),
        ] {
            let (pieces, dead_ends) = (stream::iter([piece(text)]), Arc::<DeadEnds>::default());
            let events = after(last.map(str::to_owned), events(pieces, 12), dead_ends.clone());
            let all: Vec<Result<Event, SseError>> = events.collect().await;
            assert!(matches!(all.last(), Some(Err(error)) if is_oversize(error)), "{all:?}");
            assert!(!dead_ends.take(Some("9")), "elsewhere is none");
            assert!(dead_ends.take(at) && !dead_ends.take(at), "{text}: it is refused once");
        }
        let dead_ends = Arc::<DeadEnds>::default();
        let broken = stream::iter([piece("id: 8\n\n"), Err(std::io::Error::other("reset"))]);
        let all: Vec<_> = after(None, events(broken, 12), dead_ends.clone()).collect().await;
        assert!(matches!(all.as_slice(), [Ok(_)]), "{all:?}");
        assert!(!dead_ends.take(Some("8")) && !dead_ends.take(None), "more may come");
        for number in 0..=DEAD_ENDS_MAX {
            dead_ends.add(Some(number.to_string()));
        }
        assert!(!dead_ends.take(Some("0")) && dead_ends.take(Some("1")), "the oldest is forgotten");
    }

    #[test]
    fn a_type_is_that_however_it_is_written() {
        for kind in ["text/event-stream", "Text/Event-Stream; charset=utf-8", " TEXT/EVENT-STREAM"] {
            assert!(is_of(Some(kind), EVENTS) && !is_json(Some(kind)), "{kind}");
        }
        for kind in ["application/json", "Application/JSON;charset=UTF-8"] {
            assert!(is_json(Some(kind)), "{kind}");
        }
        for kind in [None, Some(""), Some("text/event"), Some("application/jsön"), Some("text/html")] {
            assert!(!is_of(kind, EVENTS) && !is_json(kind), "{kind:?}");
        }
    }
}
