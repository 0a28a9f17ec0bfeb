//! What servers ask their client's user, as they wrote it: who shows it reads more than the library knows.

use serde_json::{Value, json};

/// The method of a question.
pub const ELICITATION: &str = "elicitation/create";
/// The method by which the library passes a question on as it stands.
pub const AS_WRITTEN: &str = "dev.althing/elicitation";

#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// By a form, with all that was written.
    Form(Value),
    /// In another way than by a form.
    Other,
    /// Nothing that can be shown: it has no message, or no schema.
    Unreadable,
}

/// Reads the parameters of a question.
pub fn read(params: Option<Value>) -> Question {
    let Some(Value::Object(mut params)) = params else { return Question::Unreadable };
    match params.get("mode").and_then(Value::as_str) {
        None | Some("form") => {}
        Some(_) => return Question::Other,
    }
    let is_readable = params.get("message").is_some_and(Value::is_string)
        && params.get("requestedSchema").is_some_and(Value::is_object);
    if !is_readable {
        return Question::Unreadable;
    }
    params.insert("mode".to_owned(), json!("form"));
    // It is for this node.
    params.remove("_meta");
    Question::Form(Value::Object(params))
}

/// A message so that the library keeps it: a question under a name that it does not know, and without what it cannot read beside
/// the parameters.
pub fn kept(message: &mut Value) {
    if message["method"] == ELICITATION && message.get("id").is_some() {
        message["method"] = json!(AS_WRITTEN);
    }
    if let Some(params) = message.get_mut("params").and_then(Value::as_object_mut)
        && params.get("_meta").is_some_and(|meta| !meta.is_object())
    {
        params.remove("_meta");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_kept_as_it_was_written() {
        for property in [
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
            json!({ "type": "string", "format": "uuid", "pattern": "^a", "x-order": 1 }),
            json!({ "type": "integer", "default": 1.0, "exclusiveMinimum": 0 }),
            json!({ "$ref": "#/$defs/a" }),
            json!({ "const": "a" }),
            json!({ "type": ["string", "null"] }),
        ] {
            let schema = json!({ "type": "object", "properties": { "a": property }, "additionalProperties": false });
            for schema in [schema, json!({ "type": "object" }), json!({ "properties": {} }), json!({})] {
                for mode in [None, Some(json!("form")), Some(Value::Null), Some(json!(7))] {
                    let mut params = json!({ "message": "Which?", "requestedSchema": schema, "more": [1] });
                    params["_meta"] = json!({});
                    if let Some(mode) = mode {
                        params["mode"] = mode;
                    }
                    let whole = json!({ "mode": "form", "message": "Which?", "requestedSchema": schema, "more": [1] });
                    assert_eq!(read(Some(params.clone())), Question::Form(whole), "{params}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_shown_is_no_question() {
        let schema = json!({ "type": "object" });
        for none in [
            json!({}),
            json!([]),
            json!({ "message": 7, "requestedSchema": schema }),
            json!({ "requestedSchema": schema }),
            json!({ "message": "Which?" }),
            json!({ "message": "Which?", "requestedSchema": [] }),
        ] {
            assert_eq!(read(Some(none.clone())), Question::Unreadable, "{none}");
        }
        assert_eq!(read(None), Question::Unreadable);
        let other = json!({ "mode": "url", "message": "Sign in", "url": "https://a.example", "elicitationId": "1" });
        assert_eq!(read(Some(other)), Question::Other);
    }

    #[test]
    fn only_questions_are_renamed() {
        let mut asked = json!({ "id": 1, "method": ELICITATION, "params": { "_meta": 7, "message": "Which?" } });
        kept(&mut asked);
        assert_eq!(asked, json!({ "id": 1, "method": AS_WRITTEN, "params": { "message": "Which?" } }));
        for same in [
            json!({ "id": 1, "method": "ping", "params": { "_meta": { "a": 1 } } }),
            json!({ "method": "notifications/progress", "params": { "progressToken": 4 } }),
        ] {
            let mut message = same.clone();
            kept(&mut message);
            assert_eq!(message, same);
        }
    }
}
