//! Errors as problem details (RFC 9457).

use std::fmt::Display;

use althing_edge::BodyError;
use althing_log::{AppendError, LogError};
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::machine::Refusal;
use crate::service::{RequestError, StageError};

/// What a route answers.
pub type Answer = Result<Response, Problem>;

/// An error, told to the client.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
    more: Box<More>,
}

/// What few problems have.
#[derive(Debug, Default)]
struct More {
    members: Map<String, Value>,
    challenge: Option<HeaderValue>,
    retry_after_s: Option<u64>,
}

impl Problem {
    /// With that status.
    pub fn new(status: StatusCode, detail: impl Display) -> Problem {
        Problem { status, detail: detail.to_string(), more: Box::default() }
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// With more of what is to be known of it.
    pub fn and(mut self, more: &str) -> Problem {
        self.detail = format!("{}; {more}", self.detail);
        self
    }

    /// With one more member.
    pub fn with(mut self, name: &str, value: Value) -> Problem {
        self.more.members.insert(name.to_owned(), value);
        self
    }

    /// With what the client has to show (RFC 9110 §11.6.1).
    pub fn challenge(mut self, challenge: &str) -> Problem {
        self.more.challenge = HeaderValue::from_str(challenge).ok();
        self
    }

    /// With when it may be tried again.
    pub fn retry_after(mut self, seconds: u64) -> Problem {
        self.more.retry_after_s = Some(seconds);
        self
    }

    /// The request is none.
    pub fn bad(detail: impl Display) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The body cannot be read.
    pub fn body(error: BodyError) -> Problem {
        let problem = Problem::new(error.status(), error);
        match error.retry_after_s() {
            Some(seconds) => problem.retry_after(seconds),
            None => problem,
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        RequestError::from(refusal).into()
    }
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Problem {
        let status = match &error {
            RequestError::Refused(refusal) => status(refusal),
            RequestError::SignIn(_) | RequestError::OldKeys(_) => StatusCode::UNAUTHORIZED,
            RequestError::Quarantined { .. } | RequestError::Stranger(_) => StatusCode::FORBIDDEN,
            RequestError::SignInFirst | RequestError::StageFirst => StatusCode::UNAUTHORIZED,
            RequestError::NoSessions | RequestError::NoLookup | RequestError::NoSalt => StatusCode::SERVICE_UNAVAILABLE,
            RequestError::Stage(error) => staging(error),
            RequestError::NoAgent(_)
            | RequestError::NoName { .. }
            | RequestError::NoStatement(_)
            | RequestError::NoVersion(..)
            | RequestError::NoBundle
            | RequestError::BundleUnknown => StatusCode::NOT_FOUND,
            RequestError::Presence(_) => StatusCode::UNPROCESSABLE_ENTITY,
            RequestError::OtherBundle | RequestError::NoRoom => StatusCode::CONFLICT,
            RequestError::BundleTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            RequestError::Log(LogError::Tree(_)) => StatusCode::BAD_REQUEST,
            RequestError::Append(AppendError::Store(_)) | RequestError::Write(_) => StatusCode::SERVICE_UNAVAILABLE,
            RequestError::Append(_)
            | RequestError::Log(_)
            | RequestError::Read(_)
            | RequestError::Damaged(_)
            | RequestError::Unfinished => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::error!(%error, "a request failed");
        }
        Problem::new(status, error)
    }
}

fn staging(error: &StageError) -> StatusCode {
    match error {
        StageError::NotYours(_) => StatusCode::FORBIDDEN,
        StageError::Digest | StageError::Bytes(_) | StageError::Description(_) => StatusCode::UNPROCESSABLE_ENTITY,
        StageError::Released(..) => StatusCode::CONFLICT,
        StageError::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
        StageError::None(_) => StatusCode::NOT_FOUND,
    }
}

fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::DomainUnknown(_) | Refusal::NoDomain(_) | Refusal::NoRelease { .. } | Refusal::NoReleases(_) => {
            StatusCode::NOT_FOUND
        }
        Refusal::DomainsFull(_) | Refusal::AttestationsFull { .. } | Refusal::PublisherFull { .. } => {
            StatusCode::INSUFFICIENT_STORAGE
        }
        Refusal::NotAdmitted(_)
        | Refusal::NotYours { .. }
        | Refusal::NotYourRoster { .. }
        | Refusal::OtherSigner { .. } => StatusCode::FORBIDDEN,
        Refusal::VersionTaken { .. }
        | Refusal::OtherKeyLog(_)
        | Refusal::AttestationStale { .. }
        | Refusal::NotPurgeable { .. }
        | Refusal::Revoked { .. }
        | Refusal::VersionsFull { .. }
        | Refusal::MarksFull { .. }
        | Refusal::ApprovedBefore { .. }
        | Refusal::ApprovedAlready { .. }
        | Refusal::OtherRelease { .. }
        | Refusal::OtherContent { .. }
        | Refusal::RosterStale { .. }
        | Refusal::RosterOver { .. }
        | Refusal::DomainNotProven { .. }
        | Refusal::Stale { .. } => StatusCode::CONFLICT,
        Refusal::Submission(_)
        | Refusal::Empty
        | Refusal::KeyLog(_)
        | Refusal::Object { .. }
        | Refusal::Twice { .. }
        | Refusal::Kind { .. }
        | Refusal::NoSubject { .. }
        | Refusal::Reason { .. }
        | Refusal::Audience { .. }
        | Refusal::DescriptionMissing { .. }
        | Refusal::Description { .. } => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("error");
        let mut body = json!({ "title": title, "status": self.status.as_u16(), "detail": self.detail });
        for (name, value) in self.more.members {
            body[name] = value;
        }
        let mut response = (self.status, Json(body)).into_response();
        if let Some(challenge) = self.more.challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = self.more.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
