//! The audit log of an owner's node: what happened, who allowed it, and what came of it, so that a stranger can check it.
//!
//! **In**: drafts of leaves. **Out**: rows for the batch of whatever a leaf is about; records, proofs, exported leaves.
//!
//! A leaf is first a row of a queue, in the batch of its cause: it is on disk with that, at the price of no sync. A sequencer
//! moves such rows into the log, many at once, and signs its head.
//!
//! Invariants
//! - What is on disk with its cause gets into the log, once, whenever the node stops, and also where the cause is written twice.
//! - The hash of a leaf is never taken away. Its bodies are, by their subject or their age, and the leaf proves as before.
//! - What cannot be recorded is refused before it is done.
//!
//! **Never knows**: what policies say, who may ask for what, how witnesses are reached.

mod bodies;
mod checkpoints;
mod draft;
mod drafts;
mod error;
mod families;
mod keys;
mod ledger;
mod ledgers;
mod log;
mod pages;
mod ports;
mod purge;
mod record;
mod rows;
mod sequencer;
mod share;
mod witness;

pub use althing_protocol::audit::{AuditEvidence, AuditExport, AuditExportError, OpenBody, verify_offline};
pub use draft::{DraftBody, LeafDraft};
pub use error::{AuditFault, AuditUnavailable};
pub use families::FAMILIES;
pub use ledger::SignCheckpoint;
pub use log::{AuditConfig, AuditLog};
pub use ports::AuditPorts;
pub use purge::{EraseOrder, PruneOrder};
pub use record::{AuditFilter, AuditPage, AuditRecord, RecordBody};
pub use rows::LeafId;
pub use share::AuditUsage;
pub use witness::{AskWitness, WitnessAnswer, WitnessFault};

#[cfg(test)]
mod tests;
