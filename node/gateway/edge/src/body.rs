//! Bodies of requests.

use std::time::Duration;

use axum::body::{Bytes, HttpBody as _};
use axum::extract::{FromRequest as _, Request};
use axum::http::{HeaderMap, header};

/// Timeout of a body: a client that stalls would hold a connection forever.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It is longer than that many bytes.
    TooLong(usize),
    /// It is too long or incomplete.
    Broken,
    /// It was not complete in time.
    Late,
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BodyError::TooLong(max) => write!(f, "a body has at most {max} bytes"),
            BodyError::Broken => f.write_str("the body is too large, or broke off"),
            BodyError::Late => write!(f, "the body did not come within {BODY_TIMEOUT:?}"),
        }
    }
}

/// Reads a body of at most `max` bytes, within the timeout. The router's own limit is the same.
///
/// # Errors
/// See [`BodyError`].
pub async fn read_body(request: Request, max: usize) -> Result<Bytes, BodyError> {
    let announced = request.body().size_hint().lower();
    if announced > u64::try_from(max).unwrap_or(u64::MAX) {
        return Err(BodyError::TooLong(max));
    }
    match tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(BodyError::Broken),
        Err(_) => Err(BodyError::Late),
    }
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
    use super::*;

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
