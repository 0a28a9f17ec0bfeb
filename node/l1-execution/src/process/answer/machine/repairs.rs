//! Reads what a stranger's event is made of, member by member: what is good is kept, what is written otherwise is read as A2A
//! 1.0 has it, and what cannot be read is left out and named. One odd member loses no finished task.

use a2a::{Artifact, Message, Part, Role, TaskState};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::members::{
    is_list_of_texts, is_timestamp, message_id, name_artifacts, said, tidy, write_artifacts, write_list, write_message,
    write_number,
};
use super::omissions::{Omission, OmissionKind, Omissions, Place};
use super::words::{AGENT, is_interrupted, may_be_whole, role_of, state_of};
use crate::process::card::shown;

/// Of a message in a history that does not say whose it is: it is told to nobody.
const NOBODY: &str = "ROLE_UNSPECIFIED";
/// What a result has instead of a message, and what each of these tells.
const BESIDE_MESSAGES: [(&str, &str); 3] =
    [("task", "status"), ("statusUpdate", "status"), ("artifactUpdate", "artifact")];
/// The members that say what a part is, besides its data.
const PART_KINDS: [&str; 3] = ["text", "raw", "url"];
/// What an artifact has besides its parts.
const ABOUT_ARTIFACTS: [&str; 6] = ["artifactId", "id", "name", "description", "metadata", "extensions"];

/// What was read of a result.
#[derive(Debug)]
pub struct ReadEvent<T> {
    /// What it says, if that can be read.
    pub read: Option<T>,
    /// What the agent says beside an update of a task, and was no place for in that.
    pub beside: Option<Message>,
    /// What was left out.
    pub omissions: Vec<Omission>,
}

/// Reads a result by `read`, after what is odd in it was written as A2A has it. Only where it cannot be read so, each thing in it is
/// tried, and left out if it cannot be read by itself: most results are read once. What was left out is named in any case.
pub fn read_mended<T>(result: &mut Value, read: fn(&Value) -> Option<T>) -> ReadEvent<T> {
    let mut mender = Mender::default();
    let event = [false, true].into_iter().find_map(|tries| {
        mender.tries = tries;
        mender.result(result);
        read(result)
    });
    ReadEvent { read: event, beside: mender.beside, omissions: mender.omissions.all() }
}

/// What of an event of that kind cannot be read, by its place, and what stands there.
pub fn culprit(result: &Value, kind: &str) -> Option<String> {
    let event = result.get(kind)?;
    if !event.is_object() {
        return Some(format!("\"/{kind}\" is no object"));
    }
    let is_state: fn(&Value) -> bool = |state| TaskState::deserialize(state).is_ok();
    let is_role: fn(&Value) -> bool = |role| Role::deserialize(role).is_ok();
    let words = [("/status/state", is_state), ("/role", is_role)];
    let ids = ["/id", "/taskId", "/contextId", "/messageId", "/artifact/artifactId"];
    let ids = ids.map(|id| (id, Value::is_string as fn(&Value) -> bool));
    for (place, is_fit) in words.into_iter().chain(ids) {
        let Some(found) = event.pointer(place).filter(|found| !is_fit(found)) else { continue };
        return Some(match found {
            Value::String(word) => format!("\"/{kind}{place}\" is {:?}", shown(word)),
            _ => format!("\"/{kind}{place}\" is no text"),
        });
    }
    for place in ["/parts", "/artifact/parts"] {
        let Some(parts) = event.pointer(place) else { continue };
        let Value::Array(parts) = parts else { return Some(format!("\"/{kind}{place}\" is no list")) };
        if let Some(number) = parts.iter().position(|part| !is_part(part)) {
            return Some(format!("\"/{kind}{place}/{number}\" is no part of a kind that A2A 1.0 has"));
        }
    }
    None
}

fn is_message(value: &Value) -> bool {
    Message::deserialize(value).is_ok()
}

fn is_part(value: &Value) -> bool {
    Part::deserialize(value).is_ok()
}

fn is_artifact(value: &Value) -> bool {
    Artifact::deserialize(value).is_ok()
}

/// What is lost with something that the agent says with that state of its task, or beside it.
fn lost_word(state: Option<&Value>) -> OmissionKind {
    let state = state.and_then(|state| TaskState::deserialize(state).ok());
    if state.is_some_and(|state| may_be_whole(&state)) { OmissionKind::LastWord } else { OmissionKind::Message }
}

/// Whether an event of a task asks something that can be read: whatever else is said beside it, somebody can answer.
fn is_asked(event: &Map<String, Value>) -> bool {
    let Some(status) = event.get("status") else { return false };
    // Its message may have no id yet.
    let parts = status.pointer("/message/parts").and_then(Value::as_array);
    let is_interrupted = TaskState::deserialize(&status["state"]).is_ok_and(|state| is_interrupted(&state));
    is_interrupted && parts.is_some_and(|parts| parts.iter().any(is_part))
}

/// What is mended, and what was left out so far.
#[derive(Default)]
struct Mender {
    omissions: Omissions,
    /// What the agent says beside an update.
    beside: Option<Message>,
    /// Whether what cannot be read is left out. Until then it stays in its place, so that the places of others stay right.
    tries: bool,
}

impl Mender {
    fn result(&mut self, result: &mut Value) {
        let Value::Object(result) = result else { return };
        let root = Place::Result;
        tidy(result);
        if let Some(Value::Object(task)) = result.get_mut("task") {
            self.task(task, &root.member("task"));
        }
        if let Some(Value::Object(update)) = result.get_mut("statusUpdate") {
            let at = root.member("statusUpdate");
            tidy(update);
            write_number(update, "taskId");
            self.context(update, &at);
            if let Some(status) = update.get_mut("status") {
                self.status(status, &at.member("status"));
            }
        }
        if let Some(Value::Object(update)) = result.get_mut("artifactUpdate") {
            let at = root.member("artifactUpdate");
            tidy(update);
            write_number(update, "taskId");
            self.context(update, &at);
            // Without it, nobody knows whether what was told before stays.
            self.flag(update, &at, "append", OmissionKind::Artifact);
            self.flag(update, &at, "lastChunk", OmissionKind::Detail);
            // One without an id stays so: it could be a piece of any, and what it is of is not whole without it.
            if let Some(Value::Object(artifact)) = update.get_mut("artifact") {
                self.artifact(artifact, &at.member("artifact"));
            }
        }
        self.word(result, &root.member("message"));
    }

    /// A message that is all of a result. Some servers write one beside the task: that hides no task.
    fn word(&mut self, result: &mut Map<String, Value>, at: &Place<'_>) {
        let is_told = |(kind, told): &&(&str, &str)| result.get(*kind).is_some_and(|event| event.get(*told).is_some());
        let Some((kind, _)) = BESIDE_MESSAGES.iter().find(is_told) else {
            if let Some(message) = result.get_mut("message") {
                self.message(message, at, AGENT);
            }
            return;
        };
        let Some(mut message) = result.remove("message") else { return };
        write_message(&mut message);
        // It is tried at once: the result is read without it.
        let tries = std::mem::replace(&mut self.tries, true);
        self.message(&mut message, at, AGENT);
        self.tries = tries;
        let Some(Value::Object(event)) = result.get_mut(*kind) else { return };
        let is_of_other = message.get("role").is_some_and(|role| *role != AGENT && Role::deserialize(role).is_ok());
        let is_fit = !is_of_other && is_message(&message);
        let state = event.get("status").and_then(|status| status.get("state"));
        match message {
            Value::Object(said) if is_fit => self.say_beside(event, *kind == "task", said),
            _ if is_of_other || is_asked(event) => self.omissions.add(at, OmissionKind::Message),
            _ => self.omissions.add(at, lost_word(state)),
        }
    }

    /// Keeps what the agent says beside an event of a task: with the status, where that says nothing; else in the history of the task, or
    /// before the update.
    fn say_beside(&mut self, event: &mut Map<String, Value>, is_task: bool, mut said: Map<String, Value>) {
        if said.get("parts").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            return;
        }
        if let Some(Value::Object(status)) = event.get_mut("status") {
            let Some(word) = status.get("message") else {
                status.insert("message".to_owned(), Value::Object(said));
                return;
            };
            let id = message_id(&said);
            if word.as_object().is_some_and(|word| message_id(word) == id) {
                return;
            }
            // By its id it would be taken for that word.
            if word.get("messageId") == said.get("messageId") {
                said.insert("messageId".to_owned(), Value::String(id));
            }
        }
        if is_task {
            if let Value::Array(history) = event.entry("history").or_insert_with(|| json!([])) {
                history.push(Value::Object(said));
            }
            return;
        }
        if let Some(task) = event.get("taskId") {
            said.insert("taskId".to_owned(), task.clone());
        }
        if let Some(context) = event.get("contextId") {
            said.entry("contextId").or_insert_with(|| context.clone());
        }
        self.beside = Message::deserialize(Value::Object(said)).ok();
    }

    /// Leaves out a member that is not of its type.
    fn keep(&mut self, members: &mut Map<String, Value>, at: &Place<'_>, member: &str, is_fit: fn(&Value) -> bool) {
        if members.get(member).is_some_and(|value| !is_fit(value)) {
            members.remove(member);
            self.omissions.add(&at.member(member), OmissionKind::Detail);
        }
    }

    /// Leaves out the items that are not fit; `kind` says what is lost with one.
    fn sift(
        &mut self,
        items: &mut Vec<Value>,
        at: &Place<'_>,
        is_fit: fn(&Value) -> bool,
        kind: impl Fn(&Value) -> OmissionKind,
    ) {
        let mut number = 0;
        items.retain(|item| {
            let is_kept = is_fit(item);
            if !is_kept {
                self.omissions.add(&at.item(number), kind(item));
            }
            number += 1;
            is_kept
        });
    }

    /// The members that may be missing, of messages and artifacts.
    fn details(&mut self, members: &mut Map<String, Value>, at: &Place<'_>) {
        self.keep(members, at, "metadata", Value::is_object);
        for list in ["extensions", "referenceTaskIds"] {
            self.keep(members, at, list, is_list_of_texts);
        }
        for text in ["name", "description"] {
            self.keep(members, at, text, Value::is_string);
        }
    }

    fn flag(&mut self, members: &mut Map<String, Value>, at: &Place<'_>, member: &str, kind: OmissionKind) {
        let read = match members.get(member) {
            None | Some(Value::Bool(_)) => return,
            Some(Value::String(word)) => word.trim().to_ascii_lowercase().parse::<bool>().ok(),
            Some(Value::Number(number)) => number.as_u64().filter(|number| *number < 2).map(|number| number == 1),
            Some(_) => None,
        };
        match read {
            Some(flag) => drop(members.insert(member.to_owned(), Value::Bool(flag))),
            None => {
                members.remove(member);
                self.omissions.add(&at.member(member), kind);
            }
        }
    }

    /// The context and the metadata of a task, or of an update of one.
    fn context(&mut self, members: &mut Map<String, Value>, at: &Place<'_>) {
        write_number(members, "contextId");
        self.keep(members, at, "contextId", Value::is_string);
        self.keep(members, at, "metadata", Value::is_object);
        // Text that is empty may be left out.
        members.entry("contextId").or_insert_with(|| json!(""));
    }

    fn task(&mut self, task: &mut Map<String, Value>, at: &Place<'_>) {
        tidy(task);
        write_number(task, "id");
        self.context(task, at);
        if let Some(status) = task.get_mut("status") {
            self.status(status, &at.member("status"));
        }
        self.artifacts(task, &at.member("artifacts"));
        self.history(task, at);
    }

    fn status(&mut self, status: &mut Value, at: &Place<'_>) {
        let Value::Object(status) = status else { return };
        tidy(status);
        if let Some(state) = status.get("state").and_then(Value::as_str).and_then(state_of) {
            status.insert("state".to_owned(), Value::from(state));
        }
        self.keep(status, at, "timestamp", is_timestamp);
        let Some(message) = status.get_mut("message") else { return };
        let place = at.member("message");
        write_message(message);
        self.message(message, &place, AGENT);
        if self.tries && !is_message(message) {
            status.remove("message");
            self.omissions.add(&place, lost_word(status.get("state")));
        }
    }

    /// A message, which is of that role if it says nothing of it.
    fn message(&mut self, message: &mut Value, at: &Place<'_>, role: &'static str) {
        let Value::Object(message) = message else { return };
        tidy(message);
        for id in ["messageId", "contextId", "taskId"] {
            write_number(message, id);
            self.keep(message, at, id, Value::is_string);
        }
        self.details(message, at);
        self.parts(message, &at.member("parts"), OmissionKind::Message);
        let role = match message.get("role") {
            None => Some(role),
            Some(word) => word.as_str().and_then(role_of),
        };
        if let Some(role) = role {
            message.insert("role".to_owned(), Value::from(role));
        }
        if said(message, "messageId").is_none() {
            message.remove("messageId");
            // Before, nobody knows what of it can be read.
            if self.tries {
                let id = message_id(message);
                message.insert("messageId".to_owned(), Value::String(id));
            }
        }
    }

    fn parts(&mut self, of: &mut Map<String, Value>, at: &Place<'_>, kind: OmissionKind) {
        write_list(of, "parts");
        let Some(Value::Array(parts)) = of.get_mut("parts") else { return };
        for (number, part) in parts.iter_mut().enumerate() {
            self.part(part, &at.item(number));
        }
        // Where none can be read, nor can what they are of.
        if self.tries && parts.iter().any(is_part) {
            self.sift(parts, at, is_part, |_| kind);
        }
    }

    fn part(&mut self, part: &mut Value, at: &Place<'_>) {
        let Value::Object(part) = part else { return };
        let has_kind = PART_KINDS.iter().any(|kind| part.contains_key(*kind));
        let is_null = !has_kind && part.get("data").is_some_and(Value::is_null);
        tidy(part);
        if is_null {
            part.insert("data".to_owned(), Value::Null);
        }
        self.keep(part, at, "metadata", Value::is_object);
        for text in ["filename", "mediaType"] {
            self.keep(part, at, text, Value::is_string);
        }
    }

    fn artifact(&mut self, artifact: &mut Map<String, Value>, at: &Place<'_>) {
        tidy(artifact);
        self.details(artifact, at);
        for id in ["artifactId", "id"] {
            write_number(artifact, id);
        }
        self.keep(artifact, at, "artifactId", Value::is_string);
        // What is empty may be left out; what has another member may have in it what it is made of.
        if artifact.keys().all(|member| ABOUT_ARTIFACTS.contains(&member.as_str())) {
            artifact.insert("parts".to_owned(), json!([]));
        }
        self.parts(artifact, &at.member("parts"), OmissionKind::Artifact);
    }

    fn artifacts(&mut self, task: &mut Map<String, Value>, at: &Place<'_>) {
        write_artifacts(task);
        if self.tries && task.get("artifacts").is_some_and(|all| !all.is_array()) {
            task.remove("artifacts");
            self.omissions.add(at, OmissionKind::Artifact);
        }
        let Some(Value::Array(all)) = task.get_mut("artifacts") else { return };
        for (number, one) in all.iter_mut().enumerate() {
            if let Value::Object(artifact) = one {
                self.artifact(artifact, &at.item(number));
            }
        }
        name_artifacts(all);
        if self.tries {
            let kind = |one: &Value| if one.is_null() { OmissionKind::Detail } else { OmissionKind::Artifact };
            self.sift(all, at, is_artifact, kind);
        }
    }

    fn history(&mut self, task: &mut Map<String, Value>, at: &Place<'_>) {
        self.keep(task, at, "history", Value::is_array);
        let Some(Value::Array(history)) = task.get_mut("history") else { return };
        // What it said then was told then.
        let mut then = Mender { tries: self.tries, ..Mender::default() };
        for message in history.iter_mut() {
            then.message(message, &Place::Result, NOBODY);
        }
        if self.tries {
            self.sift(history, &at.member("history"), is_message, |_| OmissionKind::Detail);
        }
    }
}

#[cfg(test)]
mod tests;
