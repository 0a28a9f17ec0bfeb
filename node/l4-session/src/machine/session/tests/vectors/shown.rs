//! Reads one vector's input and says what this implementation makes of it. It knows the JSON alone: what another implementation
//! writes to run the vectors.

use std::fmt;

use a2a::Message;
use althing_call::{OperationError, Principal, Refusal};
use althing_execution::journal::{Clock, Reading};
use althing_execution::notes::Note;
use althing_execution::tools::CallKind;
use althing_protocol::{AgentId, CallerId, Digest, Label, hex};
use minicbor::bytes::ByteVec;
use serde_json::{Value, json};

use crate::machine::answers::{AnswerRow, is_key};
use crate::machine::record::Scope;
use crate::machine::session::replay_row::{CheckpointRow, ReadsRow};
use crate::machine::session::row::{
    Begin, GroupAttempt, IntentRow, NoteRow, ResolvedRow, RestartRow, ResultRow, Row, RowBody,
};
use crate::machine::session::{NoteRows, SessionId, TurnId, TurnRows, call_digest};

/// What was read, or the name of the reason to refuse.
pub type Outcome = Result<Value, String>;

pub fn run(input: &Value) -> Outcome {
    match text(input, "document") {
        "session" => session(input),
        "turn" => Ok(turn(input)),
        "call" => Ok(call(input)),
        "call key" => Ok(call_key(input)),
        "row" => row(input),
        "journal" => journal(input),
        "notes" => notes(input),
        "message" => Ok(message(input)),
        "refusal" => Ok(refused(&OperationError::from_peer(text(input, "body").as_bytes()))),
        other => panic!("no document is called {other}"),
    }
}

fn text<'a>(input: &'a Value, member: &str) -> &'a str {
    input[member].as_str().unwrap_or_else(|| panic!("text in {member}: {input}"))
}

fn number(input: &Value, member: &str) -> u32 {
    let number = input[member].as_u64().and_then(|number| number.try_into().ok());
    number.unwrap_or_else(|| panic!("a number in {member}: {input}"))
}

fn time(input: &Value, member: &str) -> u64 {
    input[member].as_u64().unwrap_or_else(|| panic!("a time in {member}: {input}"))
}

fn bytes(input: &Value, member: &str) -> Vec<u8> {
    let digits = text(input, member);
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn digest(input: &Value, member: &str) -> Digest {
    bytes(input, member).try_into().expect("32 bytes")
}

fn session_id(input: &Value) -> SessionId {
    SessionId(bytes(input, "session").try_into().expect("16 bytes"))
}

/// The rows of a vector, with the number in each key.
fn rows(input: &Value) -> Vec<(u32, Vec<u8>)> {
    let list = input["rows"].as_array().unwrap_or_else(|| panic!("rows: {input}"));
    list.iter().map(|row| (number(row, "number"), bytes(row, "bytes"))).collect()
}

/// An error by the name that chapter 14 of the specification has for it.
fn named(of: &str, error: &impl fmt::Debug) -> String {
    let shown = format!("{error:?}");
    format!("{of}::{}", shown.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default())
}

fn session(input: &Value) -> Outcome {
    let unknown = |error: althing_protocol::IdentityError| named("IdentityError", &error);
    let agent: AgentId = text(input, "agent").parse().map_err(unknown)?;
    let caller: CallerId = text(input, "caller").parse().map_err(unknown)?;
    let user = input["user"].as_str().map(|name| Principal::parse(&format!("token:{name}")));
    let principals: Vec<Principal> = user.into_iter().chain([Principal::Caller(caller)]).collect();
    let scope = String::from(Scope::of_call(caller, &principals));
    let session = SessionId::of(&agent, &scope, text(input, "context"));
    Ok(json!({ "scope": scope, "session": hex(&session.0), "notes": hex(&session.notes_prefix()) }))
}

fn turn(input: &Value) -> Value {
    let turn = TurnId::of(session_id(input), text(input, "task"), text(input, "message"));
    json!({ "turn": hex(&turn.whole), "row": hex(&turn.row_key(1)), "origin": hex(&turn.origin()) })
}

fn call(input: &Value) -> Value {
    let kind = match text(input, "kind") {
        "tool" => CallKind::Tool,
        "recall" => CallKind::Recall,
        "model" => CallKind::Model,
        other => panic!("no step is called {other}"),
    };
    json!({ "call": hex(&call_digest(kind, text(input, "name"), &input["arguments"])) })
}

fn call_key(input: &Value) -> Value {
    let turn = TurnId { session: session_id(input), turn: 0, whole: digest(input, "turn") };
    let (occurrence, since) = (number(input, "occurrence"), number(input, "since"));
    json!({ "key": hex(&turn.call_key(&digest(input, "call"), occurrence, since)) })
}

fn row(input: &Value) -> Outcome {
    let (bytes, key, seq) = (bytes(input, "bytes"), number(input, "number"), number(input, "expected"));
    let read = Row::decode(&bytes, key, seq, &digest(input, "previous"));
    let (row, digest) = read.map_err(|error| named("RowError", &error))?;
    let (what, says) = body(&row.body);
    Ok(json!({ "digest": hex(&digest), "at_ms": row.at_ms, what: says }))
}

fn label(label: Option<Label>) -> Value {
    json!(label.map(|label| json!({ "level": label.level, "trusted": label.trusted })))
}

fn hexed(bytes: Option<&ByteVec>) -> Value {
    json!(bytes.map(|bytes| hex(bytes)))
}

/// A word of the rows, as the specification has it.
fn word(of: &impl fmt::Debug) -> String {
    format!("{of:?}").to_lowercase()
}

fn body(body: &RowBody) -> (&'static str, Value) {
    match body {
        RowBody::Begin(it) => ("begin", begin(it)),
        RowBody::Intent(it) => ("intent", intent(it)),
        RowBody::Result(it) => ("result", result(it)),
        RowBody::Resolved(ResolvedRow { step, choice, by }) => {
            ("resolved", json!({ "step": step, "choice": word(choice), "by": by }))
        }
        RowBody::Checkpoint(it) => ("checkpoint", checkpoint(it)),
        RowBody::Reads(it) => ("reads", reads(it)),
        RowBody::Note(NoteRow { kind, text, key, label: of }) => {
            let key = hexed(key.as_ref());
            ("note", json!({ "kind": word(kind), "text": text, "key": key, "label": label(*of) }))
        }
        RowBody::Restart(RestartRow { step, version, binding, by, said_ms }) => {
            let says = json!({ "step": step, "version": version, "binding": binding, "by": by, "said_ms": said_ms });
            ("restart", says)
        }
    }
}

fn begin(it: &Begin) -> Value {
    let attempt = |of: &GroupAttempt| json!({ "group": of.group, "task": of.task, "token": of.token });
    json!({
        "task": it.task,
        "message": it.message,
        "agent": it.agent,
        "version": it.version,
        "binding": it.binding,
        "epoch": it.epoch,
        "principals": it.principals,
        "extensions": it.extensions,
        "label": label(it.label),
        "session": hexed(it.session.as_ref()),
        "delegation": hexed(it.delegation.as_ref()),
        "metadata": hexed(it.metadata.as_ref()),
        "modes": it.modes,
        "history_length": it.history_length,
        "within_ms": it.within_ms,
        "began_ms": it.began_ms,
        "seed": hex(&it.seed),
        "caller": it.caller.map(|key| hex(key.as_bytes())),
        "attempt": it.attempt.as_ref().map(attempt),
    })
}

fn intent(it: &IntentRow) -> Value {
    json!({
        "step": it.step,
        "kind": word(&it.kind),
        "name": it.name,
        "call": hex(&it.call),
        "effect": word(&it.effect),
        "key": hex(&it.key),
        "callee": it.callee,
    })
}

fn result(it: &ResultRow) -> Value {
    json!({
        "step": it.step,
        "kind": word(&it.kind),
        "name": it.name,
        "call": hex(&it.call),
        "effect": word(&it.effect),
        "more": it.more,
        "is_result": it.is_result,
        "bytes": hex(&it.bytes),
        "tokens": it.tokens,
        "label": label(it.label),
    })
}

fn checkpoint(it: &CheckpointRow) -> Value {
    json!({
        "step": it.step,
        "more": it.more,
        "state_bytes": it.state_bytes,
        "bytes": hex(&it.bytes),
        "label": label(it.label),
    })
}

fn reads(it: &ReadsRow) -> Value {
    let clock = |clock: Clock| if clock == Clock::Wall { "wall" } else { "monotonic" };
    let shown = |read: &Reading| json!({ "clock": clock(read.clock), "ns": read.ns });
    it.readings().unwrap_or_default().iter().map(shown).collect()
}

/// What the rows of a turn say: as which agent it goes on, and which of its calls are in doubt.
fn journal(input: &Value) -> Outcome {
    const DAMAGED: &str = "Damage";
    let rows = rows(input);
    let begin = rows.first().and_then(|(_, row)| Begin::of_row(row)).ok_or(DAMAGED)?;
    let turn = TurnId::of(session_id(input), &begin.task, &begin.message);
    let read = TurnRows::read(turn, begin.clone(), &rows).map_err(|_| DAMAGED)?;
    let doubts = read.doubts();
    let in_doubt: Vec<Value> = doubts
        .iter()
        .map(|doubt| json!({ "step": doubt.seq, "name": doubt.name, "since_ms": doubt.since_ms }))
        .collect();
    let (version, binding) = read.agent();
    Ok(json!({
        "task": begin.task,
        "message": begin.message,
        "version": version,
        "binding": binding,
        "began_ms": read.began_ms(),
        "in_doubt": in_doubt,
    }))
}

fn notes(input: &Value) -> Outcome {
    let read = NoteRows::read(session_id(input), &rows(input)).map_err(|error| named("NoteError", &error))?;
    Ok(read.into_notes().iter().map(note).collect())
}

fn note(it: &Note) -> Value {
    json!({ "kind": word(&it.kind), "text": it.text, "label": label(it.label) })
}

/// What is answered to a message that comes again under the id of one that was answered (P-77): nothing where it is a new one.
fn message(input: &Value) -> Value {
    let read = |member: &str| serde_json::from_value::<Message>(input[member].clone()).expect("a message");
    let (again, at_ms) = (read("again"), time(input, "answered_at_ms"));
    let known = match &input["first"] {
        Value::Null => AnswerRow::of_deleted(at_ms),
        _ => AnswerRow::of(&read("first"), &read("answer"), None, at_ms),
    };
    let id = &again.message_id;
    if !is_key(id) || known.is_old(time(input, "now_ms")) {
        return json!({ "code": null, "reason": null, "answer": null });
    }
    let refusal = match known.is_of(&again) {
        true => OperationError::already_done(id, known.answer),
        false => OperationError::message_id_reused(id, "that is not kept any more"),
    };
    refused(&OperationError::from_peer(refusal.to_json().to_string().as_bytes()))
}

/// What a caller reads of a refusal.
fn refused(error: &OperationError) -> Value {
    let mut answer = Value::Null;
    if let Refusal::AlreadyDone { answer: Some(text) } = &error.refusal {
        answer = serde_json::from_str(text).expect("a message, as JSON");
        answer.sort_all_objects();
    }
    json!({ "code": error.code(), "reason": error.reason(), "answer": answer })
}
