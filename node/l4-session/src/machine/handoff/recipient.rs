//! The end to which work is offered.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::contract::DataLabel;
use althing_protocol::limits::CLOCK_SKEW_MAX_MS;
use althing_protocol::object::{self, ApprovalError, Authored, Handoff};
use althing_protocol::{AgentId, Digest, Label, ObjectError, PublicKey};

use super::{
    Answer, COMMIT_WITHIN_MS, HANDOFFS_MAX, HANDOFFS_OF_ORIGIN_MAX, HANDOFFS_OF_OTHERS_MAX, HANDOFFS_OF_PUBLISHER_MAX,
    HANDOFFS_OF_SENDER_MAX, HANDOFFS_OF_STRANGERS_MAX, HandoffId, Rejection,
};

/// Bytes of a token, as contracts count.
const TOKEN_BYTES: u64 = 3;

/// What an offer is judged by, when it comes.
#[derive(Debug, Clone)]
pub struct Terms<'a> {
    /// Unix milliseconds.
    pub now_ms: u64,
    /// In which network a signature must be valid.
    pub network: &'a str,
    /// The agent that the offer came to.
    pub agent: &'a AgentId,
    /// The node that must have signed it: the one that the sender's description is granted to.
    pub signer: PublicKey,
    /// How well the node knows who offers it.
    pub acquaintance: Acquaintance,
    /// What the request that carries it says of its data.
    pub label: Option<Label>,
    /// The strictest data that may come here.
    pub clearance: DataLabel,
    /// Tools of the agent, by name.
    pub tools: &'a BTreeSet<String>,
    /// Tokens that its model reads at most; none where no model does.
    pub tokens_max: Option<u64>,
    /// Whether the agent takes work of others at all.
    pub is_capable: bool,
    /// How long such work takes it, milliseconds, where that is known.
    pub duration_ms: u64,
    /// Whether it has room now.
    pub room: Room,
    /// Whose sign-offs count.
    pub signers: &'a BTreeSet<PublicKey>,
}

/// How well a node knows who offers work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acquaintance {
    /// It is of the node's owner, or trusted, or its agents are called from the node.
    Known,
    /// It is a stranger, of the origin with that digest.
    Stranger(Digest),
}

/// Whether there is room for one more work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// There is.
    Free,
    /// In about so many milliseconds.
    After(u64),
    /// Nobody can say when.
    Full,
}

/// What a recipient knows of one handoff; a row of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The digest of the signed bytes.
    pub digest: Digest,
    /// Whose work it was.
    pub sender: AgentId,
    /// How well the node knew who offered it first.
    pub acquaintance: Acquaintance,
    /// As what the sender had it.
    pub sender_task: String,
    /// What it becomes here.
    pub task: String,
    /// Until when it can be offered, Unix milliseconds.
    pub not_after_ms: u64,
    /// How often it was accepted.
    pub acceptances: u64,
    /// How far it is.
    pub phase: Phase,
}

/// How far a handoff is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// There is room for it until then, Unix milliseconds.
    Accepted {
        /// Not one millisecond longer.
        until_ms: u64,
    },
    /// The work has begun.
    Begun,
    /// It has its result.
    Ended,
}

/// What follows a commit that is heeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// The work begins now, as this task, once its entry is written.
    Begin(String),
    /// It had begun before: nothing is to be done.
    Began(String),
}

/// Why a commit is not heeded. The work has not begun by this acceptance, and never will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Nothing was accepted under that id, or not in this form.
    #[error("nothing was accepted under this id: offer the handoff first")]
    NotAccepted,
    /// It was accepted, and is no more.
    #[error("it was accepted for 60 s, and these are over, or it was accepted anew since: offer it again")]
    TooLate,
}

/// All handoffs that one agent was offered and may still be offered again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recipient {
    entries: BTreeMap<HandoffId, Entry>,
}

impl Recipient {
    /// With what was written down before.
    #[must_use]
    pub fn of(entries: BTreeMap<HandoffId, Entry>) -> Recipient {
        Recipient { entries }
    }

    /// What is to be written down of a handoff; none if that is nothing (any more).
    #[must_use]
    pub fn entry(&self, id: &HandoffId) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// The answer to an offer, which is signed and sent after the entry is written. `task` is the id that the work gets, if it is
    /// accepted for the first time.
    pub fn offer(&mut self, bytes: &[u8], task: &str, terms: &Terms<'_>) -> Answer {
        match signed_by(object::open(bytes, terms.network, ""), terms.signer) {
            Ok(offered) => self.offer_opened((&offered, offered.digest()), task, terms),
            Err(why) => Answer::Rejected(why),
        }
    }

    /// The same to an offer that was verified before, by [`signed_by`], with the digest of its bytes.
    pub fn offer_opened(&mut self, offered: (&Authored<Handoff>, Digest), task: &str, terms: &Terms<'_>) -> Answer {
        self.decide(offered, task, terms).unwrap_or_else(Answer::Rejected)
    }

    fn decide(
        &mut self,
        (offered, digest): (&Authored<Handoff>, Digest),
        task: &str,
        terms: &Terms<'_>,
    ) -> Result<Answer, Rejection> {
        let handoff = &offered.body;
        if let Some(known) = self.entries.get(&handoff.handoff_id) {
            if known.digest != digest {
                return Err(Rejection::Conflict);
            }
            let (task, acceptance) = (known.task.clone(), known.acceptances);
            match known.phase {
                Phase::Ended => return Ok(Answer::AlreadyDone { task }),
                // It began by the last acceptance, so that a commit of that is answered.
                Phase::Begun => return Ok(Answer::Accepted { task, acceptance, until_ms: terms.now_ms }),
                Phase::Accepted { until_ms } if terms.now_ms <= until_ms => {
                    return Ok(Answer::Accepted { task, acceptance, until_ms });
                }
                Phase::Accepted { .. } => {}
            }
        }
        // Also where this one was accepted, and that is over: another one may have brought the work since.
        if let Some((original, same)) = self.same_work(handoff, terms.now_ms) {
            return Ok(match same.phase {
                Phase::Ended => Answer::AlreadyDone { task: same.task.clone() },
                _ => Answer::Duplicate { original: *original },
            });
        }
        judge(handoff, offered.bytes.len(), terms)?;
        match terms.room {
            Room::Free => self.accept(handoff, digest, task, terms),
            Room::After(wait_ms) => Ok(Answer::Queued { wait_ms }),
            Room::Full => Err(Rejection::Busy),
        }
    }

    /// The same work of the same agent, by another handoff that holds.
    fn same_work(&self, handoff: &Handoff, now_ms: u64) -> Option<(&HandoffId, &Entry)> {
        self.entries.iter().find(|(_, entry)| {
            let holds = !matches!(entry.phase, Phase::Accepted { until_ms } if until_ms < now_ms);
            holds && entry.sender == handoff.sender.agent && entry.sender_task == handoff.task_id
        })
    }

    fn accept(
        &mut self,
        handoff: &Handoff,
        digest: Digest,
        task: &str,
        terms: &Terms<'_>,
    ) -> Result<Answer, Rejection> {
        let until_ms = terms.now_ms.saturating_add(COMMIT_WITHIN_MS);
        let phase = Phase::Accepted { until_ms };
        if let Some(known) = self.entries.get_mut(&handoff.handoff_id) {
            known.phase = phase;
            known.acceptances += 1;
            return Ok(Answer::Accepted { task: known.task.clone(), acceptance: known.acceptances, until_ms });
        }
        if !self.has_place(&handoff.sender.agent, &handoff.recipient, terms.acquaintance) {
            return Err(Rejection::Busy);
        }
        let entry = Entry {
            digest,
            sender: handoff.sender.agent.clone(),
            acquaintance: terms.acquaintance,
            sender_task: handoff.task_id.clone(),
            task: task.to_owned(),
            not_after_ms: handoff.not_after_ms,
            acceptances: 1,
            phase,
        };
        self.entries.insert(handoff.handoff_id, entry);
        Ok(Answer::Accepted { task: task.to_owned(), acceptance: 1, until_ms })
    }

    /// Whether one more handoff of that agent can be remembered: a publisher has as many agents as it likes, and they share its
    /// part, so that what one publisher offers keeps out nobody else. An origin has as many publishers as it likes, and strangers
    /// of one share its part.
    fn has_place(&self, sender: &AgentId, recipient: &AgentId, acquaintance: Acquaintance) -> bool {
        let count = |is: &dyn Fn(&Entry) -> bool| self.entries.values().filter(|entry| is(entry)).count();
        let (publisher, own) = (sender.publisher(), recipient.publisher());
        let is_own = |entry: &Entry| entry.sender.publisher() == own;
        let is_strange = |entry: &Entry| !is_own(entry) && entry.acquaintance != Acquaintance::Known;
        let has_room = match acquaintance {
            Acquaintance::Known => true,
            Acquaintance::Stranger(_) => {
                count(&is_strange) < HANDOFFS_OF_STRANGERS_MAX
                    && count(&|entry| !is_own(entry) && entry.acquaintance == acquaintance) < HANDOFFS_OF_ORIGIN_MAX
            }
        };
        let is_within = publisher == own
            || has_room
                && count(&|entry| entry.sender.publisher() == publisher) < HANDOFFS_OF_PUBLISHER_MAX
                && count(&|entry| !is_own(entry)) < HANDOFFS_OF_OTHERS_MAX;
        let of_sender = count(&|entry| entry.sender == *sender);
        is_within && self.entries.len() < HANDOFFS_MAX && of_sender < HANDOFFS_OF_SENDER_MAX
    }

    /// The sender has given the work away for good by that acceptance, and asks to begin.
    ///
    /// # Errors
    /// [`CommitError`]: nothing begins.
    pub fn commit(
        &mut self,
        id: &HandoffId,
        digest: &Digest,
        acceptance: u64,
        now_ms: u64,
    ) -> Result<Commit, CommitError> {
        let known = self.entries.get_mut(id).filter(|known| known.digest == *digest).ok_or(CommitError::NotAccepted)?;
        if known.acceptances != acceptance {
            return Err(CommitError::TooLate);
        }
        match known.phase {
            Phase::Begun | Phase::Ended => Ok(Commit::Began(known.task.clone())),
            Phase::Accepted { until_ms } if now_ms <= until_ms => {
                known.phase = Phase::Begun;
                Ok(Commit::Begin(known.task.clone()))
            }
            Phase::Accepted { .. } => Err(CommitError::TooLate),
        }
    }

    /// As it was before a commit, or an offer, that could not be written.
    pub fn put_back(&mut self, id: HandoffId, before: Option<Entry>) {
        match before {
            Some(before) => drop(self.entries.insert(id, before)),
            None => drop(self.entries.remove(&id)),
        }
    }

    /// The handoffs whose work has begun and has no result yet, as far as this knows.
    pub fn at_work(&self) -> impl Iterator<Item = (&HandoffId, &Entry)> {
        self.entries.iter().filter(|(_, entry)| entry.phase == Phase::Begun)
    }

    /// The digest of the handoff by which the work came that is this task.
    #[must_use]
    pub fn digest_of(&self, task: &str) -> Option<Digest> {
        self.entries.values().find(|entry| entry.task == task).map(|entry| entry.digest)
    }

    /// The work that has begun has its result.
    pub fn end(&mut self, id: &HandoffId) {
        if let Some(known) = self.entries.get_mut(id).filter(|known| known.phase == Phase::Begun) {
            known.phase = Phase::Ended;
        }
    }

    /// Forgets what can be offered no more and is not at work. Returns which. What is over is remembered a little longer than
    /// senders' clocks may differ: one that is refused a commit before the end of its handoff then knows that nothing began.
    pub fn forget(&mut self, now_ms: u64) -> Vec<HandoffId> {
        let is_over = |entry: &Entry| {
            let end_ms = if let Phase::Accepted { until_ms } = entry.phase { until_ms } else { 0 };
            entry.phase != Phase::Begun && now_ms > entry.not_after_ms.max(end_ms).saturating_add(2 * CLOCK_SKEW_MAX_MS)
        };
        let over: Vec<HandoffId> = self.entries.iter().filter(|(_, entry)| is_over(entry)).map(|(id, _)| *id).collect();
        for id in &over {
            self.entries.remove(id);
        }
        over
    }
}

/// A handoff as it was opened, if the node signed it that may.
///
/// # Errors
/// [`Rejection::BadSignature`] or [`Rejection::Incomplete`].
pub fn signed_by(
    opened: Result<Authored<Handoff>, ObjectError>,
    signer: PublicKey,
) -> Result<Authored<Handoff>, Rejection> {
    let offered = opened.map_err(|error| match error {
        ObjectError::Envelope(_) => Rejection::BadSignature(error.to_string()),
        _ => Rejection::Incomplete(error.to_string()),
    })?;
    if offered.signer != signer {
        let why = format!("{} signed it, and {signer} hands the work over", offered.signer);
        return Err(Rejection::BadSignature(why));
    }
    Ok(offered)
}

/// Whether the work could be taken, if there is room.
fn judge(handoff: &Handoff, bytes: usize, terms: &Terms<'_>) -> Result<(), Rejection> {
    let missing = handoff.missing();
    if !missing.is_empty() {
        return Err(Rejection::Incomplete(format!("{} is missing", missing.join(", "))));
    }
    if handoff.recipient != *terms.agent || !terms.is_capable {
        return Err(Rejection::NotCapable);
    }
    handoff.in_force(terms.now_ms).map_err(|error| match error {
        ObjectError::Expired { ago_ms } => Rejection::Deadline { late_ms: ago_ms },
        _ => Rejection::Incomplete(error.to_string()),
    })?;
    let level = handoff.level(terms.label);
    if let Some(level) = level.filter(|level| *level > terms.clearance) {
        return Err(Rejection::Label { level, most: terms.clearance });
    }
    handoff.check_approval(terms.label, terms.signers, terms.now_ms).map_err(|error| match error {
        ApprovalError::Missing { level } => Rejection::SignOffMissing { level },
        ApprovalError::Signature { .. } => Rejection::BadSignature(error.to_string()),
    })?;
    let context = &handoff.context;
    let without: Vec<String> =
        context.tools_required.iter().filter(|tool| !terms.tools.contains(*tool)).cloned().collect();
    if !without.is_empty() {
        return Err(Rejection::MissingTools(without));
    }
    let tokens = u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(TOKEN_BYTES);
    if let Some(most) = terms.tokens_max.filter(|most| tokens > *most) {
        return Err(Rejection::ContextOverflow { tokens, most });
    }
    let wait_ms = if let Room::After(wait_ms) = terms.room { wait_ms } else { 0 };
    let done_ms = terms.now_ms.saturating_add(wait_ms).saturating_add(terms.duration_ms);
    match context.constraints.deadline_ms.and_then(|deadline_ms| done_ms.checked_sub(deadline_ms)) {
        Some(late_ms) if late_ms > 0 => Err(Rejection::Deadline { late_ms }),
        _ => Ok(()),
    }
}
