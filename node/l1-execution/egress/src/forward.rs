//! A request of a program, asked by the node, and its answer as it comes.

use althing_fetch::{Body, FetchError, Given, ReplyBody, StreamRequest, Url};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, Incoming};
use tracing::Instrument as _;

use crate::answers::{self, Answer};
use crate::egress::Egress;
use crate::machine::headers;
use crate::machine::sieve::Sieve;
use crate::target::Target;
use crate::told::Exchange;

/// Asks what the program asks at `url`; for a target with its headers, and so that its secrets do not come back.
pub(crate) async fn forward(
    egress: &Egress,
    exchange: Exchange,
    request: Request<Incoming>,
    url: Url,
    target: Option<&Target>,
) -> Answer {
    let (parts, body) = request.into_parts();
    let mut sent = headers::request(parts.headers);
    if let Some(target) = target {
        target.dress(&mut sent);
    }
    let is_head = parts.method == Method::HEAD;
    let asked = StreamRequest { method: parts.method, url: url.clone(), headers: sent, body: Body::wrap(body) };
    let given = target.map_or(Given::Stranger, Target::given);
    let opened = egress.fetch.open(given, asked, egress.bounds.of_streams());
    let reply = match opened.instrument(exchange.span()).await {
        Ok(reply) => reply,
        Err(error) => {
            exchange.failed(&error);
            return answers::failed(exchange.host(), exchange.port(), &error);
        }
    };
    if reply.status.is_informational() {
        exchange.broke("transport", format!("it answers with the status {}", reply.status));
        return answers::nonsense(exchange.host(), reply.status);
    }
    let with_secrets = target.filter(|target| target.has_secrets());
    let has_body = !is_head && !matches!(reply.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if let Some(coding) = headers::coding(&reply.headers).filter(|_| has_body && with_secrets.is_some()) {
        exchange.broke("encoded", format!("it answers in {coding} although it is asked not to, and was not passed on"));
        return answers::encoded(exchange.host(), coding);
    }
    exchange.reached();
    let mut came = headers::response(reply.headers);
    let sieve = with_secrets.map(Target::sieve);
    if let Some(target) = target {
        headers::relocate(&mut came, &url);
        headers::leave_out(&mut came, target.secrets());
    }
    let passage = Passage { body: reply.body, sieve, exchange, is_over: false };
    let mut answer = Response::new(passage.into_body());
    // The words after the status are the node's own: those of the host could be anything.
    *answer.status_mut() = reply.status;
    *answer.headers_mut() = came;
    answer
}

/// A body on its way to the program.
struct Passage {
    body: ReplyBody,
    sieve: Option<Sieve>,
    exchange: Exchange,
    is_over: bool,
}

impl Passage {
    fn into_body(self) -> UnsyncBoxBody<Bytes, FetchError> {
        let chunks = futures::stream::unfold(Some(self), |passage| async move {
            let mut passage = passage?;
            match passage.next().await {
                Ok(Some(chunk)) => Some((Ok(Frame::data(chunk)), Some(passage))),
                Ok(None) => None,
                // The connection breaks off, so that the program does not take it for the end.
                Err(error) => Some((Err(error), None)),
            }
        });
        UnsyncBoxBody::new(StreamBody::new(chunks))
    }

    /// The next bytes that may pass; none at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        while !self.is_over {
            let chunk = match self.body.chunk().await {
                Ok(chunk) => chunk,
                Err(error) => {
                    self.exchange.failed(&error);
                    return Err(error);
                }
            };
            self.is_over = chunk.is_none();
            let passes = match (&mut self.sieve, chunk) {
                (Some(sieve), Some(chunk)) => Bytes::from(sieve.push(&chunk)),
                (Some(sieve), None) => Bytes::from(sieve.finish()),
                (None, chunk) => chunk.unwrap_or_default(),
            };
            if !passes.is_empty() {
                return Ok(Some(passes));
            }
        }
        Ok(None)
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.exchange.counted(self.body.sent() as u64, self.body.received() as u64);
    }
}
