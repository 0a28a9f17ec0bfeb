//! What an owner's audit log holds, and what people are asked before something is done.

mod ask;
mod body;
mod export;
mod leaf;
mod verdict;

pub use ask::{AnswerWord, Ask, CallTerms, NAMESPACE, answer_text, prune_text};
pub use body::{BodyCommitment, BodyRole, BodySalt, commitment};
pub use export::{AuditEvidence, AuditExport, AuditExportError, OpenBody, verify_offline};
pub use leaf::{AuditError, AuditLeaf, AuditOutcome, AuditStage};
pub use verdict::{AuditVerdict, AuditWord};
