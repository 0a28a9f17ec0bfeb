//! Reads the bytes of an answer: events of a stream, or JSON that is the only one. Which of both comes is told by the first
//! character, for servers name the wrong media type.

use a2a::{Message, StreamResponse, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent};
use serde::Deserialize as _;
use serde_json::Value;

use super::omissions::{Omission, OmissionKind};
use super::repairs::{ReadEvent, culprit, read_mended};
use super::words::{is_interrupted, may_be_whole};
use crate::agent::AgentError;
use crate::lenient_json;
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
/// For each kind of event, what it must have. What has two of them is of the first.
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
    /// Something that the agent made, or said at last, and that was left out of the event beside it.
    Piece(SkippedItem),
    /// All that was left out of the event beside it, for logs.
    Details(Vec<Omission>),
    /// It is too long, and nothing more of the answer can be read.
    Endless,
}

/// A task as its agent tells it when it is asked for it.
#[derive(Debug, PartialEq)]
pub struct ToldTask {
    /// As far as it can be read.
    pub task: Task,
    /// What was left out, if nothing in it stands for that: its last state ends nothing then.
    pub gap: Option<SkippedItem>,
    /// All that was left out of it.
    pub omissions: Vec<Omission>,
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
    /// What the agent said with the last state of a task.
    LastWord,
    /// An artifact, or a piece of one.
    Artifact,
    /// Both of these.
    ArtifactAndWord,
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
                Ok(events) => events.iter().flat_map(items_of).collect(),
                Err(TooLong(before)) => before.iter().flat_map(items_of).chain([AnswerItem::Endless]).collect(),
            },
            Form::Body(body) if body.len() + bytes.len() > ANSWER_BYTES_MAX => vec![AnswerItem::Endless],
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
            Form::Stream(mut events) => events.end().map(|event| items_of(&event)).unwrap_or_default(),
            Form::Body(body) => {
                let (mut all, mut is_whole) = values(&body);
                if !is_whole && let Some(repaired) = lenient_json::repaired(&body) {
                    (all, is_whole) = values(&repaired);
                }
                let rest = SkippedItem { what: NO_JSON.to_owned(), hint: Hint::of(&body) };
                let rest = (!is_whole).then_some(AnswerItem::Foreign(rest));
                all.into_iter().flat_map(answer).chain(rest).collect()
            }
        }
    }
}

/// What a body of JSON has, one after the other, and whether that is all of it.
fn values(body: &[u8]) -> (Vec<Value>, bool) {
    let mut all = Vec::new();
    for value in serde_json::Deserializer::from_slice(body).into_iter::<Value>() {
        match value {
            Ok(value) => all.push(value),
            Err(_) => return (all, false),
        }
    }
    (all, true)
}

/// What has one of these is an answer, or a piece of one.
const PIECES: [&str; 8] =
    ["result", "error", "task", "message", "statusUpdate", "artifactUpdate", "status_update", "artifact_update"];

/// What an event says; nothing for the mark of an end, and for what only keeps the connection.
fn items_of(event: &Event) -> Vec<AnswerItem> {
    let data = event.data.trim_ascii();
    if data == DONE {
        return Vec::new();
    }
    let value = lenient_json::parse(data);
    let name = String::from_utf8_lossy(&event.name);
    let hint = || Hint::of(&event.data);
    if (is_beat(&name) || is_nothing(data, value.as_ref().ok())) && hint() == Hint::Anything {
        return Vec::new();
    }
    if !event.name.is_empty() {
        // For whom others send events beside their answer, such as figures, that is not.
        let is_piece = value.as_ref().is_ok_and(|value| PIECES.iter().any(|member| value.get(member).is_some()));
        if !is_piece {
            return Vec::new();
        }
        let what = format!("an event with the name {name:?}");
        return vec![AnswerItem::Named(SkippedItem { what, hint: hint() })];
    }
    let foreign = || vec![AnswerItem::Foreign(SkippedItem { what: NO_JSON.to_owned(), hint: hint() })];
    value.map_or_else(|_| foreign(), answer)
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
fn answer(answer: Value) -> Vec<AnswerItem> {
    let lacks_result = answer.get("result").is_none_or(Value::is_null);
    let instead = if lacks_result { answer.to_string() } else { String::new() };
    match result(answer) {
        Ok(result) => event(result),
        Err(AgentError::NotA2a(what)) => {
            vec![AnswerItem::Foreign(SkippedItem { what, hint: Hint::of(instead.as_bytes()) })]
        }
        Err(refusal) => vec![AnswerItem::Refusal(refusal)],
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

fn event(mut result: Value) -> Vec<AnswerItem> {
    let ReadEvent { read, beside, omissions } = read_mended(&mut result, as_event);
    match read {
        Some(event) => {
            let said = beside.map(|message| AnswerItem::Event(Box::new(StreamResponse::Message(message))));
            said.into_iter().chain(with_omissions(event, omissions)).collect()
        }
        None => {
            let hint = Hint::of(result.to_string().as_bytes());
            vec![AnswerItem::Foreign(SkippedItem { what: fault(&result), hint })]
        }
    }
}

/// The event that a result is: the same as that of [`StreamResponse::deserialize`], which copies all of it before.
fn as_event(result: &Value) -> Option<StreamResponse> {
    let (kind, event) = REQUIRED.iter().find_map(|(kind, _)| Some((*kind, result.get(*kind)?)))?;
    match kind {
        "message" => Message::deserialize(event).ok().map(StreamResponse::Message),
        "task" => Task::deserialize(event).ok().map(StreamResponse::Task),
        "statusUpdate" => TaskStatusUpdateEvent::deserialize(event).ok().map(StreamResponse::StatusUpdate),
        _ => TaskArtifactUpdateEvent::deserialize(event).ok().map(StreamResponse::ArtifactUpdate),
    }
}

/// An event with what was left out of it.
fn with_omissions(event: StreamResponse, omissions: Vec<Omission>) -> Vec<AnswerItem> {
    let piece = |item: SkippedItem| Some(AnswerItem::Piece(item));
    // What nothing in the event stands for is said before it: its end waits for a task that shows it.
    let gap = match &event {
        StreamResponse::Task(task) => gap_of(task, &omissions),
        StreamResponse::StatusUpdate(_) => lost_piece(&omissions, OmissionKind::is_piece),
        StreamResponse::Message(_) | StreamResponse::ArtifactUpdate(_) => None,
    };
    let event = Some(AnswerItem::Event(Box::new(event)));
    let [first, second] = match gap {
        Some(gap) => [piece(gap), event],
        None => [event, lost_piece(&omissions, OmissionKind::is_piece).and_then(piece)],
    };
    let details = (!omissions.is_empty()).then_some(AnswerItem::Details(omissions));
    [first, second, details].into_iter().flatten().collect()
}

/// What was left out of a task, and nothing in it stands for: all of that where it shows nothing that was made; otherwise what it asks, for
/// what was made may be of a turn before.
fn gap_of(task: &Task, omissions: &[Omission]) -> Option<SkippedItem> {
    match (is_bare(task), is_interrupted(&task.status.state)) {
        (true, _) => lost_piece(omissions, OmissionKind::is_piece),
        (false, true) => lost_piece(omissions, |kind| kind == OmissionKind::LastWord),
        (false, false) => None,
    }
}

/// What was left out and may be a piece of the answer, for people: the first that counts, and how much more there is.
fn lost_piece(omissions: &[Omission], counts: fn(OmissionKind) -> bool) -> Option<SkippedItem> {
    let pieces = || omissions.iter().filter(|one| counts(one.kind));
    let first = &pieces().next()?.at;
    let what = match pieces().map(|one| one.count).sum::<usize>() {
        1 => format!("{first:?}, which is not as A2A 1.0 has it"),
        all => format!("{first:?} and {} more, which are not as A2A 1.0 has them", all - 1),
    };
    let has = |kind: OmissionKind| pieces().any(|one| one.kind == kind);
    let hint = match (has(OmissionKind::Artifact), has(OmissionKind::LastWord)) {
        (true, true) => Hint::ArtifactAndWord,
        (true, false) => Hint::Artifact,
        (false, _) => Hint::LastWord,
    };
    Some(SkippedItem { what, hint })
}

/// Whether a task shows nothing that was made. What was left out of it is then all that people would read: where only artifacts
/// were, a word such as "done" stands for none of them, and where the word was, there is none.
fn is_bare(task: &Task) -> bool {
    task.artifacts.as_deref().unwrap_or_default().iter().all(|artifact| artifact.parts.is_empty())
}

/// The task that an agent tells of when it is asked for it.
///
/// # Errors
/// What it is instead, in words.
pub fn task(mut result: Value) -> Result<ToldTask, String> {
    // Some servers wrap it as an answer to a message does, perhaps with a message beside it.
    let mut result = match result.get_mut("task").map(Value::take) {
        Some(task @ Value::Object(_)) => {
            let message = result.get_mut("message").map(Value::take).unwrap_or_default();
            Value::from_iter([("task", task), ("message", message)])
        }
        _ => Value::from_iter([("task", result)]),
    };
    let ReadEvent { read, omissions, .. } =
        read_mended(&mut result, |result| Task::deserialize(result.get("task")?).ok());
    let Some(task) = read else {
        // The task is at fault, whatever is beside it.
        result["message"] = Value::Null;
        return Err(fault(&result));
    };
    let gap = if may_be_whole(&task.status.state) { gap_of(&task, &omissions) } else { None };
    Ok(ToldTask { task, gap, omissions })
}

/// Why a result is no event, for people.
fn fault(result: &Value) -> String {
    let has = |member: &str| result.get(member).is_some_and(|value| !value.is_null());
    if has("kind") {
        return "an answer of A2A 0.3, where its card names 1.0".to_owned();
    }
    let Some((kind, required)) = REQUIRED.iter().find(|(kind, _)| has(kind)) else {
        return "something else than A2A: neither a task, nor a message, nor an update".to_owned();
    };
    match required.iter().find(|member| result[*kind].pointer(member).is_none_or(Value::is_null)) {
        Some(missing) => format!("{kind:?} without {:?}", missing.trim_start_matches('/')),
        None => {
            let why = culprit(result, kind).map(|why| format!(": {why}")).unwrap_or_default();
            format!("{kind:?}, which is not as A2A 1.0 has it{why}")
        }
    }
}

#[cfg(test)]
mod tests;
