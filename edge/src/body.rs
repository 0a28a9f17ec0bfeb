//! Bodies of requests: each bounded in bytes and time, and all of a server together in bytes.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::StreamExt as _;

use crate::peer::Peer;
use crate::refusal::Refusal;
use crate::room::{BodyRoom, Portion};

/// Timeout of a body: a client that stalls would hold a connection forever.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// When a body may be sent again for which there was no room, seconds.
const AGAIN_S: u64 = 1;

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It is longer than that many bytes.
    TooLong(usize),
    /// It is incomplete.
    Broken,
    /// It was not complete in time.
    Late,
    /// The bodies of other requests take all the room that there is for them, or those from the same net theirs.
    NoRoom,
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BodyError::TooLong(max) => write!(f, "a body has at most {max} bytes"),
            BodyError::Broken => f.write_str("the body broke off"),
            BodyError::Late => write!(f, "the body did not come within {BODY_TIMEOUT:?}"),
            BodyError::NoRoom => f.write_str(
                "the bodies of other requests take all the room that there is here: send it again in a moment",
            ),
        }
    }
}

impl BodyError {
    /// The status of an answer that says so.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            BodyError::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::Broken => StatusCode::BAD_REQUEST,
            BodyError::Late => StatusCode::REQUEST_TIMEOUT,
            BodyError::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// After how many seconds the same body may be taken; none where it never is.
    #[must_use]
    pub fn retry_after_s(self) -> Option<u64> {
        (self == BodyError::NoRoom).then_some(AGAIN_S)
    }

    /// The answer where it may be sent again, in the shape of the guard's refusals, whatever face it is for; the others are
    /// told as each face tells of requests that are wrong.
    #[must_use]
    pub fn crowded(self, is_grpc: bool) -> Option<Response> {
        let seconds = self.retry_after_s()?;
        let (status, message) = (self.status(), self.to_string());
        let mut answer = Refusal { status, reason: "NO_ROOM", message, challenge: None }.answer(is_grpc);
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        Some(answer)
    }
}

/// A body that was read, and its part of the room for bodies, which is free again when nobody has the body any more.
struct Read {
    bytes: Vec<u8>,
    _portion: Option<Portion>,
}

impl AsRef<[u8]> for Read {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body of at most `max` bytes, also where no length was announced, within the timeout and the room that the server
/// has for bodies. No limit of a router counts here.
///
/// # Errors
/// See [`BodyError`].
pub async fn read_body(request: Request, max: usize) -> Result<Bytes, BodyError> {
    let announced = request.body().size_hint().lower();
    if announced > u64::try_from(max).unwrap_or(u64::MAX) {
        return Err(BodyError::TooLong(max));
    }
    let peer = request.extensions().get::<Peer>().copied();
    // Without a server of ours there is none.
    let portion = request.extensions().get::<BodyRoom>().map(|room| room.portion(peer));
    let reading = read(request.into_body(), max, portion);
    tokio::time::timeout(BODY_TIMEOUT, reading).await.unwrap_or(Err(BodyError::Late))
}

async fn read(body: Body, max: usize, mut portion: Option<Portion>) -> Result<Bytes, BodyError> {
    let (mut parts, mut bytes) = (body.into_data_stream(), Vec::new());
    while let Some(part) = parts.next().await {
        let part = part.map_err(|_| BodyError::Broken)?;
        if part.len() > max - bytes.len() {
            return Err(BodyError::TooLong(max));
        }
        // As it comes, not as it was announced: who announces much and sends nothing takes no room.
        if portion.as_mut().is_some_and(|portion| !portion.grow(part.len())) {
            return Err(BodyError::NoRoom);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Bytes::from_owner(Read { bytes, _portion: portion }))
}

/// Whether the content type is JSON, or one of `also`. Forms on other sites' pages cannot set it (CSRF).
#[must_use]
pub fn is_json(headers: &HeaderMap, kinds: &[&str]) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json") || kinds.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::response::IntoResponse as _;
    use axum::routing::post;
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::serve::{Limits, serve};

    /// A request with a body of that many bytes, of which no length is announced.
    fn chunked(bytes: usize) -> Request {
        const PART: usize = 10_000;
        let part = move |at: usize| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; PART.min(bytes - at * PART)]));
        Request::new(Body::from_stream(futures::stream::iter((0..bytes.div_ceil(PART)).map(part))))
    }

    /// SR-8
    #[tokio::test]
    async fn a_body_is_as_long_as_its_reader_says_also_where_no_length_is_announced() {
        // The second one is longer than what axum reads unless it is told otherwise.
        for max in [64 << 10, 3 << 20] {
            assert_eq!(read_body(chunked(max), max).await.map(|body| body.len()), Ok(max));
            assert_eq!(read_body(chunked(max + 1), max).await, Err(BodyError::TooLong(max)));
            let announced = Request::new(Body::from(vec![b'x'; max + 1]));
            assert_eq!(read_body(announced, max).await, Err(BodyError::TooLong(max)));
        }
        assert_eq!(read_body(chunked(0), 0).await, Ok(Bytes::new()));
    }

    /// SR-8
    #[tokio::test]
    async fn a_body_takes_room_as_it_comes_and_as_long_as_somebody_has_it() {
        const MAX: usize = 64 << 10;
        let room = BodyRoom::of(MAX, MAX);
        let of = |body: Body| {
            let mut request = Request::new(body);
            request.extensions_mut().insert(room.clone());
            request
        };
        let part = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; MAX / 4 * 3]))]);
        let endless = Body::from_stream(part.chain(futures::stream::pending()));
        let half = || read_body(of(Body::from(vec![b'x'; MAX / 2])), MAX);
        {
            let mut slow = std::pin::pin!(read_body(of(endless), MAX));
            assert!(futures::poll!(slow.as_mut()).is_pending());
            assert_eq!(half().await, Err(BodyError::NoRoom));
        }
        let kept = half().await.expect("who has gone takes no room");
        let other = half().await.expect("there is room for two");
        assert_eq!(half().await, Err(BodyError::NoRoom));
        drop(other);
        assert_eq!(half().await.map(|body| body.len()), Ok(MAX / 2));
        assert_eq!(kept.len(), MAX / 2);
    }

    /// SR-8
    #[tokio::test]
    async fn a_server_has_as_much_room_for_bodies_as_its_limits_say() {
        async fn length(request: Request) -> Response {
            match read_body(request, 4_096).await {
                Ok(body) => body.len().to_string().into_response(),
                Err(error) => error.crowded(false).expect("it is not too long"),
            }
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("it listens"));
        let (limits, stop) = (Limits { body_bytes: 1_024, ..Limits::default() }, CancellationToken::new());
        let router = Router::new().route("/", post(length));
        let serving = tokio::spawn(serve(listener, router, limits, stop.clone()));
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        for (bytes, status) in [(1_024, StatusCode::OK), (1_025, StatusCode::SERVICE_UNAVAILABLE), (1, StatusCode::OK)]
        {
            let answer = client.post(&url).body(vec![b'x'; bytes]).send().await.expect("an answer");
            assert_eq!(answer.status(), status, "{bytes}");
            assert_eq!(answer.headers().contains_key(header::RETRY_AFTER), status != StatusCode::OK, "{bytes}");
        }
        drop(client);
        stop.cancel();
        serving.await.expect("it ends");
    }

    #[test]
    fn only_what_finds_no_room_is_worth_sending_again() {
        let errors = [BodyError::TooLong(1), BodyError::Broken, BodyError::Late, BodyError::NoRoom];
        let told = errors.map(|error| (error.status().as_u16(), error.retry_after_s()));
        assert_eq!(told, [(413, None), (400, None), (408, None), (503, Some(1))]);
        assert!(errors[..3].iter().all(|error| error.crowded(false).is_none()));
        let grpc = BodyError::NoRoom.crowded(true).expect("an answer");
        assert_eq!((grpc.status(), &grpc.headers()["grpc-status"]), (StatusCode::OK, &HeaderValue::from_static("14")));
    }

    #[test]
    fn a_body_is_json_by_its_content_type() {
        let with = |kind: &'static str| HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().expect("a header"))]);
        for kind in ["application/json", "Application/JSON; charset=utf-8", "application/a2a+json"] {
            assert!(is_json(&with(kind), &["application/a2a+json"]), "{kind}");
        }
        let others = [
            "",
            "text/plain",
            "application/jsonp",
            "application/x-www-form-urlencoded",
            "text/json",
            "application/a2a+json",
        ];
        for kind in others {
            assert!(!is_json(&with(kind), &[]), "{kind}");
        }
        assert!(!is_json(&HeaderMap::new(), &[]), "a form of another site's page has none of ours");
    }
}
