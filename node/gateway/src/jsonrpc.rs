//! A2A over JSON-RPC 2.0, with server-sent events for streams.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use althing_calls::{Ask, Operation, OperationError, Priority, Reply, Trace};
use althing_protocol::limits::{EXTENSIONS_MAX, PRINCIPAL_BYTES_MAX};
use axum::body::{Bytes, HttpBody as _};
use axum::extract::{FromRequest as _, Path, Query, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::{BODY_BYTES_MAX, Gateway};

/// The version of A2A that is served.
const VERSION: &str = "1.0";
/// A comment is sent on a silent stream this often, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A body must be complete within this: who stalls would hold a connection for ever.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
pub(crate) struct Parameters {
    #[serde(rename = "A2A-Version", alias = "a2a-version")]
    version: Option<String>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: Option<String>,
    #[serde(default)]
    id: Value,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// `POST /a2a/{agent}`.
pub(crate) async fn call(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    if let Err(error) = content_type(&headers) {
        return failed(&Value::Null, &error);
    }
    let body = match whole(request).await {
        Ok(body) => body,
        Err(error) => return failed(&Value::Null, &error),
    };
    let (id, asked) = read(&body);
    let replied = async {
        version(&headers, &parameters)?;
        let (operation, params) = asked?;
        let ask = Ask {
            operation,
            agent: gateway.calls.resolve(&agent).await?,
            params,
            principals: vec![gateway.access.principal().to_owned()],
            trace: trace(&headers),
            extensions: extensions(&headers)?,
            deadline: None,
            priority: Priority::default(),
        };
        gateway.calls.ask(ask).await
    };
    match replied.await {
        Ok(Reply::One(result)) => answer(&id, &result),
        Ok(Reply::Events(events)) => {
            let events = events.map(move |event| {
                let data = match event {
                    Ok(result) => wrap(&id, &result),
                    Err(error) => refusal(&id, &error),
                };
                Ok::<Event, Infallible>(Event::default().data(data))
            });
            Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
        }
        Err(error) => failed(&id, &error),
    }
}

/// The body, when it is not too long and comes in time.
async fn whole(request: Request) -> Result<Bytes, OperationError> {
    let announced = request.body().size_hint().lower();
    if announced > u64::try_from(BODY_BYTES_MAX).unwrap_or(u64::MAX) {
        return Err(OperationError::invalid_request(format!("a body has at most {BODY_BYTES_MAX} bytes")));
    }
    match tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(OperationError::invalid_request("the body is too large, or broke off")),
        Err(_) => Err(OperationError::invalid_request(format!("the body did not come within {BODY_TIMEOUT:?}"))),
    }
}

/// Checked before the body is parsed (A2A 1.0.1: ContentTypeNotSupported).
fn content_type(headers: &HeaderMap) -> Result<(), OperationError> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") || kind.eq_ignore_ascii_case("application/a2a+json") {
        return Ok(());
    }
    Err(OperationError::content_type("requests are application/json or application/a2a+json"))
}

fn version(headers: &HeaderMap, parameters: &Parameters) -> Result<(), OperationError> {
    let header = headers.get("A2A-Version").and_then(|version| version.to_str().ok());
    let asked = header.or(parameters.version.as_deref()).unwrap_or_default().trim();
    if asked == VERSION { Ok(()) } else { Err(OperationError::version_not_supported(asked)) }
}

/// The `A2A-Extensions` header: URIs with commas between them, in one line or several.
fn extensions(headers: &HeaderMap) -> Result<Vec<String>, OperationError> {
    let mut all = Vec::new();
    for line in headers.get_all("A2A-Extensions") {
        let line = line.to_str().map_err(|_| OperationError::invalid_request("`A2A-Extensions` is not text"))?;
        all.extend(line.split(',').map(str::trim).filter(|uri| !uri.is_empty()).map(str::to_owned));
    }
    if all.len() > EXTENSIONS_MAX || all.iter().any(|uri| uri.len() > PRINCIPAL_BYTES_MAX) {
        let message = format!("`A2A-Extensions` names at most {EXTENSIONS_MAX} of {PRINCIPAL_BYTES_MAX} bytes each");
        return Err(OperationError::invalid_request(message));
    }
    Ok(all)
}

fn trace(headers: &HeaderMap) -> Trace {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| value.len() <= 512);
    Trace { traceparent: header("traceparent").map(str::to_owned), tracestate: header("tracestate").map(str::to_owned) }
}

/// The id of a request, and its operation and parameters, these byte for byte.
fn read(body: &[u8]) -> (Value, Result<(Operation, Vec<u8>), OperationError>) {
    let envelope = match envelope(body) {
        Ok(envelope) => envelope,
        Err(error) => return (Value::Null, Err(error)),
    };
    let asked = if envelope.jsonrpc.as_deref() != Some("2.0") {
        Err(OperationError::invalid_request("`jsonrpc` is not \"2.0\""))
    } else if let Some(method) = &envelope.method {
        let params = envelope.params.map_or("{}", RawValue::get);
        Operation::parse(method).map(|operation| (operation, params.as_bytes().to_vec()))
    } else {
        Err(OperationError::invalid_request("`method` is missing"))
    };
    (envelope.id, asked)
}

fn envelope(body: &[u8]) -> Result<Envelope<'_>, OperationError> {
    let text = std::str::from_utf8(body).map_err(|_| OperationError::parse("the body is not UTF-8"))?;
    let whole: Result<&RawValue, _> = serde_json::from_str(text);
    let raw = whole.map_err(|error| OperationError::parse(format!("the body is not JSON: {error}")))?;
    let envelope: Envelope<'_> = serde_json::from_str(raw.get())
        .map_err(|error| OperationError::invalid_request(format!("no JSON-RPC request: {error}")))?;
    let id = &envelope.id;
    if id.is_string() || id.is_null() || id.is_i64() || id.is_u64() {
        Ok(envelope)
    } else {
        Err(OperationError::invalid_request("`id` is a string or a whole number"))
    }
}

/// JSON-RPC around a result that is JSON already.
fn wrap(id: &Value, result: &[u8]) -> String {
    let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
    text.push_str(&String::from_utf8_lossy(result));
    text.push('}');
    text
}

fn refusal(id: &Value, error: &OperationError) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": error.to_json() }).to_string()
}

fn answer(id: &Value, result: &[u8]) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], wrap(id, result)).into_response()
}

/// JSON-RPC's errors travel in a successful HTTP answer.
fn failed(id: &Value, error: &OperationError) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], refusal(id, error)).into_response()
}
