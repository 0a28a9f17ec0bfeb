//! Checks that a contract wants after each call of a tool: what they say is told to the agent with the result.

use std::time::Duration;

use althing_protocol::contract::{Check, Verify};
use althing_td::Effect;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Tools;

/// Characters of what a check says that its agent is told.
const SAID_CHARS_MAX: usize = 4_000;

impl Tools {
    /// The same, with the checks that a contract wants after calls.
    #[must_use]
    pub(crate) fn with_checks(mut self, verify: &Verify) -> Tools {
        self.checks = verify.checks.iter().filter(|check| check.after.is_some()).cloned().collect();
        self
    }

    /// The result of a call of `server/tool` with that, and with what the checks say of it.
    pub(super) async fn checked(&self, tool: &str, arguments: &str, mut result: Value) -> Value {
        let is_due = |check: &&Check| check.after.as_deref() == Some(tool);
        let checks: Vec<&Check> = self.checks.iter().filter(is_due).collect();
        // What failed changed nothing that could be checked.
        if checks.is_empty() || result["isError"] == true {
            return result;
        }
        let output = text_of(&result);
        // Whoever reads texts where there are some reads no structured content besides.
        let has_text = has_text(&result);
        let mut more: Vec<String> = (!has_text && !output.is_empty()).then(|| output.clone()).into_iter().collect();
        for check in checks {
            more.push(format!(
                "The check {} says of this call: {}",
                check.by,
                self.said(check, arguments, &output).await
            ));
        }
        let more = more.into_iter().map(|text| json!({ "type": "text", "text": text }));
        if let Some(content) = result.get_mut("content").and_then(Value::as_array_mut) {
            content.extend(more);
        } else if result.is_object() {
            result["content"] = more.collect();
        }
        result
    }

    /// What one check says of a call, and of what came of it.
    async fn said(&self, check: &Check, input: &str, output: &str) -> String {
        if self.effect_of(&check.by) != Effect::None {
            return "nothing, as nobody said that it changes nothing".to_owned();
        }
        let arguments = json!({ "input": input, "output": output }).to_string();
        let asked = timeout(Duration::from_millis(check.within_ms), self.made(&check.by, &arguments, None)).await;
        let said = match asked {
            Err(_) => format!("nothing within {} ms", check.within_ms),
            Ok((Err(error), _)) => format!("nothing, as it failed: {error}"),
            Ok((Ok(result), _)) => text_of(&result),
        };
        said.chars().take(SAID_CHARS_MAX).collect()
    }
}

fn has_text(result: &Value) -> bool {
    result["content"].as_array().into_iter().flatten().any(|part| part["text"].is_string())
}

/// The texts of a result, or else its structured content.
fn text_of(result: &Value) -> String {
    let parts = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    match (texts.is_empty(), &result["structuredContent"]) {
        (true, structured) if !structured.is_null() => structured.to_string(),
        _ => texts.join("\n"),
    }
}
