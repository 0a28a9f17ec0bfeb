//! Answers that must cite what is kept: they are held back until they are whole, and handed out only when they do.

use std::sync::{Arc, Mutex};

use a2a::{Artifact, Part};
use serde_json::json;

use super::machine::citations;
use super::{Memory, MemoryError};
use crate::agent::Made;
use crate::error::AgentError;

/// What may be held back of one turn, bytes of text.
const HELD_BYTES_MAX: usize = 1 << 20;

/// What an agent made that nobody was told yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(Arc<Mutex<Vec<Made>>>);

impl Held {
    /// Holds back what would be an answer, or a part of one; gives back what passes.
    pub fn hold(&self, made: Made) -> Result<Option<Made>, AgentError> {
        // What the runtime keeps is for nobody to read; a question is no answer; a word on progress would be one.
        let made = match made {
            Made::Remember(_) | Made::Status(a2a::TaskState::InputRequired, _) => return Ok(Some(made)),
            Made::Status(a2a::TaskState::Working, _) => return Ok(None),
            made => made,
        };
        let mut held = self.0.lock().expect("no holder of what is held panics");
        let bytes: usize = held.iter().chain([&made]).flat_map(texts).map(str::len).sum();
        if bytes > HELD_BYTES_MAX {
            return Err(AgentError::Failed(format!("its answer has more than {HELD_BYTES_MAX} bytes of text")));
        }
        held.push(made);
        Ok(None)
    }

    /// All that was held back, and what it cites; a refusal where it says something and cites nothing that is kept.
    pub async fn released(&self, memory: &Memory, turn: usize) -> Result<Vec<Made>, AgentError> {
        let mut held = std::mem::take(&mut *self.0.lock().expect("no holder of what is held panics"));
        // A citation may be cut in two by the pieces of a streamed answer.
        let text: String = held.iter().flat_map(texts).collect();
        if text.trim().is_empty() {
            return Ok(held);
        }
        let unread = |error: MemoryError| AgentError::Failed(format!("its citations cannot be looked up: {error}"));
        let (mut cited, mut unknown) = (Vec::new(), Vec::new());
        for id in citations(&text) {
            match memory.passage(&id).await.map_err(unread)? {
                Some(passage) => cited.push(json!({
                    "id": passage.id,
                    "source": passage.source,
                    "sourceHash": passage.source_hash,
                    "place": passage.place,
                    "keptMs": passage.kept_ms,
                })),
                None => unknown.push(id),
            }
        }
        if cited.is_empty() || !unknown.is_empty() {
            let what = if unknown.is_empty() {
                "it cites nothing".to_owned()
            } else {
                format!("it cites {}", unknown.join(", "))
            };
            return Err(AgentError::Failed(format!(
                "the answer is not grounded and was held back: {what}, and every answer must cite what the namespace {:?} \
                 keeps",
                memory.namespace()
            )));
        }
        let artifact = Artifact {
            artifact_id: format!("citations-{turn}"),
            name: None,
            description: None,
            parts: vec![Part::data(json!({ "citations": cited }))],
            metadata: None,
            extensions: None,
        };
        let ending = held.iter().position(|made| matches!(made, Made::Status(..))).unwrap_or(held.len());
        held.insert(ending, Made::Artifact { artifact, append: false, last: true });
        Ok(held)
    }
}

fn texts(made: &Made) -> impl Iterator<Item = &str> {
    let parts: &[Part] = match made {
        Made::Artifact { artifact, .. } => &artifact.parts,
        Made::Status(_, Some(message)) => &message.parts,
        Made::Status(_, None) | Made::Remember(_) => &[],
    };
    parts.iter().filter_map(Part::as_text)
}
