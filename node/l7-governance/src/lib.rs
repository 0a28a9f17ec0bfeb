//! L7: what a person is asked before it is done, how far data may go, and what an auditor can check afterwards.
//!
//! **Inputs**: the files that an owner writes (policies, people), the calls of agents with their arguments and labels, answers
//! of people, the time and randomness. **Outputs**: permits, questions and denials with their reasons, rows for the store,
//! an audit log.
//!
//! **Invariants**: a yes is used once, and for what was asked; the label of a turn never falls; what cannot be decided is
//! denied; a set of policies is swapped whole or stays; no effect without its entry in the log.
//!
//! **Never knows**: sockets, how people and witnesses are reached, what a policy is written in (the leaf `althing-policy` does), who
//! calls the gate. In `machine` there are no clocks and no disks either.

mod act;
mod actor;
mod admission;
mod answers;
pub mod audit;
mod config;
mod consent_book;
mod consents;
mod consultation;
mod decide;
mod decisions;
mod definitions;
mod desk;
mod erasure;
mod error;
mod files;
mod gate;
mod gates;
mod governance;
mod grants;
mod leaves;
pub mod machine;
mod message;
mod outlook;
mod pending;
mod policies;
mod policy_row;
pub mod records;
mod refusals;
mod reviews;
mod revision;
mod roster;
mod stopping;
mod stops;
mod sweep;
mod tool_changes;
mod toolset;
pub mod trials;
mod turn_notes;

pub use act::{Act, AddedAgent};
pub use actor::{Actor, Answer, SignedAnswer, StandingTerms};
pub use admission::{PolicyRefusal, admit};
pub use answers::AskState;
pub use config::{ASK_LIFE_MS, FAMILIES, Ports};
pub use decisions::{DECISIONS_MAX, DecisionRecord, NewestDecisions, PolicyDiff, Turnabout};
pub use erasure::{PersonErasure, erase_person};
pub use error::{AnswerError, ChangeError, EraseError, OpenError, RecordError};
pub use gates::{Gates, admit_by, ask_grants};
pub use governance::{Governance, unload_policy};
pub use leaves::OwnerChange;
pub use machine::node_profile::NodeProfile;
pub use outlook::{LabelOutlook, LabelTally, explain_labels, tally_labels, tool_labels};
pub use pending::{PendingAsk, Want, asked_besides};
pub use policies::{PolicyStatus, is_policy_denial};
pub use reviews::{CallReview, PastCall, PastTurn, ReviewFinding, review_calls};
pub use stopping::{end_questions_of, stopped_questions};
pub use stops::{StopLookup, Stops};
pub use toolset::Profiles;

#[cfg(test)]
mod tests;
