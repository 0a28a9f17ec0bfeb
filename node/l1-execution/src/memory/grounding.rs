//! Grounding: answers that must cite the memory are withheld until the turn ends, and released only if they do.

use std::collections::BTreeMap;

use a2a::{Artifact, Part, PartContent, TaskState};
use althing_protocol::audit::AuditWord;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::machine::citations;
use super::{Memory, Recalled};
use crate::agent::{AgentError, Hold, Made, OutputGate};
use crate::run_notes::RunNotes;

/// Its name among the gates of a turn.
const GATE: &str = "grounding";
/// Citations of one turn.
const CITATIONS_MAX: usize = 256;
/// The data that the node's own runtimes add to an answer.
const NOTES: [&str; 2] = ["usage", "tools"];

/// How an answer is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The number of the turn in its task, from 1.
    pub turn: usize,
    /// When the turn began: what the agent stored since then does not count as a source.
    pub begun_ms: u64,
    /// Whether the runtime is the node's own, which adds [`NOTES`] to the answer.
    pub notes: bool,
    /// Whether the agent itself words its failures.
    pub own_failures: bool,
}

/// The gate of an answer that must cite the memory: it holds the whole answer back, and drops what can carry no citation.
pub(crate) struct GroundingGate {
    memory: Memory,
    rule: Rule,
    /// Where its word is noted.
    run: RunNotes,
}

impl GroundingGate {
    /// The gate of one turn.
    pub fn new(memory: Memory, rule: Rule, run: RunNotes) -> GroundingGate {
        GroundingGate { memory, rule, run }
    }

    /// Adds an artifact of their citations to these outputs; an error where a part of an answer cites nothing that was kept
    /// before the turn.
    async fn checked(&self, mut outputs: Vec<Made>) -> Result<Vec<Made>, AgentError> {
        let (memory, rule) = (&self.memory, self.rule);
        let refused = |what: String| {
            AgentError::GateRefused(format!(
                "the answer is not grounded and was held back: {what}, and every answer must cite what the namespace \
                 {:?} keeps",
                memory.namespace()
            ))
        };
        let mut cited: BTreeMap<String, Recalled> = BTreeMap::new();
        for text in answer_texts(&outputs, rule.notes).map_err(|what| refused(what.to_owned()))? {
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
            self.run.add_verdict(GATE, AuditWord::Passed);
            let ending = outputs.iter().position(|made| matches!(made, Made::Status(..) | Made::Reply(_)));
            let ending = ending.unwrap_or(outputs.len());
            outputs.insert(ending, citations_artifact(&cited, rule.turn));
        }
        Ok(outputs)
    }
}

impl OutputGate for GroundingGate {
    fn may_repair(&self) -> bool {
        false
    }

    fn hold(&self, made: Made) -> Hold {
        // Metadata is content without a citation.
        match made.bare() {
            // State for the next turn is shown to nobody.
            made @ Made::Remember(_) => Hold::Pass(made),
            Made::Begun { state, .. } => Hold::Pass(Made::Begun { state, metadata: None }),
            // A progress message could carry a part of an answer.
            Made::Status(TaskState::Working, _) => Hold::Drop,
            made => Hold::Keep(made),
        }
    }

    fn release(&self, held: Vec<Made>) -> BoxFuture<'_, Result<Vec<Made>, AgentError>> {
        // What another gate added to it cites nothing either.
        let held: Vec<Made> = held.into_iter().map(Made::bare).collect();
        async move {
            let checked = self.checked(held).await;
            if matches!(checked, Err(AgentError::GateRefused(_))) {
                self.run.add_verdict(GATE, AuditWord::Refused);
            }
            checked
        }
        .boxed()
    }

    /// The text of a failure carries no citations either, so what the agent says of it stays in the log.
    fn failure(&self, error: AgentError) -> AgentError {
        let (error, words) = error.without_words(self.rule.own_failures);
        if let Some(why) = words {
            let agent = self.memory.agent.as_deref().unwrap_or_default();
            tracing::warn!(agent, why, "a turn that must be grounded failed");
        }
        error
    }
}

/// The citations of a turn, as an artifact.
fn citations_artifact(cited: &BTreeMap<String, Recalled>, turn: usize) -> Made {
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

/// The text of each artifact as the caller will receive it, and of a message that ends the turn; a question is not an
/// answer. Content that is not text cannot carry citations, and is an error.
fn answer_texts(outputs: &[Made], notes: bool) -> Result<Vec<String>, &'static str> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut ending = String::new();
    for made in outputs {
        match made {
            Made::Artifact { artifact, append, .. } => {
                let named = artifact.name.is_some() || artifact.description.is_some();
                if named || artifact.metadata.is_some() || artifact.extensions.is_some() {
                    return Err("it has content besides its text");
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

/// Whether a part is what a node's own runtimes add to an answer.
pub(crate) fn is_note(content: &PartContent) -> bool {
    matches!(content, PartContent::Data(Value::Object(data))
        if !data.is_empty() && data.keys().all(|key| NOTES.contains(&key.as_str())))
}

fn add(text: &mut String, parts: &[Part], notes: bool) -> Result<(), &'static str> {
    for part in parts {
        if part.filename.is_some() || part.metadata.is_some() {
            return Err("it has content besides its text");
        }
        match &part.content {
            PartContent::Text(more) => text.push_str(more),
            PartContent::Data(Value::Object(data)) if notes && data.keys().all(|key| NOTES.contains(&key.as_str())) => {
            }
            _ => return Err("it has content that is not text"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use a2a::{Message, Role};
    use althing_protocol::contract;
    use althing_store::MemoryStore;

    use super::super::{Embedder, MEMORY, Memories};
    use super::*;
    use crate::agent::Metadata;

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
        assert_eq!(answer_texts(&replaced, true), Ok(vec!["a lie".to_owned()]));
        // Pieces of two artifacts make no citation of either, and pieces of one do.
        let apart = [text("a", "x [#0123", false), text("b", "456789ab] y", false)];
        assert!(answer_texts(&apart, true).expect("text").iter().all(|text| citations(text).is_empty()));
        let mixed = [text("a", "x [#0123", false), text("b", "other", false), text("a", "456789ab]", true)];
        assert_eq!(citations(&answer_texts(&mixed, true).expect("text")[0]), ["0123456789ab"]);
    }

    /// The gate of a clerk that keeps nothing, and began its turn at 1,000.
    fn clerk(own_failures: bool) -> GroundingGate {
        let memories = Memories::new(
            Arc::new(MemoryStore::new(&[MEMORY])),
            Arc::new(|| 1_000),
            Arc::new(|bytes: &mut [u8]| bytes.fill(7)),
            Arc::new(|_: &str| Ok(None)),
        );
        let memory = memories.open("clerk", &contract::Memory::default(), Arc::new(Embedder::Words)).expect("opened");
        let rule = Rule { turn: 1, begun_ms: 1_000, notes: false, own_failures };
        GroundingGate::new(memory, rule, RunNotes::default())
    }

    #[test]
    fn what_can_carry_no_citation_is_not_shown() {
        let (gate, message) = (clerk(false), Message::new(Role::Agent, vec![Part::text("ninety euro")]));
        let metadata = Metadata::from([("answer".to_owned(), json!("ninety euro"))]);
        let begun = |metadata| Made::Begun { state: TaskState::Working, metadata };
        assert_eq!(gate.hold(begun(Some(metadata.clone()))), Hold::Pass(begun(None)));
        let remembered = Made::Remember("the next turn needs it".to_owned());
        assert_eq!(gate.hold(remembered.clone()), Hold::Pass(remembered));
        let progress = Made::Status(TaskState::Working, Some(message.clone()));
        assert_eq!(gate.hold(progress.clone()), Hold::Drop);
        assert_eq!(gate.hold(progress.annotated(Some(metadata.clone()))), Hold::Drop);
        let ending = Made::Status(TaskState::Completed, Some(message));
        assert_eq!(gate.hold(ending.clone().annotated(Some(metadata))), Hold::Keep(ending));
    }

    #[tokio::test]
    async fn what_an_earlier_gate_adds_must_cite_too() {
        let metadata = Metadata::from([("answer".to_owned(), json!("ninety euro"))]);
        let asks = Made::Status(TaskState::InputRequired, None);
        let released = clerk(false).release(vec![asks.clone().annotated(Some(metadata.clone()))]).await;
        assert_eq!(released, Ok(vec![asks]));
        let uncited = text("a", "ninety euro", false).annotated(Some(metadata));
        let gate = clerk(false);
        let refused = gate.release(vec![uncited]).await.expect_err("it cites nothing");
        let verdicts = gate.run.verdicts();
        let said = verdicts.iter().map(|verdict| (verdict.gate.as_str(), verdict.word));
        assert_eq!(said.collect::<Vec<_>>(), [(GATE, AuditWord::Refused)]);
        assert!(matches!(&refused, AgentError::GateRefused(why) if why.contains("not grounded")), "{refused}");
    }

    #[test]
    fn a_failure_in_the_agents_own_words_is_not_told() {
        let failed = AgentError::Failed("a dog costs ninety euro".to_owned());
        assert_eq!(clerk(false).failure(failed.clone()), failed, "the node's own words");
        let told = clerk(true).failure(failed);
        assert!(matches!(&told, AgentError::Failed(why) if why.contains("log")), "{told}");
        assert_eq!(clerk(true).failure(AgentError::Cancelled), AgentError::Cancelled);
    }

    #[test]
    fn what_is_no_text_is_no_answer() {
        let data = |value: Value| [artifact("a", vec![Part::data(value)], false)];
        assert_eq!(answer_texts(&data(json!({ "usage": {} })), true), Ok(Vec::new()));
        assert!(answer_texts(&data(json!({ "usage": {} })), false).is_err(), "a program says so of itself");
        assert!(answer_texts(&data(json!({ "usage": {}, "answer": 42 })), true).is_err());
        assert!(answer_texts(&data(json!("42")), true).is_err());
        let mut named = artifact("a", vec![Part::text("x [#0123456789ab]")], false);
        if let Made::Artifact { artifact, .. } = &mut named {
            artifact.name = Some("and besides, 42".to_owned());
        }
        assert!(answer_texts(&[named], true).is_err());
    }
}
