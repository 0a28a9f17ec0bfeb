//! What a message says, as far as a yes to it is bound to that.

use althing_call::MessageContent;
use althing_protocol::{AgentId, Digest, digest, hex};
use serde_json::Value;

use crate::machine::arguments::arguments_digest;

/// Characters of the text of a message that people are shown.
const TEXT_CHARS: usize = 2_000;

/// What a message says, as far as a yes is bound to it.
pub(crate) struct Content {
    /// The digest of all that its agent is handed.
    digest: Digest,
    /// The beginning of its text, for whoever is asked.
    text: String,
    /// The task of another agent that it continues.
    task: Option<String>,
    /// The digest of its id, hexadecimal.
    pub(crate) key: String,
    /// Whether the yes that was used for that id is still its own.
    pub(crate) is_again: bool,
}

impl Content {
    /// Where another node sent it, the task in which it rests until somebody answers is no part of it: it is sent again there.
    pub(crate) fn of(said: &MessageContent<'_>, is_incoming: bool) -> Content {
        let value = said.value();
        let parts = value.pointer("/0/parts").and_then(Value::as_array);
        let texts: Vec<&str> = parts.into_iter().flatten().filter_map(|part| part["text"].as_str()).collect();
        Content {
            digest: arguments_digest(&value),
            text: texts.join("\n").chars().take(TEXT_CHARS).collect(),
            task: said.message.task_id.clone().filter(|_| !is_incoming),
            key: hex(&digest(said.message.message_id.as_bytes())),
            is_again: said.is_again,
        }
    }

    /// The name of the message on its way from here to that agent, on behalf of these: by its id, and by all that it says.
    pub(crate) fn name(&self, callee: &AgentId, principals: &[String]) -> Digest {
        let named = minicbor::to_vec(("althing pass", self.key.as_str(), self.digest.as_slice(), callee, principals));
        digest(&named.expect("writing to a vector cannot fail"))
    }

    /// Adds it to what people are asked.
    pub(crate) fn show_in(&self, arguments: &mut Value) {
        arguments["content"] = hex(&self.digest).into();
        arguments["text"] = self.text.as_str().into();
        if let Some(task) = &self.task {
            arguments["task"] = task.as_str().into();
        }
    }
}
