//! A receiver of push notifications on a port of loopback, which answers as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Requests that wait for the test; no test makes as many.
const QUEUE: usize = 1_000;

/// A request that came.
#[derive(Debug, Clone)]
pub struct Received {
    /// Its headers, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
    /// What it was answered.
    pub status: u16,
}

impl Received {
    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// Takes requests until it is dropped.
pub struct Receiver {
    /// Where.
    pub url: String,
    came: mpsc::Receiver<Received>,
    answers: Arc<Mutex<VecDeque<String>>>,
    serving: AbortHandle,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Receiver {
    /// Answers with these status lines and headers (`503 Busy`), one after another, then with 200.
    pub async fn start(answers: &[&str]) -> Receiver {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("it listens"));
        let (sender, came) = mpsc::channel(QUEUE);
        let answers = Arc::new(Mutex::new(answers.iter().map(|answer| (*answer).to_owned()).collect()));
        let told = answers.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Who connected may have gone again.
                let _ = answer(stream, &told, &sender).await;
            }
        });
        Receiver { url, came, answers, serving: serving.abort_handle() }
    }

    /// Answers these next.
    ///
    /// # Panics
    /// Never.
    pub fn answer(&self, answers: &[&str]) {
        *self.answers.lock().expect("no holder panics") = answers.iter().map(|answer| (*answer).to_owned()).collect();
    }

    /// The next request.
    ///
    /// # Panics
    /// When none comes for 30 s.
    pub async fn next(&mut self) -> Received {
        let soon = tokio::time::timeout(std::time::Duration::from_secs(30), self.came.recv());
        soon.await.expect("a request comes").expect("it serves")
    }

    /// Whether no request waits.
    pub fn is_idle(&mut self) -> bool {
        self.came.try_recv().is_err()
    }
}

async fn answer(
    mut stream: TcpStream,
    answers: &Mutex<VecDeque<String>>,
    sender: &mpsc::Sender<Received>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let headers: BTreeMap<String, String> = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        bytes.drain(..end + 4);
        break (headers, length);
    };
    while bytes.len() < length {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }
    let told = answers.lock().expect("no holder panics").pop_front().unwrap_or_else(|| "200 OK".to_owned());
    let status = told.split(' ').next().and_then(|status| status.parse().ok()).unwrap_or(0);
    // Whoever waits for it may have gone.
    let _ = sender.try_send(Received { headers: head, body: bytes, status });
    stream.write_all(format!("HTTP/1.1 {told}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").as_bytes()).await
}
