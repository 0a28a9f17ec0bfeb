//! A case, as it is known here.

use serde_json::{Map, Value};

use super::expectation::Expectation;

/// Bytes of a file of cases.
pub const CASES_BYTES_MAX: usize = 64 << 20;
/// Cases of a file.
pub const CASES_MAX: usize = 10_000;
/// Bytes of the line of a case.
pub const CASE_BYTES_MAX: usize = 1 << 20;
/// Messages that the agent is sent one after the other in one case.
pub const MESSAGES_MAX: usize = 64;
/// Answers of which any is right.
pub const TARGETS_MAX: usize = 64;
/// Bytes of a case's id.
pub const ID_BYTES_MAX: usize = 256;

pub(super) const BYTE_ORDER_MARK: &str = "\u{FEFF}";

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its name in its file: the number of its line, where it has no `id`.
    pub id: String,
    /// What the agent is sent, one message after the other, in one conversation. The last answer is judged.
    pub messages: Vec<String>,
    /// Answers of which any is right; none where the text of the answer is not judged.
    pub targets: Vec<String>,
    /// What else is right.
    pub expectation: Expectation,
    /// Its line in the file.
    pub(super) text: String,
}

impl Case {
    /// Whether nothing says what is right: only whether there is an answer can be told.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.targets.is_empty() && self.expectation.is_empty()
    }

    /// What its `metadata` says under a key; none if it says nothing.
    pub(super) fn metadata(&self, key: &str) -> Option<Value> {
        let text = self.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.text);
        let mut record: Map<String, Value> = serde_json::from_str(text).ok()?;
        let mut metadata = record.remove("metadata")?;
        // Inspect takes it as a text as well.
        if let Value::String(text) = &metadata {
            metadata = serde_json::from_str(text).ok()?;
        }
        let said = metadata.get_mut(key)?.take();
        (!said.is_null()).then_some(said)
    }
}

/// The beginning of a text, for messages, without what nobody sees.
pub(crate) fn excerpt(text: &str) -> String {
    const CHARS: usize = 60;
    let mut shown: String = althing_protocol::visible(text).filter(|c| !c.is_control()).take(CHARS).collect();
    if text.chars().nth(CHARS).is_some() {
        shown.push('…');
    }
    shown
}
