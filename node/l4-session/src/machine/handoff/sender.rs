//! The end that gives work away.

use std::collections::BTreeSet;

use althing_protocol::object::{ApprovalError, Authored, Handoff, HandoffReason, HandoffVerdict};
use althing_protocol::{Digest, Label, ObjectError, PublicKey};

use super::{CommitError, HandoffId, RETRY_FIRST_MS, RETRY_MAX_MS};

/// How often a wait is doubled: more than [`RETRY_MAX_MS`] needs.
const DOUBLINGS_MAX: u32 = 16;

/// Why work is not even offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Something is not there.
    #[error("the handoff is not complete: {} is missing", .0.join(", "))]
    Incomplete(Vec<&'static str>),
    /// It is over, or not valid yet.
    #[error("the handoff cannot be offered: {0}")]
    NotInForce(ObjectError),
    /// Nobody agreed who may, or a sign-off is none.
    #[error("the handoff cannot be offered: {0}")]
    NotApproved(ApprovalError),
}

/// What the shell does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send the offer.
    Offer,
    /// Write down that the work is given away, synced, and say so by [`Sender::written`].
    Write,
    /// Ask the recipient to begin what it accepted.
    Commit {
        /// By which acceptance.
        acceptance: u64,
    },
    /// Nothing before then, Unix milliseconds.
    Wait {
        /// Call [`Sender::tick`] then.
        until_ms: u64,
    },
    /// Write down how it ended; the work is where that says.
    End(End),
}

/// How a handoff ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The recipient has the work, as this task: the sender's task ends with its result.
    Given {
        /// The recipient's task.
        task: String,
    },
    /// The recipient has it by another handoff.
    Duplicate {
        /// By that one.
        original: HandoffId,
    },
    /// The sender has the work, and goes on with it.
    Kept(Refusal),
    /// The sender has given the work away, and the recipient does not remember it: it may have begun, or not. A person decides.
    InDoubt {
        /// The task that the work became, if it began.
        task: String,
    },
}

/// Why the sender still has its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The recipient said so.
    Rejected {
        /// Why.
        reason: HandoffReason,
        /// The same for people, in its words.
        message: String,
    },
    /// It did not answer while the handoff was in force.
    NoAnswer,
}

/// How far the sender is; a row of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// It has the work, and has offered it so often.
    Offering {
        /// Offers without an answer since the last one.
        tries: u32,
    },
    /// It was accepted, and that the work is given away is not written yet.
    Accepted {
        /// The recipient's task.
        task: String,
        /// By which acceptance.
        acceptance: u64,
    },
    /// It has given the work away, and does not know that the recipient has begun.
    Committing {
        /// The recipient's task.
        task: String,
        /// By which acceptance.
        acceptance: u64,
        /// Commits without an answer so far.
        tries: u32,
    },
    /// It has given the work away, the recipient has not begun, and is offered it again: see [`Sender::commit_answer`].
    Renewing {
        /// Offers without an answer so far.
        tries: u32,
    },
    /// It is over.
    Ended(End),
}

/// One handoff, as who gives the work away sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Of the signed bytes, which a commit names.
    pub digest: Digest,
    not_after_ms: u64,
    stage: Stage,
}

impl Sender {
    /// Checks what is to be offered. What this refuses, a recipient would refuse too; it does not leave the node.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn new(
        handoff: &Authored<Handoff>,
        label: Option<Label>,
        signers: &BTreeSet<PublicKey>,
        now_ms: u64,
    ) -> Result<Sender, SendError> {
        let missing = handoff.body.missing();
        if !missing.is_empty() {
            return Err(SendError::Incomplete(missing));
        }
        handoff.body.in_force(now_ms).map_err(SendError::NotInForce)?;
        handoff.body.check_approval(label, signers, now_ms).map_err(SendError::NotApproved)?;
        Ok(Sender::at(handoff, Stage::Offering { tries: 0 }))
    }

    /// As it was written down, after the node has started again.
    #[must_use]
    pub fn at(handoff: &Authored<Handoff>, stage: Stage) -> Sender {
        Sender { digest: handoff.digest(), not_after_ms: handoff.body.not_after_ms, stage }
    }

    /// How far it is.
    #[must_use]
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Whether the sender may still do the work itself.
    #[must_use]
    pub fn has_the_work(&self) -> bool {
        matches!(self.stage, Stage::Offering { .. } | Stage::Accepted { .. } | Stage::Ended(End::Kept(_)))
    }

    /// What is to be done now: at the start, after a restart, and when a wait is over.
    pub fn tick(&mut self, now_ms: u64) -> Action {
        let is_over = now_ms > self.not_after_ms;
        match &self.stage {
            // Whatever was accepted, nothing begins without a commit.
            Stage::Offering { .. } | Stage::Renewing { .. } if is_over => self.over(End::Kept(Refusal::NoAnswer)),
            Stage::Offering { .. } | Stage::Renewing { .. } => Action::Offer,
            Stage::Accepted { .. } => Action::Write,
            // The recipient may have begun: only its answer tells.
            Stage::Committing { acceptance, .. } => Action::Commit { acceptance: *acceptance },
            Stage::Ended(end) => Action::End(end.clone()),
        }
    }

    /// An offer or a commit is sent: when the next one is, if no answer comes.
    pub fn sent(&mut self, now_ms: u64) -> Action {
        let tries = match &mut self.stage {
            Stage::Offering { tries } | Stage::Committing { tries, .. } | Stage::Renewing { tries } => tries,
            Stage::Accepted { .. } | Stage::Ended(_) => return self.tick(now_ms),
        };
        let wait_ms = (RETRY_FIRST_MS << (*tries).min(DOUBLINGS_MAX)).min(RETRY_MAX_MS);
        *tries = tries.saturating_add(1);
        Action::Wait { until_ms: now_ms.saturating_add(wait_ms) }
    }

    /// What the recipient answered to an offer. An answer to another stage says nothing any more.
    pub fn answer(&mut self, answer: impl Into<HandoffVerdict>, now_ms: u64) -> Action {
        let renews = matches!(self.stage, Stage::Renewing { .. });
        if !renews && !matches!(self.stage, Stage::Offering { .. }) {
            return self.tick(now_ms);
        }
        match answer.into() {
            HandoffVerdict::Accepted { task, acceptance, .. } if renews => {
                self.stage = Stage::Committing { task, acceptance, tries: 0 };
                self.tick(now_ms)
            }
            HandoffVerdict::Accepted { task, acceptance, .. } => {
                self.stage = Stage::Accepted { task, acceptance };
                Action::Write
            }
            HandoffVerdict::Queued { wait_ms } => {
                Action::Wait { until_ms: now_ms.saturating_add(wait_ms.max(RETRY_FIRST_MS)) }
            }
            HandoffVerdict::AlreadyDone { task } => self.over(End::Given { task }),
            HandoffVerdict::Duplicate { original } => self.over(End::Duplicate { original }),
            HandoffVerdict::Rejected { reason, message } => self.over(End::Kept(Refusal::Rejected { reason, message })),
        }
    }

    /// It is on disk that the work is given away.
    pub fn written(&mut self, now_ms: u64) -> Action {
        if let Stage::Accepted { task, acceptance } = &self.stage {
            self.stage = Stage::Committing { task: task.clone(), acceptance: *acceptance, tries: 0 };
        }
        self.tick(now_ms)
    }

    /// What the recipient answered to the commit of that acceptance. If it refuses while the handoff is in force, it has not begun
    /// and never will by that acceptance: the work is offered again, and goes back if it is not taken. Later it may have done the
    /// work and forgotten it.
    pub fn commit_answer(&mut self, acceptance: u64, answer: Result<String, CommitError>, now_ms: u64) -> Action {
        let Stage::Committing { task, acceptance: of, .. } = &self.stage else { return self.tick(now_ms) };
        if *of != acceptance {
            return self.tick(now_ms);
        }
        match answer {
            Ok(task) => self.over(End::Given { task }),
            Err(CommitError::NotAccepted) if now_ms > self.not_after_ms => {
                let task = task.clone();
                self.over(End::InDoubt { task })
            }
            Err(_) => {
                self.stage = Stage::Renewing { tries: 0 };
                self.tick(now_ms)
            }
        }
    }

    fn over(&mut self, end: End) -> Action {
        self.stage = Stage::Ended(end.clone());
        Action::End(end)
    }
}
