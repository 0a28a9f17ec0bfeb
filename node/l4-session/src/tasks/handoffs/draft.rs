//! The handoff of a task, as far as the node knows what is in it: a person or an agent adds the rest.

use a2a::{Artifact, Message, Part, PartContent, Role};
use althing_protocol::contract::DataLabel;
use althing_protocol::limits::{
    HANDOFF_DESCRIPTION_BYTES_MAX, HANDOFF_ITEMS_MAX, HANDOFF_SNAPSHOT_BYTES_MAX, HANDOFF_TEXT_BYTES_MAX,
    WORK_NAME_BYTES_MAX,
};
use althing_protocol::object::{Handoff, HandoffArtifact, Regulation};
use althing_protocol::{AgentId, Digest, digest};

use crate::machine::handoff::HandoffId;
use crate::machine::record::Record;

/// How long a handoff that a node makes can be accepted, milliseconds.
const LIFE_MS: u64 = 3_600_000;
/// What must be true of the result, where nobody says.
const DONE: &str = "What was asked for is there, and what is missing is named.";
/// The media type of an artifact of several parts.
const PARTS: &str = "application/a2a+json";

/// What somebody says of work that is handed over, beside what its task has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DraftWords {
    /// What is still to be done.
    pub remaining: Vec<String>,
    /// What must be true of the result; a sentence that fits any work, if nobody says.
    pub checklist: Vec<String>,
}

/// A handoff of a task to that agent, not signed: what its messages ask for, what its agent said and made so far, the label of all
/// that, and the handoff by which the work came.
pub(super) fn draft(
    record: &Record,
    id: HandoffId,
    (sender, recipient): (AgentId, AgentId),
    previous: Option<Digest>,
    words: &DraftWords,
    now_ms: u64,
) -> Handoff {
    let task = &record.task;
    let mut handoff = Handoff::new(id, task.id.clone(), (sender, recipient), now_ms, now_ms.saturating_add(LIFE_MS));
    let history = task.history.as_deref().unwrap_or_default();
    let goal: Vec<&str> = history.iter().filter(|said| said.role == Role::User).flat_map(texts).collect();
    handoff.context.task_description = cut(goal.join("\n\n"), HANDOFF_DESCRIPTION_BYTES_MAX);
    let said = history.iter().chain(&task.status.message).filter(|said| said.role == Role::Agent);
    handoff.context.agent_memory.key_decisions = last(said.flat_map(texts));
    handoff.context.agent_memory.pending_items = last(words.remaining.iter().map(String::as_str));
    handoff.quality_checklist = last(words.checklist.iter().map(String::as_str));
    if handoff.quality_checklist.is_empty() {
        handoff.quality_checklist.push(DONE.to_owned());
    }
    let artifacts = task.artifacts.as_deref().unwrap_or_default();
    handoff.artifacts = artifacts.iter().take(HANDOFF_ITEMS_MAX).map(named).collect();
    let state = serde_json::to_vec(artifacts).ok();
    let fits = |state: &Vec<u8>| !artifacts.is_empty() && state.len() <= HANDOFF_SNAPSHOT_BYTES_MAX;
    handoff.context.state_snapshot = state.filter(fits);
    handoff.label = record.label;
    handoff.previous = previous;
    let classified = record.label.map(|label| label.level).filter(|level| *level >= DataLabel::Confidential);
    handoff.regulation = classified.map(|classification| Regulation {
        classification,
        region: None,
        regulation_refs: Vec::new(),
        audit: Vec::new(),
        sign_offs: Vec::new(),
    });
    handoff
}

fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(Part::as_text).filter(|text| !text.trim().is_empty())
}

/// The last of these texts that a list holds, each no longer than one may be.
fn last<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
    let kept = all.iter().skip(all.len().saturating_sub(HANDOFF_ITEMS_MAX));
    kept.map(|text| cut((*text).to_owned(), HANDOFF_TEXT_BYTES_MAX)).collect()
}

fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

/// An artifact by the digest of its bytes: of the one part that it has, or of all of them as JSON.
fn named(artifact: &Artifact) -> HandoffArtifact {
    let (kind, bytes) = match artifact.parts.as_slice() {
        [Part { content: PartContent::Text(text), media_type, .. }] => {
            (media_type.clone().unwrap_or_else(|| "text/plain".to_owned()), text.clone().into_bytes())
        }
        [Part { content: PartContent::Raw(raw), media_type, .. }] => {
            (media_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned()), raw.clone())
        }
        [Part { content: PartContent::Data(data), media_type, .. }] => {
            (media_type.clone().unwrap_or_else(|| "application/json".to_owned()), data.to_string().into_bytes())
        }
        parts => (PARTS.to_owned(), serde_json::to_vec(parts).unwrap_or_default()),
    };
    let name = artifact.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| artifact.artifact_id.clone());
    let name = if name.is_empty() { "artifact".to_owned() } else { name };
    let kind = if kind.is_empty() { PARTS.to_owned() } else { kind };
    HandoffArtifact {
        name: cut(name, WORK_NAME_BYTES_MAX),
        media_type: cut(kind, WORK_NAME_BYTES_MAX),
        size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        digest: digest(&bytes),
    }
}

#[cfg(test)]
mod tests {
    use a2a::TaskState;
    use althing_protocol::object::Statement as _;
    use althing_protocol::{CallerId, Label, PublisherId};
    use chrono::DateTime;

    use super::*;
    use crate::machine::record::Scope;
    use crate::machine::task;

    const ID: HandoffId = [0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0xaa];

    fn agents() -> (AgentId, AgentId) {
        let agent = |name: &str| AgentId::new(PublisherId::from_digest([1; 32]), name).expect("a name");
        (agent("clerk"), agent("auditor"))
    }

    fn record(asked: &str, label: Option<Label>) -> Record {
        let now = DateTime::from_timestamp_millis(1_700_000_000_000).expect("a time");
        let message = Message::new(Role::User, vec![Part::text(asked)]);
        let mut task = task::submitted("t-1".to_owned(), "c".to_owned(), message, now);
        let said = Message::new(Role::Agent, vec![Part::text("Sorted by name.")]);
        task::set_status(&mut task, TaskState::InputRequired, Some(said), now);
        let made = Artifact {
            artifact_id: "index".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text("page 7")],
            metadata: None,
            extensions: None,
        };
        task.artifacts = Some(vec![made]);
        let scope = Scope::of(CallerId::Publisher(PublisherId::from_digest([1; 32])));
        Record { label, ..Record::new(task, "clerk", scope) }
    }

    #[test]
    fn the_handoff_of_a_task_has_what_the_task_has() {
        let words = DraftWords { remaining: vec!["Pages 8 to 12.".to_owned()], ..DraftWords::default() };
        let label = Some(Label { level: DataLabel::Confidential, trusted: true });
        let record = record("Make an index.", label);
        let handoff = draft(&record, ID, agents(), Some([7; 32]), &words, 1_700_000_000_000);
        assert_eq!(handoff.check(), Ok(()));
        assert_eq!((handoff.task_id.as_str(), &handoff.recipient), ("t-1", &agents().1));
        let context = &handoff.context;
        assert_eq!(context.task_description, "Make an index.");
        assert_eq!(context.agent_memory.key_decisions, ["Sorted by name."]);
        assert_eq!(context.agent_memory.pending_items, ["Pages 8 to 12."]);
        assert_eq!(handoff.quality_checklist, [DONE]);
        let made = &handoff.artifacts[0];
        assert_eq!((made.name.as_str(), made.media_type.as_str(), made.size), ("index", "text/plain", 6));
        assert_eq!(made.digest, digest(b"page 7"));
        let state = String::from_utf8(context.state_snapshot.clone().expect("what was made")).expect("JSON");
        assert!(state.contains("page 7"), "{state}");
        assert_eq!((handoff.label, handoff.previous), (label, Some([7; 32])));
        assert_eq!(handoff.missing(), ["audit", "region", "regulation_refs"], "a person says that");
    }

    #[test]
    fn what_is_too_long_is_cut_and_the_last_words_are_kept() {
        let words = DraftWords {
            remaining: (0..80).map(|number| format!("item {number}")).collect(),
            checklist: vec!["ü".repeat(HANDOFF_TEXT_BYTES_MAX)],
        };
        let record = record(&"ü".repeat(HANDOFF_DESCRIPTION_BYTES_MAX), None);
        let handoff = draft(&record, ID, agents(), None, &words, 1_700_000_000_000);
        assert_eq!(handoff.check(), Ok(()));
        assert_eq!(handoff.context.task_description.len(), HANDOFF_DESCRIPTION_BYTES_MAX);
        assert_eq!(handoff.context.agent_memory.pending_items.last().map(String::as_str), Some("item 79"));
        assert_eq!(handoff.context.agent_memory.pending_items.len(), HANDOFF_ITEMS_MAX);
        assert_eq!((handoff.missing(), &handoff.regulation), (Vec::new(), &None));
    }
}
