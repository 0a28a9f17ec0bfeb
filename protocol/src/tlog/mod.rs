//! Transparency logs: what is verified of an append-only log that somebody else keeps (RFC 6962, and C2SP's signed-note,
//! tlog-checkpoint, tlog-cosignature, tlog-proof and tlog-witness).
//!
//! The key of a log and that of a witness sign text of these formats only: their first lines differ from each other, and no
//! COSE structure and no JWS begins like them.

mod checkpoint;
mod note;
mod proof;
mod tree;
mod witness;

pub use checkpoint::{Checkpoint, CheckpointError, Cosignature};
pub use note::{Note, NoteError, NoteKey, NoteKeyError, NoteKeyKind, Signature};
pub use proof::{LogProof, LogProofError};
pub use tree::{HASHES_MAX, Head, SIZE_MAX, Span, TreeError, consistency_spans, inclusion_spans, leaf_hash, node_hash};
pub use witness::{AddCheckpoint, NoAddCheckpoint, WitnessRefusal, add_cosignatures};
