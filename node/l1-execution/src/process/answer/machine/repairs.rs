//! Reads what a stranger's event is made of, member by member: what is good is kept, what is written otherwise is read as A2A
//! 1.0 has it, and what cannot be read is left out and named. One odd member loses no finished task.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use a2a::{Artifact, Message, Part, Role, TaskState, TaskStatus};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::words::{AGENT, role_of, state_of};
use crate::process::card::shown;

/// The most that is named of one event; more would not help a reader.
const OMISSIONS_MAX: usize = 32;
/// Names of members as some languages write them, and as A2A has them.
const NAMES: [(&str, &str); 7] = [
    ("task_id", "taskId"),
    ("context_id", "contextId"),
    ("artifact_id", "artifactId"),
    ("message_id", "messageId"),
    ("media_type", "mediaType"),
    ("last_chunk", "lastChunk"),
    ("reference_task_ids", "referenceTaskIds"),
];
/// Of a message in a history that does not say whose it is: it is told to nobody.
const NOBODY: &str = "ROLE_UNSPECIFIED";
/// What a result has instead of a message.
const BESIDE_MESSAGES: [&str; 3] = ["task", "statusUpdate", "artifactUpdate"];
/// The members that say what a part is, besides its data.
const PART_KINDS: [&str; 3] = ["text", "raw", "url"];

/// Something that was left out of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omission {
    /// Where it was, as a JSON pointer into the result.
    pub at: String,
    /// What is lost with it.
    pub kind: OmissionKind,
}

/// What is lost with something that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OmissionKind {
    /// Nothing that people read.
    Detail,
    /// Something that the agent said.
    Message,
    /// Something that the agent made.
    Artifact,
}

/// Makes the result of an answer one that can be read, as far as that is possible; gives what was left out of it.
pub fn mend(result: &mut Value) -> Vec<Omission> {
    let mut mender = Mender::default();
    let Value::Object(result) = result else { return mender.0 };
    tidy(result);
    if let Some(mut message) = result.remove("message") {
        mender.message(&mut message, "/message", AGENT);
        // Some servers write a word beside the task.
        let is_beside = BESIDE_MESSAGES.iter().any(|kind| result.contains_key(*kind));
        if is_beside && Message::deserialize(&message).is_err() {
            mender.omit("/message".to_owned(), OmissionKind::Message);
        } else {
            result.insert("message".to_owned(), message);
        }
    }
    if let Some(Value::Object(task)) = result.get_mut("task") {
        mender.task(task, "/task");
    }
    if let Some(Value::Object(update)) = result.get_mut("statusUpdate") {
        mender.update(update, "/statusUpdate");
        if let Some(status) = update.get_mut("status") {
            mender.status(status, "/statusUpdate/status");
        }
    }
    if let Some(Value::Object(update)) = result.get_mut("artifactUpdate") {
        let at = "/artifactUpdate";
        mender.update(update, at);
        // Without it, nobody knows whether what was told before stays.
        mender.flag(update, at, "append", OmissionKind::Artifact);
        mender.flag(update, at, "lastChunk", OmissionKind::Detail);
        if let Some(Value::Object(artifact)) = update.get_mut("artifact") {
            // A piece that does not say of what it is one could be of any: what it is of is not whole without it.
            if mender.artifact(artifact, "/artifactUpdate/artifact", 0) {
                artifact.remove("artifactId");
            }
        }
    }
    mender.0
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
        if let Some(number) = parts.iter().position(|part| Part::deserialize(part).is_err()) {
            return Some(format!("\"/{kind}{place}/{number}\" is no part of a kind that A2A 1.0 has"));
        }
    }
    None
}

/// Leaves out what is null, and gives members the names that A2A has for them.
fn tidy(members: &mut Map<String, Value>) {
    members.retain(|_, value| !value.is_null());
    for (written, name) in NAMES {
        if !members.contains_key(name)
            && let Some(value) = members.remove(written)
        {
            members.insert(name.to_owned(), value);
        }
    }
}

/// Writes a number as text.
fn write_number(members: &mut Map<String, Value>, member: &str) {
    if let Some(value) = members.get_mut(member)
        && value.is_number()
    {
        *value = Value::String(value.to_string());
    }
}

/// Makes a list of one out of an object.
fn write_list(members: &mut Map<String, Value>, member: &str) {
    if let Some(value) = members.get_mut(member)
        && value.is_object()
    {
        *value = Value::Array(vec![value.take()]);
    }
}

fn is_list_of_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

fn is_timestamp(value: &Value) -> bool {
    TaskStatus::deserialize(json!({ "state": "", "timestamp": value })).is_ok()
}

/// A text that is not blank.
fn said<'a>(members: &'a Map<String, Value>, member: &str) -> Option<&'a str> {
    members.get(member).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

/// What is mended, and what was left out so far.
#[derive(Default)]
struct Mender(Vec<Omission>);

impl Mender {
    fn omit(&mut self, at: String, kind: OmissionKind) {
        // The first of each kind is never one too many: what becomes of the answer depends on it.
        if self.0.len() < OMISSIONS_MAX || self.0.iter().all(|one| one.kind != kind) {
            self.0.push(Omission { at, kind });
        }
    }

    /// Leaves out a member that is not of its type.
    fn keep(&mut self, members: &mut Map<String, Value>, at: &str, member: &str, is_fit: fn(&Value) -> bool) {
        if members.get(member).is_some_and(|value| !is_fit(value)) {
            members.remove(member);
            self.omit(format!("{at}/{member}"), OmissionKind::Detail);
        }
    }

    /// The members that may be missing, of messages, tasks and artifacts.
    fn details(&mut self, members: &mut Map<String, Value>, at: &str) {
        self.keep(members, at, "metadata", Value::is_object);
        for list in ["extensions", "referenceTaskIds"] {
            self.keep(members, at, list, is_list_of_texts);
        }
        for text in ["name", "description"] {
            self.keep(members, at, text, Value::is_string);
        }
    }

    fn flag(&mut self, members: &mut Map<String, Value>, at: &str, member: &str, kind: OmissionKind) {
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
                self.omit(format!("{at}/{member}"), kind);
            }
        }
    }

    /// What all updates of a task have.
    fn update(&mut self, update: &mut Map<String, Value>, at: &str) {
        tidy(update);
        write_number(update, "taskId");
        write_number(update, "contextId");
        self.keep(update, at, "contextId", Value::is_string);
        self.keep(update, at, "metadata", Value::is_object);
    }

    fn task(&mut self, task: &mut Map<String, Value>, at: &str) {
        tidy(task);
        write_number(task, "id");
        write_number(task, "contextId");
        self.keep(task, at, "contextId", Value::is_string);
        self.keep(task, at, "metadata", Value::is_object);
        if let Some(status) = task.get_mut("status") {
            self.status(status, &format!("{at}/status"));
        }
        self.artifacts(task, at);
        self.history(task, at);
    }

    fn status(&mut self, status: &mut Value, at: &str) {
        let Value::Object(status) = status else { return };
        tidy(status);
        if let Some(state) = status.get("state").and_then(Value::as_str).and_then(state_of) {
            status.insert("state".to_owned(), Value::from(state));
        }
        self.keep(status, at, "timestamp", is_timestamp);
        let Some(mut message) = status.remove("message") else { return };
        let place = format!("{at}/message");
        self.message(&mut message, &place, AGENT);
        if Message::deserialize(&message).is_ok() {
            status.insert("message".to_owned(), message);
        } else {
            self.omit(place, OmissionKind::Message);
        }
    }

    /// A message, which is of that role if it says nothing of it.
    fn message(&mut self, message: &mut Value, at: &str, role: &'static str) {
        let Value::Object(message) = message else { return };
        tidy(message);
        for id in ["messageId", "contextId", "taskId"] {
            write_number(message, id);
            self.keep(message, at, id, Value::is_string);
        }
        self.details(message, at);
        self.parts(message, at, OmissionKind::Message);
        let role = match message.get("role") {
            None => Some(role),
            Some(word) => word.as_str().and_then(role_of),
        };
        if let Some(role) = role {
            message.insert("role".to_owned(), Value::from(role));
        }
        if said(message, "messageId").is_none() {
            // The same message is told once, however often it comes.
            let mut hasher = DefaultHasher::new();
            serde_json::to_string(&*message).unwrap_or_default().hash(&mut hasher);
            message.insert("messageId".to_owned(), Value::from(format!("message-{:016x}", hasher.finish())));
        }
    }

    fn parts(&mut self, of: &mut Map<String, Value>, at: &str, kind: OmissionKind) {
        write_list(of, "parts");
        let Some(Value::Array(parts)) = of.get_mut("parts") else { return };
        let mut fits = Vec::with_capacity(parts.len());
        for (number, part) in parts.iter_mut().enumerate() {
            self.part(part, &format!("{at}/parts/{number}"));
            fits.push(Part::deserialize(&*part).is_ok());
        }
        // Where none can be read, nor can what they are of.
        if !fits.contains(&true) {
            return;
        }
        let mut fits = fits.into_iter().enumerate();
        parts.retain(|_| match fits.next() {
            Some((number, false)) => {
                self.omit(format!("{at}/parts/{number}"), kind);
                false
            }
            Some((_, true)) | None => true,
        });
    }

    fn part(&mut self, part: &mut Value, at: &str) {
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

    /// An artifact at that place among others; whether its id was made here.
    fn artifact(&mut self, artifact: &mut Map<String, Value>, at: &str, number: usize) -> bool {
        tidy(artifact);
        self.details(artifact, at);
        write_number(artifact, "artifactId");
        self.keep(artifact, at, "artifactId", Value::is_string);
        // What is empty may be left out.
        artifact.entry("parts").or_insert_with(|| json!([]));
        self.parts(artifact, at, OmissionKind::Artifact);
        if artifact.contains_key("artifactId") {
            return false;
        }
        write_number(artifact, "id");
        let id = said(artifact, "id").or(said(artifact, "name")).map(str::to_owned);
        let id = id.unwrap_or_else(|| artifact_id(number));
        artifact.insert("artifactId".to_owned(), Value::from(id));
        true
    }

    fn artifacts(&mut self, task: &mut Map<String, Value>, at: &str) {
        write_list(task, "artifacts");
        let Some(found) = task.remove("artifacts") else { return };
        let Value::Array(all) = found else {
            return self.omit(format!("{at}/artifacts"), OmissionKind::Artifact);
        };
        let (mut kept, mut ids) = (Vec::with_capacity(all.len()), BTreeSet::new());
        for (number, one) in all.into_iter().enumerate() {
            let place = format!("{at}/artifacts/{number}");
            let mut artifact = match one {
                Value::Object(artifact) => artifact,
                Value::Null => {
                    self.omit(place, OmissionKind::Detail);
                    continue;
                }
                _ => {
                    self.omit(place, OmissionKind::Artifact);
                    continue;
                }
            };
            let is_made = self.artifact(&mut artifact, &place, number);
            let id = artifact.get("artifactId").and_then(Value::as_str).unwrap_or_default().to_owned();
            if !ids.insert(id) && is_made {
                artifact.insert("artifactId".to_owned(), Value::from(artifact_id(number)));
            }
            let artifact = Value::Object(artifact);
            if Artifact::deserialize(&artifact).is_ok() {
                kept.push(artifact);
            } else {
                self.omit(place, OmissionKind::Artifact);
            }
        }
        task.insert("artifacts".to_owned(), Value::Array(kept));
    }

    fn history(&mut self, task: &mut Map<String, Value>, at: &str) {
        self.keep(task, at, "history", Value::is_array);
        let Some(Value::Array(history)) = task.get_mut("history") else { return };
        for (number, mut message) in std::mem::take(history).into_iter().enumerate() {
            // What it said then was told then.
            Mender::default().message(&mut message, "", NOBODY);
            if Message::deserialize(&message).is_ok() {
                history.push(message);
            } else {
                self.omit(format!("{at}/history/{number}"), OmissionKind::Detail);
            }
        }
    }
}

/// The id of an artifact without one: the same whenever its agent tells of it.
fn artifact_id(number: usize) -> String {
    format!("artifact-{number}")
}

#[cfg(test)]
mod tests;
