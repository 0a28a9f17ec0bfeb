//! Answers that must cite what is kept: they are held back until they are whole, and handed out only when they do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use a2a::{Artifact, Part, PartContent, TaskState};
use serde_json::{Value, json};

use super::machine::citations;
use super::{Memory, Recalled};
use crate::agent::Made;
use crate::error::AgentError;

/// What may be held back of one turn, bytes of JSON.
const HELD_BYTES_MAX: usize = 2 << 20;
/// Citations of one turn.
const CITATIONS_MAX: usize = 256;
/// What a node's own runtimes tell of a turn beside its answer.
const NOTES: [&str; 2] = ["usage", "tools"];

/// What an agent made that nobody was told yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(Arc<Mutex<Holding>>);

#[derive(Debug, Default)]
struct Holding {
    made: Vec<Made>,
    bytes: usize,
}

/// How an answer is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Its place in its task, from 1.
    pub turn: usize,
    /// When the turn began: what the agent kept since is no source.
    pub begun_ms: u64,
    /// Whether the runtime is the node's own, which tells of usage and of tools beside the answer.
    pub notes: bool,
}

impl Held {
    /// Holds back what would be an answer, or a part of one; gives back what passes.
    pub fn hold(&self, made: Made) -> Result<Option<Made>, AgentError> {
        let made = match made {
            Made::Annotated(made, _) => *made,
            made => made,
        };
        let bytes = match &made {
            // What the runtime keeps is for nobody to read; a word on progress would be a part of an answer.
            Made::Remember(_) => return Ok(Some(made)),
            // Metadata says something that nobody can cite.
            Made::Begun { state, .. } => return Ok(Some(Made::Begun { state: state.clone(), metadata: None })),
            Made::Status(TaskState::Working, _) => return Ok(None),
            Made::Status(_, message) => serde_json::to_vec(message).map_or(0, |json| json.len()),
            Made::Reply(message) => serde_json::to_vec(message).map_or(0, |json| json.len()),
            Made::Artifact { artifact, .. } => serde_json::to_vec(artifact).map_or(0, |json| json.len()),
            Made::Annotated(..) => return Err(AgentError::Failed("metadata has metadata".to_owned())),
        };
        let mut held = self.0.lock().expect("no holder of what is held panics");
        held.bytes += bytes;
        if held.bytes > HELD_BYTES_MAX {
            return Err(AgentError::Failed(format!("its answer has more than {HELD_BYTES_MAX} bytes")));
        }
        held.made.push(made);
        Ok(None)
    }

    /// All that was held back, and what it cites; a refusal where some of it cites nothing that was kept before.
    pub async fn released(&self, memory: &Memory, rule: Rule) -> Result<Vec<Made>, AgentError> {
        let mut held = std::mem::take(&mut self.0.lock().expect("no holder of what is held panics").made);
        let refused = |what: String| {
            AgentError::Failed(format!(
                "the answer is not grounded and was held back: {what}, and every answer must cite what the namespace \
                 {:?} keeps",
                memory.namespace()
            ))
        };
        let mut cited: BTreeMap<String, Recalled> = BTreeMap::new();
        for text in said(&held, rule.notes).map_err(|what| refused(what.to_owned()))? {
            let ids = citations(&text);
            if ids.is_empty() {
                return Err(refused("a part of it cites nothing".to_owned()));
            }
            for id in ids {
                if cited.len() >= CITATIONS_MAX {
                    return Err(refused(format!("it cites more than {CITATIONS_MAX} passages")));
                }
                let passage = memory.passage(&id).await;
                let passage =
                    passage.map_err(|error| AgentError::internal("its citations cannot be looked up", error))?;
                match passage {
                    Some(passage) if passage.kept_ms < rule.begun_ms => drop(cited.insert(id, passage)),
                    Some(_) => return Err(refused(format!("it cites {id}, which was kept in the same turn"))),
                    None => return Err(refused(format!("it cites {id}, which is not kept"))),
                }
            }
        }
        if !cited.is_empty() {
            let ending = held.iter().position(|made| matches!(made, Made::Status(..) | Made::Reply(_)));
            let ending = ending.unwrap_or(held.len());
            held.insert(ending, told(&cited, rule.turn));
        }
        Ok(held)
    }
}

/// What the citations are.
fn told(cited: &BTreeMap<String, Recalled>, turn: usize) -> Made {
    let citation = |passage: &Recalled| {
        json!({
            "id": passage.id,
            "source": passage.source,
            "sourceHash": passage.source_hash,
            "place": passage.place,
            "by": passage.by,
            "keptMs": passage.kept_ms,
        })
    };
    let citations: Vec<Value> = cited.values().map(citation).collect();
    let artifact = Artifact {
        artifact_id: format!("citations-{turn}"),
        name: None,
        description: None,
        parts: vec![Part::data(json!({ "citations": citations }))],
        metadata: None,
        extensions: None,
    };
    Made::Artifact { artifact, append: false, last: true }
}

/// The text of each artifact as whoever asked will have it, and of a message that ends the turn; a question is no
/// answer. What says something and is no text cannot be cited.
fn said(held: &[Made], notes: bool) -> Result<Vec<String>, &'static str> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut ending = String::new();
    for made in held {
        match made {
            Made::Artifact { artifact, append, .. } => {
                let named = artifact.name.is_some() || artifact.description.is_some();
                if named || artifact.metadata.is_some() || artifact.extensions.is_some() {
                    return Err("it says something beside its text");
                }
                let text = texts.entry(&artifact.artifact_id).or_default();
                if !append {
                    text.clear();
                }
                add(text, &artifact.parts, notes)?;
            }
            Made::Status(TaskState::InputRequired | TaskState::AuthRequired, _)
            | Made::Remember(_)
            | Made::Begun { .. }
            | Made::Annotated(..) => {}
            Made::Status(_, Some(message)) | Made::Reply(message) => add(&mut ending, &message.parts, notes)?,
            Made::Status(_, None) => {}
        }
    }
    Ok(texts.into_values().chain([ending]).filter(|text| !text.trim().is_empty()).collect())
}

fn add(text: &mut String, parts: &[Part], notes: bool) -> Result<(), &'static str> {
    for part in parts {
        if part.filename.is_some() || part.metadata.is_some() {
            return Err("it says something beside its text");
        }
        match &part.content {
            PartContent::Text(more) => text.push_str(more),
            PartContent::Data(Value::Object(data)) if notes && data.keys().all(|key| NOTES.contains(&key.as_str())) => {
            }
            _ => return Err("it answers with what is no text"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(id: &str, parts: Vec<Part>, append: bool) -> Made {
        let artifact = Artifact {
            artifact_id: id.to_owned(),
            name: None,
            description: None,
            parts,
            metadata: None,
            extensions: None,
        };
        Made::Artifact { artifact, append, last: false }
    }

    fn text(id: &str, text: &str, append: bool) -> Made {
        artifact(id, vec![Part::text(text)], append)
    }

    #[test]
    fn what_is_checked_is_what_will_be_shown() {
        let replaced = [text("a", "cited [#0123456789ab]", false), text("a", "a lie", false)];
        assert_eq!(said(&replaced, true), Ok(vec!["a lie".to_owned()]));
        // Pieces of two artifacts make no citation of either, and pieces of one do.
        let apart = [text("a", "x [#0123", false), text("b", "456789ab] y", false)];
        assert!(said(&apart, true).expect("text").iter().all(|text| citations(text).is_empty()));
        let mixed = [text("a", "x [#0123", false), text("b", "other", false), text("a", "456789ab]", true)];
        assert_eq!(citations(&said(&mixed, true).expect("text")[0]), ["0123456789ab"]);
    }

    #[test]
    fn what_is_no_text_is_no_answer() {
        let data = |value: Value| [artifact("a", vec![Part::data(value)], false)];
        assert_eq!(said(&data(json!({ "usage": {} })), true), Ok(Vec::new()));
        assert!(said(&data(json!({ "usage": {} })), false).is_err(), "a program says so of itself");
        assert!(said(&data(json!({ "usage": {}, "answer": 42 })), true).is_err());
        assert!(said(&data(json!("42")), true).is_err());
        let mut named = artifact("a", vec![Part::text("x [#0123456789ab]")], false);
        if let Made::Artifact { artifact, .. } = &mut named {
            artifact.name = Some("and besides, 42".to_owned());
        }
        assert!(said(&[named], true).is_err());
    }
}
