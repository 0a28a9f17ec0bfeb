//! Errors of the directory as problem details.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::super::problem::Problem;
use crate::machine::things::ThingRefusal;
use crate::service::{Fault, SearchError, ThingError, TurnError};

impl From<ThingError> for Problem {
    fn from(error: ThingError) -> Problem {
        let status = match &error {
            ThingError::Invalid(findings) if findings.errors().any(|one| one.rule == "too-large") => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            ThingError::Invalid(_)
            | ThingError::Registration { .. }
            | ThingError::NoId(_)
            | ThingError::OtherId { .. }
            | ThingError::HasId(_)
            | ThingError::Patch => StatusCode::BAD_REQUEST,
            ThingError::Contended(_) => StatusCode::CONFLICT,
            ThingError::NoDirectory => StatusCode::FORBIDDEN,
            ThingError::Refused(refusal) => status(refusal),
            ThingError::Request(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let faults: Vec<Value> = error.faults().into_iter().map(fault_json).collect();
        let problem = match error {
            ThingError::Request(error) => return error.into(),
            ThingError::Invalid(_) => {
                Problem::new(status, "the Thing Description is not valid; validationErrors say where and why")
            }
            error => Problem::new(status, error),
        };
        if faults.is_empty() { problem } else { problem.with("validationErrors", Value::Array(faults)) }
    }
}

fn fault_json(Fault { field, description }: Fault) -> Value {
    json!({ "field": field, "description": description })
}

fn status(refusal: &ThingRefusal) -> StatusCode {
    match refusal {
        ThingRefusal::Id { .. } | ThingRefusal::Over | ThingRefusal::Ttl { .. } => StatusCode::BAD_REQUEST,
        ThingRefusal::Agent(_) | ThingRefusal::NotYours(_) | ThingRefusal::WriterFull { .. } => StatusCode::FORBIDDEN,
        ThingRefusal::None(_) => StatusCode::NOT_FOUND,
        ThingRefusal::Changed(_) => StatusCode::PRECONDITION_FAILED,
        ThingRefusal::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
    }
}

impl From<SearchError> for Problem {
    fn from(error: SearchError) -> Problem {
        let status = match &error {
            SearchError::Query { .. }
            | SearchError::TooLong { .. }
            | SearchError::Nested
            | SearchError::Repeat
            | SearchError::Expression
            | SearchError::Start
            | SearchError::Costly { .. } => StatusCode::BAD_REQUEST,
            SearchError::Time { .. } | SearchError::TooMuch { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            SearchError::Turn(error) => return (*error).into(),
            SearchError::Failed | SearchError::Thing(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        match error {
            SearchError::Thing(error) => error.into(),
            error => Problem::new(status, error),
        }
    }
}

impl From<TurnError> for Problem {
    fn from(error: TurnError) -> Problem {
        let status = match error {
            TurnError::Busy => StatusCode::SERVICE_UNAVAILABLE,
            TurnError::Yours => StatusCode::TOO_MANY_REQUESTS,
            TurnError::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, error).retry_after(1)
    }
}
