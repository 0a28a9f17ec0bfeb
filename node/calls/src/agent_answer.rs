//! What an agent that was asked by another one answers, as the events of its task tell it.

use a2a::{Artifact, Message, Part, PartContent, StreamResponse, TaskState};
use althing_call::{OperationError, Refusal};
use althing_session::machine::task::is_idle;

/// Bytes of an answer, and its artifacts; a longer one is an error.
const TEXT_BYTES_MAX: usize = 1 << 20;
const ARTIFACTS_MAX: usize = 256;

/// An answer, as far as it was told.
#[derive(Default)]
pub(crate) struct AgentAnswer {
    /// What each artifact says, with its id, in the order in which they began.
    artifacts: Vec<(String, Words)>,
    /// What is said beside them.
    said: Words,
}

/// Text, and data parts, one on each line.
#[derive(Default)]
struct Words {
    text: String,
    data: String,
}

impl AgentAnswer {
    /// The text; the data, if there is no text.
    pub fn into_text(self) -> String {
        let mut all = Words::default();
        for words in self.artifacts.into_iter().map(|(_, words)| words).chain([self.said]) {
            push_line(&mut all.text, &words.text);
            push_line(&mut all.data, &words.data);
        }
        if all.text.trim().is_empty() { all.data } else { all.text }
    }

    /// Adds what a refusal says instead of an answer: the one that the other agent gave before, where the message was sent again
    /// that it answered; or what somebody must consent to, before the message is sent.
    ///
    /// # Errors
    /// What else was refused, and an answer that cannot be read or is too long.
    pub fn refused(&mut self, error: OperationError) -> Result<TaskState, String> {
        match error.refusal {
            Refusal::AlreadyDone { answer: Some(answer) } => {
                let answer: Message = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
                self.say(&answer);
                self.check_size().map(|()| TaskState::Completed)
            }
            Refusal::ConsentRequired { to } => {
                push_line(&mut self.said.text, &to);
                self.check_size().map(|()| TaskState::AuthRequired)
            }
            _ => Err(error.message),
        }
    }

    /// Adds one event; gives the state if the task is idle.
    ///
    /// # Errors
    /// The answer is too long.
    pub fn receive(&mut self, event: StreamResponse) -> Result<Option<TaskState>, String> {
        let state = match event {
            StreamResponse::Task(task) => {
                *self = AgentAnswer::default();
                for artifact in task.artifacts.unwrap_or_default() {
                    self.take_artifact(artifact, false)?;
                }
                self.take_state(task.status.state, task.status.message)
            }
            StreamResponse::StatusUpdate(update) => self.take_state(update.status.state, update.status.message),
            StreamResponse::ArtifactUpdate(update) => {
                self.take_artifact(update.artifact, update.append.unwrap_or_default())?;
                None
            }
            StreamResponse::Message(message) => self.take_state(TaskState::Completed, Some(message)),
        };
        self.check_size().map(|()| state)
    }

    /// What is said of a task that goes on is no part of the answer.
    fn take_state(&mut self, state: TaskState, message: Option<Message>) -> Option<TaskState> {
        let state = is_idle(&state).then_some(state)?;
        message.iter().for_each(|message| self.say(message));
        Some(state)
    }

    fn say(&mut self, message: &Message) {
        message.parts.iter().filter_map(Part::as_text).for_each(|text| push_line(&mut self.said.text, text));
    }

    /// Takes an artifact, in place of what was told of it before, or a piece that is added to it.
    fn take_artifact(&mut self, artifact: Artifact, append: bool) -> Result<(), String> {
        let known = self.artifacts.iter().position(|(id, _)| *id == artifact.artifact_id);
        let at = known.unwrap_or(self.artifacts.len());
        if at >= ARTIFACTS_MAX {
            return Err(format!("its answer has more than {ARTIFACTS_MAX} artifacts"));
        }
        if known.is_none() {
            self.artifacts.push((artifact.artifact_id, Words::default()));
        }
        let words = &mut self.artifacts[at].1;
        if !append {
            *words = Words::default();
        }
        for part in &artifact.parts {
            match &part.content {
                PartContent::Text(text) => words.text.push_str(text),
                PartContent::Data(data) => push_line(&mut words.data, &data.to_string()),
                PartContent::Raw(_) | PartContent::Url(_) => {}
            }
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), String> {
        let bytes = |words: &Words| words.text.len() + words.data.len();
        let all = self.artifacts.iter().map(|(_, words)| bytes(words)).sum::<usize>() + bytes(&self.said);
        if all > TEXT_BYTES_MAX {
            return Err(format!("its answer has more than {TEXT_BYTES_MAX} bytes"));
        }
        Ok(())
    }
}

/// Adds text on a line of its own; nothing, if there is none.
fn push_line(text: &mut String, more: &str) {
    if !more.is_empty() && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use a2a::Role;
    use serde_json::{Value, json};

    use super::*;

    fn event(event: Value) -> StreamResponse {
        serde_json::from_value(event).expect("an event of A2A")
    }

    fn piece(id: &str, text: &str, append: bool) -> StreamResponse {
        let artifact = json!({ "artifactId": id, "parts": [{ "text": text }] });
        event(json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "append": append, "artifact": artifact } }))
    }

    fn status(state: &str, text: &str) -> StreamResponse {
        let said = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": text }] });
        let status = json!({ "state": state, "message": said });
        event(json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": status } }))
    }

    /// The text of the answer of these events, the last of which ends it.
    fn answer(events: Vec<StreamResponse>) -> String {
        let mut answer = AgentAnswer::default();
        let mut ends: Vec<bool> = Vec::new();
        for event in events {
            ends.push(answer.receive(event).expect("it is short").is_some());
        }
        assert!(ends.pop().is_some_and(|ends| ends) && ends.iter().all(|ends| !ends));
        answer.into_text()
    }

    #[test]
    fn an_artifact_that_is_told_anew_is_told_once() {
        let done = || status("TASK_STATE_COMPLETED", "done");
        let pieces = || [piece("a", "one ", false), piece("a", "two", true)];
        let once = pieces().into_iter().chain([done()]).collect();
        assert_eq!(answer(once), "one two\ndone");
        let again = pieces().into_iter().chain(pieces()).chain([status("TASK_STATE_WORKING", "still"), done()]);
        assert_eq!(answer(again.collect()), "one two\ndone");
        // Also where its pieces come between those of another one.
        let mixed = vec![piece("a", "one ", false), piece("b", "other", false), piece("a", "two", true), done()];
        assert_eq!(answer(mixed), "one two\nother\ndone");
    }

    #[test]
    fn a_task_is_in_place_of_what_was_told_before() {
        let status = json!({ "state": "TASK_STATE_COMPLETED" });
        let artifacts = json!([{ "artifactId": "b", "parts": [{ "text": "all of it" }] }]);
        let task = json!({ "id": "t", "contextId": "c", "status": status, "artifacts": artifacts });
        assert_eq!(answer(vec![piece("a", "a part", false), event(json!({ "task": task }))]), "all of it");
    }

    #[test]
    fn data_is_told_where_there_is_no_text() {
        let artifact = json!({ "artifactId": "a", "parts": [{ "data": { "sum": 1 } }, { "data": { "sum": 2 } }] });
        let data = || event(json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": artifact } }));
        assert_eq!(answer(vec![data(), status("TASK_STATE_COMPLETED", "")]), "{\"sum\":1}\n{\"sum\":2}");
        assert_eq!(answer(vec![data(), status("TASK_STATE_COMPLETED", "done")]), "done");
    }

    #[test]
    fn an_answer_that_is_too_long_is_an_error_and_one_that_is_told_anew_is_not() {
        let long = "x".repeat(TEXT_BYTES_MAX);
        let mut answer = AgentAnswer::default();
        for _ in 0..3 {
            assert_eq!(answer.receive(piece("a", &long, false)), Ok(None));
        }
        let more = answer.receive(piece("a", "y", true)).expect_err("one byte more");
        assert!(more.contains("1048576 bytes"), "{more}");
        let mut answer = AgentAnswer::default();
        for number in 0..ARTIFACTS_MAX {
            assert_eq!(answer.receive(piece(&number.to_string(), "", false)), Ok(None));
        }
        assert!(answer.receive(piece("one more", "", false)).expect_err("one more").contains("256 artifacts"));
    }

    #[test]
    fn the_answer_to_a_message_that_was_done_before_is_told_again() {
        let said = Message::new(Role::Agent, vec![Part::text("done before")]);
        let before = serde_json::to_string(&said).expect("JSON");
        let mut answer = AgentAnswer::default();
        let refused = OperationError::already_done("m", Some(before));
        assert_eq!(answer.refused(refused), Ok(TaskState::Completed));
        assert_eq!(answer.into_text(), "done before");
    }
}
