//! The answer of an agent, from the events that it is told in to the output of LMOS agents' `chat` action. Pure.
//!
//! LMOS has no name for a task that waits for an answer: the messages of such an answer have a `turnId` of `task:ID`.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::chat::TASK;

/// Bytes that are kept of one answer: it may be told in pieces, and as a whole.
const ANSWER_BYTES_MAX: usize = 2 * althing_protocol::limits::ANSWER_BYTES_MAX;
/// Parts of one answer, and artifacts.
const PARTS_MAX: usize = 1_024;
/// What an artifact takes beside its id and its parts.
const ARTIFACT_BYTES: usize = 64;
/// Characters of an agent's last words that a refusal quotes.
const WORDS_MAX: usize = 8_192;

/// An event of A2A, or what it is about: the members that an answer is made of.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Told<'a> {
    id: Option<String>,
    task_id: Option<String>,
    context_id: Option<String>,
    #[serde(borrow)]
    status: Option<Status<'a>>,
    #[serde(borrow)]
    artifacts: Option<Vec<Artifact<'a>>>,
    #[serde(borrow)]
    artifact: Option<Artifact<'a>>,
    append: Option<bool>,
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status<'a> {
    state: Option<String>,
    #[serde(borrow)]
    message: Option<Said<'a>>,
    timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Said<'a> {
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Artifact<'a> {
    artifact_id: Option<String>,
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
}

/// An event: one of these.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Event<'a> {
    #[serde(borrow)]
    task: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    status_update: Option<&'a RawValue>,
    #[serde(borrow)]
    artifact_update: Option<&'a RawValue>,
}

/// Parts as the agent wrote them, without the brackets of their list: values in memory would take many times the bytes.
#[derive(Debug, Clone, Default, PartialEq)]
struct Parts {
    text: String,
    count: usize,
}

impl Parts {
    fn read(list: Option<&RawValue>) -> Result<Parts, String> {
        let Some(list) = list.map(RawValue::get).filter(|list| *list != "null") else { return Ok(Parts::default()) };
        let all: Vec<IgnoredAny> = serde_json::from_str(list).map_err(|error| format!("`parts`: {error}"))?;
        if all.len() > PARTS_MAX {
            return Err(format!("`parts` has {} entries; at most {PARTS_MAX} are read", all.len()));
        }
        let _: Vec<Part> = serde_json::from_str(list).map_err(|error| format!("`parts`: {error}"))?;
        let inner = list.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
        Ok(Parts { text: inner.trim().to_owned(), count: all.len() })
    }

    fn append(&mut self, more: &Parts) {
        if self.count > 0 && more.count > 0 {
            self.text.push(',');
        }
        self.text.push_str(&more.text);
        self.count += more.count;
    }

    fn values(&self) -> Vec<Part> {
        // Each list was read before.
        serde_json::from_str(&format!("[{}]", self.text)).unwrap_or_default()
    }
}

/// A part, as far as LMOS has a place for it.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    data: Option<Box<RawValue>>,
    raw: Option<String>,
    url: Option<String>,
    media_type: Option<String>,
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
    /// When that was, as A2A writes it.
    pub changed: Option<String>,
    /// The artifacts' parts by their ids, in the order of their beginning.
    artifacts: Vec<(String, Parts)>,
    /// The parts of the status's message, or of a reply without a task.
    said: Parts,
}

impl Answer {
    /// Takes an event; gives the LMOS event that tells of it.
    ///
    /// # Errors
    /// When it is not A2A, or the answer has become too large.
    pub fn take(&mut self, event: &[u8], turn: Option<&str>) -> Result<Value, String> {
        let event: Event<'_> = serde_json::from_slice(event).map_err(|error| format!("no event of A2A: {error}"))?;
        let kinds = [
            ("task", event.task),
            ("message", event.message),
            ("statusUpdate", event.status_update),
            ("artifactUpdate", event.artifact_update),
        ];
        let mut present = kinds.into_iter().filter_map(|(kind, content)| Some((kind, content?)));
        let (Some((kind, content)), None) = (present.next(), present.next()) else {
            return Err("no event of A2A: it has not one kind".to_owned());
        };
        let read: Told<'_> = serde_json::from_str(content.get()).map_err(|error| format!("`{kind}`: {error}"))?;
        self.note(if kind == "task" { &read.id } else { &read.task_id }, &read.context_id);
        match kind {
            "task" => self.take_all(read)?,
            "message" => {
                self.state = "TASK_STATE_COMPLETED".to_owned();
                self.said = Parts::read(read.parts)?;
            }
            "statusUpdate" => self.take_status(read.status)?,
            _ => self.take_artifact(read.artifact.unwrap_or_default(), read.append == Some(true))?,
        }
        self.check()?;
        let mut told = json!({ "type": kind, "payload": content.get() });
        if let Some(context) = &self.context {
            told["conversationId"] = json!(context);
        }
        if let Some(turn) = turn.or(self.task.as_deref()) {
            told["turnId"] = json!(turn);
        }
        Ok(told)
    }

    /// The answer that a whole task has.
    ///
    /// # Errors
    /// When it is no task of A2A, or too large.
    pub fn of_task(task: &[u8]) -> Result<Answer, String> {
        let read: Told<'_> = serde_json::from_slice(task).map_err(|error| format!("no task of A2A: {error}"))?;
        let mut answer = Answer::default();
        answer.note(&read.id, &read.context_id);
        answer.take_all(read)?;
        answer.check()?;
        Ok(answer)
    }

    /// Bytes that are kept of it.
    pub fn bytes(&self) -> usize {
        let artifacts = self.artifacts.iter().map(|(id, parts)| ARTIFACT_BYTES + id.len() + parts.text.len());
        artifacts.sum::<usize>() + self.said.text.len()
    }

    /// Keeps no more of it than its state: nobody waits for the output.
    pub fn forget(&mut self) {
        self.artifacts = Vec::new();
        self.said = Parts::default();
    }

    fn parts(&self) -> usize {
        self.artifacts.iter().map(|(_, parts)| parts.count).sum::<usize>() + self.said.count
    }

    fn check(&self) -> Result<(), String> {
        if self.bytes() > ANSWER_BYTES_MAX {
            return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        if self.parts() > PARTS_MAX || self.artifacts.len() > PARTS_MAX {
            return Err(format!("the answer has more than {PARTS_MAX} parts or artifacts"));
        }
        Ok(())
    }

    fn take_all(&mut self, task: Told<'_>) -> Result<(), String> {
        self.artifacts.clear();
        for artifact in task.artifacts.unwrap_or_default() {
            self.take_artifact(artifact, false)?;
        }
        self.take_status(task.status)
    }

    fn note(&mut self, task: &Option<String>, context: &Option<String>) {
        let given = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
        self.task = given(task).or_else(|| self.task.take());
        self.context = given(context).or_else(|| self.context.take());
    }

    fn take_status(&mut self, status: Option<Status<'_>>) -> Result<(), String> {
        let Status { state, message, timestamp } = status.unwrap_or_default();
        self.state = state.unwrap_or_default();
        self.changed = timestamp;
        self.said = Parts::read(message.and_then(|message| message.parts))?;
        Ok(())
    }

    fn take_artifact(&mut self, artifact: Artifact<'_>, append: bool) -> Result<(), String> {
        let (id, parts) = (artifact.artifact_id.unwrap_or_default(), Parts::read(artifact.parts)?);
        let count = self.artifacts.len();
        match self.artifacts.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) if append => known.append(&parts),
            Some((_, known)) => *known = parts,
            None if count > PARTS_MAX => {
                return Err(format!("the answer has more than {PARTS_MAX} artifacts"));
            }
            None => self.artifacts.push((id, parts)),
        }
        Ok(())
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
        let words: String = self.said.values().into_iter().filter_map(|part| part.text).collect();
        words.chars().take(WORDS_MAX).collect()
    }

    /// The first value that the agent made.
    pub fn first_data(&self) -> Option<Value> {
        let mut parts = self.artifacts.iter().flat_map(|(_, parts)| parts.values());
        let data = parts.find_map(|part| part.data)?;
        serde_json::from_str(data.get()).ok()
    }

    /// The action's output. `turn` is the client's name for its turn.
    pub fn output(&self, turn: Option<&str>, seconds: f64) -> Value {
        let asks = matches!(self.state.as_str(), "TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED");
        let waiting = self.task.as_ref().filter(|_| asks).map(|task| format!("{TASK}{task}"));
        let turn = waiting.or_else(|| turn.map(str::to_owned));
        let artifacts = self.artifacts.iter().map(|(_, parts)| parts);
        let all = artifacts.chain([&self.said]).filter(|parts| parts.count > 0);
        let messages: Vec<Value> = all.flat_map(|parts| messages(parts, turn.as_deref())).collect();
        let state = self.state.strip_prefix("TASK_STATE_").unwrap_or(&self.state);
        let status = state.to_ascii_lowercase().replace('_', "-");
        json!({ "status": status, "responseTime": seconds, "messages": messages })
    }
}

/// The messages of LMOS that parts become: texts are joined; each value is a message of its own.
fn messages(parts: &Parts, turn: Option<&str>) -> Vec<Value> {
    let parts = parts.values();
    let message = |content: &str, format: &str| {
        let mut message = json!({ "role": "assistant", "content": content, "format": format });
        if let Some(turn) = turn {
            message["turnId"] = json!(turn);
        }
        message
    };
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.text.as_deref()).collect();
    let markdown = parts.iter().any(|part| part.media_type.as_deref() == Some("text/markdown"));
    let binary: Vec<Value> = parts.iter().filter_map(binary).collect();
    let mut messages = Vec::new();
    if !texts.is_empty() || !binary.is_empty() {
        let mut one = message(&texts.concat(), if markdown { "markdown" } else { "text" });
        if !binary.is_empty() {
            one["binaryData"] = json!(binary);
        }
        messages.push(one);
    }
    messages.extend(parts.iter().filter_map(|part| part.data.as_deref()).map(|data| message(data.get(), "json")));
    messages
}

fn binary(part: &Part) -> Option<Value> {
    let media = part.media_type.as_deref().unwrap_or("application/octet-stream");
    match (&part.raw, &part.url) {
        (Some(raw), _) => Some(json!({ "mimeType": media, "dataAsBase64": raw })),
        (_, Some(url)) => Some(json!({ "mimeType": media, "source": url })),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
