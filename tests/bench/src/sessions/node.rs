//! A node as people have it, with an agent that is a program and is given its message again when its node ended.

use std::time::Duration;

use serde_json::{Value, json};

use crate::faces::Node;

pub const AGENT: &str = "stepper";
/// How long the program may take until it answers for the first time.
const START: Duration = Duration::from_secs(30);

/// Adds the agent, whose calls of that tool must not be made twice, and waits until it answers.
pub async fn add(node: &Node, http: &reqwest::Client, tool: &str) {
    let program = std::env::current_exe().expect("this program");
    let file = json!({
        "name": AGENT,
        "description": "Makes calls one after the other",
        "runtime": { "process": { "command": [program, "session-program"], "startup_timeout_ms": 30_000 } },
        "tools": { "count": { "url": tool } },
        "contract": { "class": { "latency": "srt" }, "capabilities": ["count/say"] },
        "session": { "resume": "repeat" },
    });
    let path = node.folder.path().join("stepper.yaml");
    std::fs::write(&path, file.to_string()).expect("a file");
    node.althing(&["agent", "add", "--yes", &path.to_string_lossy()]).await;
    let answers = async {
        while told(http, node, "1", false).await["error"].is_object() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(START, answers).await.expect("the program answers");
}

/// Sends the agent a message; what it is answered with, as JSON-RPC has it.
pub async fn told(http: &reqwest::Client, node: &Node, text: &str, is_at_once: bool) -> Value {
    let id = format!("{:032x}", rand::random::<u128>());
    let message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] });
    let params = json!({ "message": message, "configuration": { "returnImmediately": is_at_once } });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
    let sent = http.post(node.agent(AGENT)).header("A2A-Version", "1.0").json(&request).send().await;
    sent.expect("an answer").json().await.expect("JSON")
}
