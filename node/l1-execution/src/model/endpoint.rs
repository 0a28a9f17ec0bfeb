//! One endpoint that speaks OpenAI's chat completions, streamed.

use std::collections::{BTreeSet, VecDeque};
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
use crate::model::chunk::{Calls, Chunk, OTHER, Unread};
use crate::sse::Events;
use crate::tools::Denied;

/// How long an endpoint may take to answer, and between two pieces of an answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of an answer that is not streamed.
const WHOLE_BYTES_MAX: usize = 4 << 20;
/// Bytes of text that count as a token where nobody tells how many there are.
const BYTES_OF_TOKEN: usize = 4;
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

/// Why an endpoint did not answer, or failed during the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EndpointError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it answered {status}: {said}")]
    Status { status: u16, said: String },
    #[error("it answered with an error: {0}")]
    Error(String),
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
            EndpointError::Error(_) => "it answered with an error".to_owned(),
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
        Ok(Stream::new(bytes))
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
    /// What came of an answer that is not streamed; none of one that is, and before anything came.
    whole: Option<Vec<u8>>,
    has_begun: bool,
    ready: VecDeque<String>,
    completion: Completion,
    calls: Calls,
    /// Members that were left out, as they are named to the operator: each once.
    odd: BTreeSet<&'static str>,
    over: bool,
}

impl Stream {
    fn new(bytes: BoxStream<'static, reqwest::Result<bytes::Bytes>>) -> Stream {
        Stream {
            bytes,
            events: Events::default(),
            whole: None,
            has_begun: false,
            ready: VecDeque::new(),
            completion: Completion::default(),
            calls: Calls::default(),
            odd: BTreeSet::new(),
            over: false,
        }
    }

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
                None if self.whole.is_some() => self.end_whole()?,
                // Some servers close without `[DONE]`, but none before the finish reason.
                None if self.completion.finish.is_empty() => return Err(EndpointError::Cut),
                None => self.over = true,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), EndpointError> {
        // No line of an event begins like that: it is an answer in one piece, whatever its media type says.
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if let Some(first) = first.filter(|_| !self.has_begun) {
            self.has_begun = true;
            self.whole = matches!(first, b'{' | b'[').then(Vec::new);
        }
        if let Some(whole) = &mut self.whole {
            if whole.len() + bytes.len() > WHOLE_BYTES_MAX {
                return Err(EndpointError::Malformed(format!("an answer of more than {WHOLE_BYTES_MAX} bytes")));
            }
            whole.extend_from_slice(bytes);
            return Ok(());
        }
        let events = self.events.push(bytes).map_err(|_| EndpointError::Malformed("an endless event".to_owned()))?;
        for event in events {
            if event.data == b"[DONE]" {
                self.over = true;
                return Ok(());
            }
            self.take_chunk(&event.data)?;
        }
        Ok(())
    }

    /// Reads an answer that is not streamed, which is there to its end.
    fn end_whole(&mut self) -> Result<(), EndpointError> {
        let whole = self.whole.take().unwrap_or_default();
        self.take_chunk(&whole)?;
        self.over = true;
        let completion = &mut self.completion;
        if completion.finish.is_empty() {
            OTHER.clone_into(&mut completion.finish);
        }
        // It is one piece, which would count as one token.
        let bytes: usize = self.ready.iter().map(String::len).sum();
        let tokens = u64::try_from(bytes.div_ceil(BYTES_OF_TOKEN)).unwrap_or(u64::MAX);
        completion.output_tokens.get_or_insert(tokens);
        Ok(())
    }

    fn take_chunk(&mut self, bytes: &[u8]) -> Result<(), EndpointError> {
        let chunk = Chunk::read(bytes).map_err(|unread| match unread {
            Unread::Malformed(why) => EndpointError::Malformed(why),
            Unread::Error(said) => EndpointError::Error(said),
        })?;
        for member in chunk.odd {
            if self.odd.insert(member) {
                tracing::debug!("`{member}` of an endpoint's answer is not as it should be, and is left out");
            }
        }
        let completion = &mut self.completion;
        completion.model = chunk.model.or(completion.model.take());
        completion.input_tokens = chunk.input_tokens.or(completion.input_tokens);
        completion.output_tokens = chunk.output_tokens.or(completion.output_tokens);
        for piece in chunk.calls {
            self.calls.add(&mut completion.calls, piece).map_err(EndpointError::Malformed)?;
        }
        self.ready.extend(chunk.texts);
        if let Some(finish) = chunk.finish {
            completion.finish = finish;
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
        let mut answer = Stream::new(stream::empty().boxed());
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
    /// The text of an answer in these pieces, and what is told of it; or why there is none.
    async fn answered(pieces: &[&str]) -> Result<(String, Completion), EndpointError> {
        let pieces: Vec<reqwest::Result<bytes::Bytes>> =
            pieces.iter().map(|piece| Ok(bytes::Bytes::copy_from_slice(piece.as_bytes()))).collect();
        let mut answer = Stream::new(stream::iter(pieces).boxed());
        let mut text = String::new();
        while let Some(more) = answer.next(100).await? {
            text.push_str(&more);
        }
        Ok((text, answer.completion()))
    }

    #[tokio::test]
    async fn an_answer_that_is_not_streamed_is_read_as_one_piece() {
        let whole = json!({ "choices": [{ "message": { "content": "hello" }, "finish_reason": "stop" }] }).to_string();
        let (begin, end) = whole.split_at(9);
        for pieces in [vec![whole.as_str()], vec!["\n", begin, end]] {
            let (text, completion) = answered(&pieces).await.expect("an answer");
            assert_eq!((text.as_str(), completion.finish.as_str()), ("hello", "stop"));
            assert_eq!(completion.output_tokens, Some(2), "five bytes are more than one token");
        }
        let unended = json!({ "choices": [{ "message": { "content": "hello" } }] }).to_string();
        assert_eq!(answered(&[&unended]).await.expect("an answer").1.finish, OTHER);
        assert!(matches!(answered(&[begin]).await, Err(EndpointError::Malformed(_))), "it broke off");
        assert!(matches!(answered(&[&"[".repeat(WHOLE_BYTES_MAX + 1)]).await, Err(EndpointError::Malformed(_))));
    }

    #[tokio::test]
    async fn an_odd_piece_spoils_no_stream() {
        let pieces = [
            "data: {\"choices\":null,\"usage\":7}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":[{\"text\":\"hel\"}],\"tool_calls\":null},\"finish_reason\":null}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"\"}]}\n\n",
            "data: {\"choices\":[{\"delta\":null,\"finish_reason\":7}],\"usage\":null}\n\n",
        ];
        let (text, completion) = answered(&pieces).await.expect("an answer");
        assert_eq!((text.as_str(), completion.finish.as_str(), completion.pieces), ("hello", OTHER, 2));
        assert_eq!(completion.tokens(9), (9, 2), "they are counted where they are not told");
    }

    #[tokio::test]
    async fn an_error_with_status_200_is_told_as_one() {
        for pieces in [
            ["{\"error\":{\"message\":\"no room\"}}", ""],
            ["data: {\"choices\":[]}\n\n", "data: {\"error\":{\"message\":\"no room\"}}\n\n"],
        ] {
            let error = answered(&pieces).await.expect_err("an error");
            assert_eq!(error.to_string(), "it answered with an error: no room");
            assert_eq!(error.brief(), "it answered with an error", "what it said may be private");
        }
    }
}
