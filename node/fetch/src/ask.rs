//! One request with headers of its own, to exactly where it was addressed.

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response};

use crate::{Fetch, FetchError, Given, Limits, Url, why};

/// What is sent.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// Its headers; those with secrets should be marked as sensitive.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

/// What came back, whatever its status.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, as far as it was read.
    pub body: Vec<u8>,
}

impl Fetch {
    /// Sends a request. Redirects are not followed. Of the body is read what there is, or until `enough` says so of what
    /// there is so far.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn ask(
        &self,
        given: Given,
        request: Request,
        limits: Limits,
        enough: impl Fn(&[u8]) -> bool + Send,
    ) -> Result<Reply, FetchError> {
        self.check(&request.url, given)?;
        let client = if given == Given::Operator { &self.free } else { &self.guarded };
        let Request { method, url, headers, body } = request;
        let asked = client.request(method, url).headers(headers).body(body);
        let asked = async {
            let response = asked.send().await.map_err(why)?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let body = some(response, limits.bytes, enough).await?;
            Ok(Reply { status, headers, body })
        };
        timed(limits.time, asked).await
    }
}

async fn timed<T>(time: Duration, asked: impl Future<Output = Result<T, FetchError>>) -> Result<T, FetchError> {
    let late = |_| Err(FetchError::TooLate(time.as_millis()));
    tokio::time::timeout(time, asked).await.unwrap_or_else(late)
}

async fn some(
    response: Response,
    bytes_max: usize,
    enough: impl Fn(&[u8]) -> bool + Send,
) -> Result<Vec<u8>, FetchError> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(why)?;
        if body.len() + chunk.len() > bytes_max {
            return Err(FetchError::TooLong(bytes_max));
        }
        body.extend_from_slice(&chunk);
        if enough(&body) {
            break;
        }
    }
    Ok(body)
}
