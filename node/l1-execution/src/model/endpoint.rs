//! One endpoint that speaks OpenAI's chat completions, streamed.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::{CONNECT_TIMEOUT, bearer, client};
use crate::journal::JournalError;
use crate::model::chat::{ChatMessage, ChatToolCall};
use crate::sse::Events;
use crate::tools::Denied;

/// How long an endpoint may take to answer, and between two pieces of an answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Tool calls of one answer, and their bytes.
const CALLS_MAX: usize = 32;
const CALLS_BYTES_MAX: usize = 1 << 20;
/// How much of an error is read.
const ERROR_BYTES: usize = 2_048;
/// Bytes of the name of a model, and what stands in one beside letters and digits.
const MODEL_NAME_BYTES_MAX: usize = 128;
const MODEL_NAME_MARKS: &str = "._:/@+-";
/// Why models stop, in the words of endpoints; whatever else one says is [`OTHER`].
const FINISHES: [&str; 16] = [
    "stop",
    "length",
    "content_filter",
    "tool_calls",
    "function_call",
    "max_tokens",
    "model_length",
    "end_turn",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "eos",
    "eos_token",
    "abort",
    "error",
];
const OTHER: &str = "other";

/// Why an endpoint did not answer, or failed during the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EndpointError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it answered {status}: {said}")]
    Status { status: u16, said: String },
    #[error("it sent nothing for {} s", PATIENCE.as_secs())]
    Silent,
    #[error("it sent a malformed chat completion: {0}")]
    Malformed(String),
    #[error("it ended in the middle of an answer")]
    Cut,
    #[error("the request was cancelled")]
    Cancelled,
    /// The agent's gate did not let the request out.
    #[error(transparent)]
    Denied(Denied),
    /// Somebody is asked whether it lets the request out, and the turn ends until then.
    #[error(transparent)]
    Journal(JournalError),
}

impl EndpointError {
    /// The status by which the endpoint refused the credentials that it was sent, if it did.
    pub fn refused(&self) -> Option<u16> {
        match self {
            EndpointError::Status { status: status @ (401 | 403), .. } => Some(*status),
            _ => None,
        }
    }

    /// The text for callers, without what the endpoint sent, which may be private to its owner.
    pub fn brief(&self) -> String {
        match self {
            EndpointError::Status { status, .. } => format!("it answered {status}"),
            EndpointError::Unreachable(_) => "it cannot be reached".to_owned(),
            EndpointError::Malformed(_) => "it sent a malformed chat completion".to_owned(),
            EndpointError::Silent
            | EndpointError::Cut
            | EndpointError::Cancelled
            | EndpointError::Denied(_)
            | EndpointError::Journal(_) => self.to_string(),
        }
    }
}

/// A request to a model.
pub(super) struct ChatRequest<'a> {
    pub messages: &'a [ChatMessage],
    /// The tools that it may call, in the format of OpenAI.
    pub functions: &'a [Value],
    pub temperature: Option<f64>,
    /// The tokens that the answer may have.
    pub max_tokens: u64,
    /// The estimated tokens of the prompt.
    pub prompt_tokens: u64,
}

/// The client of a model's endpoint.
pub(super) struct Endpoint {
    http: reqwest::Client,
    url: String,
    model: String,
    authorization: Option<HeaderValue>,
}

/// A finished answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Completion {
    pub model: Option<String>,
    /// What a million tokens cost at the endpoint that answered, millionths of a currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
    pub finish: String,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub pieces: u64,
    /// The text of the answer.
    pub text: String,
    /// The tool calls that the model makes.
    pub calls: Vec<ChatToolCall>,
}

impl Completion {
    /// Input and output tokens; estimated if the endpoint does not tell.
    pub fn tokens(&self, prompt_tokens: u64) -> (u64, u64) {
        (self.input_tokens.unwrap_or(prompt_tokens), self.output_tokens.unwrap_or(self.pieces))
    }
}

#[derive(Deserialize)]
struct Chunk {
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<CallPiece>,
}

/// A piece of a tool call.
#[derive(Deserialize)]
struct CallPiece {
    #[serde(default)]
    index: usize,
    id: Option<String>,
    #[serde(default)]
    function: FunctionPiece,
}

#[derive(Default, Deserialize)]
struct FunctionPiece {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

impl Endpoint {
    pub fn new(url: &str, model: &str, secret: Option<String>) -> Result<Endpoint, String> {
        let authorization = secret.map(|secret| bearer(url, &secret)).transpose()?;
        let http = client(url, CONNECT_TIMEOUT)?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Endpoint { http, url, model: model.to_owned(), authorization })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn model(&self) -> &str {
        &self.model
    }

    /// The body of a request.
    pub fn body(&self, request: &ChatRequest<'_>) -> Value {
        let mut body = json!({
            "model": self.model,
            "messages": request.messages,
            "stream": true,
            "stream_options": { "include_usage": true },
            "max_tokens": request.max_tokens,
        });
        if let Some(temperature) = request.temperature {
            body["temperature"] = json!(temperature);
        }
        if !request.functions.is_empty() {
            body["tools"] = json!(request.functions);
        }
        body
    }

    /// Sends the body of a request; the answer is streamed.
    pub async fn ask(&self, body: &Value) -> Result<Stream, EndpointError> {
        let mut http_request =
            self.http.post(format!("{}/chat/completions", self.url)).header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            http_request = http_request.header(AUTHORIZATION, authorization.clone());
        }
        let sent =
            timeout(PATIENCE, http_request.body(body.to_string()).send()).await.map_err(|_| EndpointError::Silent)?;
        // The URL may hold a secret.
        let response = sent.map_err(|error| EndpointError::Unreachable(whole(&error.without_url())))?;
        let status = response.status().as_u16();
        let mut bytes = response.bytes_stream().boxed();
        if status != 200 {
            return Err(EndpointError::Status { status, said: error_body(&mut bytes).await });
        }
        Ok(Stream {
            bytes,
            events: Events::default(),
            ready: VecDeque::new(),
            completion: Completion::default(),
            over: false,
        })
    }
}

/// An error with its sources.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

async fn error_body(bytes: &mut BoxStream<'static, reqwest::Result<bytes::Bytes>>) -> String {
    let mut said = Vec::new();
    while said.len() < ERROR_BYTES {
        match timeout(CONNECT_TIMEOUT, bytes.next()).await {
            Ok(Some(Ok(more))) => said.extend_from_slice(&more),
            _ => break,
        }
    }
    said.truncate(ERROR_BYTES);
    String::from_utf8_lossy(&said).trim().to_owned()
}

/// A streamed answer.
pub(super) struct Stream {
    bytes: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    events: Events,
    ready: VecDeque<String>,
    completion: Completion,
    over: bool,
}

impl Stream {
    /// The next piece of text; none at the end. An answer is cut after `max_tokens` pieces, each of which has at least one
    /// token.
    pub async fn next(&mut self, max_tokens: u64) -> Result<Option<String>, EndpointError> {
        loop {
            if let Some(text) = self.ready.pop_front() {
                if self.completion.pieces >= max_tokens {
                    "length".clone_into(&mut self.completion.finish);
                    self.ready.clear();
                    self.over = true;
                    return Ok(None);
                }
                self.completion.pieces += 1;
                return Ok(Some(text));
            }
            if self.over {
                return Ok(None);
            }
            let more = timeout(PATIENCE, self.bytes.next()).await.map_err(|_| EndpointError::Silent)?;
            match more {
                Some(Ok(bytes)) => self.take(&bytes)?,
                Some(Err(error)) => return Err(EndpointError::Unreachable(whole(&error.without_url()))),
                // Some servers close without `[DONE]`, but none before the finish reason.
                None if self.completion.finish.is_empty() => return Err(EndpointError::Cut),
                None => self.over = true,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), EndpointError> {
        let events = self.events.push(bytes).map_err(|_| EndpointError::Malformed("an endless event".to_owned()))?;
        for event in events {
            if event.data == b"[DONE]" {
                self.over = true;
                return Ok(());
            }
            let malformed = |error: serde_json::Error| EndpointError::Malformed(error.to_string());
            let chunk: Chunk = serde_json::from_slice(&event.data).map_err(malformed)?;
            if let Some(error) = chunk.error {
                let said: String = error.to_string().chars().take(ERROR_BYTES).collect();
                return Err(EndpointError::Status { status: 200, said });
            }
            self.completion.model = chunk.model.or(self.completion.model.take());
            if let Some(usage) = chunk.usage {
                self.completion.input_tokens = Some(usage.prompt_tokens);
                self.completion.output_tokens = Some(usage.completion_tokens);
            }
            for choice in chunk.choices {
                for piece in choice.delta.tool_calls {
                    self.collect(piece)?;
                }
                self.ready.extend(choice.delta.content.filter(|text| !text.is_empty()));
                if let Some(finish) = choice.finish_reason {
                    self.completion.finish = finish;
                }
            }
        }
        Ok(())
    }

    fn collect(&mut self, piece: CallPiece) -> Result<(), EndpointError> {
        let calls = &mut self.completion.calls;
        if piece.index >= CALLS_MAX || piece.index > calls.len() {
            return Err(EndpointError::Malformed(format!("a tool call with the index {}", piece.index)));
        }
        if piece.index == calls.len() {
            calls.push(ChatToolCall { kind: "function", ..ChatToolCall::default() });
        }
        let call = &mut calls[piece.index];
        call.id.push_str(piece.id.as_deref().unwrap_or_default());
        call.function.name.push_str(piece.function.name.as_deref().unwrap_or_default());
        call.function.arguments.push_str(piece.function.arguments.as_deref().unwrap_or_default());
        let length: usize =
            calls.iter().map(|call| call.id.len() + call.function.name.len() + call.function.arguments.len()).sum();
        if length > CALLS_BYTES_MAX {
            return Err(EndpointError::Malformed(format!("tool calls of more than {CALLS_BYTES_MAX} bytes")));
        }
        Ok(())
    }

    /// The finished answer. What the endpoint says of it is shown beside the answer, where no gate reads it: so only what is no
    /// text is kept of that, and the name of the model not at all if it could be one.
    pub fn completion(mut self) -> Completion {
        self.completion.model = self.completion.model.take().filter(|model| is_model_name(model));
        let finish = &mut self.completion.finish;
        if !finish.is_empty() && !FINISHES.contains(&finish.as_str()) {
            OTHER.clone_into(finish);
        }
        self.completion
    }
}

fn is_model_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || MODEL_NAME_MARKS.contains(letter);
    !name.is_empty() && name.len() <= MODEL_NAME_BYTES_MAX && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    /// What is kept of an endpoint's word of which model answered, and why it stopped.
    fn kept(model: &str, finish: &str) -> (Option<String>, String) {
        let event = json!({ "model": model, "choices": [{ "delta": {}, "finish_reason": finish }] });
        let (bytes, events, ready) = (stream::empty().boxed(), Events::default(), VecDeque::new());
        let mut answer = Stream { bytes, events, ready, completion: Completion::default(), over: false };
        answer.take(format!("data: {event}\n\n").as_bytes()).expect("a chunk");
        let completion = answer.completion();
        (completion.model, completion.finish)
    }

    #[test]
    fn an_endpoint_says_no_text_beside_an_answer() {
        for (model, finish) in [("small-1", "stop"), ("Qwen/Qwen2.5-7B@v1:q4", "length"), ("m", "content_filter")] {
            assert_eq!(kept(model, finish), (Some(model.to_owned()), finish.to_owned()));
        }
        for text in ["the real total is 7", "zwölf", "", &"7".repeat(MODEL_NAME_BYTES_MAX + 1)] {
            assert_eq!(kept(text, "stop").0, None, "{text}");
        }
        for text in ["the real total is 7", "STOP7", "seven"] {
            assert_eq!(kept("m", text).1, OTHER, "{text}");
        }
    }
}
