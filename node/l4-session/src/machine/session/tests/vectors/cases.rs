//! Names of sessions, keys of calls, and messages that come again: good ones, and such as a node refuses.

use althing_execution::tools::CallKind;
use althing_protocol::{AgentId, CallerId, Digest, PublisherId, SecretKey, hex};
use serde_json::{Value, json};

use super::row_cases;
use crate::machine::answers::ANSWER_MS_MAX;
use crate::machine::session::{SessionId, TurnId, call_digest};

pub const NOW_MS: u64 = 1_700_000_000_000;
pub const TOOL: &str = "mail/send";
/// The id of a message that is a key.
const KEY: &str = "5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e";

pub struct Case {
    pub name: &'static str,
    pub input: Value,
    /// `None` accepts.
    pub error: Option<&'static str>,
}

pub fn all() -> Vec<Case> {
    [names(), calls(), row_cases::all(), messages()].into_iter().flatten().collect()
}

pub fn good(name: &'static str, input: Value) -> Case {
    Case { name, input, error: None }
}

pub fn bad(name: &'static str, error: &'static str, input: Value) -> Case {
    Case { name, input, error: Some(error) }
}

pub fn agent() -> AgentId {
    AgentId::new(PublisherId::from_digest([1; 32]), "clerk").expect("a name")
}

pub fn caller() -> CallerId {
    CallerId::Publisher(PublisherId::from_digest([2; 32]))
}

pub fn session() -> SessionId {
    SessionId::of(&agent(), &caller().to_string(), "context-1")
}

pub fn turn() -> TurnId {
    TurnId::of(session(), "task-1", "m-1")
}

/// Who speaks with which agent.
fn session_of(agent: &str, caller: &str, user: Option<&str>) -> Value {
    json!({ "document": "session", "agent": agent, "caller": caller, "user": user, "context": "context-1" })
}

fn turn_of(task: &str, message: &str) -> Value {
    json!({ "document": "turn", "session": hex(&session().0), "task": task, "message": message })
}

fn names() -> Vec<Case> {
    let node = CallerId::Node(SecretKey::from_seed(&[3; 32]).public());
    let publisher = agent().publisher().to_string();
    let (agent, caller, node) = (agent().to_string(), caller().to_string(), node.to_string());
    vec![
        good("a session of an owner", session_of(&agent, &caller, None)),
        good("a session of a user of its gateway", session_of(&agent, &caller, Some("alice"))),
        good("a session of a node without an owner", session_of(&agent, &node, None)),
        bad("a publisher in place of an agent", "IdentityError::AgentId", session_of(&publisher, &caller, None)),
        bad("an agent in place of a caller", "IdentityError::AgentNotCaller", session_of(&agent, &agent, None)),
        good("a turn", turn_of("task-1", "m-1")),
        good("a turn whose texts would be the same in one piece", turn_of("task-", "1m-1")),
    ]
}

fn call_of(kind: &str, name: &str, arguments: &Value) -> Value {
    json!({ "document": "call", "kind": kind, "name": name, "arguments": arguments })
}

fn calls() -> Vec<Case> {
    const MODEL: &str = "models/stub";
    let key = |occurrence: u32, since: u32| {
        let (turn, call) = (turn(), arguments_digest());
        json!({
            "document": "call key",
            "session": hex(&turn.session.0),
            "turn": hex(&turn.whole),
            "call": hex(&call),
            "occurrence": occurrence,
            "since": since,
        })
    };
    let letter = json!({ "to": "ada", "lines": [1, { "b": null, "a": "þ\n\"" }] });
    let turned = json!({ "lines": [1, { "a": "þ\n\"", "b": null }], "to": "ada" });
    let asked = json!({ "model": "stub", "messages": [], "max_tokens": 4 });
    let asked_otherwise = json!({ "max_tokens": 4, "messages": [], "model": "stub" });
    let question = json!({ "question": "who?", "most": 4 });
    vec![
        good("a call of a tool", call_of("tool", TOOL, &letter)),
        good("the same call with its members in another order", call_of("tool", TOOL, &turned)),
        good("a call without arguments", call_of("tool", TOOL, &json!({}))),
        good("a request to a model", call_of("model", MODEL, &asked)),
        good("another request, since its members have another order", call_of("model", MODEL, &asked_otherwise)),
        good("a search of the memory", call_of("recall", "memory/recall", &question)),
        good("the key of a call", key(0, 0)),
        good("the key of the second call that is like it", key(1, 0)),
        good("the key of the first one after a checkpoint", key(0, 2)),
    ]
}

pub fn arguments_digest() -> Digest {
    call_digest(CallKind::Tool, TOOL, &json!({ "to": "ada" }))
}

fn said(id: &str, text: &str) -> Value {
    json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }], "metadata": { "a": 1, "b": 2 } })
}

fn messages() -> Vec<Case> {
    let answer = json!({ "messageId": "a-1", "role": "ROLE_AGENT", "parts": [{ "text": "It is paid." }] });
    let again = |first: Value, again: Value, later_ms: u64| {
        let answer = if first.is_null() { Value::Null } else { answer.clone() };
        json!({
            "document": "message",
            "first": first,
            "answer": answer,
            "answered_at_ms": NOW_MS,
            "again": again,
            "now_ms": NOW_MS + later_ms,
        })
    };
    let (first, plain) = (said(KEY, "Pay."), said("m-1", "Pay."));
    let mut named = first.clone();
    (named["contextId"], named["taskId"]) = ("context-1".into(), "task-1".into());
    let mut turned = first.clone();
    turned["metadata"] = json!({ "b": 2, "a": 1 });
    let loud = said(&KEY.to_uppercase(), "Pay.");
    let mut cases = vec![
        good("a message under a key that comes again", again(first.clone(), first.clone(), 5)),
        good("the same with the ids that its node filled in", again(first.clone(), named, 5)),
        good("the same with its members in another order", again(first.clone(), turned, 5)),
        good("another content under the key", again(first.clone(), said(KEY, "Pay twice."), 5)),
        good("a message under a key whose task is not kept", again(Value::Null, first.clone(), 5)),
        good("a message under a key after 25 hours", again(first.clone(), first.clone(), ANSWER_MS_MAX)),
        good("a message under a key after more than that", again(first.clone(), first, ANSWER_MS_MAX + 1)),
        good("an id that is no key", again(plain.clone(), plain, 5)),
        good("an id that would be a key in lower case", again(loud.clone(), loud, 5)),
    ];
    let refusal = |code: i32, reason: &str, metadata: Option<Value>| {
        let mut info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "althing.dev",
        });
        if let Some(metadata) = metadata {
            info["metadata"] = metadata;
        }
        let body = json!({ "code": code, "message": "it was answered before", "data": [info] });
        json!({ "document": "refusal", "body": body.to_string() })
    };
    let metadata = json!({ "message": answer.to_string() });
    cases.extend([
        good("ALREADY_DONE, with the message that answered", refusal(-32_000, "ALREADY_DONE", Some(metadata))),
        good("ALREADY_DONE, of an answer that is not kept", refusal(-32_000, "ALREADY_DONE", None)),
        good("MESSAGE_ID_REUSED", refusal(-32_602, "MESSAGE_ID_REUSED", None)),
    ]);
    cases
}
