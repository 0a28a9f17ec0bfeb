//! What a turn did, noted while it runs: the record that its task keeps of it is made from that. Names and hashes, and nothing of
//! what was said.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use althing_protocol::audit::{AuditVerdict, AuditWord};
use althing_protocol::limits::AUDIT_VERDICTS_MAX;
use serde_json::Value;

use crate::admission::AdmissionProof;
use crate::definition::hash;

/// Calls of tools that are noted of one turn; those beyond are counted.
pub const CALLS_MAX: usize = 64;
/// Passages that are noted of one turn; those beyond are counted.
pub const PASSAGES_MAX: usize = 64;
/// Models that are noted of one turn.
pub const MODELS_MAX: usize = 8;
/// Bytes of a name or an id; a longer one is cut.
const NAME_BYTES_MAX: usize = 200;
/// Words of judges that are noted of one turn.
const JUDGEMENTS_MAX: usize = 64;
/// Kinds of findings that are noted of one turn.
const FINDINGS_MAX: usize = 32;

/// Where what a turn does is noted. All copies are one.
#[derive(Debug, Clone, Default)]
pub struct RunNotes(Arc<Mutex<TurnFacts>>);

/// What is noted of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnFacts {
    /// The hash of the manifest that its agent was bound to, hexadecimal; none if no turn began.
    pub binding: Option<Arc<str>>,
    /// The models that answered, by the names that their endpoints said, each once.
    pub models: Vec<String>,
    /// Its calls of tools, in the order in which they ended.
    pub calls: Vec<CallFacts>,
    /// Calls that are not among these.
    pub more_calls: u64,
    /// The ids of the passages that were recalled for it, each once.
    pub passages: Vec<String>,
    /// Passages that are not among these.
    pub more_passages: u64,
    /// Why its agent keeps its deadlines, if it is a hard real-time agent.
    pub proof: Option<AdmissionProof>,
    /// What failed in silence in it, by the names of the findings, each once.
    pub findings: Vec<&'static str>,
    /// Those of them that only the turns before it together with it tell, each once.
    pub findings_of_several: Vec<&'static str>,
    /// What gates said in it, and what failed in silence, for the audit log.
    pub verdicts: BTreeSet<AuditVerdict>,
    /// What agents said that judge its answers, in their order.
    pub judgements: Vec<Judgement>,
    /// The gate that could not judge its last answer, where that is held back for this.
    pub unjudged: Option<String>,
}

/// The word of an agent that judges an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The judge, as the contract names it: `agents/NAME`.
    pub judge: String,
    /// Whether it let the answer pass; none where it gave no verdict.
    pub passed: Option<bool>,
}

/// What is noted of one call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFacts {
    /// `server/tool`.
    pub tool: String,
    /// The hash of its definition, hexadecimal; empty where it is not known.
    pub definition: String,
    /// The hash of its arguments, hexadecimal; empty where they could not be read.
    pub arguments: String,
    /// The hash of its result, if it gave one.
    pub result: Option<String>,
    /// `done`, or what else came of it: see [`CallRecord`](crate::tools::CallRecord).
    pub outcome: &'static str,
    /// Whether its result is not what its definition says of it.
    pub breaks_schema: bool,
    /// The agent that was called, and its task, where the tool is another agent.
    pub callee: Option<(String, String)>,
    /// Whether a check of the contract made the call, and not the agent.
    pub is_check: bool,
}

/// The hash of a call's arguments, as its record has it: SHA-256 of canonical JSON (RFC 8785), hexadecimal.
#[must_use]
pub fn arguments_hash(arguments: &Value) -> String {
    hash(arguments)
}

impl RunNotes {
    /// A turn of an agent that was bound to the manifest of that hash begins.
    pub fn begin(&self, binding: &Arc<str>) {
        self.lock().binding = Some(binding.clone());
    }

    /// Forgets all: the turn goes on from its beginning, and notes again what it is told again.
    pub fn clear(&self) {
        *self.lock() = TurnFacts::default();
    }

    /// What is noted by now.
    #[must_use]
    pub fn facts(&self) -> TurnFacts {
        self.lock().clone()
    }

    /// Notes what failed in silence, by the name of the finding.
    pub fn add_finding(&self, finding: &'static str) {
        let mut facts = self.lock();
        if facts.findings.len() < FINDINGS_MAX && !facts.findings.contains(&finding) {
            facts.findings.push(finding);
        }
        facts.add_verdict(finding, AuditWord::Finding);
    }

    /// Notes the same of what was found of it and of the turns before it together: of a copy, which has none, it cannot be found.
    pub fn add_finding_of_several(&self, finding: &'static str) {
        self.add_finding(finding);
        let mut facts = self.lock();
        if facts.findings.contains(&finding) && !facts.findings_of_several.contains(&finding) {
            facts.findings_of_several.push(finding);
        }
    }

    /// Notes what a gate said, by its name in the contract. Of more than a leaf of the audit log has, those that let pass make room.
    pub fn add_verdict(&self, gate: &str, word: AuditWord) {
        self.lock().add_verdict(gate, word);
    }

    /// Notes what an agent said that judges answers.
    pub fn add_judgement(&self, judge: &str, passed: Option<bool>) {
        let mut facts = self.lock();
        if facts.judgements.len() < JUDGEMENTS_MAX {
            facts.judgements.push(Judgement { judge: cut(judge), passed });
        }
    }

    /// Notes the gate that could not judge the last answer; none where all that were asked could.
    pub fn set_unjudged(&self, gate: Option<&str>) {
        self.lock().unjudged = gate.map(cut);
    }

    /// What gates said by now, ascending.
    #[must_use]
    pub fn verdicts(&self) -> Vec<AuditVerdict> {
        self.lock().verdicts.iter().cloned().collect()
    }

    /// Notes a call that is over.
    pub(crate) fn add_call(&self, call: CallFacts) {
        let mut facts = self.lock();
        if facts.calls.len() >= CALLS_MAX {
            facts.more_calls = facts.more_calls.saturating_add(1);
            return;
        }
        let callee = call.callee.map(|(agent, task)| (cut(&agent), cut(&task)));
        facts.calls.push(CallFacts { tool: cut(&call.tool), callee, ..call });
    }

    /// Notes passages that were recalled.
    pub(crate) fn add_passages<'a>(&self, ids: impl IntoIterator<Item = &'a str>) {
        let mut facts = self.lock();
        for id in ids {
            let id = cut(id);
            if facts.passages.contains(&id) {
                continue;
            }
            if facts.passages.len() >= PASSAGES_MAX {
                facts.more_passages = facts.more_passages.saturating_add(1);
            } else {
                facts.passages.push(id);
            }
        }
    }

    /// Notes the model that answered.
    pub(crate) fn add_model(&self, model: &str) {
        let (mut facts, model) = (self.lock(), cut(model));
        if facts.models.len() < MODELS_MAX && !facts.models.contains(&model) {
            facts.models.push(model);
        }
    }

    /// Notes why its agent keeps its deadlines.
    pub(crate) fn set_proof(&self, proof: Option<AdmissionProof>) {
        self.lock().proof = proof;
    }

    fn lock(&self) -> MutexGuard<'_, TurnFacts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnFacts {
    fn add_verdict(&mut self, gate: &str, word: AuditWord) {
        let verdict = AuditVerdict { gate: cut(gate), word };
        if self.verdicts.len() >= AUDIT_VERDICTS_MAX && !self.verdicts.contains(&verdict) {
            let spare = self.verdicts.iter().find(|known| known.word == AuditWord::Passed).cloned();
            let Some(spare) = spare.filter(|_| word != AuditWord::Passed) else { return };
            self.verdicts.remove(&spare);
        }
        self.verdicts.insert(verdict);
    }
}

/// Notes are equal where they are the same ones.
impl PartialEq for RunNotes {
    fn eq(&self, other: &RunNotes) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.facts() == other.facts()
    }
}

impl Eq for RunNotes {}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str) -> CallFacts {
        CallFacts {
            tool: tool.to_owned(),
            definition: String::new(),
            arguments: String::new(),
            result: None,
            outcome: "done",
            breaks_schema: false,
            callee: Some(("urn:a".to_owned(), "t".repeat(NAME_BYTES_MAX + 1))),
            is_check: false,
        }
    }

    #[test]
    fn calls_are_noted_in_their_order_and_those_beyond_are_counted() {
        let notes = RunNotes::default();
        for number in 0..CALLS_MAX + 3 {
            notes.add_call(call(&format!("shop/{number}")));
        }
        let facts = notes.facts();
        assert_eq!((facts.calls.len(), facts.more_calls), (CALLS_MAX, 3));
        assert_eq!((facts.calls[0].tool.as_str(), facts.calls[1].tool.as_str()), ("shop/0", "shop/1"));
        assert_eq!(facts.calls[0].callee, Some(("urn:a".to_owned(), "t".repeat(NAME_BYTES_MAX))), "names are cut");
    }

    #[test]
    fn verdicts_are_noted_once_and_a_refusal_is_never_one_too_many() {
        let notes = RunNotes::default();
        notes.add_verdict("schema", AuditWord::Refused);
        notes.add_verdict("schema", AuditWord::Passed);
        notes.add_verdict("schema", AuditWord::Passed);
        notes.add_finding("said-nothing");
        let said = notes.verdicts();
        let said: Vec<(&str, &str)> = said.iter().map(|verdict| (verdict.gate.as_str(), verdict.word.word())).collect();
        assert_eq!(said, [("said-nothing", "finding"), ("schema", "passed"), ("schema", "refused")]);
        for number in 0..AUDIT_VERDICTS_MAX {
            notes.add_verdict(&format!("lint/{number:02}"), AuditWord::Passed);
        }
        notes.add_verdict("media", AuditWord::Refused);
        let verdicts = notes.verdicts();
        assert_eq!(verdicts.len(), AUDIT_VERDICTS_MAX);
        let refused = verdicts.iter().filter(|verdict| verdict.word == AuditWord::Refused);
        assert_eq!(refused.map(|verdict| verdict.gate.as_str()).collect::<Vec<_>>(), ["media", "schema"]);
    }

    #[test]
    fn passages_and_models_are_noted_once_and_are_bounded() {
        let (notes, copy) = (RunNotes::default(), RunNotes::default());
        assert_eq!(notes, copy);
        notes.add_passages(["a", "b", "a"]);
        notes.add_model("small");
        notes.add_model("small");
        assert_ne!(notes, copy);
        let facts = notes.clone().facts();
        assert_eq!((facts.passages, facts.models), (vec!["a".to_owned(), "b".to_owned()], vec!["small".to_owned()]));
        notes.add_finding("said-nothing");
        notes.add_finding("said-nothing");
        assert_eq!(notes.facts().findings, ["said-nothing"]);
        notes.add_finding_of_several("same-answer");
        notes.add_finding_of_several("same-answer");
        let facts = notes.facts();
        assert_eq!(
            (facts.findings, facts.findings_of_several),
            (vec!["said-nothing", "same-answer"], vec!["same-answer"])
        );
        let many: Vec<String> = (0..PASSAGES_MAX).map(|number| format!("p{number}")).collect();
        notes.add_passages(many.iter().map(String::as_str));
        let facts = notes.facts();
        assert_eq!((facts.passages.len(), facts.more_passages), (PASSAGES_MAX, 2));
        notes.add_model(&"é".repeat(200));
        assert_eq!(notes.facts().models[1].len(), NAME_BYTES_MAX);
    }
}
