//! A model saves how far its turn came: from then on its conversation is the message and what it saved, and there a resumed turn
//! begins.

use serde::{Deserialize, Serialize};

use super::chat::{self, ChatMessage, ChatToolCall};
use super::spent::Spent;
use crate::agent::AgentError;
use crate::journal::{CheckpointError, JournalError};
use crate::model_names::real_name;
use crate::note_server;
use crate::own_tools::SAVE;
use crate::steps;

/// What a model hears that saves beside other calls: it would never see what these bring.
pub(super) const BESIDE: &str =
    "error: nothing was saved, since other calls were made beside it: save alone, when all are answered";

/// What a model is told in a turn beside the messages of its task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Background {
    /// Passages of the memory, in words.
    pub passages: Option<String>,
    /// Their ids.
    pub passage_ids: Vec<String>,
    /// Notes of the session, in words.
    pub notes: Option<String>,
    /// What the turn saved last, in words.
    #[serde(skip)]
    pub saved: Option<String>,
}

/// What is stored of a turn beside the state that its model saved.
#[derive(Serialize, Deserialize)]
struct Progress {
    told: Background,
    spent: Spent,
}

impl Background {
    /// These messages, the first of which is the prompt, with it.
    pub fn among(&self, mut messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
        for text in [&self.passages, &self.notes, &self.saved].into_iter().flatten() {
            messages.insert(1, ChatMessage::plain("system", text.clone()));
        }
        messages
    }
}

/// Whether a call is one that saves.
pub(super) fn is_save(call: &ChatToolCall) -> bool {
    real_name(&call.function.name) == SAVE
}

/// The state that a call saves; none if it is another call.
pub(super) fn state_of(call: &ChatToolCall) -> Option<String> {
    // As the model wrote it: what is hidden from it stays so.
    if is_save(call) { note_server::state_in(&call.function.arguments) } else { None }
}

/// Saves a state with what the turn was told and what it did, in place of what is journalled so far. From then on the model is told
/// that state.
pub(super) async fn save(state: String, told: &mut Background, spent: &Spent) -> Result<(), AgentError> {
    told.saved = Some(chat::saved_text(&state, &spent.said));
    let progress = serde_json::to_vec(&Progress { told: told.clone(), spent: spent.clone() });
    let progress = progress.map_err(|error| AgentError::internal("its journal cannot be written", error))?;
    steps::save(state.into_bytes(), progress).await.map_err(|error| match error {
        CheckpointError::Journal(error) => AgentError::from(error),
        error => AgentError::Failed(error.to_string()),
    })
}

/// From where the turn that runs here goes on, if it is resumed and had saved something.
pub(super) fn resumed() -> Result<Option<(Background, Spent)>, AgentError> {
    let Some(checkpoint) = steps::checkpoint() else { return Ok(None) };
    let damaged = || JournalError::Damaged { what: "its checkpoint says not how far the turn came".to_owned() };
    let progress = serde_json::from_slice(&checkpoint.progress);
    let Progress { mut told, spent } = progress.map_err(|_| damaged())?;
    let state = String::from_utf8(checkpoint.state).map_err(|_| damaged())?;
    told.saved = Some(chat::saved_text(&state, &spent.said));
    Ok(Some((told, spent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &str) -> ChatToolCall {
        let mut call = ChatToolCall::default();
        (call.function.name, call.function.arguments) = (name.to_owned(), arguments.to_owned());
        call
    }

    #[test]
    fn what_a_model_is_told_stands_behind_its_prompt() {
        let text = |text: &str| Some(text.to_owned());
        let told = Background { passages: text("p"), notes: text("n"), saved: text("s"), passage_ids: Vec::new() };
        let plain = |role: &'static str, text: &str| ChatMessage::plain(role, text.to_owned());
        let all = told.among(vec![plain("system", "prompt"), plain("user", "hello")]);
        let texts: Vec<&str> = all.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(texts, ["prompt", "s", "n", "p", "hello"]);
        assert_eq!(Background::default().among(vec![plain("system", "prompt")]).len(), 1);
    }

    #[test]
    fn a_call_that_saves_is_known_by_each_of_its_names() {
        for name in ["session__checkpoint", "session/checkpoint"] {
            assert_eq!(state_of(&call(name, r#"{"state": "page 7"}"#)).as_deref(), Some("page 7"));
        }
        assert_eq!(state_of(&call("session__note", r#"{"state": "page 7"}"#)), None);
        assert_eq!(state_of(&call("session__checkpoint", "{}")), None);
    }
}
