//! What a task answered, as far as two answers are compared: by its content, and by no name that is new in each turn.

use a2a::{Message, Part, PartContent, Task, TaskState};
use althing_protocol::{Digest, digest, hex};
use serde_json::{Value, json};

use super::replay::TurnOutput;

/// Members of data that is about an answer, and no part of it: what it took, what it called, what it cites.
const ABOUT: [&str; 3] = ["usage", "tools", "citations"];

/// How the turn of a task ended that was bound to that.
#[must_use]
pub fn turn_output(binding: &str, task: &Task) -> TurnOutput {
    TurnOutput { binding: binding.to_owned(), digest: answer_digest(task), state: state_word(&task.status.state) }
}

/// The text of an answer: what the agent made; if it made nothing, what it said; empty if neither is text.
#[must_use]
pub fn answer_text(task: &Task) -> String {
    let texts = |parts: &[Part]| parts.iter().filter_map(Part::as_text).map(str::to_owned).collect::<Vec<String>>();
    let made: Vec<String> = task.artifacts.iter().flatten().flat_map(|artifact| texts(&artifact.parts)).collect();
    let said = || task.status.message.as_ref().map(|message| texts(&message.parts)).unwrap_or_default();
    if made.is_empty() { said() } else { made }.join("\n")
}

/// The data of an answer, where it has a part of JSON.
#[must_use]
pub fn answer_data(task: &Task) -> Option<&Value> {
    let made = task.artifacts.iter().flatten().flat_map(|artifact| &artifact.parts);
    let said = task.status.message.iter().flat_map(|message| &message.parts);
    made.chain(said).filter(|part| !is_about(part)).find_map(|part| match &part.content {
        PartContent::Data(data) => Some(data),
        PartContent::Text(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
    })
}

/// The text of a message; none if a part of it is something else.
#[must_use]
pub fn message_text(message: &Message) -> Option<String> {
    let texts: Option<Vec<&str>> = message.parts.iter().map(Part::as_text).collect();
    texts.map(|texts| texts.join("\n"))
}

/// The word of a state, as people read it.
#[must_use]
pub fn state_word(state: &TaskState) -> String {
    let name = serde_json::to_value(state).ok();
    let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
    name.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-")
}

fn answer_digest(task: &Task) -> Digest {
    let parts = |parts: &[Part]| parts.iter().filter(|part| !is_about(part)).map(content).collect::<Vec<Value>>();
    let made: Vec<Vec<Value>> = task.artifacts.iter().flatten().map(|artifact| parts(&artifact.parts)).collect();
    let said = task.status.message.as_ref().map(|message| parts(&message.parts));
    let mut answer = json!([made, said]);
    // The order of members says nothing.
    answer.sort_all_objects();
    digest(answer.to_string().as_bytes())
}

fn content(part: &Part) -> Value {
    let (kind, content) = match &part.content {
        PartContent::Text(text) => ("text", json!(text)),
        PartContent::Url(url) => ("url", json!(url)),
        PartContent::Data(data) => ("data", data.clone()),
        PartContent::Raw(bytes) => ("raw", json!(hex(&digest(bytes)))),
    };
    json!([kind, content, part.media_type, part.filename])
}

fn is_about(part: &Part) -> bool {
    let PartContent::Data(data) = &part.content else { return false };
    let members = data.as_object().filter(|members| !members.is_empty());
    members.is_some_and(|members| members.keys().all(|name| ABOUT.contains(&name.as_str())))
}

#[cfg(test)]
mod tests {
    use a2a::{Artifact, Role, TaskStatus};

    use super::*;

    fn task(id: &str, parts: Vec<Part>) -> Task {
        let artifact = Artifact {
            artifact_id: id.to_owned(),
            name: None,
            description: None,
            parts,
            metadata: None,
            extensions: None,
        };
        let status = TaskStatus { state: TaskState::Completed, message: None, timestamp: None };
        Task {
            id: id.to_owned(),
            context_id: id.to_owned(),
            status,
            artifacts: Some(vec![artifact]),
            history: None,
            metadata: None,
        }
    }

    #[test]
    fn an_answer_is_the_same_whatever_it_took_and_by_whatever_name() {
        let usage = |tokens: u64| Part::data(json!({ "usage": { "outputTokens": tokens }, "tools": [] }));
        let one = task("a", vec![Part::text("42"), usage(7)]);
        let same = task("b", vec![Part::text("42"), usage(9)]);
        assert_eq!(turn_output("x", &one), turn_output("x", &same));
        assert_eq!(turn_output("x", &one).state, "completed");
        let other = task("a", vec![Part::text("43"), usage(7)]);
        assert_ne!(turn_output("x", &one).digest, turn_output("x", &other).digest);
        let data = |text: &str| task("a", vec![Part::data(serde_json::from_str(text).expect("JSON"))]);
        let [one, other] = [r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{"b":{"d":3,"c":2},"a":1}"#];
        assert_eq!(turn_output("x", &data(one)), turn_output("x", &data(other)));
    }

    #[test]
    fn text_and_data_of_an_answer_are_found() {
        let both = task("a", vec![Part::text("x"), Part::data(json!({ "usage": {} })), Part::data(json!({ "n": 1 }))]);
        assert_eq!((answer_text(&both).as_str(), answer_data(&both)), ("x", Some(&json!({ "n": 1 }))));
        let mut said = task("a", Vec::new());
        said.artifacts = None;
        said.status.message = Some(Message::new(Role::Agent, vec![Part::text("why?")]));
        said.status.state = TaskState::InputRequired;
        assert_eq!((answer_text(&said).as_str(), answer_data(&said)), ("why?", None));
        assert_eq!(state_word(&said.status.state), "input-required");
        let mixed = Message::new(Role::User, vec![Part::text("a"), Part::data(json!(1))]);
        assert_eq!(message_text(&mixed), None);
    }
}
