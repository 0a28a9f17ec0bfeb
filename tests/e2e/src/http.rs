//! HTTP by hand, so that what is sent is exactly what the test wrote.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// No answer may take longer.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status; 0 when the connection was closed without an answer.
    pub status: u16,
    /// The headers as they came.
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a JSON-RPC error.
    pub fn code(&self) -> Option<i64> {
        serde_json::from_str::<Value>(&self.body).ok()?["error"]["code"].as_i64()
    }
}

/// `127.0.0.1:PORT` of `http://127.0.0.1:PORT`.
pub fn authority(gateway: &str) -> &str {
    gateway.strip_prefix("http://").expect("an http address")
}

/// Sends bytes, and reads what comes back until the other side closes.
pub fn raw(gateway: &str, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(authority(gateway)).expect("the gateway listens");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("a time limit");
    stream.set_write_timeout(Some(ANSWER_MAX)).expect("a time limit");
    // A server that refuses early closes before it took everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    // The same: what came before the end counts.
    if let Err(error) = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
        assert!(error.kind() == std::io::ErrorKind::ConnectionReset, "no answer within {ANSWER_MAX:?}: {error}");
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// A request with these headers, and those that HTTP itself needs and that are not among them.
pub fn request(gateway: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head += &format!("Host: {}\r\n", authority(gateway));
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

pub fn get(gateway: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    raw(gateway, &request(gateway, "GET", path, headers, b""))
}

/// The headers of an honest A2A request.
pub const HONEST: [(&str, &str); 2] = [("Content-Type", "application/json"), ("A2A-Version", "1.0")];

/// One JSON-RPC call that must succeed; its result.
pub fn ask(gateway: &str, agent: &str, method: &str, params: &Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let answer = raw(gateway, &request(gateway, "POST", &format!("/a2a/{agent}"), &HONEST, body.as_bytes()));
    let mut value = answer.json();
    assert!(value.get("result").is_some(), "{method}: {value}");
    value["result"].take()
}

/// The result of a JSON-RPC call of a node that may end meanwhile, or not be ready yet; none if there is none.
pub fn ask_while_up(gateway: &str, agent: &str, method: &str, params: &Value) -> Option<Value> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let mut stream = TcpStream::connect(authority(gateway)).ok()?;
    stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    stream.write_all(&request(gateway, "POST", &format!("/a2a/{agent}"), &HONEST, body.as_bytes())).ok()?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let mut value: Value = serde_json::from_str(body).ok()?;
    value.get_mut("result").map(Value::take)
}

/// The parameters of a message of one text, with an id of its own.
pub fn says(text: &str) -> Value {
    static MESSAGES: AtomicU32 = AtomicU32::new(0);
    let id = format!("m-{}-{}", std::process::id(), MESSAGES.fetch_add(1, Ordering::Relaxed));
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

/// The id of the task of an answer, or of the events of one.
pub fn task_id(body: &str) -> String {
    let lines = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
    let first = lines.filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok()).find_map(|value| {
        let result = &value["result"];
        let id = [&result["task"]["id"], &result["statusUpdate"]["taskId"], &result["artifactUpdate"]["taskId"]];
        id.iter().find_map(|id| id.as_str().map(str::to_owned))
    });
    first.unwrap_or_else(|| panic!("no task: {body}"))
}
