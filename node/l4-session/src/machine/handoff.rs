//! Handoffs (SPEC P-206 to P-208): what a recipient answers to an offer, and what a sender does with the answer.
//!
//! Work has one owner. The sender has it until it has written down that it is given away; then it asks the recipient to begin
//! (*commit*), and the recipient begins only what it has accepted and still holds room for. Each acceptance has a number, and a
//! commit names it: a commit that was late on its way begins nothing that was accepted anew since. So whoever takes the work back,
//! because the recipient has said that it will not begin, is never the second one to do it.
//!
//! Neither end reads a clock, signs or sends: the shell does, and writes an entry down before it says what it is told to.

mod kept;
mod recipient;
mod sender;
#[cfg(test)]
mod tests;

use althing_protocol::contract::DataLabel;
use althing_protocol::object::{HandoffReason, HandoffVerdict};

pub use kept::{KEPT_BYTES_MAX, KEPT_MAX, KeptHandoff, KeptHandoffs};
pub use recipient::{Acquaintance, Commit, CommitError, Entry, Phase, Recipient, Room, Terms, signed_by};
pub use sender::{Action, End, Refusal, SendError, Sender, Stage};

/// How long a recipient holds room for what it accepted, milliseconds.
pub const COMMIT_WITHIN_MS: u64 = 60_000;
/// Handoffs that a recipient remembers: 4,096 entries of about 1 KiB.
pub const HANDOFFS_MAX: usize = 4_096;
/// Those of them of one sending agent.
pub const HANDOFFS_OF_SENDER_MAX: usize = 256;
/// Those of all agents of one publisher that is not the recipient's own.
pub const HANDOFFS_OF_PUBLISHER_MAX: usize = 512;
/// Those of all other publishers: the rest is kept for agents of the recipient's own.
pub const HANDOFFS_OF_OTHERS_MAX: usize = 3_072;
/// Those of strangers among these: the rest is kept for whom the node knows.
pub const HANDOFFS_OF_STRANGERS_MAX: usize = 1_536;
/// Those of all strangers of one origin, whatever publishers they are: keys are free, and addresses are not.
pub const HANDOFFS_OF_ORIGIN_MAX: usize = 512;
/// How long a sender waits for the answer to its first offer, milliseconds; then twice as long each time.
pub const RETRY_FIRST_MS: u64 = 1_000;
/// The longest that it waits.
pub const RETRY_MAX_MS: u64 = 30_000;

/// A UUID of version 7, the same in each offer of one handoff.
pub type HandoffId = [u8; 16];

/// What a recipient says to an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It holds room for the work, and begins it when it is told to.
    Accepted {
        /// The task that the work becomes: the same one each time that it is accepted.
        task: String,
        /// Which acceptance it is, from 1; a commit names it.
        acceptance: u64,
        /// Until when it holds room, Unix milliseconds by its own clock.
        until_ms: u64,
    },
    /// It has no room now: the sender keeps the work, and offers it again.
    Queued {
        /// After about so many milliseconds.
        wait_ms: u64,
    },
    /// It has done that work.
    AlreadyDone {
        /// The task that has the result.
        task: String,
    },
    /// It has that work by another handoff.
    Duplicate {
        /// The one by which it has it.
        original: HandoffId,
    },
    /// It does not take the work.
    Rejected(Rejection),
}

/// Why a recipient does not take work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The agent has not all tools that the work needs.
    #[error("these tools are missing: {}; hand the work to an agent that has them", .0.join(", "))]
    MissingTools(Vec<String>),
    /// It is more than the agent's model can read.
    #[error(
        "the handoff has about {tokens} tokens, and at most {most} can be read: name large artifacts by their digests"
    )]
    ContextOverflow {
        /// How long it is, tokens.
        tokens: u64,
        /// How long it may be, tokens.
        most: u64,
    },
    /// It is for another agent, or for one that cannot be called.
    #[error("this agent cannot do that work: look for another one")]
    NotCapable,
    /// It cannot be done in time, or the offer is over.
    #[error("it cannot be done in time: {late_ms} ms are missing; set a later deadline")]
    Deadline {
        /// How much too late it would be, milliseconds.
        late_ms: u64,
    },
    /// There is no room, and none in sight.
    #[error("there is no room for more work: offer it to another agent, or later")]
    Busy,
    /// It may not come here.
    #[error(
        "it is {}, and data may be at most {} here: hand it to an agent that is cleared for it",
        level.name(), most.name()
    )]
    Label {
        /// How the work is labelled.
        level: DataLabel,
        /// What may come here.
        most: DataLabel,
    },
    /// Nobody agreed who may.
    #[error("it is {}, and no sign-off counts here: have somebody sign it who may", level.name())]
    SignOffMissing {
        /// The level that needs one.
        level: DataLabel,
    },
    /// The signature of the handoff, or of a sign-off, is none.
    #[error("a signature is not valid: {0}")]
    BadSignature(String),
    /// Something is not there.
    #[error("it is not complete, or no handoff: {0}")]
    Incomplete(String),
    /// Another document had this id.
    #[error("another handoff was offered with this id: give this one an id of its own")]
    Conflict,
}

impl Rejection {
    /// Its reason, as it is signed.
    #[must_use]
    pub fn reason(&self) -> HandoffReason {
        match self {
            Rejection::MissingTools(_) => HandoffReason::MissingTools,
            Rejection::ContextOverflow { .. } => HandoffReason::ContextOverflow,
            Rejection::NotCapable => HandoffReason::NotCapable,
            Rejection::Deadline { .. } => HandoffReason::Deadline,
            Rejection::Busy => HandoffReason::Busy,
            Rejection::Label { .. } => HandoffReason::Label,
            Rejection::SignOffMissing { .. } => HandoffReason::SignOffMissing,
            Rejection::BadSignature(_) => HandoffReason::BadSignature,
            Rejection::Incomplete(_) => HandoffReason::Incomplete,
            Rejection::Conflict => HandoffReason::Conflict,
        }
    }
}

impl From<Answer> for HandoffVerdict {
    fn from(answer: Answer) -> HandoffVerdict {
        match answer {
            Answer::Accepted { task, acceptance, until_ms } => HandoffVerdict::Accepted { task, acceptance, until_ms },
            Answer::Queued { wait_ms } => HandoffVerdict::Queued { wait_ms },
            Answer::AlreadyDone { task } => HandoffVerdict::AlreadyDone { task },
            Answer::Duplicate { original } => HandoffVerdict::Duplicate { original },
            Answer::Rejected(why) => HandoffVerdict::Rejected { reason: why.reason(), message: why.to_string() },
        }
    }
}
