//! What is operated of governance: what the owner and other people are shown of it, whatever layer it is from; people are told that
//! questions wait, agents are stopped on all of the owner's nodes, and policy sets go from one of these to the others.

mod delivery;
mod handing_over;
mod messenger;
mod pending;
mod rights;
mod stopping;
mod waiting;
mod witnesses;

pub use althing_governance::audit::{AuditFault, AuditFilter, AuditRecord, EraseOrder, PruneOrder, RecordBody};
pub use althing_governance::machine::consent::{ConsentError, StandingYes, Template, escaped};
pub use althing_governance::machine::delivery::DeliveryTrouble;
pub use althing_governance::machine::key::{KeyError, PersonSignature};
pub use althing_governance::machine::people::{People, Person};
pub use althing_governance::machine::pruning::{PruneRefusal, signers};
pub use althing_governance::trials::{
    Explanation, Finding, NO_PERMIT, Outcome, TrialError, Verdict, demand_words, explain_policy, near_name, test_policy,
};
pub use althing_governance::{
    Actor, Answer, AnswerError, AskState, CallReview, ChangeError, DecisionRecord, EraseError, LabelOutlook, PastCall,
    PastTurn, PendingAsk, PersonErasure, PolicyDiff, PolicyStatus, ReviewFinding, SignedAnswer, StandingTerms,
    Turnabout, Want, asked_besides, erase_person, explain_labels, review_calls, tool_labels, unload_policy,
};
pub use delivery::{DELIVERIES, Delivery, Questions};
pub use handing_over::record_handoff;
pub use messenger::{DeliveryError, Messenger};
pub use pending::{PendingGap, PendingRelease, PendingStep, PendingWork, pending};
pub use rights::{ActionRight, rights};
pub use stopping::{StopReport, StopTarget, stop};
pub use waiting::WaitingQuestions;
pub use witnesses::{ASKED_EVERY, AuditWitnesses, WitnessState};
