//! What handlers are given of a request: its body and its parameters, bounded before they are parsed, with no member that
//! nobody knows; and how they carry out what must not end halfway.

use althing_api::{BODY_BYTES_MAX, Kind};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::{Json, body};
use futures::StreamExt as _;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::ApiError;

/// What axum says before what is wrong with parameters.
const OF_PARAMETERS: &str = "Failed to deserialize query string: ";

/// Characters of the name of a parameter that are said again.
const NAME_CHARS_MAX: usize = 100;

/// The longest body of a request that is read, in bytes: in the extensions of the request, from the table.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimit(pub usize);

/// The body of a request.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Body<T>, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::invalid(
                "the body of a request is JSON: send it as `content-type: application/json`",
            ));
        }
        let limit = request.extensions().get::<BodyLimit>().map_or(BODY_BYTES_MAX, |limit| limit.0);
        let bytes = read(request.into_body(), limit).await?;
        parse(&bytes).map(Body)
    }
}

/// The parameters after the `?` of a path.
pub struct Parameters<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Parameters<T>, ApiError> {
        let Query(parameters) = Query::try_from_uri(&parts.uri).map_err(|error| wrong_parameters(&error))?;
        Ok(Parameters(parameters))
    }
}

/// Refuses parameters after the `?` of a path that has none.
pub async fn without_parameters(request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    if query.is_empty() {
        return next.run(request).await;
    }
    let first: String = query.split(['&', '=']).next().unwrap_or_default().chars().take(NAME_CHARS_MAX).collect();
    let path = request.uri().path();
    let message = format!("the parameters of the request: nobody knows `{first}`, as {path} has none");
    ApiError::invalid(message).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Reads a body as it comes, also where no length was announced, and no further than its limit.
async fn read(body: body::Body, most: usize) -> Result<Vec<u8>, ApiError> {
    let (mut parts, mut bytes) = (body.into_data_stream(), Vec::new());
    while let Some(part) = parts.next().await {
        let part = part.map_err(|_| ApiError::invalid("the body of the request broke off"))?;
        if part.len() > most - bytes.len() {
            let message = format!("the body of this request has at most {} MiB: send less of it at once", most >> 20);
            return Err(ApiError::new(Kind::TooLarge, message));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

/// What a body says.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // A list would be read as the members of an object in their order, which nobody means.
    let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if !matches!(begins, Some(b'{' | b'"')) && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        return Err(ApiError::invalid(
            "the body of this request is an object, or the name of an operation that needs none",
        ));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let at = error.path().to_string();
        wrong_body(bytes, &at, &error.into_inner())
    })?;
    reader.end().map_err(|error| wrong_body(bytes, ".", &error))?;
    Ok(parsed)
}

/// Why a body is not what it should be. `at` is the path of the member, `.` where it is the whole.
fn wrong_body(bytes: &[u8], at: &str, error: &serde_json::Error) -> ApiError {
    if serde_json::from_slice::<IgnoredAny>(bytes).is_err() {
        let (line, column) = (error.line(), error.column());
        return ApiError::invalid(format!(
            "the body of the request is no JSON: see line {line}, column {column} of it"
        ));
    }
    let said = error.to_string();
    // The name of the member says more than the place in bytes.
    let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
    // A question mark stands for what has no name.
    let place = if [".", "?"].contains(&at) { String::new() } else { format!(" at `{at}`") };
    ApiError::invalid(format!("the body of the request is wrong{place}: {}", words(said)))
}

fn wrong_parameters(rejection: &QueryRejection) -> ApiError {
    let text = rejection.body_text();
    let said = text.strip_prefix(OF_PARAMETERS).unwrap_or(&text);
    // The name of the parameter comes first, where it is known.
    let (place, said) = match said.split_once(": ") {
        Some((name, said)) if !name.contains([' ', '`']) => (format!(" `{name}`"), said),
        _ => ("s".to_owned(), said),
    };
    ApiError::invalid(format!("the parameter{place} of the request: {}", words(said)))
}

/// What a parser says is wrong, without its own words: it names types of this program, and means enumerations.
fn words(said: &str) -> String {
    let beginnings = [("unknown field ", "nobody knows the member "), ("unknown variant ", "there is no ")];
    let begun = beginnings.iter().find_map(|&(theirs, ours)| Some((said.strip_prefix(theirs)?, ours)));
    if let Some((rest, begin)) = begun {
        return match rest.split_once(", expected ") {
            Some((name, all)) => format!("{begin}{name}; known: {}", all.trim_start_matches("one of ")),
            None => format!("{begin}{}; none is known", rest.split(',').next().unwrap_or(rest)),
        };
    }
    if let Some(name) = said.strip_prefix("missing field ") {
        return format!("{name} is missing");
    }
    if let Some(name) = said.strip_prefix("duplicate field ") {
        return format!("{name} is there twice");
    }
    let rest = said.strip_prefix("invalid type: ").or_else(|| said.strip_prefix("invalid value: "));
    if let Some((found, expected)) = rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("it is {}, and should be {}", found_value(found), expected_value(expected));
    }
    if said.starts_with("invalid length ") {
        return "it has too few members, or too many".to_owned();
    }
    let of_numbers = ["invalid digit", "cannot parse integer", "number too large"];
    if of_numbers.iter().any(|begin| said.starts_with(begin)) {
        return "it should be a whole number, and a smaller one than here if it is one".to_owned();
    }
    match said {
        "provided string was not `true` or `false`" => "it should be `true` or `false`".to_owned(),
        "invalid float literal" => "it should be a number".to_owned(),
        "expected value" => "it is nothing that is known here".to_owned(),
        "recursion limit exceeded" => "it is nested too deeply".to_owned(),
        said => said.to_owned(),
    }
}

fn found_value(said: &str) -> String {
    let kinds =
        [("integer ", "the number "), ("floating point ", "the number "), ("string ", "the text "), ("boolean ", "")];
    match said {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        said => {
            let known = kinds.iter().find_map(|&(theirs, ours)| Some(format!("{ours}{}", said.strip_prefix(theirs)?)));
            known.unwrap_or_else(|| said.to_owned())
        }
    }
}

fn expected_value(said: &str) -> &str {
    match said {
        "a map" => "an object",
        "a sequence" => "a list",
        "unit" => "null, or left out",
        "path string" => "a path, as text",
        "u8" => "a whole number of 0 to 255",
        "u16" | "u32" | "u64" | "usize" => "a whole number that is not below 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        _ if ["struct ", "enum ", "tuple ", "newtype "].iter().any(|word| said.contains(word)) => "an object",
        _ => said,
    }
}

/// Answers as JSON too what was refused before a handler had it: a path that nobody serves, a method that a path does not
/// have, a part of a path that is no text.
pub async fn as_problem(method: Method, uri: Uri, response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !(status.is_client_error() || status.is_server_error()) || kind.starts_with("application/json") {
        return response;
    }
    let path = uri.path();
    let (kind, message) = match status {
        StatusCode::NOT_FOUND => (Kind::NotFound, format!("there is nothing at {path}")),
        StatusCode::METHOD_NOT_ALLOWED => (Kind::Invalid, format!("{path} is not asked by {method}")),
        _ => return ApiError::invalid(format!("a part of {path} is no text in UTF-8")).into_response(),
    };
    let message = format!("{message}; `GET /openapi.json` lists what is asked here, and how");
    (status, Json(althing_api::Problem::new(kind, message))).into_response()
}

/// Carries something out in a task of its own: it is completed even if whoever asked hangs up.
pub fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> impl Future<Output = Result<T, ApiError>> + Send {
    let task = tokio::spawn(work);
    async move {
        task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request was not carried out to its end");
            Err(ApiError::failed("the node broke off while it did this: its log says why"))
        })
    }
}

#[cfg(test)]
mod tests;
