//! The command line's side of the control socket.

use std::path::Path;
use std::time::Duration;

use althing_control::Problem;
use futures::StreamExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Longest line of a streamed answer.
const LINE_BYTES_MAX: usize = 4 << 20;

/// What only reads is answered at once, or after what it measures; a node that takes longer is stopped, or stuck.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to the node of these paths.
pub struct Client {
    http: reqwest::Client,
    flags: String,
}

impl Client {
    /// The node's control socket; fails at once when no node runs.
    pub async fn connect(at: &Paths) -> Result<Client, Failure> {
        let socket = at.socket();
        if tokio::net::UnixStream::connect(&socket).await.is_err() {
            return Err(no_node(&at.flags(), &socket));
        }
        let http = reqwest::Client::builder().unix_socket(socket).build();
        let http = http.map_err(|error| Failure::failed(format!("cannot speak to the node: {error}")))?;
        Ok(Client { http, flags: at.flags() })
    }

    /// `GET path`.
    pub async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.finish(self.http.get(url(path)).timeout(READ_TIMEOUT).send().await).await
    }

    /// `POST path` with a JSON body.
    pub async fn post<T: Serialize>(&self, path: &str, body: &T) -> Result<Value, Failure> {
        self.finish(self.http.post(url(path)).json(body).send().await).await
    }

    /// `DELETE path`.
    pub async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.finish(self.http.delete(url(path)).send().await).await
    }

    /// `POST path`, answered by lines.
    pub async fn lines<T: Serialize>(&self, path: &str, body: &T) -> Result<Lines, Failure> {
        let response = self.http.post(url(path)).json(body).send().await.map_err(|error| self.lost(&error))?;
        if !response.status().is_success() {
            return Err(problem(response).await);
        }
        Ok(Lines { bytes: response.bytes_stream().boxed(), buffer: Vec::new() })
    }

    async fn finish<T: DeserializeOwned>(&self, sent: Result<reqwest::Response, reqwest::Error>) -> Result<T, Failure> {
        let response = sent.map_err(|error| self.lost(&error))?;
        if !response.status().is_success() {
            return Err(problem(response).await);
        }
        response.json().await.map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() {
            let message =
                format!("the node did not answer within {} s: it is stopped, or stuck", READ_TIMEOUT.as_secs());
            return Failure::new(code::UNREACHABLE, message);
        }
        Failure::new(code::NO_NODE, format!("the node went away ({error}); start it with `althing{} up`", self.flags))
    }
}

/// The host is of no meaning on a Unix socket.
fn url(path: &str) -> String {
    format!("http://node{path}")
}

fn no_node(flags: &str, socket: &Path) -> Failure {
    let message = format!("no node runs here ({}); start one with `althing{flags} up`", socket.display());
    Failure::new(code::NO_NODE, message)
}

async fn problem(response: reqwest::Response) -> Failure {
    let status = response.status();
    match response.json::<Problem>().await {
        Ok(problem) => problem.into(),
        Err(_) => Failure::failed(format!("the node answered {status}")),
    }
}

/// Lines of JSON as they arrive.
pub struct Lines {
    bytes: futures::stream::BoxStream<'static, reqwest::Result<axum::body::Bytes>>,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line; `None` at the end.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(|error| Failure::failed(error.to_string()));
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(Failure::failed(format!("the node sent a line of more than {LINE_BYTES_MAX} bytes")));
            }
            match self.bytes.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(error)) => return Err(Failure::new(code::NO_NODE, format!("the node went away: {error}"))),
                None => return Ok(None),
            }
        }
    }
}
