//! What became of a batch of commands.

use althing_protocol::group::WorkId;
use althing_protocol::{Digest, PublicKey};
use minicbor::{Decode, Encode};

use super::work::State;
use super::workflow::RunState;

/// What became of one batch.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// Each of its commands succeeded or failed.
    #[n(0)]
    Executed(#[n(0)] Vec<Outcome>),
    /// It was executed before, and is not executed again.
    #[n(1)]
    Duplicate,
    /// None of its commands was executed.
    #[n(2)]
    Refused(#[n(0)] Refusal),
}

/// What became of one command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Outcome {
    /// It was executed. The version of the value, where it wrote one; the epoch, where it changed that; the
    /// number of the task, where it submitted one; the fencing token, where it gave one.
    #[n(0)]
    Done(#[n(0)] Option<u64>),
    /// It was not.
    #[n(1)]
    Refused(#[n(0)] Refusal),
}

impl Outcome {
    /// The outcome of a command that returned this.
    #[must_use]
    pub fn of(result: Result<Option<u64>, Refusal>) -> Outcome {
        match result {
            Ok(number) => Outcome::Done(number),
            Err(refusal) => Outcome::Refused(refusal),
        }
    }
}

/// Why a batch or a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub enum Refusal {
    /// The group is not founded yet, or its first entry is no founding.
    #[n(0)]
    #[error("the group has no charter yet")]
    NotFounded,
    /// The group ended.
    #[n(1)]
    #[error("the group was dissolved")]
    Dissolved,
    /// Its signature is not valid, or its content is malformed.
    #[n(2)]
    #[error("the commands are not valid: {0}")]
    Invalid(#[n(0)] String),
    /// It was signed for another epoch.
    #[n(3)]
    #[error("the commands were signed in epoch {signed}, and the group is in epoch {current}; sign them again")]
    Epoch {
        /// The epoch that was signed.
        #[n(0)]
        signed: u64,
        /// The group's epoch.
        #[n(1)]
        current: u64,
    },
    /// The session is older than those that are remembered, so that it cannot be told whether the batch was executed.
    #[n(4)]
    #[error("the session began too long ago; begin another one")]
    SessionEnded,
    /// The author is unknown to the group, or the key is not its own.
    #[n(5)]
    #[error("{0}")]
    Author(#[n(0)] String),
    /// The charter's policy does not permit it: why, and what to do about it.
    #[n(6)]
    #[error("the group's charter does not permit this: {0}")]
    NotPermitted(#[n(0)] String),
    /// The owners' signatures do not suffice.
    #[n(7)]
    #[error("the owners' signatures do not suffice: {0}")]
    Endorsement(#[n(0)] String),
    /// An invitation for another node or group, under an earlier charter, expired, or used before.
    #[n(8)]
    #[error("the invitation is not valid: {0}")]
    Invitation(#[n(0)] String),
    /// The node is a member already.
    #[n(9)]
    #[error("the node {0} is a member already")]
    AlreadyMember(#[n(0)] PublicKey),
    /// The node is no member.
    #[n(10)]
    #[error("the node {0} is no member")]
    NotAMember(#[n(0)] PublicKey),
    /// Without this member there would be no group.
    #[n(11)]
    #[error("it is the last member: dissolve the group instead")]
    LastMember,
    /// A bound of the group is reached.
    #[n(12)]
    #[error("the group is full: {0}")]
    Full(#[n(0)] String),
    /// The value has another version.
    #[n(13)]
    #[error("the value has version {0} now")]
    Version(#[n(0)] u64),
    /// A charter that does not follow the present one.
    #[n(14)]
    #[error("the charter does not follow the group's present one")]
    Charter,
    /// A key log that does not extend the known one.
    #[n(15)]
    #[error("the key log is not valid: {0}")]
    KeyLog(#[n(0)] String),
    /// A task that the group does not have.
    #[n(16)]
    #[error("the group has no task {0}; it may have ended long ago and be forgotten")]
    UnknownTask(#[n(0)] WorkId),
    /// Another task has that id.
    #[n(17)]
    #[error("the task {0} exists already; choose another id")]
    TaskExists(#[n(0)] WorkId),
    /// The author does not have the task, or not any more.
    #[n(18)]
    #[error("the token is not valid any more; the last one of the task is {current}: end the work on it")]
    Fenced {
        /// The last token that was given for the task; 0 before the first.
        #[n(0)]
        current: u64,
    },
    /// The task is in a state that does not permit it.
    #[n(19)]
    #[error("the task {task} is {state}, which does not permit this")]
    TaskState {
        /// The task.
        #[n(0)]
        task: WorkId,
        /// What it is doing.
        #[n(1)]
        state: State,
    },
    /// Another attempt at the task is next.
    #[n(20)]
    #[error("the attempt {current} at the task is next; read the task and assign it again")]
    Attempt {
        /// The next attempt.
        #[n(0)]
        current: u8,
    },
    /// Another member has the task.
    #[n(21)]
    #[error("the member {0} has the task")]
    Holder(#[n(0)] PublicKey),
    /// Both would wait for each other.
    #[n(22)]
    #[error("the task {task} cannot wait for {on}, which waits for it")]
    Circle {
        /// The task.
        #[n(0)]
        task: WorkId,
        /// What it was to depend on.
        #[n(1)]
        on: WorkId,
    },
    /// It is not this task's turn on a resource, or the resource has another rule.
    #[n(23)]
    #[error("{0}")]
    Resource(#[n(0)] String),
    /// A run that the group does not have.
    #[n(24)]
    #[error("the group has no run {0}; it may have ended long ago and be forgotten")]
    UnknownRun(#[n(0)] WorkId),
    /// The run is in a state that does not permit it.
    #[n(25)]
    #[error("the run {run} is {state}, which does not permit this")]
    RunState {
        /// The run.
        #[n(0)]
        run: WorkId,
        /// What became of it.
        #[n(1)]
        state: RunState,
    },
    /// The step asks nobody, or asks about another round.
    #[n(26)]
    #[error("the step {0:?} of the run does not ask for this now; read the run again")]
    NotAsked(#[n(0)] String),
    /// A schedule that the group does not have.
    #[n(27)]
    #[error("the group has no schedule {0:?}, or another one of that name by now")]
    UnknownSchedule(#[n(0)] String),
    /// The time has not come yet, or it or a later one counted already.
    #[n(28)]
    #[error("the next time of the schedule is after {last_ms} and not after the group's present time")]
    NotDue {
        /// The last time that counted, or when the schedule was made.
        #[n(0)]
        last_ms: u64,
    },
    /// A proposal that the group does not have.
    #[n(29)]
    #[error("the group has no proposal {}; it was executed, expired, or ended with its charter or epoch", althing_protocol::hex(.0))]
    UnknownProposal(#[cbor(n(0), with = "minicbor::bytes")] Digest),
    /// Who is to be replaced is no voter that may be, or who is to vote instead cannot.
    #[n(30)]
    #[error("the voters stay as they are: {0}")]
    Voter(#[n(0)] String),
    /// The member refused the task before.
    #[n(31)]
    #[error("the member {0} refused the task and does not get it again; another one can do it")]
    Excluded(#[n(0)] PublicKey),
    /// What was before the command in its batch cost as much as one batch may (P-89).
    #[n(32)]
    #[error("the commands before it in its batch cost as much as one batch may; send it in another one")]
    Costly,
}
