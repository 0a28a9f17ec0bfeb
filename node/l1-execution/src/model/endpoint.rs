//! One endpoint that speaks OpenAI's chat completions, streamed.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::{CONNECT_TIMEOUT, bearer, client};
use crate::model::chat::ChatMessage;
use crate::model::error::{EndpointError, PATIENCE};
use crate::model::stream::Stream;

/// How much of an error is read.
const ERROR_BYTES: usize = 2_048;

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
        let response = sent.map_err(EndpointError::unreachable)?;
        let status = response.status().as_u16();
        let mut bytes = response.bytes_stream().boxed();
        if status != 200 {
            return Err(EndpointError::Status { status, said: error_body(&mut bytes).await });
        }
        Ok(Stream::new(bytes, body["messages"].as_array().map_or(0, Vec::len)))
    }
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
