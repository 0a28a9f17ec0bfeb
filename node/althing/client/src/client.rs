//! The control socket's client: HTTP over a Unix socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_api::Problem;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ClientError;

/// Longest line of a streamed answer: more than the longest event.
const LINE_BYTES_MAX: usize = 8 << 20;

/// Requests that only read are answered at once, or after a measurement; a node that takes longer is stopped, or stuck.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The control socket of the node that keeps its data in this folder.
#[must_use]
pub fn socket(data: &Path) -> PathBuf {
    data.join("control.sock")
}

/// A connection to a node's control socket.
pub struct Client {
    http: reqwest::Client,
    flags: String,
}

impl Client {
    /// Connects to a control socket. `flags` name the node on a command line, for error messages.
    ///
    /// # Errors
    /// [`ClientError::NoNode`], at once, when no node runs.
    pub async fn connect(socket: &Path, flags: String) -> Result<Client, ClientError> {
        if tokio::net::UnixStream::connect(socket).await.is_err() {
            return Err(ClientError::NoNode { socket: socket.to_owned(), flags, others: Vec::new() });
        }
        let http = reqwest::Client::builder().unix_socket(socket).build().map_err(ClientError::Http)?;
        Ok(Client { http, flags })
    }

    /// `GET path`, whose reply has a type.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.finish(self.http.get(url(path)).timeout(READ_TIMEOUT).send().await).await
    }

    /// `GET path?query`, whose reply has a type.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn query<Q: Serialize, T: DeserializeOwned>(&self, path: &str, query: &Q) -> Result<T, ClientError> {
        self.read(&with_query(path, query)).await
    }

    /// `POST path` with a JSON body, whose reply has a type.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ask<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, ClientError> {
        self.finish(self.http.post(url(path)).json(body).send().await).await
    }

    /// `DELETE path`, whose reply has a type.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn remove<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.finish(self.http.delete(url(path)).send().await).await
    }

    /// `GET path`, whose reply has no type.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.read(path).await
    }

    /// `POST path` with a JSON body, whose reply has no type.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn post<T: Serialize>(&self, path: &str, body: &T) -> Result<Value, ClientError> {
        self.ask(path, body).await
    }

    /// `DELETE path`, whose reply has no type.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        self.remove(path).await
    }

    /// `POST path`, answered by lines.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn lines<T: Serialize>(&self, path: &str, body: &T) -> Result<Lines, ClientError> {
        self.begin(self.http.post(url(path)).json(body).send().await).await
    }

    /// `GET path?query`, answered by lines for as long as they are read.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn watch<Q: Serialize>(&self, path: &str, query: &Q) -> Result<Lines, ClientError> {
        self.begin(self.http.get(url(&with_query(path, query))).send().await).await
    }

    async fn begin(&self, sent: Result<reqwest::Response, reqwest::Error>) -> Result<Lines, ClientError> {
        let response = sent.map_err(|error| self.lost(error))?;
        if !response.status().is_success() {
            return Err(problem(response).await);
        }
        Ok(Lines { bytes: response.bytes_stream().boxed(), buffer: Vec::new() })
    }

    /// `GET path`, answered by server-sent events: those after the number `last`, or from now on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn events(&self, path: &str, last: Option<u64>) -> Result<ServerEvents, ClientError> {
        let mut request = self.http.get(url(path));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await.map_err(|error| self.lost(error))?;
        if !response.status().is_success() {
            return Err(problem(response).await);
        }
        Ok(ServerEvents(Lines { bytes: response.bytes_stream().boxed(), buffer: Vec::new() }))
    }

    async fn finish<T: DeserializeOwned>(
        &self,
        sent: Result<reqwest::Response, reqwest::Error>,
    ) -> Result<T, ClientError> {
        let response = sent.map_err(|error| self.lost(error))?;
        if !response.status().is_success() {
            return Err(problem(response).await);
        }
        response.json().await.map_err(|error| self.lost(error))
    }

    fn lost(&self, error: reqwest::Error) -> ClientError {
        if error.is_timeout() {
            return ClientError::TimedOut(READ_TIMEOUT.as_secs());
        }
        ClientError::Lost { error, flags: self.flags.clone() }
    }
}

/// A path with what is asked after it, which is the members of an object without objects in it.
fn with_query(path: &str, query: &impl Serialize) -> String {
    match serde_urlencoded::to_string(query).expect("the members are texts, numbers and flags") {
        nothing if nothing.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// The host has no meaning on a Unix socket.
fn url(path: &str) -> String {
    format!("http://node{path}")
}

async fn problem(response: reqwest::Response) -> ClientError {
    let status = response.status();
    match response.json::<Problem>().await {
        Ok(problem) => problem.into(),
        Err(_) => ClientError::Status(status),
    }
}

/// Lines of JSON as they arrive.
pub struct Lines {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        match self.line().await? {
            Some(line) => Ok(Some(serde_json::from_slice(&line)?)),
            None => Ok(None),
        }
    }

    /// The next line as it was sent.
    async fn line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.buffer.drain(..=end).collect()));
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(ClientError::LineTooLong(LINE_BYTES_MAX));
            }
            match self.bytes.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(error)) => return Err(ClientError::StreamLost(error)),
                None => return Ok(None),
            }
        }
    }
}

/// Server-sent events as they arrive. The node writes the data of each, which is JSON, on one line.
pub struct ServerEvents(Lines);

impl ServerEvents {
    /// The data of the next event; `None` at the end.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        // Between them are their names and numbers, which the data has too, and signs of life.
        while let Some(line) = self.0.line().await? {
            if let Some(data) = line.strip_prefix(b"data:") {
                return Ok(Some(serde_json::from_slice(data)?));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use althing_api::{FindQuery, KeysQuery, TapRequest};

    use super::*;

    #[test]
    fn what_is_asked_stands_behind_its_path() {
        let keys = KeysQuery { prefix: "a b&c=ü/".to_owned(), stale: true };
        assert_eq!(with_query("/groups/g/values", &keys), "/groups/g/values?prefix=a+b%26c%3D%C3%BC%2F&stale=true");
        let find = FindQuery { max_load: Some(0.5), limit: Some(3), ..FindQuery::default() };
        assert_eq!(with_query("/find", &find), "/find?max_load=0.5&limit=3&signed_in=false");
        assert_eq!(with_query("/tap", &TapRequest::default()), "/tap", "what is not asked is left out");
    }

    #[tokio::test]
    async fn events_are_read_however_their_bytes_arrive() {
        let sent = ": alive\n\nid: 7\nevent: trust\ndata: {\"a\":1}\n\n:\n\nid: 8\nevent: x\ndata: {\"a\":2}\n\n";
        for length in [1, 7, sent.len()] {
            let parts: Vec<reqwest::Result<Bytes>> =
                sent.as_bytes().chunks(length).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
            let mut events = ServerEvents(Lines { bytes: futures::stream::iter(parts).boxed(), buffer: Vec::new() });
            for a in [1, 2] {
                let event: Option<Value> = events.next().await.expect("it is JSON");
                assert_eq!(event, Some(serde_json::json!({ "a": a })), "in parts of {length}");
            }
            assert_eq!(events.next::<Value>().await.expect("it ended well"), None);
        }
    }
}
