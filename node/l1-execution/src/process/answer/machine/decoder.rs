//! Reads the bytes of an answer: events of a stream, or JSON that is the only one. Which of both comes is told by the first
//! character, for servers name the wrong media type.

use a2a::{StreamResponse, Task};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::agent::AgentError;
use crate::process::client::ANSWER_BYTES_MAX;
use crate::sse::{Event, Events, TooLong};

/// Characters of an agent's error that are kept.
const ERROR_CHARS_MAX: usize = 1_000;
/// The mark of the byte order that some servers begin with.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// What some frameworks write after the last event.
const DONE: &[u8] = b"[DONE]";
const NO_JSON: &str = "something else than A2A: it is no JSON, or breaks off";
/// Words by which servers say that a connection still stands, as the name of an event or as its data.
const BEATS: [&str; 8] = ["ping", "pong", "heartbeat", "beat", "keepalive", "keep-alive", "keep_alive", "alive"];
/// Members by which such an event says so.
const BEAT_MEMBERS: [&str; 4] = ["type", "event", "kind", "method"];
/// For each kind of event, what it must have.
const REQUIRED: [(&str, &[&str]); 4] = [
    ("message", &["/messageId", "/role", "/parts"]),
    ("task", &["/id", "/status/state"]),
    ("statusUpdate", &["/taskId", "/status/state"]),
    ("artifactUpdate", &["/taskId", "/artifact/artifactId", "/artifact/parts"]),
];

/// One item of an answer.
#[derive(Debug, PartialEq)]
pub enum AnswerItem {
    /// An event of A2A.
    Event(Box<StreamResponse>),
    /// The agent's error.
    Refusal(AgentError),
    /// Something that is not A2A.
    Foreign(SkippedItem),
    /// An event with another name: it is for somebody else, or a piece that was sent under a wrong name.
    Named(SkippedItem),
    /// It is too long, and nothing more of the answer can be read.
    Endless(String),
}

/// An item of an answer that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedItem {
    /// What it is, in words.
    pub what: String,
    /// What it may have been.
    pub hint: Hint,
}

/// What something that cannot be read may have been, by the words in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// Anything.
    Anything,
    /// Something of a task.
    Task,
    /// An artifact, or a piece of one.
    Artifact,
}

impl Hint {
    fn of(data: &[u8]) -> Hint {
        let has = |word: &[u8]| data.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
        if has(b"artifact") {
            Hint::Artifact
        } else if has(b"task") || has(b"status") {
            Hint::Task
        } else {
            Hint::Anything
        }
    }
}

/// Assembles the bytes of an answer.
#[derive(Debug, Default)]
pub struct Decoder(Form);

#[derive(Debug, Default)]
enum Form {
    /// Nothing but space came.
    #[default]
    Open,
    Stream(Events),
    Body(Vec<u8>),
}

impl Decoder {
    /// Adds bytes; gives what they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<AnswerItem> {
        let bytes = match self.0 {
            Form::Open => {
                let begins = |byte: &u8| !byte.is_ascii_whitespace() && !MARK.contains(byte);
                &bytes[bytes.iter().position(begins).unwrap_or(bytes.len())..]
            }
            _ => bytes,
        };
        let Some(first) = bytes.first() else { return Vec::new() };
        if let Form::Open = self.0 {
            self.0 = match first {
                b'{' => Form::Body(Vec::new()),
                _ => Form::Stream(Events::default()),
            };
        }
        match &mut self.0 {
            Form::Open => Vec::new(),
            Form::Stream(events) => match events.push(bytes) {
                Ok(events) => events.iter().filter_map(item_of).collect(),
                Err(TooLong(before)) => {
                    let endless = AnswerItem::Endless("an endless event".to_owned());
                    before.iter().filter_map(item_of).chain([endless]).collect()
                }
            },
            Form::Body(body) if body.len() + bytes.len() > ANSWER_BYTES_MAX => {
                vec![AnswerItem::Endless(format!("more than {ANSWER_BYTES_MAX} bytes"))]
            }
            Form::Body(body) => {
                body.extend_from_slice(bytes);
                Vec::new()
            }
        }
    }

    /// What is there when no more bytes come.
    pub fn end(self) -> Vec<AnswerItem> {
        match self.0 {
            Form::Open => Vec::new(),
            Form::Stream(mut events) => events.end().and_then(|event| item_of(&event)).into_iter().collect(),
            Form::Body(body) => {
                let mut all = Vec::new();
                for value in serde_json::Deserializer::from_slice(&body).into_iter::<Value>() {
                    match value {
                        Ok(value) => all.push(answer(value)),
                        Err(_) => {
                            all.push(AnswerItem::Foreign(SkippedItem {
                                what: NO_JSON.to_owned(),
                                hint: Hint::of(&body),
                            }));
                            break;
                        }
                    }
                }
                all
            }
        }
    }
}

/// What has one of these is an answer, or a piece of one.
const PIECES: [&str; 6] = ["result", "error", "task", "message", "statusUpdate", "artifactUpdate"];

/// What an event says; none for the mark of an end, and for what only keeps the connection.
fn item_of(event: &Event) -> Option<AnswerItem> {
    let (data, hint) = (event.data.trim_ascii(), Hint::of(&event.data));
    if data == DONE {
        return None;
    }
    let value = serde_json::from_slice::<Value>(data);
    let name = String::from_utf8_lossy(&event.name);
    if hint == Hint::Anything && (is_beat(&name) || is_nothing(data, value.as_ref().ok())) {
        return None;
    }
    if !event.name.is_empty() {
        // For whom others send events beside their answer, such as figures, that is not.
        let is_piece = value.as_ref().is_ok_and(|value| PIECES.iter().any(|member| value.get(member).is_some()));
        if !is_piece {
            return None;
        }
        return Some(AnswerItem::Named(SkippedItem { what: format!("an event with the name {name:?}"), hint }));
    }
    Some(value.map_or_else(|_| AnswerItem::Foreign(SkippedItem { what: NO_JSON.to_owned(), hint }), answer))
}

fn is_beat(word: &str) -> bool {
    BEATS.iter().any(|beat| beat.eq_ignore_ascii_case(word.trim()))
}

/// Whether data says nothing, or that the connection still stands.
fn is_nothing(data: &[u8], value: Option<&Value>) -> bool {
    match value {
        None => std::str::from_utf8(data).is_ok_and(is_beat),
        Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty() || is_beat(text),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => {
            let says = |member: &&str| members.get(*member).and_then(Value::as_str).is_some_and(is_beat);
            members.is_empty() || BEAT_MEMBERS.iter().any(says)
        }
        Some(_) => false,
    }
}

/// What an answer of JSON-RPC says.
fn answer(answer: Value) -> AnswerItem {
    let lacks_result = answer.get("result").is_none_or(Value::is_null);
    let instead = if lacks_result { answer.to_string() } else { String::new() };
    match result(answer) {
        Ok(result) => event(result),
        Err(AgentError::NotA2a(what)) => AnswerItem::Foreign(SkippedItem { what, hint: Hint::of(instead.as_bytes()) }),
        Err(refusal) => AnswerItem::Refusal(refusal),
    }
}

/// The `result` of an answer of JSON-RPC, or its error.
///
/// # Errors
/// Its error; or that it has neither.
pub fn result(mut answer: Value) -> Result<Value, AgentError> {
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("an error without a message");
        let message = message.chars().take(ERROR_CHARS_MAX).collect();
        let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let details = error.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
        return Err(match code {
            Some(code) => AgentError::Refused { code, message, details },
            None => AgentError::Failed(message),
        });
    }
    let result = answer.get_mut("result").map(Value::take).filter(|result| !result.is_null());
    result.ok_or_else(|| AgentError::NotA2a("something else than A2A: JSON with neither result nor error".to_owned()))
}

fn event(mut result: Value) -> AnswerItem {
    for (kind, _) in REQUIRED {
        if kind != "message" {
            complete(result.get_mut(kind));
        }
    }
    match StreamResponse::deserialize(&result) {
        Ok(event) => AnswerItem::Event(Box::new(event)),
        Err(_) => {
            AnswerItem::Foreign(SkippedItem { what: fault(&result), hint: Hint::of(result.to_string().as_bytes()) })
        }
    }
}

/// The task that an agent tells of when it is asked for it.
///
/// # Errors
/// What it is instead, in words.
pub fn task(mut result: Value) -> Result<Task, String> {
    // Some servers wrap it as an answer to a message does.
    if let Some(wrapped @ Value::Object(_)) = result.get_mut("task").map(Value::take) {
        result = wrapped;
    }
    complete(Some(&mut result));
    Task::deserialize(&result).map_err(|_| fault(&json!({ "task": result })))
}

/// Gives a task, or an update of one, an empty context where it names none: text that is empty may be left out.
fn complete(of: Option<&mut Value>) {
    let Some(Value::Object(members)) = of else { return };
    if members.get("contextId").is_none_or(Value::is_null) {
        members.insert("contextId".to_owned(), json!(""));
    }
}

/// Why a result is no event, for people.
fn fault(result: &Value) -> String {
    if result.get("kind").is_some() {
        return "an answer of A2A 0.3, where its card names 1.0".to_owned();
    }
    let Some((kind, required)) = REQUIRED.iter().find(|(kind, _)| result.get(kind).is_some()) else {
        return "something else than A2A: neither a task, nor a message, nor an update".to_owned();
    };
    match required.iter().find(|member| result[*kind].pointer(member).is_none_or(Value::is_null)) {
        Some(missing) => format!("{kind:?} without {:?}", missing.trim_start_matches('/')),
        None => format!("{kind:?}, which is not as A2A 1.0 has it"),
    }
}

#[cfg(test)]
mod tests {
    use a2a::TaskState;

    use super::*;

    fn done() -> Value {
        let task = json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } });
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": task } })
    }

    /// What an answer says, however it is cut into pieces.
    fn read(bytes: &[u8]) -> Vec<AnswerItem> {
        let pieces = |size: usize| {
            let mut decoder = Decoder::default();
            let mut all = Vec::new();
            for piece in bytes.chunks(size) {
                all.extend(decoder.push(piece));
            }
            all.extend(decoder.end());
            all
        };
        let whole = pieces(bytes.len().max(1));
        for size in 1..8 {
            assert_eq!(pieces(size), whole, "in pieces of {size} bytes: {}", String::from_utf8_lossy(bytes));
        }
        whole
    }

    fn states(items: &[AnswerItem]) -> Vec<Option<TaskState>> {
        let state = |item: &AnswerItem| match item {
            AnswerItem::Event(event) => match &**event {
                StreamResponse::Task(task) => Some(task.status.state.clone()),
                _ => None,
            },
            _ => None,
        };
        items.iter().map(state).collect()
    }

    #[test]
    fn what_frameworks_write_beside_events_is_passed_over() {
        let done = done().to_string();
        for (what, text) in [
            ("as it should be", format!("data: {done}\n\n")),
            ("a mark of byte order, and other line ends", format!("\u{feff}data: {done}\r\n\r\n")),
            ("no last line", format!("data: {done}")),
            ("keep-alive without data", format!("id: 0\ndata:\n\n:\n\ndata: {done}\n\n")),
            ("another name", format!("event: heartbeat\ndata: {{\"at\":1}}\n\ndata: {done}\n\n")),
            ("a mark of the end", format!("data: {done}\n\ndata: [DONE]\n\n")),
            ("no stream", done.clone()),
            ("no stream, after space", format!("\r\n \u{feff}{done}\n")),
        ] {
            assert_eq!(states(&read(text.as_bytes())), [Some(TaskState::Completed)], "{what}");
        }
        assert_eq!(read(b""), []);
        assert_eq!(read(b"\n\n: nothing\n\n"), []);
    }

    #[test]
    fn what_is_cut_or_odd_is_no_event_and_named() {
        let done = done().to_string();
        for cut in 1..done.len() {
            let (stream, body) = (format!("data: {}", &done[..cut]), &done[..cut]);
            for items in [read(stream.as_bytes()), read(body.as_bytes())] {
                assert!(matches!(&items[..], [AnswerItem::Foreign(_)]), "{cut}: {items:?}");
            }
        }
        let told = |result: Value| match &read(json!({ "result": result }).to_string().as_bytes())[..] {
            [AnswerItem::Foreign(skipped)] => skipped.what.clone(),
            other => panic!("{other:?}"),
        };
        assert!(told(json!({ "kind": "task", "id": "t" })).contains("A2A 0.3"));
        assert_eq!(told(json!({ "task": { "id": "t", "status": {} } })), "\"task\" without \"status/state\"");
        assert!(told(json!({ "task": { "id": "t", "status": { "state": "working" } } })).contains("not as A2A 1.0"));
        assert!(told(json!({ "tasks": [] })).contains("neither a task"));
        assert!(
            matches!(&read(b"data: hello\n\n")[..], [AnswerItem::Foreign(skipped)] if skipped.what.contains("no JSON"))
        );
        assert!(
            matches!(&read(b"{}")[..], [AnswerItem::Foreign(skipped)] if skipped.what.contains("neither result nor error"))
        );
    }

    #[test]
    fn null_is_nothing_and_a_context_may_be_left_out() {
        let task = json!({ "id": "t", "status": { "state": "TASK_STATE_WORKING" } });
        let text = json!({ "error": null, "result": { "task": task } }).to_string();
        assert_eq!(states(&read(text.as_bytes())), [Some(TaskState::Working)]);
        let wrapped = json!({ "task": task });
        assert_eq!(super::task(task).map(|task| task.status.state), Ok(TaskState::Working));
        assert_eq!(super::task(wrapped).map(|task| task.status.state), Ok(TaskState::Working));
        let refused = json!({ "error": { "code": -32_001, "message": "no such task" }, "result": null });
        assert!(matches!(&read(refused.to_string().as_bytes())[..], [AnswerItem::Refusal(AgentError::Refused { .. })]));
    }

    #[test]
    fn an_endless_answer_is_refused() {
        for begin in [&b"data: x"[..], b"{"] {
            let mut decoder = Decoder::default();
            assert_eq!(decoder.push(begin), []);
            let outcome =
                (0..=ANSWER_BYTES_MAX / 65_536).map(|_| decoder.push(&[b'x'; 65_536])).find(|all| !all.is_empty());
            assert!(matches!(outcome.as_deref(), Some([AnswerItem::Endless(_)])), "{outcome:?}");
        }
        let long = format!("data: {}\n\ndata: {}", done(), "x".repeat(ANSWER_BYTES_MAX));
        let all = Decoder::default().push(long.as_bytes());
        assert!(
            matches!(&all[..], [AnswerItem::Event(_), AnswerItem::Endless(_)]),
            "what came before is not lost: {all:?}"
        );
    }

    #[test]
    fn what_keeps_a_connection_says_nothing_and_what_may_be_a_piece_is_named() {
        for beat in ["{}", "[]", "null", "\"\"", "ping", "\"Keep-Alive\"", "{\"type\":\"heartbeat\",\"at\":1}"] {
            assert_eq!(read(format!("data: {beat}\n\n").as_bytes()), [], "{beat}");
        }
        let update = |part: Value| {
            let artifact = json!({ "artifactId": "a", "parts": [part] });
            json!({ "result": { "artifactUpdate": { "taskId": "t", "artifact": artifact } } }).to_string()
        };
        let (wrong, right) = (update(json!({ "txt": "two" })), update(json!({ "text": "two" })));
        let renamed = right.replace("artifactUpdate", "artifact_update");
        for (what, text, hint) in [
            ("a part of no kind", format!("data: {wrong}\n\n"), Hint::Artifact),
            ("a text that is none", format!("data: {}\n\n", update(json!({ "text": 2 }))), Hint::Artifact),
            ("another member", format!("data: {renamed}\n\n"), Hint::Artifact),
            ("no result", format!("data: {}\n\n", right.replace("result", "resultat")), Hint::Artifact),
            ("cut", format!("data: {}", &right[..right.len() - 9]), Hint::Artifact),
            ("no JSON", "data: two\n\n".to_owned(), Hint::Anything),
        ] {
            assert!(
                matches!(&read(text.as_bytes())[..], [AnswerItem::Foreign(skipped)] if skipped.hint == hint),
                "{what}"
            );
        }
        for name in ["chunk", "ping"] {
            let items = read(format!("event: {name}\ndata: {right}\n\n").as_bytes());
            assert!(
                matches!(&items[..], [AnswerItem::Named(skipped)] if skipped.hint == Hint::Artifact),
                "{name}: {items:?}"
            );
        }
    }
}
