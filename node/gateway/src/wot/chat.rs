//! The input of LMOS agents' `chat` action, translated: it becomes the parameters of SendStreamingMessage. Pure.
//!
//! The last message of role `user` is what is sent. What came before it, and the contexts, travel in the metadata of the
//! message under [`LMOS`], so that nothing of the input is lost. `conversationId` is A2A's `contextId`. LMOS has no name
//! for a task that waits for an answer: such an answer has a `turnId` of `task:ID`, and a message that carries it
//! continues the task.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The URI under which the rest of an LMOS request travels in a message's metadata.
pub(crate) const LMOS: &str = "https://althing.dev/ext/lmos/v1";
/// Messages of one request.
const MESSAGES_MAX: usize = 1_000;
/// What a `turnId` begins with that names a task.
pub(super) const TASK: &str = "task:";
/// Members of a request that authenticate its user to the client's own services. An agent, which may be anyone's, is not
/// told them.
const SECRETS: [&str; 2] = ["userToken", "user_token"];

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
        rest.values_mut().for_each(strip);
        SECRETS.iter().for_each(|secret| drop(rest.remove(*secret)));
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

/// Takes secrets out of a value, at any depth.
fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(members) => {
            members.retain(|name, _| !SECRETS.contains(&name.as_str()));
            members.values_mut().for_each(strip);
        }
        _ => {}
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

#[cfg(test)]
mod tests;
