//! What scenes ask at the gateway of a node, as any A2A client would.

use althing_client::{NodeProcess, rows};
use serde_json::{Value, json};

use crate::error::DemoError;
use crate::faces::http;

/// The result of one call of an agent.
pub async fn ask(node: &NodeProcess, agent: &str, method: &str, params: Value) -> Result<Value, DemoError> {
    let url = format!("{}/a2a/{agent}", node.announced("gateway"));
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let asked = http()?.post(url).header("A2A-Version", "1.0").json(&request).send().await;
    let mut answer: Value = asked.map_err(DemoError::unexpected)?.json().await.map_err(DemoError::unexpected)?;
    if answer["result"].is_null() {
        return Err(DemoError::unexpected(format!("{agent} refused: {answer}")));
    }
    Ok(answer["result"].take())
}

/// A message of one text.
pub fn message(id: &str, text: &str) -> Value {
    json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] })
}

/// The texts of a task's artifacts, one after the other.
pub fn answer(task: &Value) -> String {
    let parts = rows(task, "artifacts").iter().flat_map(|artifact| rows(artifact, "parts"));
    parts.filter_map(|part| part["text"].as_str()).collect()
}
