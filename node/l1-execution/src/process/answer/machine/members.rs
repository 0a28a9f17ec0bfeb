//! Members of events, as strangers write them and as A2A 1.0 has them. Pure.

use std::collections::BTreeSet;

use a2a::TaskStatus;
use althing_protocol::{digest, hex};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

/// Names of members as some languages write them, and as A2A has them.
const NAMES: [(&str, &str); 9] = [
    ("task_id", "taskId"),
    ("context_id", "contextId"),
    ("artifact_id", "artifactId"),
    ("message_id", "messageId"),
    ("media_type", "mediaType"),
    ("last_chunk", "lastChunk"),
    ("reference_task_ids", "referenceTaskIds"),
    ("status_update", "statusUpdate"),
    ("artifact_update", "artifactUpdate"),
];
/// All that a part says.
const SAID: [&str; 6] = ["text", "raw", "url", "data", "filename", "mediaType"];
/// What each artifact has at least one of.
const OF_ARTIFACTS: [&str; 3] = ["artifactId", "artifact_id", "parts"];
/// All that A2A has in a message besides its parts.
const ABOUT_MESSAGES: [&str; 7] =
    ["messageId", "contextId", "taskId", "role", "metadata", "extensions", "referenceTaskIds"];
/// How the id of a message without one begins, and the hexadecimal digits of the digest that follows.
const MADE_ID: &str = "message-";
const ID_DIGITS: usize = 16;

/// Leaves out what is null, and gives members the names that A2A has for them.
pub fn tidy(members: &mut Map<String, Value>) {
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
pub fn write_number(members: &mut Map<String, Value>, member: &str) {
    if let Some(value) = members.get_mut(member)
        && value.is_number()
    {
        *value = Value::String(value.to_string());
    }
}

/// Makes a list of one out of an object.
pub fn write_list(members: &mut Map<String, Value>, member: &str) {
    if let Some(value) = members.get_mut(member)
        && value.is_object()
    {
        *value = Value::Array(vec![value.take()]);
    }
}

/// Whether it is a list with nothing but texts.
pub fn is_list_of_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

/// Whether it is a time as a status has it.
pub fn is_timestamp(value: &Value) -> bool {
    TaskStatus::deserialize(json!({ "state": "", "timestamp": value })).is_ok()
}

/// A text that is not blank.
pub fn said<'a>(members: &'a Map<String, Value>, member: &str) -> Option<&'a str> {
    members.get(member).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

/// The id of a message without one, by what it says and who says it: that is told once, however often it comes, and whatever else
/// of the message changes meanwhile.
pub fn message_id(message: &Map<String, Value>) -> String {
    let said = |part: &Value| -> Map<String, Value> {
        SAID.iter().filter_map(|member| Some(((*member).to_owned(), part.get(*member)?.clone()))).collect()
    };
    let parts = message.get("parts").and_then(Value::as_array).into_iter().flatten().map(said);
    let of = json!({ "role": message.get("role"), "parts": parts.collect::<Vec<_>>() });
    let digest = hex(&digest(&serde_json_canonicalizer::to_vec(&of).unwrap_or_default()));
    format!("{MADE_ID}{}", &digest[..ID_DIGITS])
}

/// Whether a message that says the same has the same id, though it is another one: [`message_id`] made that.
pub fn is_made_id(id: &str) -> bool {
    let digits = id.strip_prefix(MADE_ID).unwrap_or_default();
    digits.len() == ID_DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Makes a message of a text alone, and gives one that is empty its parts: writers of JSON leave out empty lists. What has a member of
/// another name than A2A's may say something in that.
pub fn write_message(message: &mut Value) {
    match message {
        Value::String(text) if text.trim().is_empty() => *message = json!({ "parts": [] }),
        Value::String(_) => {
            let text = message.take();
            *message = json!({ "parts": [{ "text": text }] });
        }
        Value::Object(members) => {
            tidy(members);
            if members.keys().all(|member| ABOUT_MESSAGES.contains(&member.as_str())) {
                members.insert("parts".to_owned(), json!([]));
            }
        }
        _ => {}
    }
}

/// Makes a list of an artifact alone, and of artifacts by their ids.
pub fn write_artifacts(task: &mut Map<String, Value>) {
    let is_one = |members: &Map<String, Value>| OF_ARTIFACTS.iter().any(|member| members.contains_key(*member));
    let Some(Value::Object(found)) = task.get_mut("artifacts") else { return };
    if is_one(found) {
        return write_list(task, "artifacts");
    }
    if found.values().all(|one| one.as_object().is_some_and(is_one)) {
        let with_id = |(id, mut one): (String, Value)| {
            if let Value::Object(artifact) = &mut one {
                tidy(artifact);
                artifact.entry("artifactId").or_insert(Value::String(id));
            }
            one
        };
        let all: Vec<Value> = std::mem::take(found).into_iter().map(with_id).collect();
        task.insert("artifacts".to_owned(), Value::Array(all));
    }
}

/// Gives an id to each artifact without one: the same whenever its agent tells of it, and that of no other.
pub fn name_artifacts(all: &mut [Value]) {
    let lacks_one = |one: &Value| one.is_object() && one.get("artifactId").is_none();
    if !all.iter().any(lacks_one) {
        return;
    }
    let id_of = |one: &Value| one.get("artifactId").and_then(Value::as_str).map(str::to_owned);
    let mut ids: BTreeSet<String> = all.iter().filter_map(id_of).collect();
    for (number, one) in all.iter_mut().enumerate() {
        let Value::Object(artifact) = one else { continue };
        if artifact.contains_key("artifactId") {
            continue;
        }
        let own = said(artifact, "id").or(said(artifact, "name")).map(str::to_owned);
        let mut made = own.unwrap_or_else(|| format!("artifact-{number}"));
        let mut times = 0_usize;
        while !ids.insert(made.clone()) {
            made = if times == 0 { format!("artifact-{number}") } else { format!("artifact-{number}-{times}") };
            times += 1;
        }
        artifact.insert("artifactId".to_owned(), Value::String(made));
    }
}
