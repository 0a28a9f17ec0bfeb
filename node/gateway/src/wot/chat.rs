//! The `chat` action of LMOS agents, translated: its input becomes the parameters of SendStreamingMessage, and the events
//! that answer become its output. Pure.
//!
//! The last message of role `user` is what is sent. What came before it, and the contexts, travel in the metadata of the
//! message under [`LMOS`], so that nothing of the input is lost. `conversationId` is A2A's `contextId`. LMOS has no name
//! for a task that waits for an answer: such an answer has a `turnId` of `task:ID`, and a message that carries it
//! continues the task.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The URI under which the rest of an LMOS request travels in a message's metadata.
pub(crate) const LMOS: &str = "https://althing.dev/ext/lmos/v1";
/// Messages of one request.
const MESSAGES_MAX: usize = 1_000;
/// What a `turnId` begins with that names a task.
const TASK: &str = "task:";
/// Bytes of the events that one answer is made of.
const ANSWER_BYTES_MAX: usize = 8 * althing_protocol::limits::BODY_BYTES_MAX;

/// A message of LMOS.
#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: String,
    #[serde(default)]
    format: Option<String>,
    #[serde(rename = "turnId", default)]
    turn_id: Option<String>,
    #[serde(rename = "binaryData", default)]
    binary_data: Option<Vec<Binary>>,
}

#[derive(Debug, Deserialize)]
struct Binary {
    #[serde(rename = "mimeType")]
    mime_type: String,
    #[serde(rename = "dataAsBase64", default)]
    data: Option<String>,
    #[serde(default)]
    source: Option<String>,
}

/// A request of the `chat` action that can be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chat {
    /// The parts of the message, as A2A has them.
    parts: Vec<Value>,
    /// The task that it continues.
    task: Option<String>,
    /// The client's conversation.
    conversation: Option<String>,
    /// The client's own name for its turn.
    pub turn: Option<String>,
    /// The rest of the input.
    rest: Map<String, Value>,
}

impl Chat {
    /// Reads the action's input.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(input: Value) -> Result<Chat, String> {
        let Value::Object(mut rest) = input else {
            return Err("the input is an object with `messages`".to_owned());
        };
        rest.retain(|_, value| !value.is_null());
        let Some(Value::Array(messages)) = rest.get_mut("messages") else {
            return Err("`messages` is missing, or no list".to_owned());
        };
        if messages.len() > MESSAGES_MAX {
            return Err(format!("`messages` has {} entries; at most {MESSAGES_MAX} are read", messages.len()));
        }
        let is_user = |message: &Value| message["role"].as_str().is_some_and(|role| role.eq_ignore_ascii_case("user"));
        let Some(at) = messages.iter().rposition(is_user) else {
            return Err("`messages` has none of role `user`, so there is nothing to send".to_owned());
        };
        let last = messages.remove(at);
        if messages.is_empty() {
            rest.remove("messages");
        }
        let message: Message = serde_json::from_value(last).map_err(|error| format!("`messages[{at}]`: {error}"))?;
        let context = rest.get("conversationContext");
        let text = |name: &str| context.and_then(|context| context.get(name)?.as_str().map(str::to_owned));
        let conversation = text("conversationId").filter(|id| !id.is_empty());
        let (turn, conversation_turn) = (message.turn_id.clone(), text("turnId"));
        let named = |turn: &Option<String>| turn.as_deref()?.strip_prefix(TASK).map(str::to_owned);
        let task = named(&turn).or_else(|| named(&conversation_turn));
        let own = |turn: Option<String>| turn.filter(|turn| !turn.starts_with(TASK) && !turn.is_empty());
        Ok(Chat {
            parts: parts(&message, at)?,
            task,
            conversation,
            turn: own(turn).or_else(|| own(conversation_turn)),
            rest,
        })
    }

    /// The parameters of SendStreamingMessage.
    pub fn params(&self, message_id: &str) -> Value {
        let mut message = json!({ "messageId": message_id, "role": "ROLE_USER", "parts": self.parts });
        // A task has a context already, and a different one is refused.
        if let Some(task) = &self.task {
            message["taskId"] = json!(task);
        } else if let Some(conversation) = &self.conversation {
            message["contextId"] = json!(conversation);
        }
        if !self.rest.is_empty() {
            message["metadata"] = json!({ LMOS: self.rest });
        }
        json!({ "message": message })
    }
}

fn parts(message: &Message, at: usize) -> Result<Vec<Value>, String> {
    // Checked by `Chat::parse`.
    debug_assert!(message.role.eq_ignore_ascii_case("user"));
    let mut parts = Vec::new();
    if !message.content.is_empty() {
        parts.push(content(&message.content, message.format.as_deref().unwrap_or("text")));
    }
    for (number, binary) in message.binary_data.iter().flatten().enumerate() {
        parts.push(match (&binary.data, &binary.source) {
            (Some(data), None) => json!({ "raw": data, "mediaType": binary.mime_type }),
            (None, Some(source)) => json!({ "url": source, "mediaType": binary.mime_type }),
            _ => {
                let wanted = "has either `dataAsBase64` or `source`";
                return Err(format!("`messages[{at}].binaryData[{number}]` {wanted}"));
            }
        });
    }
    if parts.is_empty() {
        return Err(format!("`messages[{at}]` has neither content nor binary data"));
    }
    Ok(parts)
}

/// A part of that LMOS format.
fn content(text: &str, format: &str) -> Value {
    match format.to_ascii_lowercase().as_str() {
        "json" => match serde_json::from_str::<Value>(text) {
            Ok(data) => json!({ "data": data }),
            Err(_) => json!({ "text": text }),
        },
        "markdown" => json!({ "text": text, "mediaType": "text/markdown" }),
        media if media.contains('/') => json!({ "text": text, "mediaType": media }),
        _ => json!({ "text": text }),
    }
}

/// The answer of an agent, as far as its events have told.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Answer {
    /// The task, if there is one.
    pub task: Option<String>,
    /// A2A's context: the conversation.
    pub context: Option<String>,
    /// The task's state as A2A writes it; empty while unknown.
    pub state: String,
    /// The artifacts' parts by their ids, in the order of their beginning.
    artifacts: BTreeMap<usize, (String, Vec<Value>)>,
    /// The parts of the status's message, or of a reply without a task.
    said: Vec<Value>,
    bytes: usize,
}

impl Answer {
    /// Takes an event; gives the LMOS event that tells of it.
    ///
    /// # Errors
    /// When it is not A2A, or the answer has become too large.
    pub fn take(&mut self, event: &[u8], turn: Option<&str>) -> Result<Value, String> {
        self.bytes += event.len();
        if self.bytes > ANSWER_BYTES_MAX {
            return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        let event: Value = serde_json::from_slice(event).map_err(|error| format!("no JSON: {error}"))?;
        let object = event.as_object().filter(|object| object.len() == 1);
        let (kind, content) = object.and_then(|object| object.iter().next()).ok_or("no event of A2A")?;
        match kind.as_str() {
            "task" => self.take_task(content),
            "message" => {
                self.note(None, content);
                self.state = "TASK_STATE_COMPLETED".to_owned();
                self.said = list(content.get("parts"));
            }
            "statusUpdate" => {
                self.note(content.get("taskId"), content);
                self.take_status(&content["status"]);
            }
            "artifactUpdate" => {
                self.note(content.get("taskId"), content);
                self.take_artifact(&content["artifact"], content["append"] == true);
            }
            kind => return Err(format!("no event of A2A: {kind:?}")),
        }
        let mut told = json!({ "type": kind, "payload": content.to_string() });
        if let Some(context) = &self.context {
            told["conversationId"] = json!(context);
        }
        if let Some(turn) = turn.or(self.task.as_deref()) {
            told["turnId"] = json!(turn);
        }
        Ok(told)
    }

    /// Takes a whole task.
    pub fn take_task(&mut self, task: &Value) {
        self.note(task.get("id"), task);
        self.artifacts.clear();
        for artifact in task["artifacts"].as_array().into_iter().flatten() {
            self.take_artifact(artifact, false);
        }
        self.take_status(&task["status"]);
    }

    fn note(&mut self, task: Option<&Value>, of: &Value) {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
        self.task = text(task).or_else(|| self.task.take());
        self.context = text(of.get("contextId")).or_else(|| self.context.take());
    }

    fn take_status(&mut self, status: &Value) {
        self.state = status["state"].as_str().unwrap_or_default().to_owned();
        self.said = list(status.pointer("/message/parts"));
    }

    fn take_artifact(&mut self, artifact: &Value, append: bool) {
        let id = artifact["artifactId"].as_str().unwrap_or_default();
        let mut parts = list(artifact.get("parts"));
        let next = self.artifacts.len();
        match self.artifacts.values_mut().find(|(known, _)| known == id) {
            Some((_, known)) if append => known.append(&mut parts),
            Some((_, known)) => *known = parts,
            None => drop(self.artifacts.insert(next, (id.to_owned(), parts))),
        }
    }

    /// Whether the agent is at work.
    pub fn is_running(&self) -> bool {
        matches!(self.state.as_str(), "" | "TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING")
    }

    /// Why there is no output: the task failed, or was refused or cancelled.
    pub fn failure(&self) -> Option<&'static str> {
        match self.state.as_str() {
            "TASK_STATE_FAILED" => Some("failed"),
            "TASK_STATE_REJECTED" => Some("rejected"),
            "TASK_STATE_CANCELED" => Some("canceled"),
            _ => None,
        }
    }

    /// What the agent said last, as text.
    pub fn last_words(&self) -> String {
        let words: Vec<&str> = self.said.iter().filter_map(|part| part["text"].as_str()).collect();
        words.concat()
    }

    /// The action's output. `turn` is the client's name for its turn.
    pub fn output(&self, turn: Option<&str>, seconds: f64) -> Value {
        let asks = matches!(self.state.as_str(), "TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED");
        let waiting = self.task.as_ref().filter(|_| asks).map(|task| format!("{TASK}{task}"));
        let turn = waiting.or_else(|| turn.map(str::to_owned));
        let artifacts = self.artifacts.values().map(|(_, parts)| parts);
        let all = artifacts.chain([&self.said]).filter(|parts| !parts.is_empty());
        let messages: Vec<Value> = all.flat_map(|parts| told(parts, turn.as_deref())).collect();
        let state = self.state.strip_prefix("TASK_STATE_").unwrap_or(&self.state);
        let status = state.to_ascii_lowercase().replace('_', "-");
        json!({ "status": status, "responseTime": seconds, "messages": messages })
    }
}

fn list(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The messages of LMOS that parts become: texts are joined; each value is a message of its own.
fn told(parts: &[Value], turn: Option<&str>) -> Vec<Value> {
    let message = |content: &str, format: &str| {
        let mut message = json!({ "role": "assistant", "content": content, "format": format });
        if let Some(turn) = turn {
            message["turnId"] = json!(turn);
        }
        message
    };
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let markdown = parts.iter().any(|part| part["mediaType"] == "text/markdown");
    let binary: Vec<Value> = parts.iter().filter_map(binary).collect();
    let mut messages = Vec::new();
    if !texts.is_empty() || !binary.is_empty() {
        let mut one = message(&texts.concat(), if markdown { "markdown" } else { "text" });
        if !binary.is_empty() {
            one["binaryData"] = json!(binary);
        }
        messages.push(one);
    }
    messages.extend(parts.iter().filter_map(|part| part.get("data")).map(|data| message(&data.to_string(), "json")));
    messages
}

fn binary(part: &Value) -> Option<Value> {
    let media = part["mediaType"].as_str().unwrap_or("application/octet-stream");
    match (part.get("raw"), part.get("url")) {
        (Some(raw), _) => Some(json!({ "mimeType": media, "dataAsBase64": raw })),
        (_, Some(url)) => Some(json!({ "mimeType": media, "source": url })),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
