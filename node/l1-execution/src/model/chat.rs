//! The conversation as a model is told it.

use a2a::{Artifact, Message, Part};
use serde::Serialize;

use crate::agent::Turn;

/// Bytes of text that make at least one token in what models of today are given, Latin scripts and others alike. The
/// guess is high for English, where it is four: a prompt that may not fit is not sent.
const BYTES_PER_TOKEN: u64 = 3;
/// Tokens around each message.
const TOKENS_AROUND: u64 = 4;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// What was said.
    pub content: String,
}

/// The artifact that holds the answer to a turn's message.
pub(super) fn artifact_id(turn: &Turn) -> String {
    format!("answer-{}", turn.history.len() + 1)
}

/// The prompt, what was said in this task before, answers that were broken off included, and the new message.
pub(super) fn messages(prompt: &str, turn: &Turn) -> Vec<Said> {
    let mut all = vec![Said { role: "system", content: prompt.to_owned() }];
    for (place, message) in turn.history.iter().enumerate() {
        all.push(Said { role: "user", content: text(message) });
        let id = format!("answer-{}", place + 1);
        if let Some(answer) = turn.artifacts.iter().find(|artifact| artifact.artifact_id == id) {
            all.push(Said { role: "assistant", content: text_of(answer) });
        }
    }
    all.push(Said { role: "user", content: turn.text() });
    all
}

fn text(message: &Message) -> String {
    message.parts.iter().filter_map(Part::as_text).collect::<Vec<_>>().join("\n")
}

fn text_of(artifact: &Artifact) -> String {
    artifact.parts.iter().filter_map(Part::as_text).collect()
}

/// About how many tokens a text has, rather more than less.
#[must_use]
pub fn tokens_of(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// About how many tokens a conversation has.
pub(super) fn tokens(messages: &[Said]) -> u64 {
    messages.iter().map(|said| tokens_of(&said.content) + TOKENS_AROUND).sum()
}
