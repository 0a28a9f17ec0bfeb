//! One task, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use althing_protocol::group::{Author, Complete, Content, Submit, WorkId};
use althing_protocol::limits::WORKFLOW_TIMEOUT_MAX_MS;
use althing_protocol::{Label, PublicKey, PublisherId};
use minicbor::{Decode, Encode};

/// Members that are remembered because they declined an attempt.
pub const DECLINED_MAX: usize = 64;
/// Members that may refuse a task; with the last one it fails.
pub const REFUSED_MAX: usize = 16;
/// For how long a task without a deadline may take, milliseconds: as long as a step may, so that what nobody can do ends at last.
pub const TASK_LIFE_MS: u64 = WORKFLOW_TIMEOUT_MAX_MS;

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum State {
    /// It waits for the tasks that it depends on.
    #[n(0)]
    Blocked,
    /// It waits for a member.
    #[n(1)]
    Ready,
    /// A member has it, and has not begun.
    #[n(2)]
    Assigned,
    /// A member works on it.
    #[n(3)]
    Working,
    /// It has a result.
    #[n(4)]
    Completed,
    /// It has none, and will have none.
    #[n(5)]
    Failed,
    /// Its deadline passed, or the lease of its last attempt.
    #[n(6)]
    TimedOut,
    /// It was not wanted any more.
    #[n(7)]
    Canceled,
}

impl State {
    /// Whether it stays as it is.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, State::Completed | State::Failed | State::TimedOut | State::Canceled)
    }

    /// Its name, as A2A writes names of states.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Blocked => "blocked",
            State::Ready => "ready",
            State::Assigned => "assigned",
            State::Working => "working",
            State::Completed => "completed",
            State::Failed => "failed",
            State::TimedOut => "timed-out",
            State::Canceled => "canceled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who has a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Held {
    /// The member.
    #[n(0)]
    pub member: PublicKey,
    /// The fencing token.
    #[n(1)]
    pub token: u64,
    /// When it loses the task, unless it renews the lease: Unix milliseconds.
    #[n(2)]
    pub until_ms: u64,
}

/// Why an attempt, or a task, ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Why {
    /// The member did not accept it.
    #[n(0)]
    Declined(#[n(0)] PublicKey, #[n(1)] String),
    /// The member could not complete it.
    #[n(1)]
    Failed(#[n(0)] PublicKey, #[n(1)] String),
    /// The member did not renew its lease.
    #[n(2)]
    Lease(#[n(0)] PublicKey),
    /// The member left the group.
    #[n(3)]
    Left(#[n(0)] PublicKey),
    /// Its deadline passed.
    #[n(4)]
    Deadline,
    /// A task that it depends on, itself or by others, ended so.
    #[n(5)]
    Dependency(#[n(0)] WorkId, #[n(1)] State),
    /// This author canceled it.
    #[n(6)]
    Canceled(#[n(0)] Author),
    /// The member must not do it.
    #[n(7)]
    Refused(#[n(0)] PublicKey, #[n(1)] String),
    /// No member is left that may do it, said this one.
    #[n(8)]
    Abandoned(#[n(0)] PublicKey, #[n(1)] String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Declined(member, reason) => write!(f, "{member} declined it: {reason}"),
            Why::Failed(member, reason) => write!(f, "{member} could not complete it: {reason}"),
            Why::Lease(member) => write!(f, "the lease of {member} expired"),
            Why::Left(member) => write!(f, "{member} left the group"),
            Why::Deadline => f.write_str("its deadline passed"),
            Why::Dependency(task, state) => write!(f, "it depends on the task {task}, which is {state}"),
            Why::Canceled(author) => write!(f, "{author} canceled it"),
            Why::Refused(member, reason) => write!(f, "{member} refused it: {reason}"),
            Why::Abandoned(_, reason) => write!(f, "no member is left that may do it: {reason}"),
        }
    }
}

/// The members that refused a task, and why. Absent from a row while nobody did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals(BTreeMap<PublicKey, String>);

impl Refusals {
    /// Why the member refused it, if it did.
    #[must_use]
    pub fn of(&self, member: &PublicKey) -> Option<&str> {
        self.0.get(member).map(String::as_str)
    }

    /// How many refused it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody did.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who refused it, and why.
    pub fn iter(&self) -> impl Iterator<Item = (&PublicKey, &str)> {
        self.0.iter().map(|(member, reason)| (member, reason.as_str()))
    }
}

impl<C> Encode<C> for Refusals {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        self.0.encode(e, ctx)
    }

    fn is_nil(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'b, C> Decode<'b, C> for Refusals {
    fn decode(d: &mut minicbor::Decoder<'b>, ctx: &mut C) -> Result<Refusals, minicbor::decode::Error> {
        BTreeMap::decode(d, ctx).map(Refusals)
    }

    fn nil() -> Option<Refusals> {
        Some(Refusals::default())
    }
}

/// When a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Ended {
    /// How many ended before it.
    #[n(0)]
    pub order: u64,
    /// Unix milliseconds.
    #[n(1)]
    pub at_ms: u64,
}

/// A task of a group.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WorkItem {
    /// What was submitted, with the dependencies that were added since.
    #[n(0)]
    pub submit: Submit,
    /// Who submitted it.
    #[n(1)]
    pub author: Author,
    /// How many were submitted up to it.
    #[n(2)]
    pub number: u64,
    /// When it was submitted, Unix milliseconds.
    #[n(3)]
    pub submitted_ms: u64,
    /// What it is doing.
    #[n(4)]
    pub state: State,
    /// The present attempt, or the next one: 1 for the first.
    #[n(5)]
    pub attempt: u8,
    /// Who has it, while it is assigned or worked on.
    #[n(6)]
    pub held: Option<Held>,
    /// The last token that was given for it; 0 before the first.
    #[n(7)]
    pub token: u64,
    /// The member that had it last.
    #[n(8)]
    pub last: Option<PublicKey>,
    /// The members that declined this attempt: the last [`DECLINED_MAX`] or fewer.
    #[n(9)]
    pub declined: BTreeSet<PublicKey>,
    /// How often a member took it from another one.
    #[n(10)]
    pub steals: u32,
    /// How often it went to another member than the one before, steals included.
    #[n(11)]
    pub handovers: u32,
    /// Its result.
    #[n(12)]
    pub result: Option<Content>,
    /// Why its last attempt, or the task, ended without a result.
    #[n(13)]
    pub why: Option<Why>,
    /// When it ended.
    #[n(14)]
    pub ended: Option<Ended>,
    /// The members that must not do it: at most [`REFUSED_MAX`].
    #[n(15)]
    pub refused: Refusals,
    /// In whose room it is: the author's owner.
    #[n(16)]
    pub owner: PublisherId,
    /// The label of its result, as the member said it that did it.
    #[n(17)]
    pub label: Option<Label>,
    /// True if that member said that gates let its result pass.
    #[n(18)]
    pub verified: Option<bool>,
}

impl WorkItem {
    /// A task before its first attempt.
    pub(super) fn new(submit: &Submit, author: Author, owner: PublisherId, number: u64, submitted_ms: u64) -> WorkItem {
        WorkItem {
            submit: submit.clone(),
            author,
            owner,
            number,
            submitted_ms,
            state: State::Blocked,
            attempt: 1,
            held: None,
            token: 0,
            last: None,
            declined: BTreeSet::new(),
            steals: 0,
            handovers: 0,
            result: None,
            why: None,
            ended: None,
            refused: Refusals::default(),
            label: None,
            verified: None,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> WorkId {
        self.submit.task
    }

    /// Takes what the member says of the result that it made.
    pub(super) fn note_result(&mut self, complete: &Complete) {
        (self.label, self.verified) = (complete.label, complete.verified);
    }

    /// The label of its result, and whether gates let it pass, as the member said it that did it.
    pub(super) fn said(&self) -> (Option<Label>, bool) {
        (self.label, self.verified == Some(true))
    }

    /// When it must have ended, Unix milliseconds: its deadline, or [`TASK_LIFE_MS`] after it was submitted.
    #[must_use]
    pub fn ends_ms(&self) -> u64 {
        self.submit.deadline_ms.unwrap_or_else(|| self.submitted_ms.saturating_add(TASK_LIFE_MS))
    }

    /// When time changes it next: the end of its lease, or of its time.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        if self.state.is_finished() {
            return None;
        }
        let lease = self.held.map(|held| held.until_ms);
        lease.into_iter().chain([self.ends_ms()]).min()
    }

    /// Bytes of what its submitter and its members wrote: input, result, names.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let names = self.submit.resources.iter().chain(&self.submit.needs.labels).chain(&self.submit.channel);
        let names = names.map(String::len).sum::<usize>();
        let key = self.submit.key.as_ref().map_or(0, |key| key.len());
        names + key + content_bytes(&self.submit.input) + self.result.as_ref().map_or(0, content_bytes)
    }

    /// Remembers that a member declined this attempt.
    pub(super) fn note_declined(&mut self, member: PublicKey) {
        if self.declined.len() >= DECLINED_MAX {
            self.declined.clear();
        }
        self.declined.insert(member);
    }

    /// Remembers that a member must not do it.
    pub(super) fn note_refused(&mut self, member: PublicKey, reason: &str) {
        self.refused.0.insert(member, reason.to_owned());
    }

    /// Gives it to a member.
    pub(super) fn give(&mut self, member: PublicKey, token: u64, now_ms: u64) {
        if self.last.is_some_and(|last| last != member) {
            self.handovers = self.handovers.saturating_add(1);
        }
        self.state = State::Assigned;
        self.held = Some(Held { member, token, until_ms: now_ms.saturating_add(self.submit.lease_ms) });
        self.token = token;
        self.last = Some(member);
    }

    /// Extends the lease of who has it.
    pub(super) fn extend(&mut self, now_ms: u64) {
        let until_ms = now_ms.saturating_add(self.submit.lease_ms);
        self.held = self.held.map(|held| Held { until_ms, ..held });
    }

    /// Takes it from who has it: it waits for a member again.
    pub(super) fn take_back(&mut self, why: Why) {
        self.state = State::Ready;
        self.held = None;
        self.why = Some(why);
    }
}

/// Inline bytes of an input or a result; of a reference, those of its media type.
fn content_bytes(content: &Content) -> usize {
    match content {
        Content::Inline(bytes) => bytes.len(),
        Content::Reference(reference) => reference.media_type.len(),
    }
}
