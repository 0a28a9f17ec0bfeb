//! Checks that a contract wants after each call of a tool: what they say is told to the agent with the result.

use std::time::Duration;

use althing_protocol::audit::AuditWord;
use althing_protocol::contract::{Check, Observability, Verify};
use althing_td::Effect;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::context;
use crate::effects::Effects;
use crate::evaluation;
use crate::tool_error::ToolError;

/// Characters of what a check says that its agent is told.
const SAID_CHARS_MAX: usize = 4_000;

/// The checks that a contract wants after calls.
#[derive(Default)]
pub(crate) struct CallChecks(Vec<Check>);

impl CallChecks {
    pub fn of(verify: &Verify) -> CallChecks {
        CallChecks(verify.checks.iter().filter(|check| check.after.is_some()).cloned().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The result of a call of `server/tool` with that, and with what the checks say of it. A check is made by `make`, which is
    /// given the name of its tool and the arguments.
    pub async fn tell<F: Future<Output = Result<Value, ToolError>>>(
        &self,
        (tool, arguments): (&str, &str),
        mut result: Value,
        effects: &Effects,
        make: impl Fn(String, String) -> F,
    ) -> Value {
        let is_due = |check: &&Check| check.after.as_deref() == Some(tool);
        let checks: Vec<&Check> = self.0.iter().filter(is_due).collect();
        // What failed changed nothing that could be checked.
        if checks.is_empty() || result["isError"] == true {
            return result;
        }
        let output = text_of(&result);
        // Whoever reads texts where there are some reads no structured content besides.
        let has_text = has_text(&result);
        let mut more: Vec<String> = (!has_text && !output.is_empty()).then(|| output.clone()).into_iter().collect();
        for check in checks {
            let said = if effects.of(&check.by) == Effect::None {
                // As a value: what stands in the place of a handle is filled in as one text, whatever is in it.
                let input = serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments));
                let asked = json!({ "input": input, "output": output }).to_string();
                let (said, word) = said(check, context::in_check(make(check.by.clone(), asked))).await;
                if let Some(word) = word {
                    context::run_notes().add_verdict(&check.by, word);
                    let observability = context::current().observability;
                    // It may quote what was called.
                    let why = (observability == Observability::Content).then_some(said.as_str());
                    evaluation::tell(observability, &check.by, word == AuditWord::Passed, why);
                }
                said
            } else {
                "nothing, as nobody said that it changes nothing".to_owned()
            };
            more.push(format!("The check {} says of this call: {said}", check.by));
        }
        let more = more.into_iter().map(|text| json!({ "type": "text", "text": text }));
        if let Some(content) = result.get_mut("content").and_then(Value::as_array_mut) {
            content.extend(more);
        } else if result.is_object() {
            result["content"] = more.collect();
        }
        result
    }
}

/// What one check says of a call, and of what came of it; its word too, where it gives one.
async fn said(check: &Check, called: impl Future<Output = Result<Value, ToolError>>) -> (String, Option<AuditWord>) {
    let (said, word) = match timeout(Duration::from_millis(check.within_ms), called).await {
        Err(_) => (format!("nothing within {} ms", check.within_ms), Some(AuditWord::Refused)),
        Ok(Err(error)) => (format!("nothing, as it failed: {error}"), Some(AuditWord::Refused)),
        Ok(Ok(result)) => {
            let said = text_of(&result);
            let word = word_of(&result, &said);
            (said, word)
        }
    };
    (said.chars().take(SAID_CHARS_MAX).collect(), word)
}

/// The word of a check: `passed`, which its structured content has, or else the object that its text is. One that failed refused.
fn word_of(result: &Value, text: &str) -> Option<AuditWord> {
    if result["isError"] == true {
        return Some(AuditWord::Refused);
    }
    let structured = result["structuredContent"]["passed"].as_bool();
    let of_text = || serde_json::from_str::<Value>(text.trim()).ok()?["passed"].as_bool();
    let passed = structured.or_else(of_text)?;
    Some(if passed { AuditWord::Passed } else { AuditWord::Refused })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_of_a_call_gives_its_word_as_data_or_as_text_and_remarks_are_none() {
        let word = |result: Value| word_of(&result, &text_of(&result));
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        assert_eq!(word(json!({ "structuredContent": { "passed": true } })), Some(AuditWord::Passed));
        assert_eq!(word(text(" {\"passed\": false, \"reason\": \"no\"}\n")), Some(AuditWord::Refused));
        assert_eq!(word(json!({ "isError": true, "structuredContent": { "passed": true } })), Some(AuditWord::Refused));
        for none in [text("looks good"), text("true"), text("{\"passed\": 1}"), json!({})] {
            assert_eq!(word(none.clone()), None, "{none}");
        }
    }
}
