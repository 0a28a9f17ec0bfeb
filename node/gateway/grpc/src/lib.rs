//! A2A's gRPC binding, `lf.a2a.v1.A2AService` (A2A 1.0.1 §10): translates protobuf to the JSON of the operations and back.
//!
//! gRPC has no path below the service, so the agent is the `tenant` of each request (§8.3.2).
//!
//! **Inputs**: HTTP/2 requests that passed the gateway's guard. **Outputs**: protobuf messages and streams of them;
//! errors as `google.rpc.Status` in `grpc-status-details-bin`.
//!
//! **Invariants**: a request is bounded in bytes, time and nesting before it is decoded; what an agent answers is
//! encoded by the descriptors of the specification, or refused.
//!
//! **Never knows**: tokens, where agents are, frames.

mod messages;
pub mod schemas;
mod status;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use althing_calls::{Operation, OperationError, Reply};
use althing_edge::{Identity, problem, read_body};
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use http_body::Frame;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tonic::Status;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};

use messages::{Codec, Request as Parameters};

pub use messages::SERVICE;

/// Bytes before each message of gRPC: a flag and its length.
const PREFIX_BYTES: usize = 5;

/// Answers the operations, in the same way for all bindings.
pub trait Answers: Send + Sync + 'static {
    /// The most bytes of a request.
    fn request_bytes_max(&self) -> usize;

    /// The reply of `agent`, an id or a name, to an operation with its parameters as JSON, for whoever that is.
    fn ask(
        &self,
        headers: &HeaderMap,
        identity: Identity,
        agent: String,
        operation: Result<Operation, OperationError>,
        params: Vec<u8>,
    ) -> BoxFuture<'static, Result<Reply, OperationError>>;
}

/// The routes of the service.
pub fn routes<S>(answers: Arc<dyn Answers>) -> Router<S> {
    Router::new().route(&format!("/{SERVICE}/{{method}}"), post(call)).with_state(answers)
}

async fn call(State(answers): State<Arc<dyn Answers>>, Path(method): Path<String>, request: Request) -> Response {
    if !is_grpc(request.headers()) {
        return problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "this path is for gRPC: application/grpc");
    }
    let Some(method) = messages::method(&method) else {
        return Status::unimplemented("the service has no such method").into_http::<tonic::body::Body>().map(sent);
    };
    let max = answers.request_bytes_max();
    let (head, body) = request.into_parts();
    let body = match read_body(Request::from_parts(head.clone(), body), max + PREFIX_BYTES).await {
        Ok(body) => body,
        Err(error) => {
            let refused = OperationError::invalid_request(error.to_string());
            let told = || status::of(&refused).into_http::<tonic::body::Body>().map(sent);
            return error.crowded(true).unwrap_or_else(told);
        }
    };
    let request = Request::from_parts(head, Body::from(body));
    let mut grpc = Grpc::new(Codec(method.input())).apply_max_message_size_config(Some(max), None);
    let answer = if method.is_server_streaming() {
        grpc.server_streaming(Service { answers, method }, request).await
    } else {
        grpc.unary(Service { answers, method }, request).await
    };
    answer.map(sent)
}

/// The body of an answer. Where its headers are its trailers too, nothing may add a length, which would be metadata.
fn sent(body: tonic::body::Body) -> Body {
    if body.is_end_stream() { Body::new(Nothing) } else { Body::new(body) }
}

/// A body that is over, and of no known length.
struct Nothing;

impl HttpBody for Nothing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

/// Whether the content type is gRPC's with protobuf. Forms on other sites' pages cannot set it (CSRF).
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    ["application/grpc", "application/grpc+proto"].iter().any(|known| kind.eq_ignore_ascii_case(known))
}

/// One method of the service.
struct Service {
    answers: Arc<dyn Answers>,
    method: MethodDescriptor,
}

impl Service {
    fn ask(&self, request: tonic::Request<Parameters>) -> BoxFuture<'static, Result<Reply, Status>> {
        let (metadata, mut extensions, request) = request.into_parts();
        let identity = extensions.remove().unwrap_or_default();
        let (headers, operation) = (metadata.into_headers(), Operation::parse(self.method.name()));
        let replied = match request {
            Ok((agent, params)) => self.answers.ask(&headers, identity, agent, operation, params),
            Err(error) => futures::future::ready(Err(error)).boxed(),
        };
        replied.map(|replied| replied.map_err(|error| status::of(&error))).boxed()
    }
}

impl UnaryService<Parameters> for Service {
    type Response = DynamicMessage;
    type Future = BoxFuture<'static, Result<tonic::Response<DynamicMessage>, Status>>;

    fn call(&mut self, request: tonic::Request<Parameters>) -> Self::Future {
        let (asking, output) = (self.ask(request), self.method.output());
        async move {
            match asking.await? {
                Reply::One(result) => {
                    let answer = messages::encoded(output, &result).map_err(|error| status::of(&error))?;
                    Ok(tonic::Response::new(answer))
                }
                Reply::Events(_) => Err(Status::internal("a stream came where one answer was due")),
            }
        }
        .boxed()
    }
}

impl ServerStreamingService<Parameters> for Service {
    type Response = DynamicMessage;
    type ResponseStream = BoxStream<'static, Result<DynamicMessage, Status>>;
    type Future = BoxFuture<'static, Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: tonic::Request<Parameters>) -> Self::Future {
        let (asking, output) = (self.ask(request), self.method.output());
        async move {
            let events = match asking.await? {
                Reply::One(result) => futures::stream::iter([Ok(result)]).boxed(),
                Reply::Events(events) => events,
            };
            let events = events.map(move |event| {
                let event = event.and_then(|event| messages::encoded(output.clone(), &event));
                event.map_err(|error| status::of(&error))
            });
            Ok(tonic::Response::new(events.boxed()))
        }
        .boxed()
    }
}
