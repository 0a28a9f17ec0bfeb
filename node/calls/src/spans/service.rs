//! `/althing/trace/1`: a node of the same owner asks for this node's spans of a trace, or what the turns of a task did.

use std::sync::Arc;

use althing_call::{Decide, IncomingRequest, Service};
use althing_communication::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_ERROR, refusal};
use althing_communication::{Answer, Caller, Inbound, Request};
use althing_session::StepsError;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use opentelemetry::trace::TraceId;
use serde::{Deserialize, Serialize};

use crate::hosting::Hosting;
use crate::spans::ring::SpanRing;
use crate::spans::run_wire::{RUNS, RunsAnswer, RunsQuestion, is_task};
use crate::spans::span::Span;

/// Stream protocol of spans.
pub const TRACE: &str = "/althing/trace/1";
/// The operation.
pub(crate) const SPANS: &str = "spans";
/// Spans in one answer: the newest.
pub const SPANS_MAX: usize = 1_000;
/// Bytes of one answer.
pub const SPANS_BYTES_MAX: usize = 512 << 10;
const QUESTION_BYTES_MAX: usize = 128;

/// Which trace.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    pub trace: String,
}

/// Spans of the trace, and whether more were left out.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Told {
    pub spans: Vec<Span>,
    #[serde(default)]
    pub more: bool,
}

/// Serves [`TRACE`].
#[derive(Clone)]
pub struct TraceService {
    /// The spans of this node.
    pub ring: Arc<SpanRing>,
    /// Who decides whether somebody may ask.
    pub decide: Arc<dyn Decide>,
    /// The tasks of this node.
    pub hosting: Hosting,
}

impl Inbound for TraceService {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let service = self.clone();
        async move {
            match service.answer(&caller, &request).await {
                Ok(body) => Answer::Response(body),
                Err((code, reason, message)) => {
                    tracing::debug!(caller = %caller.node, message, "no spans are told");
                    Answer::Error(refusal(code, reason, &message))
                }
            }
        }
        .boxed()
    }
}

type Refused = (i32, Option<&'static str>, String);

impl TraceService {
    async fn answer(&self, caller: &Caller, request: &Request) -> Result<Vec<u8>, Refused> {
        // Before anything is read: others do not learn whether the trace is known.
        let judgement = self.decide.decide_incoming(&IncomingRequest::plain(Service::Traces, caller));
        let allowed = judgement.decision().await.allowed();
        allowed.map_err(|denied| (SERVER_ERROR, Some("CALLER_NOT_ALLOWED"), denied.message))?;
        if request.operation == RUNS {
            return self.runs(&request.body);
        }
        if request.operation != SPANS {
            let message = format!("there is no operation {:?} here", request.operation);
            return Err((METHOD_NOT_FOUND, None, message));
        }
        let invalid = |message: String| (INVALID_PARAMS, None, message);
        if request.body.len() > QUESTION_BYTES_MAX {
            return Err(invalid(format!("the question has more than {QUESTION_BYTES_MAX} bytes")));
        }
        let question: Question = serde_json::from_slice(&request.body).map_err(|error| invalid(error.to_string()))?;
        let trace = parse(&question.trace).ok_or_else(|| invalid("a trace has 32 hexadecimal digits".to_owned()))?;
        let kept = self.ring.of(trace, SPANS_MAX + 1);
        serde_json::to_vec(&bounded(kept)).map_err(|error| (SERVER_ERROR, None, error.to_string()))
    }
}

impl TraceService {
    /// What the turns of a task did. A node that does not have it says so.
    fn runs(&self, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let invalid = |message: String| (INVALID_PARAMS, None, message);
        if body.len() > QUESTION_BYTES_MAX {
            return Err(invalid(format!("the question has more than {QUESTION_BYTES_MAX} bytes")));
        }
        let question: RunsQuestion = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
        if !is_task(&question.task) {
            return Err(invalid("that is no id of a task".to_owned()));
        }
        let answer = match self.hosting.own_tasks().runs(&question.task) {
            Ok(runs) => RunsAnswer::from(runs),
            Err(StepsError::NoTask { .. }) => RunsAnswer::default(),
            Err(error) => return Err((SERVER_ERROR, None, error.to_string())),
        };
        serde_json::to_vec(&answer).map_err(|error| (SERVER_ERROR, None, error.to_string()))
    }
}

/// A trace's id: 32 lower-case hexadecimal digits, not all 0.
pub(crate) fn parse(text: &str) -> Option<TraceId> {
    let trace = TraceId::from_hex(text).ok().filter(|trace| *trace != TraceId::INVALID)?;
    (trace.to_string() == text).then_some(trace)
}

/// The newest spans that one answer holds.
fn bounded(mut spans: Vec<Span>) -> Told {
    let (mut bytes, mut room) = (0, 0);
    for span in spans.iter().rev().take(SPANS_MAX) {
        bytes += serde_json::to_vec(span).map_or(SPANS_BYTES_MAX, |json| json.len() + 1);
        if bytes > SPANS_BYTES_MAX {
            break;
        }
        room += 1;
    }
    let left_out = spans.len() - room;
    spans.drain(..left_out);
    Told { spans, more: left_out > 0 }
}
