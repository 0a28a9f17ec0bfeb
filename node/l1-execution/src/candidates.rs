//! Who or what could have been chosen, and why each was or was not, as spans say it: by ids and a few words, never by what anybody
//! said.

use std::borrow::Cow;
use std::fmt::Display;

use serde_json::{Value, json};
use tracing::Span;

/// Candidates that a span names; of more it says how many there are.
const CANDIDATES_MAX: usize = 8;
/// Bytes of an id, and of why one was chosen or not: together they fit into the 4 KiB that a span's attribute has.
const ID_BYTES_MAX: usize = 136;
const WHY_BYTES_MAX: usize = 160;

/// Those that could have been chosen, in the order in which they are told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidateList {
    list: Vec<Candidate>,
    more: usize,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    id: String,
    /// Thousandths.
    score: Option<u16>,
    why: Cow<'static, str>,
}

impl CandidateList {
    /// Adds one, with its score in thousandths where it has one. Those that are too many are counted.
    pub fn add(&mut self, id: &dyn Display, score: Option<u16>, why: impl Into<Cow<'static, str>>) {
        if self.list.len() >= CANDIDATES_MAX {
            self.more += 1;
            return;
        }
        let mut why: Cow<'static, str> = why.into();
        if why.len() > WHY_BYTES_MAX {
            why = cut(why.into_owned(), WHY_BYTES_MAX).into();
        }
        self.list.push(Candidate { id: cut(id.to_string(), ID_BYTES_MAX), score, why });
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A list as JSON, each with `id`, `score` from 0 to 1 where it has one, and `why`; at the end how many `more` there are, if
    /// there are.
    #[must_use]
    pub fn text(&self) -> String {
        let mut all: Vec<Value> = self.list.iter().map(Candidate::value).collect();
        if self.more > 0 {
            all.push(json!({ "more": self.more }));
        }
        Value::Array(all).to_string()
    }

    /// Says those of a list in that attribute of a span. The list is made only where the span is told at all.
    pub fn record(span: &Span, attribute: &str, list: impl FnOnce() -> CandidateList) {
        if span.is_disabled() {
            return;
        }
        let list = list();
        if !list.is_empty() {
            span.record(attribute, list.text().as_str());
        }
    }
}

impl Candidate {
    fn value(&self) -> Value {
        let Candidate { id, score, why } = self;
        match score {
            Some(score) => json!({ "id": id, "score": f64::from(*score) / 1_000.0, "why": why }),
            None => json!({ "id": id, "why": why }),
        }
    }
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_with_its_score_and_why() {
        let mut list = CandidateList::default();
        assert!(list.is_empty());
        list.add(&"urn:a", Some(875), "chosen");
        list.add(&"urn:b", None, "left out".to_owned());
        let told = r#"[{"id":"urn:a","score":0.875,"why":"chosen"},{"id":"urn:b","why":"left out"}]"#;
        assert_eq!(list.text(), told);
    }

    #[test]
    fn for_a_span_that_nobody_is_told_of_no_list_is_made() {
        CandidateList::record(&Span::none(), "althing.agent.candidates", || panic!("nobody reads it"));
    }

    #[test]
    fn of_many_eight_are_told_and_long_texts_are_cut() {
        let mut list = CandidateList::default();
        for number in 0..100 {
            list.add(&format!("{number}{}", "ä\"".repeat(500)), Some(1_000), "\"ö".repeat(500));
        }
        let text = list.text();
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((told.as_array().map(Vec::len), &told[8]["more"]), (Some(9), &json!(92)));
        assert!(text.len() < 4 << 10, "{} bytes", text.len());
    }
}
