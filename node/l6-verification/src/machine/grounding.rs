//! The gate that is a rule of memory: what an answer says must cite what is kept. Pure.
//!
//! **Input**: an answer, what is kept of the passages that it names, and when its turn began. **Output**: what the gate says, and
//! the citations as callers get them.
//!
//! **Invariants**
//! - Each text cites by itself; one that was replaced does too, since who listens to a stream has seen it.
//! - What can carry no citation is refused.
//! - What the agent stored in the same turn is no source.

use std::collections::{BTreeMap, BTreeSet};

use a2a::{Artifact, Part};
use althing_execution::agent::Made;
use althing_execution::memory::{Recalled, citations};
use serde_json::{Value, json};

use super::answer::{Answer, Content};
use super::gates::{Opinion, Word};

/// Its name among the gates of a turn.
const GATE: &str = "grounding";
/// Passages that one answer may cite.
const CITATIONS_MAX: usize = 256;

/// What is kept of the passages that an answer names, by their ids.
pub type Sources = BTreeMap<String, Recalled>;

/// The ids of the passages that an answer names, each once. Of more than it may cite, one too many.
#[must_use]
pub fn cited(answer: &Answer) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for id in texts(answer).flat_map(citations) {
        if ids.len() <= CITATIONS_MAX {
            ids.insert(id);
        }
    }
    ids
}

/// What the gate says of an answer with these sources. `begun_ms`: when its turn began, milliseconds since 1970.
#[must_use]
pub fn opinion(answer: &Answer, sources: &Sources, begun_ms: u64) -> Opinion {
    Opinion::of_rule(GATE, breach(answer, sources, begun_ms))
}

/// What the gate says where the sources cannot be read.
#[must_use]
pub fn unread() -> Opinion {
    let why = "what the answer cites cannot be looked up; the log of its node says why";
    Opinion::of_rule(GATE, Some(Word::Fault(why.to_owned())))
}

/// The citations of the answer to a task's turn of that number, which counts from 1; none where it cites nothing.
#[must_use]
pub fn citations_artifact(sources: &Sources, turn: usize) -> Option<Made> {
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
    let citations: Vec<Value> = sources.values().map(citation).collect();
    let artifact = Artifact {
        artifact_id: format!("citations-{turn}"),
        name: None,
        description: None,
        parts: vec![Part::data(json!({ "citations": citations }))],
        metadata: None,
        extensions: None,
    };
    (!sources.is_empty()).then_some(Made::Artifact { artifact, append: false, last: true })
}

/// Its texts, but for those that say nothing.
fn texts(answer: &Answer) -> impl Iterator<Item = &str> {
    answer.pieces.iter().filter_map(|piece| match &piece.content {
        Content::Text(text) if !text.trim().is_empty() => Some(text.as_str()),
        Content::Text(_) | Content::Data(_) | Content::File(_) => None,
    })
}

fn breach(answer: &Answer, sources: &Sources, begun_ms: u64) -> Option<Word> {
    let is_text = |content: &Content| matches!(content, Content::Text(_));
    if !answer.pieces.iter().all(|piece| is_text(&piece.content)) {
        return Some(refusal("", "it has content that is not text, which cites nothing"));
    }
    if cited(answer).len() > CITATIONS_MAX {
        return Some(refusal("", &format!("it cites more than {CITATIONS_MAX} passages")));
    }
    for text in texts(answer) {
        let ids = citations(text);
        if ids.is_empty() {
            return Some(refusal("", "a part of it cites nothing, and each must cite a kept passage by its mark"));
        }
        for id in ids {
            let what = match sources.get(&id) {
                Some(passage) if passage.kept_ms < begun_ms => continue,
                Some(_) => "it cites what was kept in the same turn",
                None => "it cites what is not kept",
            };
            return Some(refusal(&format!("[#{id}]"), what));
        }
    }
    None
}

/// A mark is the agent's own word, so that it is the place and not the reason, which callers read.
fn refusal(place: &str, what: &str) -> Word {
    Word::Refusal { place: place.to_owned(), rule: String::new(), reason: format!("it is not grounded: {what}") }
}

#[cfg(test)]
mod tests {
    use a2a::{Message, Role, TaskState};

    use super::super::answer::tests::{artifact, text};
    use super::super::gates::{Verdict, verdict};
    use super::*;

    /// When the turn began.
    const BEGUN_MS: u64 = 1_000;
    const KEPT: &str = "0123456789ab";
    const NEW: &str = "ffffffffffff";

    fn passage(id: &str, kept_ms: u64) -> (String, Recalled) {
        let passage = Recalled {
            id: id.to_owned(),
            source: "rules.txt".to_owned(),
            source_hash: String::new(),
            place: 0,
            text: "A dog costs ninety euro.".to_owned(),
            by: "the operator".to_owned(),
            kept_ms,
            similarity: 1.0,
        };
        (id.to_owned(), passage)
    }

    /// What is kept: one passage since before the turn, and one since it began.
    fn sources() -> Sources {
        Sources::from([passage(KEPT, BEGUN_MS - 1), passage(NEW, BEGUN_MS)])
    }

    /// Where and why outputs are refused; nothing where they pass.
    fn refused(outputs: &[Made], notes: bool) -> Option<(String, String)> {
        match verdict(&[opinion(&Answer::of(outputs, notes), &sources(), BEGUN_MS)]) {
            Verdict::Pass => None,
            Verdict::Refusal(refusal) => Some((refusal.place, refusal.reason)),
        }
    }

    fn why(outputs: &[Made]) -> String {
        refused(outputs, true).expect("it is refused").1
    }

    #[test]
    fn an_answer_cites_what_was_kept_before_its_turn() {
        let said = |words: &str| refused(&[text("a", words, false)], true);
        assert_eq!(said("ninety euro [#0123456789ab]"), None);
        assert_eq!(said(" \n"), None, "it says nothing");
        for (words, place, why) in [
            ("ninety euro", "", "cites nothing"),
            ("ninety [#ffffffffffff]", "[#ffffffffffff]", "kept in the same turn"),
            ("ninety [#0123456789ab] [#000000000000]", "[#000000000000]", "not kept"),
        ] {
            let (at, reason) = said(words).expect("it is refused");
            assert!(at == place && reason.contains(why) && reason.contains("not grounded"), "{at}: {reason}");
        }
    }

    #[test]
    fn what_was_replaced_was_seen_and_cites_too() {
        let (lie, cited) = ("a lie", "cited [#0123456789ab]");
        for (first, then) in [(lie, cited), (cited, lie)] {
            assert!(why(&[text("a", first, false), text("a", then, false)]).contains("cites nothing"), "{first}");
        }
        assert_eq!(refused(&[text("a", cited, false), text("a", cited, false)], true), None);
    }

    #[test]
    fn pieces_of_one_artifact_make_a_citation_and_those_of_two_make_none() {
        let apart = [text("a", "x [#0123", false), text("b", "456789ab] y", false)];
        assert!(why(&apart).contains("cites nothing"));
        let mixed = [text("a", "x [#0123", false), text("b", "[#0123456789ab]", false), text("a", "456789ab]", true)];
        assert_eq!(refused(&mixed, true), None);
        let beside = [text("a", "x [#0123456789ab]", false), text("b", "a lie", false)];
        assert!(why(&beside).contains("cites nothing"), "each cites by itself");
    }

    #[test]
    fn the_message_that_ends_a_turn_cites_too() {
        let ends = |words: &str| Some(Message::new(Role::Agent, vec![Part::text(words)]));
        let cited = text("a", "x [#0123456789ab]", false);
        let completed = |words: &str| [cited.clone(), Made::Status(TaskState::Completed, ends(words))];
        assert!(why(&completed("and a lie")).contains("cites nothing"));
        assert_eq!(refused(&completed("so [#0123456789ab]"), true), None);
        let reply = Made::Reply(Message::new(Role::Agent, vec![Part::text("a lie")]));
        assert!(why(&[reply]).contains("cites nothing"));
        let asks = [cited, Made::Status(TaskState::InputRequired, ends("which dog?"))];
        assert_eq!(refused(&asks, true), None, "a question is no answer");
    }

    #[test]
    fn what_is_no_text_cites_nothing() {
        let data = |value: Value| [artifact("a", vec![Part::data(value)], false)];
        let notes = data(json!({ "usage": {} }));
        assert_eq!(refused(&notes, true), None);
        assert!(refused(&notes, false).is_some(), "a program says so of itself");
        assert!(why(&data(json!({ "usage": {}, "answer": 42 }))).contains("not text"));
        assert!(why(&data(json!("[#0123456789ab]"))).contains("not text"));
        let file = Part::raw(b"[#0123456789ab]".to_vec());
        assert!(why(&[artifact("a", vec![file], false)]).contains("not text"));
    }

    #[test]
    fn citations_are_bounded_and_told_with_their_sources() {
        let marks: Vec<String> = (0..2 * CITATIONS_MAX).map(|number| format!("[#{number:012x}]")).collect();
        let many = Answer::of(&[text("a", &marks.concat(), false)], true);
        assert_eq!(cited(&many).len(), CITATIONS_MAX + 1, "no more are looked up");
        assert!(why(&[text("a", &marks.concat(), false)]).contains("more than 256 passages"));
        let Some(Made::Artifact { artifact, .. }) = citations_artifact(&sources(), 2) else { panic!("it cites") };
        assert_eq!(artifact.artifact_id, "citations-2");
        assert!(format!("{artifact:?}").contains("rules.txt"), "{artifact:?}");
        assert_eq!(citations_artifact(&Sources::new(), 2), None);
    }
}
