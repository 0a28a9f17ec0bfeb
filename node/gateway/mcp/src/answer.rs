//! What an agent answers, gathered from the events of a call, and as a tool's result.

use a2a::{Artifact, Message, Part, PartContent, StreamResponse, Task, TaskState, TaskStatus};
use althing_protocol::limits::ANSWER_BYTES_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::{Value, json};

use crate::failed::Failed;

/// The A2A extension by which requests of MCP are relayed.
pub(crate) const RELAY: &str = "https://althing.dev/ext/mcp/v1";
/// Bytes of text in one progress notification.
const PROGRESS_BYTES_MAX: usize = 2_048;

/// A call so far.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub task: Option<String>,
    context: Option<String>,
    pub state: Option<TaskState>,
    artifacts: Vec<Artifact>,
    message: Option<Message>,
    bytes: usize,
}

/// Whether no turn runs: over, or waiting for the caller.
pub(crate) fn is_idle(state: &TaskState) -> bool {
    state.is_terminal() || matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// A state's short name: `input-required` for `TASK_STATE_INPUT_REQUIRED`.
fn name(state: &TaskState) -> String {
    let whole = serde_json::to_value(state).unwrap_or_default();
    let name = whole.as_str().unwrap_or_default();
    name.strip_prefix("TASK_STATE_").unwrap_or(name).to_ascii_lowercase().replace('_', "-")
}

fn texts(parts: &[Part]) -> String {
    let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    texts.join("\n")
}

fn data(part: &Part) -> Option<&Value> {
    match &part.content {
        PartContent::Data(value) => Some(value),
        _ => None,
    }
}

impl Answer {
    /// Takes an event; gives the text in it for whoever watches.
    ///
    /// # Errors
    /// If the answer becomes too long.
    pub fn take(&mut self, event: StreamResponse, bytes: usize) -> Result<String, String> {
        self.bytes += bytes;
        if self.bytes > 2 * ANSWER_BYTES_MAX {
            return Err("its answer has more than 4 MiB".to_owned());
        }
        let news = match event {
            StreamResponse::Task(task) => self.take_task(task),
            StreamResponse::Message(message) => {
                self.context.clone_from(&message.context_id);
                self.state = Some(TaskState::Completed);
                let news = texts(&message.parts);
                self.message = Some(message);
                news
            }
            StreamResponse::StatusUpdate(update) => {
                self.task = Some(update.task_id);
                self.context = Some(update.context_id);
                self.take_status(update.status)
            }
            StreamResponse::ArtifactUpdate(update) => {
                let news = texts(&update.artifact.parts);
                self.take_artifact(update.artifact, update.append.unwrap_or_default());
                news
            }
        };
        Ok(cut(&news, PROGRESS_BYTES_MAX).to_owned())
    }

    /// Takes a whole task, which replaces what was known of it.
    pub fn take_task(&mut self, task: Task) -> String {
        self.task = Some(task.id);
        self.context = Some(task.context_id);
        self.artifacts = task.artifacts.unwrap_or_default();
        self.take_status(task.status)
    }

    fn take_status(&mut self, status: TaskStatus) -> String {
        let news = status.message.as_ref().map_or_else(String::new, |message| texts(&message.parts));
        self.state = Some(status.state);
        self.message = status.message;
        news
    }

    fn take_artifact(&mut self, artifact: Artifact, append: bool) {
        match self.artifacts.iter_mut().find(|known| known.artifact_id == artifact.artifact_id) {
            Some(known) if append => artifact.parts.into_iter().for_each(|part| append_part(&mut known.parts, part)),
            Some(known) => *known = artifact,
            None => self.artifacts.push(artifact),
        }
    }

    /// Whether the agent is done, or waits for the caller.
    pub fn is_complete(&self) -> bool {
        self.state.as_ref().is_some_and(is_idle)
    }

    /// The data of the artifact that names an extension.
    ///
    /// # Errors
    /// Why there is none.
    pub fn into_relayed(self, extension: &str) -> Result<Value, Failed> {
        let of = |artifact: &Artifact| artifact.extensions.iter().flatten().any(|uri| uri == extension);
        let parts = self.artifacts.into_iter().find(of).map(|artifact| artifact.parts).unwrap_or_default();
        let relayed = parts.into_iter().find_map(|part| match part.content {
            PartContent::Data(value) => Some(value),
            _ => None,
        });
        let said = self.message.map(|message| texts(&message.parts)).filter(|said| !said.is_empty());
        match (relayed, self.state) {
            (Some(relayed), _) => Ok(relayed),
            (None, Some(TaskState::Rejected)) => Err(Failed::Unfit(said.unwrap_or_default())),
            (None, Some(TaskState::Failed | TaskState::Canceled)) => {
                Err(Failed::Answer(said.unwrap_or_else(|| "the agent's task failed".to_owned())))
            }
            (None, Some(TaskState::Completed)) => {
                Err(Failed::Unfit("this agent is no server of tools; call_agent asks it".to_owned()))
            }
            (None, _) => Err(Failed::Answer("the tool works on for longer than this request may".to_owned())),
        }
    }

    /// The tool's result. `agent` answered.
    pub fn into_result(self, agent: &str) -> CallToolResult {
        let state = self.state.unwrap_or(TaskState::Working);
        // A status message of a running task says how it goes, and belongs to no answer.
        let message = self.message.filter(|_| is_idle(&state)).map(|message| message.parts).unwrap_or_default();
        let parts: Vec<Part> = self.artifacts.into_iter().flat_map(|artifact| artifact.parts).chain(message).collect();
        let values: Vec<&Value> = parts.iter().filter_map(data).collect();
        let text = match texts(&parts) {
            text if text.is_empty() => values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join("\n"),
            text => text,
        };
        let mut structured = json!({ "agent": agent, "state": name(&state), "text": text });
        let more = [("task_id", self.task.clone()), ("context_id", self.context)];
        for (member, value) in more {
            if let Some(value) = value {
                structured[member] = value.into();
            }
        }
        if !values.is_empty() {
            structured["data"] = json!(values);
        }
        let mut content = vec![ContentBlock::text(text)];
        content.extend(parts.into_iter().enumerate().filter_map(|(number, part)| block(number, part)));
        content.extend(advice(&state, agent, self.task.as_deref()).map(ContentBlock::text));
        let failed = matches!(state, TaskState::Failed | TaskState::Rejected | TaskState::Canceled);
        let mut result = if failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
        result.structured_content = Some(structured);
        result
    }
}

/// Text that continues text is one text.
fn append_part(parts: &mut Vec<Part>, part: Part) {
    if let (Some(PartContent::Text(known)), PartContent::Text(more)) =
        (parts.last_mut().map(|part| &mut part.content), &part.content)
    {
        known.push_str(more);
    } else {
        parts.push(part);
    }
}

/// What is neither text nor data, as MCP shows it.
fn block(number: usize, part: Part) -> Option<ContentBlock> {
    let media = part.media_type.unwrap_or_default();
    let name = part.filename.unwrap_or_else(|| format!("part-{number}"));
    match part.content {
        PartContent::Text(_) | PartContent::Data(_) => None,
        PartContent::Raw(bytes) if media.starts_with("image/") => {
            Some(ContentBlock::image(STANDARD.encode(bytes), media))
        }
        PartContent::Raw(bytes) if media.starts_with("audio/") => {
            Some(ContentBlock::audio(STANDARD.encode(bytes), media))
        }
        PartContent::Raw(bytes) => {
            let mut contents = ResourceContents::blob(STANDARD.encode(bytes), format!("part:{number}"));
            if let ResourceContents::BlobResourceContents { mime_type, .. } = &mut contents {
                *mime_type = (!media.is_empty()).then_some(media);
            }
            Some(ContentBlock::resource(contents))
        }
        PartContent::Url(url) => {
            let mut link = Resource::new(url, name);
            link.mime_type = (!media.is_empty()).then_some(media);
            Some(ContentBlock::resource_link(link))
        }
    }
}

/// What the caller does next, unless the agent is done.
fn advice(state: &TaskState, agent: &str, task: Option<&str>) -> Option<String> {
    let next = json!({ "agent": agent, "task_id": task });
    match state {
        TaskState::Completed => None,
        TaskState::InputRequired => {
            Some(format!("The agent waits for your answer: use call_agent with {next} and the answer as message."))
        }
        TaskState::AuthRequired => {
            Some(format!("The agent waits for an authorisation; then use call_agent with {next} and a message."))
        }
        TaskState::Failed | TaskState::Rejected => Some(format!("The agent's task is {}.", name(state))),
        TaskState::Canceled => Some("The agent's task was cancelled.".to_owned()),
        _ => Some(format!("The agent works on. To wait for it, use call_agent with {next} and without a message.")),
    }
}

fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: Value) -> StreamResponse {
        serde_json::from_value(json).expect("an event")
    }

    fn taken(events: &[Value]) -> Answer {
        let mut answer = Answer::default();
        for json in events {
            answer.take(event(json.clone()), json.to_string().len()).expect("short");
        }
        answer
    }

    fn task(state: &str) -> Value {
        json!({ "task": { "id": "t", "contextId": "c", "status": { "state": state } } })
    }

    fn piece(text: &str, append: bool) -> Value {
        let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
        json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": artifact, "append": append } })
    }

    fn status(state: &str, text: &str) -> Value {
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": text }] });
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": state, "message": message } } })
    }

    #[test]
    fn pieces_become_one_text_and_the_last_message_follows() {
        let answer = taken(&[
            task("TASK_STATE_SUBMITTED"),
            status("TASK_STATE_WORKING", "thinking"),
            piece("one ", false),
            piece("two", true),
            status("TASK_STATE_COMPLETED", "done"),
        ]);
        assert!(answer.is_complete());
        let result = answer.into_result("x");
        let structured = result.structured_content.expect("structured");
        assert_eq!(structured["text"], "one two\ndone");
        assert_eq!((&structured["state"], &structured["task_id"]), (&json!("completed"), &json!("t")));
        assert_eq!((result.content.len(), result.is_error), (1, Some(false)));
    }

    #[test]
    fn what_waits_or_failed_says_so() {
        let cases = [
            ("TASK_STATE_INPUT_REQUIRED", "input-required", false, "waits for your answer"),
            ("TASK_STATE_FAILED", "failed", true, "is failed"),
            ("TASK_STATE_REJECTED", "rejected", true, "is rejected"),
            ("TASK_STATE_WORKING", "working", false, "works on"),
        ];
        for (state, name, is_error, says) in cases {
            let result = taken(&[task("TASK_STATE_SUBMITTED"), status(state, "which?")]).into_result("x");
            let structured = result.structured_content.expect("structured");
            assert_eq!((&structured["state"], result.is_error), (&json!(name), Some(is_error)));
            let last = serde_json::to_value(result.content.last()).expect("JSON");
            assert!(last["text"].as_str().is_some_and(|text| text.contains(says)), "{last}");
            assert_eq!(structured["text"] == "which?", state != "TASK_STATE_WORKING", "{structured}");
        }
    }

    #[test]
    fn data_files_and_links_are_passed_on() {
        let parts = json!([
            { "data": { "sum": 3 } },
            { "raw": "iVBORw==", "mediaType": "image/png" },
            { "raw": "AAAA", "mediaType": "application/zip", "filename": "a.zip" },
            { "url": "https://example.com/a", "filename": "a" },
        ]);
        let message = json!({ "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": parts } });
        let result = taken(&[message]).into_result("x");
        let content = serde_json::to_value(&result.content).expect("JSON");
        let kinds: Vec<&str> =
            content.as_array().expect("a list").iter().filter_map(|one| one["type"].as_str()).collect();
        assert_eq!(kinds, ["text", "image", "resource", "resource_link"], "{content}");
        assert_eq!(content[1]["data"], "iVBORw==");
        let structured = result.structured_content.expect("structured");
        assert_eq!(structured["data"], json!([{ "sum": 3 }]));
        assert_eq!(structured["text"], r#"{"sum":3}"#);
        assert_eq!(structured["task_id"], Value::Null);
    }

    #[test]
    fn what_is_relayed_is_the_data_of_the_artifact_that_says_so() {
        let artifact = |extensions: Value| {
            let artifact = json!({ "artifactId": "a", "parts": [{ "data": { "sum": 3 } }], "extensions": extensions });
            json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": artifact } })
        };
        let relayed = |artifact: Value, state: &str| {
            taken(&[task("TASK_STATE_SUBMITTED"), artifact, status(state, "why")]).into_relayed("x:ext")
        };
        let of_extension = artifact(json!(["x:ext"]));
        for state in ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"] {
            assert_eq!(relayed(of_extension.clone(), state).ok(), Some(json!({ "sum": 3 })), "{state}");
        }
        let other = artifact(json!([]));
        assert!(matches!(relayed(other.clone(), "TASK_STATE_REJECTED"), Err(Failed::Unfit(why)) if why == "why"));
        assert!(matches!(relayed(other.clone(), "TASK_STATE_FAILED"), Err(Failed::Answer(why)) if why == "why"));
        assert!(matches!(relayed(other, "TASK_STATE_COMPLETED"), Err(Failed::Unfit(_))), "no server of tools");
    }

    #[test]
    fn an_answer_without_end_is_given_up() {
        let mut answer = Answer::default();
        let outcome = (0..4).try_for_each(|_| answer.take(event(piece("x", true)), ANSWER_BYTES_MAX).map(drop));
        assert!(outcome.is_err());
    }
}
