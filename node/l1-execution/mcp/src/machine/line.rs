//! What a line on a server's standard output is: messages, or something else that programs write there.

use althing_execution::lenient_json;
use althing_execution::tools::RESULT_TOO_LONG;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::{Value, json};

use super::question;
use super::skim::Skim;

/// The error of a request whose answer is none. Its words are the node's, as are those of [`TOO_LONG`]; a server that writes one of both
/// codes is read as if it had written none.
pub const NO_ANSWER: ErrorCode = ErrorCode(-32_098);
/// The error of a request whose answer is too long.
pub const TOO_LONG: ErrorCode = ErrorCode(-32_099);
/// Characters of a line that are logged.
const LOGGED_CHARS_MAX: usize = 120;
/// The code of an error that has none.
const CODELESS: i32 = ErrorCode::INTERNAL_ERROR.0;
/// Programs of some systems begin their output with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// Messages of JSON-RPC, in order: one, or those of a batch.
    Messages(Vec<Value>),
    /// Nothing but white space.
    Blank,
    /// No message of JSON-RPC: a banner, a log line.
    Noise,
    /// The answer to the request of this id, of which nothing can be read; why.
    Unreadable { id: Value, why: String },
}

/// Reads a line without its end.
pub fn read(line: &[u8]) -> Line {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Line::Blank;
    }
    match lenient_json::parse(line) {
        // What else stands among them is passed over, as it is between lines.
        Ok(Value::Array(all)) if all.iter().any(is_message) => {
            Line::Messages(all.into_iter().filter(is_message).map(mended).collect())
        }
        Ok(one) if is_message(&one) => Line::Messages(vec![mended(one)]),
        Ok(_) => Line::Noise,
        Err(why) => {
            let mut skim = Skim::default();
            skim.pass(line);
            match skim.answered() {
                Some(id) => Line::Unreadable { id, why: format!("its answer is no JSON: {why}") },
                None => Line::Noise,
            }
        }
    }
}

/// The answer to a request whose own cannot be read, as an error.
pub fn error(id: &Value, why: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": NO_ANSWER, "message": why } })
}

/// The answer to a request whose own is too long.
pub fn too_long(id: RequestId) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(TOO_LONG, RESULT_TOO_LONG, None), Some(id))
}

/// What is logged of a line: 120 characters at most, none of them a control character.
pub fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(LOGGED_CHARS_MAX).collect()
}

/// Whether an error is one of the node, and not of a server.
pub fn is_own(code: ErrorCode) -> bool {
    matches!(code, NO_ANSWER | TOO_LONG)
}

fn is_message(value: &Value) -> bool {
    let id = &value["id"];
    let has_id = id.is_string() || id.is_i64() || id.is_u64();
    let is_request = value["method"].is_string() && (has_id || value.get("id").is_none());
    value["jsonrpc"] == "2.0" && (is_request || has_id || value["error"].is_object())
}

/// A message of a method as the library keeps it, or an answer with one of both, a result or an error; what is wrong with it is its error, so that nobody waits for another.
fn mended(mut message: Value) -> Value {
    if message["method"].is_string() {
        question::kept(&mut message);
        return message;
    }
    let error = match message["error"].take() {
        Value::Null if message.get("result").is_some() => None,
        Value::Null => return self::error(&message["id"], "it answered with neither a result nor an error"),
        Value::Object(error) => Some(Value::Object(error)),
        Value::String(said) => Some(json!({ "message": said })),
        other => Some(json!({ "message": other.to_string() })),
    };
    if let Some(members) = message.as_object_mut() {
        members.remove("error");
        if let Some(mut error) = error {
            let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok());
            if code.is_none_or(|code| is_own(ErrorCode(code))) {
                error["code"] = json!(CODELESS);
            }
            if !error["message"].is_string() {
                error["message"] = json!("it says nothing of its error");
            }
            members.remove("result");
            members.insert("error".to_owned(), error);
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_from_what_else_programs_write() {
        let messages = [
            json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
            json!({ "jsonrpc": "2.0", "id": "a", "result": null }),
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -1, "message": "no", "data": {} } }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }),
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} }),
            json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "no" } }),
        ];
        for message in &messages {
            assert_eq!(read(format!(" {message}\r").as_bytes()), Line::Messages(vec![message.clone()]));
        }
        let batch = Value::Array(messages.to_vec());
        assert_eq!(read(batch.to_string().as_bytes()), Line::Messages(messages.to_vec()));
        let mixed = json!([{ "level": "info" }, messages[0], 7, messages[3]]);
        let good = vec![messages[0].clone(), messages[3].clone()];
        assert_eq!(read(mixed.to_string().as_bytes()), Line::Messages(good));
        let marked = [BYTE_ORDER_MARK, messages[0].to_string().as_bytes()].concat();
        assert!(matches!(read(&marked), Line::Messages(_)));
        for noise in [
            "Server started on stdio",
            r#"{"level":"info","msg":"got {\"jsonrpc\":\"2.0\"}"}"#,
            r#"{"jsonrpc":"2.0","id":1,"resu"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","error":"no"}"#,
            "[]",
            "[1]",
            r#"[{"level":"info"},[]]"#,
            "7",
            "null",
            "\u{1b}[32mready\u{1b}[0m",
        ] {
            assert_eq!(read(noise.as_bytes()), Line::Noise, "{noise}");
        }
        assert_eq!(read(b"\xff\xfe{"), Line::Noise);
        assert_eq!(read(b" \r"), Line::Blank);
    }

    #[test]
    fn an_answer_is_read_in_spite_of_what_common_writers_get_wrong_or_whoever_waits_is_told() {
        let answer = |text: &str| json!({ "jsonrpc": "2.0", "id": 4, "result": { "a": text } });
        let lone = br#"{"jsonrpc":"2.0","id":4,"result":{"a":"\ud83d"}}"#;
        assert_eq!(read(lone), Line::Messages(vec![answer("\u{fffd}")]));
        let latin = b"{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"a\":\"\xe9\"}}";
        assert_eq!(read(latin), Line::Messages(vec![answer("\u{fffd}")]));
        let nan = br#"{"jsonrpc":"2.0","id":4,"result":{"a":NaN}}"#;
        assert_eq!(read(nan), Line::Messages(vec![json!({ "jsonrpc": "2.0", "id": 4, "result": { "a": null } })]));
        let deep = format!(r#"{{"jsonrpc":"2.0","id":4,"result":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        for none in [deep.as_str(), r#"{"jsonrpc":"2.0","id":4,"result":{"a":'b'}}"#] {
            let Line::Unreadable { id, why } = read(none.as_bytes()) else { panic!("{none}") };
            assert_eq!(id, 4);
            assert!(why.starts_with("its answer is no JSON: "), "{why}");
        }
    }

    #[test]
    fn an_answer_that_is_none_is_an_error_and_an_error_is_no_result() {
        let neither = "it answered with neither a result nor an error";
        for (wrong, code, message) in [
            (json!({ "error": "no" }), CODELESS, "no"),
            (json!({ "error": { "code": "x" } }), CODELESS, "it says nothing of its error"),
            (json!({ "error": { "code": 1_u64 << 40, "message": "no" } }), CODELESS, "no"),
            (json!({ "error": { "code": NO_ANSWER, "message": "no" } }), CODELESS, "no"),
            (json!({ "error": { "code": TOO_LONG, "message": "no" } }), CODELESS, "no"),
            (json!({ "error": 7 }), CODELESS, "7"),
            (json!({}), NO_ANSWER.0, neither),
            (json!({ "error": null }), NO_ANSWER.0, neither),
            (json!({ "error": { "message": "no" }, "result": { "content": [] } }), CODELESS, "no"),
        ] {
            let mut answer = wrong.clone();
            (answer["jsonrpc"], answer["id"]) = (json!("2.0"), json!(4));
            let right = json!({ "code": code, "message": message });
            let right = json!({ "jsonrpc": "2.0", "id": 4, "error": right });
            assert_eq!(read(answer.to_string().as_bytes()), Line::Messages(vec![right]), "{wrong}");
        }
        let fine = json!({ "jsonrpc": "2.0", "id": 4, "result": {} });
        let mut both = fine.clone();
        both["error"] = Value::Null;
        assert_eq!(read(both.to_string().as_bytes()), Line::Messages(vec![fine]));
    }
}
