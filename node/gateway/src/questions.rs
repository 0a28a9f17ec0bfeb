//! Calls of this node's agents that wait for people, for those of them who are elsewhere: a user of this gateway who is asked reads the
//! question, and answers with a signature.

use std::sync::Arc;

use althing_calls::Principal;
use althing_edge::{Scope, is_json, problem, read_body};
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Json, Response};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::a2a::schemas;
use crate::client::Client;
use crate::routes::{Answer, Route, Routes, Tag};
use crate::{Gateway, JSON};

/// This face in the table of routes.
const TAG: &Tag = &Tag { name: "People", about: "What waits for people", refusals: JSON, refusal: schemas::error };
/// Bytes of an answer: a signature and a reason.
const ANSWER_BYTES_MAX: usize = 32 << 10;

/// What calls of the node's agents wait for, for people who are users of its gateway.
pub trait Questions: Send + Sync {
    /// What a user is asked, with the texts that are signed to answer it, as JSON.
    ///
    /// # Errors
    /// [`QuestionRefusal`]: the user is nobody who is asked that.
    fn show(&self, user: &str, ask: &str) -> Result<Value, QuestionRefusal>;

    /// Takes a user's signed answer, as JSON, at most 32 KiB. It is taken also where whoever sent it hangs up.
    ///
    /// # Errors
    /// [`QuestionRefusal`]; then nothing was answered.
    fn answer(&self, user: String, ask: String, answer: Bytes) -> BoxFuture<'static, Result<Value, QuestionRefusal>>;
}

/// Why a question is not shown, or an answer does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QuestionRefusal {
    /// The status of HTTP.
    pub status: u16,
    /// Why, and what to do.
    pub message: String,
}

impl QuestionRefusal {
    fn of(status: StatusCode, message: impl Into<String>) -> QuestionRefusal {
        QuestionRefusal { status: status.as_u16(), message: message.into() }
    }
}

/// Where a person reads what waits for a yes, and answers it.
pub(crate) fn routes() -> Routes {
    const ASKED: &[Answer] = &[Answer::ok("The question, and what is signed to approve and to deny it", JSON)];
    const ANSWERED: &[Answer] = &[Answer::ok("Whether it is open still, approved or denied", JSON)];
    Routes::default()
        .route(
            Route::get("/questions/{ask}", TAG, "Shows a call that waits for the user's yes")
                .needs(Scope::Call)
                .answers(ASKED),
            show,
        )
        .route(
            Route::post("/questions/{ask}", TAG, "Takes the user's signed answer").request(schema).answers(ANSWERED),
            answer,
        )
}

/// What an answer is.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "approved": { "type": "boolean" },
            "reason": { "type": "string", "description": "Why not, for the agent and for the record" },
            "signature": {
                "type": "string",
                "description": "What `ssh-keygen -Y sign -n althing-consent` makes of the text that is signed",
            },
        },
        "required": ["approved", "signature"],
        "additionalProperties": false,
    })
}

async fn show(State(gateway): State<Arc<Gateway>>, Path(ask): Path<String>, client: Client) -> Response {
    let shown = found(&gateway, &client).and_then(|(questions, user)| questions.show(user, &ask));
    told(shown)
}

async fn answer(
    State(gateway): State<Arc<Gateway>>,
    Path(ask): Path<String>,
    client: Client,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let (questions, user) = match found(&gateway, &client) {
        Ok(found) => found,
        Err(refusal) => return told(Err(refusal)),
    };
    if !is_json(&headers, &[]) {
        let why = "an answer is application/json, and the Content-Type must say so";
        return told(Err(QuestionRefusal::of(StatusCode::UNSUPPORTED_MEDIA_TYPE, why)));
    }
    let body = match read_body(request, ANSWER_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => {
            let refused = || told(Err(QuestionRefusal::of(error.status(), error.to_string())));
            return error.crowded(false).unwrap_or_else(refused);
        }
    };
    told(questions.answer(user.to_owned(), ask, body).await)
}

/// Where questions are, and the user who asks for one.
fn found<'a>(gateway: &'a Gateway, client: &'a Client) -> Result<(&'a dyn Questions, &'a str), QuestionRefusal> {
    let Some(questions) = &gateway.questions else {
        return Err(QuestionRefusal::of(StatusCode::NOT_FOUND, "this gateway takes no answers of people"));
    };
    match &client.principal {
        Principal::User(user) => Ok((questions.as_ref(), user.as_str())),
        // Whoever sits at the machine has its control socket; a token without a name is nobody's.
        _ => {
            let why =
                "who answers here is a user of this gateway whom the file of people names: use a token of your own";
            Err(QuestionRefusal::of(StatusCode::FORBIDDEN, why))
        }
    }
}

fn told(answered: Result<Value, QuestionRefusal>) -> Response {
    match answered {
        // Nobody else is asked that.
        Ok(told) => ([(header::CACHE_CONTROL, "no-store")], Json(told)).into_response(),
        Err(QuestionRefusal { status, message }) => {
            problem(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &message)
        }
    }
}
