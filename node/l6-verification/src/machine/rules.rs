//! The gates that are rules: what a schema, a list of media types and a model's own word say of an answer. Pure.

use althing_protocol::contract::AnswerSchema;
use serde_json::Value;

use super::answer::{Answer, AnswerEnd, Content, Piece};
use super::gates::{Opinion, Word};
use super::json;

/// The media type of JSON.
const JSON: &str = "application/json";
/// The media type of text that says nothing of itself.
const TEXT: &str = "text/plain";
/// Characters of each half of a media type (RFC 6838, section 4.2).
const MEDIA_HALF_MAX: usize = 127;
/// Those that are no letters and no digits, behind the first one.
const MEDIA_MARKS: &str = "!#$&-^_.+";
/// Why models stop in the middle of an answer, in the words of their endpoints.
const CUTS: [&str; 3] = ["length", "max_tokens", "content_filter"];

/// The rules of one contract.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// What an answer must be.
    pub schema: Option<&'a AnswerSchema>,
    /// The media types that it may have; empty: any.
    pub media: &'a [String],
    /// Whether its model must have come to its end.
    pub finished: bool,
}

impl Rules<'_> {
    /// What each of them says of an answer.
    #[must_use]
    pub fn opinions(&self, answer: &Answer) -> Vec<Opinion> {
        let mut opinions = Vec::new();
        if !is_judged(answer) {
            return opinions;
        }
        if self.finished {
            let cut = is_cut(answer).then(|| Word::refusal("its model stopped in the middle of it"));
            opinions.push(Opinion::of_rule("finished", cut));
        }
        if !self.media.is_empty() {
            opinions.push(Opinion::of_rule("media", answer.pieces.iter().find_map(|piece| self.wrong_media(piece))));
        }
        if let Some(schema) = self.schema {
            opinions.push(Opinion::of_rule("schema", breach(schema, answer)));
        }
        opinions
    }

    fn wrong_media(&self, piece: &Piece) -> Option<Word> {
        let permits = |media: &str| self.media.iter().any(|permitted| covers(permitted, media));
        let is_json = || matches!(&piece.content, Content::Text(text) if json::strict(text).is_ok());
        let is_text = matches!(piece.content, Content::Text(_));
        let default = match &piece.content {
            Content::Text(_) => TEXT,
            Content::Data(_) => JSON,
            Content::File(_) => "application/octet-stream",
        };
        let passes = match piece.media.as_deref() {
            Some(media) if is_text && names_json(media) && !is_json() => {
                return Some(Word::refusal("a part that says that it is JSON is none"));
            }
            Some(media) => permits(media),
            // A text that says nothing of itself may be JSON.
            None => permits(default) || (is_text && permits(JSON) && is_json()),
        };
        (!passes).then(|| Word::refusal(format!("a part has another media type than {}", self.media.join(", "))))
    }
}

/// Whether there is anything to judge: a question is no answer, but what goes with it is; a failure is shown without an answer.
#[must_use]
pub fn is_judged(answer: &Answer) -> bool {
    match answer.ending {
        AnswerEnd::Complete => true,
        AnswerEnd::Question => !answer.pieces.is_empty(),
        AnswerEnd::Failure => false,
    }
}

/// Whether an answer was cut by its model.
#[must_use]
pub fn is_cut(answer: &Answer) -> bool {
    answer.notes.finish.as_deref().is_some_and(|finish| CUTS.contains(&finish))
}

/// What a message must be before its agent hears it.
#[must_use]
pub fn admits(schema: &AnswerSchema, message: &Answer) -> Opinion {
    Opinion::of_rule("schema", breach(schema, message))
}

/// What of an answer breaks its schema: each part of data must be as it says, and each text as JSON.
fn breach(schema: &AnswerSchema, answer: &Answer) -> Option<Word> {
    let of_value = |value: &Value| {
        let breach = schema.breach(value)?;
        Some(Word::Refusal { place: breach.place, rule: breach.rule, reason: breach.what })
    };
    let mut values = 0_usize;
    for piece in &answer.pieces {
        let word = match &piece.content {
            // Line breaks between artifacts say nothing.
            Content::Text(text) if text.trim().is_empty() => continue,
            Content::Text(text) => match json::strict(text) {
                Ok(value) => of_value(&value),
                Err(reason) => Some(Word::refusal(reason)),
            },
            Content::Data(value) => of_value(value),
            Content::File(_) => Some(Word::refusal("it has a file, which no schema describes")),
        };
        if word.is_some() {
            return word;
        }
        values += 1;
    }
    (values == 0).then(|| Word::refusal("it says nothing"))
}

fn names_json(media: &str) -> bool {
    media == JSON || media.ends_with("+json")
}

/// Whether a media type (see [`essence`](super::answer::essence)) may be shown of a part whose contract permits these. What it permits
/// its gate judges; where it names none, nobody does, and only those are shown that tell nothing.
#[must_use]
pub fn shows_media(permitted: &[String], media: &str) -> bool {
    !permitted.is_empty() || [TEXT, JSON].contains(&media)
}

/// Whether a media type is the one that is permitted by `type/subtype`, or one of `type/*`.
fn covers(permitted: &str, media: &str) -> bool {
    let kind = permitted.strip_suffix('*').filter(|kind| kind.ends_with('/'));
    permitted == media || kind.is_some_and(|kind| media.starts_with(kind) && is_media_type(media))
}

/// Whether it is `type/subtype` in the characters that media types have: no sentence is.
fn is_media_type(media: &str) -> bool {
    let is_half = |half: &str| {
        let is_plain = half.chars().all(|one| one.is_ascii_alphanumeric() || MEDIA_MARKS.contains(one));
        is_plain && half.len() <= MEDIA_HALF_MAX && half.starts_with(|first: char| first.is_ascii_alphanumeric())
    };
    media.split_once('/').is_some_and(|(kind, subtype)| is_half(kind) && is_half(subtype))
}

#[cfg(test)]
mod tests;
