//! What a node says to a handoff that one of its agents was offered.

use minicbor::{Decode, Encode};

use super::{Kind, ObjectError, Statement};
use crate::Digest;
use crate::identity::AgentId;
use crate::limits::{HANDOFF_TEXT_BYTES_MAX, TASK_ID_BYTES_MAX};

/// What the node of a recipient signs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HandoffAnswer {
    #[n(0)]
    kind: Kind,
    /// The digest of the signed handoff that it answers.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub offer: Digest,
    /// The agent that was offered the work.
    #[n(2)]
    pub recipient: AgentId,
    /// When it was said, Unix milliseconds by that node's clock.
    #[n(3)]
    pub issued_at_ms: u64,
    #[n(4)]
    word: Word,
    #[n(5)]
    task: Option<String>,
    #[n(6)]
    acceptance: Option<u64>,
    #[n(7)]
    until_ms: Option<u64>,
    #[n(8)]
    wait_ms: Option<u64>,
    #[cbor(n(9), with = "minicbor::bytes")]
    original: Option<[u8; 16]>,
    #[n(10)]
    reason: Option<HandoffReason>,
    #[n(11)]
    message: Option<String>,
}

/// Which answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
enum Word {
    #[n(0)]
    Accepted,
    #[n(1)]
    Queued,
    #[n(2)]
    AlreadyDone,
    #[n(3)]
    Duplicate,
    #[n(4)]
    Rejected,
}

/// What is said to a handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandoffVerdict {
    /// There is room for the work, and it begins when it is committed.
    Accepted {
        /// The task that it becomes, 1 to 256 bytes.
        task: String,
        /// Which acceptance it is, from 1; a commit names it.
        acceptance: u64,
        /// Until when there is room, Unix milliseconds.
        until_ms: u64,
    },
    /// There is no room now: the sender keeps the work, and offers it again.
    Queued {
        /// After about so many milliseconds.
        wait_ms: u64,
    },
    /// That work has its result.
    AlreadyDone {
        /// The task that has it, 1 to 256 bytes.
        task: String,
    },
    /// The recipient has that work by another handoff.
    Duplicate {
        /// Its id.
        original: [u8; 16],
    },
    /// The work is not taken.
    Rejected {
        /// Why.
        reason: HandoffReason,
        /// The same for people, 1 to 4,096 bytes.
        message: String,
    },
}

/// Why work is not taken, or does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum HandoffReason {
    /// The agent has not all tools that it needs.
    #[n(0)]
    MissingTools,
    /// It is more than the agent's model can read.
    #[n(1)]
    ContextOverflow,
    /// It is for another agent, or for one that takes no work of others.
    #[n(2)]
    NotCapable,
    /// It cannot be done in time, or the handoff is over.
    #[n(3)]
    Deadline,
    /// There is no room, and none in sight.
    #[n(4)]
    Busy,
    /// Its data may not come there.
    #[n(5)]
    Label,
    /// Nobody who may has signed it off.
    #[n(6)]
    SignOffMissing,
    /// A signature is not valid, or not of whoever must have signed.
    #[n(7)]
    BadSignature,
    /// Something is not there.
    #[n(8)]
    Incomplete,
    /// Another document had this id.
    #[n(9)]
    Conflict,
    /// To a commit: nothing was accepted in this form.
    #[n(10)]
    NotAccepted,
    /// To a commit: it was accepted, and is no more.
    #[n(11)]
    TooLate,
}

impl HandoffReason {
    /// All of them, in the order of their numbers.
    pub const ALL: [HandoffReason; 12] = [
        HandoffReason::MissingTools,
        HandoffReason::ContextOverflow,
        HandoffReason::NotCapable,
        HandoffReason::Deadline,
        HandoffReason::Busy,
        HandoffReason::Label,
        HandoffReason::SignOffMissing,
        HandoffReason::BadSignature,
        HandoffReason::Incomplete,
        HandoffReason::Conflict,
        HandoffReason::NotAccepted,
        HandoffReason::TooLate,
    ];

    /// Its word, which does not change.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            HandoffReason::MissingTools => "missing_tools",
            HandoffReason::ContextOverflow => "context_overflow",
            HandoffReason::NotCapable => "not_capable",
            HandoffReason::Deadline => "deadline",
            HandoffReason::Busy => "busy",
            HandoffReason::Label => "label",
            HandoffReason::SignOffMissing => "sign_off_missing",
            HandoffReason::BadSignature => "bad_signature",
            HandoffReason::Incomplete => "incomplete",
            HandoffReason::Conflict => "conflict",
            HandoffReason::NotAccepted => "not_accepted",
            HandoffReason::TooLate => "too_late",
        }
    }
}

impl HandoffVerdict {
    /// Its word, which does not change.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            HandoffVerdict::Accepted { .. } => "accepted",
            HandoffVerdict::Queued { .. } => "queued",
            HandoffVerdict::AlreadyDone { .. } => "already_done",
            HandoffVerdict::Duplicate { .. } => "duplicate",
            HandoffVerdict::Rejected { .. } => "rejected",
        }
    }
}

impl HandoffAnswer {
    /// An answer to be signed by the node that hosts `recipient`. A message that is too long is cut.
    #[must_use]
    pub fn new(offer: Digest, recipient: AgentId, issued_at_ms: u64, verdict: HandoffVerdict) -> HandoffAnswer {
        let mut answer = HandoffAnswer {
            kind: Kind::HandoffAnswer,
            offer,
            recipient,
            issued_at_ms,
            word: Word::Rejected,
            task: None,
            acceptance: None,
            until_ms: None,
            wait_ms: None,
            original: None,
            reason: None,
            message: None,
        };
        match verdict {
            HandoffVerdict::Accepted { task, acceptance, until_ms } => {
                answer.word = Word::Accepted;
                (answer.task, answer.acceptance, answer.until_ms) = (Some(task), Some(acceptance), Some(until_ms));
            }
            HandoffVerdict::Queued { wait_ms } => (answer.word, answer.wait_ms) = (Word::Queued, Some(wait_ms)),
            HandoffVerdict::AlreadyDone { task } => (answer.word, answer.task) = (Word::AlreadyDone, Some(task)),
            HandoffVerdict::Duplicate { original } => {
                (answer.word, answer.original) = (Word::Duplicate, Some(original));
            }
            HandoffVerdict::Rejected { reason, mut message } => {
                message.truncate(message.floor_char_boundary(HANDOFF_TEXT_BYTES_MAX));
                (answer.reason, answer.message) = (Some(reason), Some(message));
            }
        }
        answer
    }

    /// What it says; none of one whose members do not fit together, which no reader accepts.
    #[must_use]
    pub fn verdict(&self) -> Option<HandoffVerdict> {
        let verdict = match self.word {
            Word::Accepted => HandoffVerdict::Accepted {
                task: self.task.clone()?,
                acceptance: self.acceptance?,
                until_ms: self.until_ms?,
            },
            Word::Queued => HandoffVerdict::Queued { wait_ms: self.wait_ms? },
            Word::AlreadyDone => HandoffVerdict::AlreadyDone { task: self.task.clone()? },
            Word::Duplicate => HandoffVerdict::Duplicate { original: self.original? },
            Word::Rejected => HandoffVerdict::Rejected { reason: self.reason?, message: self.message.clone()? },
        };
        let alone = HandoffAnswer::new(self.offer, self.recipient.clone(), self.issued_at_ms, verdict.clone());
        (alone == *self).then_some(verdict)
    }
}

impl Statement for HandoffAnswer {
    const KIND: Kind = Kind::HandoffAnswer;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        let shape = |what: &str| Err(ObjectError::Shape(what.to_owned()));
        if self.verdict().is_none() {
            return shape("an answer to a handoff has the members of what it says, and no other ones");
        }
        if self.task.as_ref().is_some_and(|task| !(1..=TASK_ID_BYTES_MAX).contains(&task.len())) {
            return shape("the task in an answer to a handoff has no id, or one that is too long");
        }
        if self.acceptance == Some(0) {
            return shape("the first acceptance of a handoff has the number 1, and none has 0");
        }
        if self.message.as_ref().is_some_and(String::is_empty) {
            return shape("an answer that rejects a handoff says why");
        }
        Ok(())
    }
}
