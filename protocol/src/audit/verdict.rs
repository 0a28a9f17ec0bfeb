//! What gates said of a turn, as a leaf of an audit log has it: names and words, and nothing of the answer.

use minicbor::{Decode, Encode};

/// The word of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum AuditWord {
    /// It let an answer, or a call, pass.
    #[n(0)]
    Passed,
    /// It refused one, or could not judge it.
    #[n(1)]
    Refused,
    /// It found that the turn may have failed in silence, and held nothing back.
    #[n(2)]
    Finding,
}

impl AuditWord {
    /// Its word, which does not change.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AuditWord::Passed => "passed",
            AuditWord::Refused => "refused",
            AuditWord::Finding => "finding",
        }
    }
}

/// What one gate said in a turn. Ordered by the gate, then by the word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(map)]
pub struct AuditVerdict {
    /// The gate as the contract names it (`schema`, `server/tool`, `agents/NAME`), or the name of the finding: 1 to 256 bytes.
    #[n(0)]
    pub gate: String,
    /// What it said.
    #[n(1)]
    pub word: AuditWord,
}
