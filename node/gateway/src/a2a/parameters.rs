//! What every HTTP binding of A2A reads beside an operation's own parameters: content type, version, extensions and trace.

use althing_calls::{CallRequest, LATENCY, OperationError, OperationRequest, Principal, Target, Trace};
use althing_edge::is_json;
use althing_protocol::Activated;
use althing_protocol::limits::{EXTENSIONS_MAX, PRINCIPAL_BYTES_MAX};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use serde::Deserialize;

/// The version of A2A that is served.
const VERSION: &str = "1.0";

/// The service parameters that clients without headers put into the query.
#[derive(Deserialize)]
pub(crate) struct Parameters {
    /// The version of A2A.
    #[serde(rename = "A2A-Version", alias = "a2a-version")]
    pub version: Option<String>,
}

/// The call of an operation of an agent.
pub(crate) fn call_request(
    target: Target,
    request: OperationRequest,
    headers: &HeaderMap,
    principal: Principal,
) -> Result<CallRequest, OperationError> {
    let request = CallRequest::new(target, request, vec![principal]);
    let activated = OF_AGENT.try_with(Activated::clone).unwrap_or_default();
    Ok(request.in_trace(trace(headers)).with_extensions(extensions(headers)?).naming_in(activated))
}

/// Checked before the body is parsed (A2A 1.0.1: ContentTypeNotSupported).
pub(crate) fn check_content_type(headers: &HeaderMap) -> Result<(), OperationError> {
    let refused = || OperationError::content_type("requests are application/json or application/a2a+json");
    is_json(headers, &["application/a2a+json"]).then_some(()).ok_or_else(refused)
}

/// Refuses other versions than the one that is served. `query` is what the query names; a header comes first.
pub(crate) fn check_version(headers: &HeaderMap, query: Option<&str>) -> Result<(), OperationError> {
    let header = headers.get("A2A-Version").and_then(|version| version.to_str().ok());
    let asked = header.or(query).unwrap_or_default().trim();
    if is_served(asked) { Ok(()) } else { Err(OperationError::version_not_supported(asked)) }
}

/// Patch numbers are ignored (A2A §3.6).
fn is_served(asked: &str) -> bool {
    match asked.strip_prefix(VERSION) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('.').is_some_and(|patch| {
            !patch.is_empty() && patch.len() <= 9 && patch.bytes().all(|byte| byte.is_ascii_digit())
        }),
        None => false,
    }
}

/// The `A2A-Extensions` header: comma-separated URIs, in one line or several.
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

/// Extensions of the gateway's own that a request activates, whatever the agent.
const OURS: [&str; 1] = [LATENCY];

tokio::task_local! {
    /// The extensions that the agent activates for the request that is served.
    static OF_AGENT: Activated;
}

/// Names, in the answer, the extensions that the request activated (A2A §4.6): the gateway's own, and those that the agent says
/// with its first answer. In gRPC the header is metadata.
pub(crate) async fn name_activated(request: Request, next: Next) -> Response {
    let asked = extensions(request.headers()).unwrap_or_default();
    if asked.is_empty() {
        return next.run(request).await;
    }
    let of_agent = Activated::default();
    let mut response = OF_AGENT.scope(of_agent.clone(), next.run(request)).await;
    let is_active = |uri: &&String| OURS.contains(&uri.as_str()) || of_agent.get().contains(*uri);
    let active: Vec<&str> = asked.iter().filter(is_active).map(String::as_str).collect();
    if let (false, Ok(named)) = (active.is_empty(), HeaderValue::from_str(&active.join(", "))) {
        response.headers_mut().insert("A2A-Extensions", named);
    }
    response
}

pub(crate) fn trace(headers: &HeaderMap) -> Trace {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| value.len() <= 512);
    Trace { traceparent: header("traceparent").map(str::to_owned), tracestate: header("tracestate").map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_numbers_of_the_version_are_not_considered() {
        for version in ["1.0", "1.0.0", "1.0.1", "1.0.27"] {
            assert!(is_served(version), "{version}");
        }
        for version in
            ["", "1", "1.", "1.1", "1.0.", "1.00", "1.0.x", "1.0.1.2", "1.0-1", "0.3", "v1.0", "1.0.1234567890"]
        {
            assert!(!is_served(version), "{version}");
        }
    }

    #[test]
    fn extensions_are_read_from_all_lines_and_bounded() {
        let read = |lines: &[String]| {
            let line = |line: &String| ("A2A-Extensions".parse().expect("a name"), line.parse().expect("a header"));
            extensions(&HeaderMap::from_iter(lines.iter().map(line)))
        };
        let some = ["https://a.example/1, https://a.example/2".to_owned(), ",https://a.example/3,".to_owned()];
        assert_eq!(read(&some).map(|all| all.len()), Ok(3));
        let (most, long) = (vec!["x".to_owned(); EXTENSIONS_MAX], "x".repeat(PRINCIPAL_BYTES_MAX));
        assert_eq!(read(&[most.join(","), String::new()]).map(|all| all.len()), Ok(EXTENSIONS_MAX));
        assert!(read(&[most.join(","), "y".to_owned()]).is_err());
        assert!(read(std::slice::from_ref(&long)).is_ok());
        assert!(read(&[long + "x"]).is_err());
    }
}
