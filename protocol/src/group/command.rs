//! Commands: what members and owners ask of a group. Its log consists of batches of them, each batch signed by its author.

use std::fmt;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::declaration::{Declaration, RULES_OF_CHANNELS};
use super::proposal::{Amendment, Endorse, Propose, Replace};
use super::work::{Abandon, Assign, Choice, Claim, Complete, Decline, Define, Depend, Fail, Refuse, Steal, Submit};
use super::workflow::{Approve, Fire, RunWorkflow, Schedule};
use super::{Endorsed, GroupId, WorkId, workflow};
use crate::identity::{CallerId, PublicKey, PublisherId};
use crate::limits::{
    CBOR_ITEMS_MAX, GROUP_ADDRESS_BYTES_MAX, GROUP_ADDRESSES_MAX, GROUP_BATCH_COMMANDS_MAX, GROUP_KEY_BYTES_MAX,
    GROUP_OWNERS_MAX, GROUP_VALUE_BYTES_MAX, KEYLOG_EVENTS_MAX,
};
use crate::object::{Kind, ObjectError, Statement};
use crate::stream::OwnerProof;

/// Data items of a batch without its commands, at most.
const HEAD_ITEMS_MAX: usize = 32;

/// Who signs commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Author {
    /// A publisher, with the key that is valid for it.
    #[n(1)]
    Publisher(#[n(0)] PublisherId),
    /// A node, with its own key.
    #[n(2)]
    Node(#[n(0)] PublicKey),
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Author::Publisher(publisher) => CallerId::Publisher(publisher).fmt(f),
            Author::Node(node) => CallerId::Node(node).fmt(f),
        }
    }
}

/// What begins a group: its first command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Founding {
    /// The first charter.
    #[n(0)]
    pub charter: Endorsed,
    /// The key log of each owner: its events.
    #[n(1)]
    pub logs: Vec<Vec<ByteVec>>,
    /// The founder's owner.
    #[n(2)]
    pub owner: OwnerProof,
    /// Where the founder can be dialled.
    #[n(3)]
    pub addresses: Vec<String>,
    /// The version of the rules that the founder knows; builds of the first version do not say it.
    #[n(4)]
    pub rules: Option<u32>,
}

/// A node becomes a member.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Join {
    /// Its invitation.
    #[n(0)]
    pub invitation: Endorsed,
    /// Its owner.
    #[n(1)]
    pub owner: OwnerProof,
    /// The events of its owner's key log.
    #[n(2)]
    pub log: Vec<ByteVec>,
    /// Where it can be dialled.
    #[n(3)]
    pub addresses: Vec<String>,
    /// The version of the rules that it knows, which builds before the first version do not say.
    #[n(4)]
    pub rules: Option<u32>,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Command {
    /// Begins the group.
    #[n(0)]
    Found(#[n(0)] Box<Founding>),
    /// The author, a node, becomes a member.
    #[n(1)]
    Join(#[n(0)] Box<Join>),
    /// The author, a node, is no member any more.
    #[n(2)]
    Leave,
    /// A node is no member any more: an endorsed [`Expulsion`](super::Expulsion).
    #[n(3)]
    Expel(#[n(0)] Endorsed),
    /// A later charter.
    #[n(4)]
    Amend(#[n(0)] Box<Amendment>),
    /// The group ends: an endorsed [`Dissolution`](super::Dissolution).
    #[n(5)]
    Dissolve(#[n(0)] Endorsed),
    /// A later key log of a publisher that the group knows: its events.
    #[n(6)]
    Keys(#[n(0)] Vec<ByteVec>),
    /// A value is written.
    #[n(7)]
    Set(#[n(0)] Set),
    /// A value is removed.
    #[n(8)]
    Remove(#[n(0)] Remove),
    /// Where the author, a member's node, can be dialled now.
    #[n(9)]
    Addresses(#[n(0)] Vec<String>),
    /// A task is submitted.
    #[n(10)]
    Submit(#[n(0)] Box<Submit>),
    /// A task depends on another one.
    #[n(11)]
    Depend(#[n(0)] Depend),
    /// A member gets a task.
    #[n(12)]
    Assign(#[n(0)] Assign),
    /// The author, a member, begins a task that it was assigned.
    #[n(13)]
    Start(#[n(0)] Claim),
    /// The author, a member, does not accept a task that it was assigned.
    #[n(14)]
    Decline(#[n(0)] Decline),
    /// The author, a member, extends the lease of its task.
    #[n(15)]
    Renew(#[n(0)] Claim),
    /// The author, a member, completed its task.
    #[n(16)]
    Complete(#[n(0)] Complete),
    /// The author, a member, could not complete its task.
    #[n(17)]
    Fail(#[n(0)] Fail),
    /// The author, a member, takes a task that another one did not begin.
    #[n(18)]
    Steal(#[n(0)] Steal),
    /// A task is not wanted any more.
    #[n(19)]
    Cancel(#[n(0)] WorkId),
    /// Which task gets a resource when several want it.
    #[n(20)]
    Define(#[n(0)] Define),
    /// The author, a member, votes for the task that gets a resource next.
    #[n(21)]
    Vote(#[n(0)] Choice),
    /// An owner decides which task gets a resource next.
    #[n(22)]
    Decide(#[n(0)] Choice),
    /// Nothing but time: leases and deadlines expire when an entry is applied.
    #[n(23)]
    Tick,
    /// Runs a workflow.
    #[n(24)]
    RunWorkflow(#[n(0)] Box<RunWorkflow>),
    /// Approves a step of a run, or rejects it.
    #[n(25)]
    Approve(#[n(0)] Approve),
    /// A run is not wanted any more.
    #[n(26)]
    CancelRun(#[n(0)] WorkId),
    /// A run that failed goes on from the steps that failed.
    #[n(27)]
    ResumeRun(#[n(0)] WorkId),
    /// Runs a workflow at the times of a pattern from now on.
    #[n(28)]
    Schedule(#[n(0)] Box<Schedule>),
    /// Ends the schedule of this name.
    #[n(29)]
    Unschedule(#[n(0)] String),
    /// A time of a schedule has come, says the author, a member.
    #[n(30)]
    Fire(#[n(0)] Fire),
    /// Owners are asked to sign something.
    #[n(31)]
    Propose(#[n(0)] Box<Propose>),
    /// An owner signs what was proposed.
    #[n(32)]
    Endorse(#[n(0)] Endorse),
    /// The author, a voter, does not hear this one.
    #[n(33)]
    Silent(#[n(0)] PublicKey),
    /// The author, a voter, says that a learner votes instead of a voter that is silent.
    #[n(34)]
    Replace(#[n(0)] Replace),
    /// The author, a member, must not do a task that it was assigned, and is not given it again.
    #[n(35)]
    Refuse(#[n(0)] Refuse),
    /// A task fails that no member may do, says the author, a member.
    #[n(36)]
    Abandon(#[n(0)] Abandon),
    /// A node is no member any more, since its owner withdrew it: the [`Withdrawal`](crate::keyring::Withdrawal) as signed.
    #[n(37)]
    Withdraw(#[n(0)] ByteVec),
    /// The author, a member, says which rules it knows, and what its state was.
    #[n(38)]
    Declare(#[n(0)] Declaration),
}

/// Writes a value.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Set {
    /// Its key.
    #[n(0)]
    pub key: String,
    /// The value.
    #[n(1)]
    pub value: ByteVec,
    /// Written only if the value has this version; 0: only if there is none.
    #[n(2)]
    pub if_version: Option<u64>,
}

/// Removes a value.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Remove {
    /// Its key.
    #[n(0)]
    pub key: String,
    /// Removed only if the value has this version.
    #[n(1)]
    pub if_version: Option<u64>,
}

/// Commands of one author under one signature. They are executed in order; each succeeds or fails by itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Batch {
    #[n(0)]
    kind: Kind,
    /// The group's epoch when it was signed. Executed in no other.
    #[n(1)]
    pub epoch: u64,
    /// Who signs it.
    #[n(2)]
    pub author: Author,
    /// One run of the author's program: Unix milliseconds at its start.
    #[n(3)]
    pub session: u64,
    /// Its number in the session: each is executed once.
    #[n(4)]
    pub sequence: u64,
    /// The commands.
    #[n(5)]
    pub commands: Vec<Command>,
}

impl Batch {
    /// A batch to be signed.
    #[must_use]
    pub fn new(epoch: u64, author: Author, session: u64, sequence: u64, commands: Vec<Command>) -> Batch {
        Batch { kind: Kind::GroupCommands, epoch, author, session, sequence, commands }
    }

    /// The scope of the signatures of `group`'s batches.
    #[must_use]
    pub fn scope(group: GroupId) -> String {
        group.to_string()
    }
}

impl Statement for Batch {
    const KIND: Kind = Kind::GroupCommands;

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<(), ObjectError> {
        if !(1..=GROUP_BATCH_COMMANDS_MAX).contains(&self.commands.len()) {
            let most = format!("a batch has 1 to {GROUP_BATCH_COMMANDS_MAX} commands");
            return Err(ObjectError::Shape(most));
        }
        self.commands.iter().try_for_each(Command::check)?;
        let items: usize = self.commands.iter().map(Command::items_max).sum();
        if items > CBOR_ITEMS_MAX - HEAD_ITEMS_MAX {
            return Err(ObjectError::Shape(format!("{items} data items are too many for one batch; divide it")));
        }
        Ok(())
    }
}

impl Command {
    /// The version of the rules to which it belongs: who knows earlier ones only cannot read it. A founding is read by nobody
    /// else, and belongs to the first one.
    #[must_use]
    pub fn rules(&self) -> u32 {
        match self {
            Command::Submit(submit) if submit.channel.is_some() => RULES_OF_CHANNELS,
            _ => 1,
        }
    }

    fn check(&self) -> Result<(), ObjectError> {
        let key_fits = |key: &str| (1..=GROUP_KEY_BYTES_MAX).contains(&key.len());
        let wrong = |what: String| Err(ObjectError::Shape(what));
        let too_long = || wrong("a key log is too long, or there are too many".to_owned());
        let fit = |logs: &[Vec<ByteVec>]| {
            logs.len() <= GROUP_OWNERS_MAX && logs.iter().all(|log| log.len() <= KEYLOG_EVENTS_MAX)
        };
        let reachable = |addresses: &[String]| {
            addresses.len() <= GROUP_ADDRESSES_MAX && addresses.iter().all(|text| text.len() <= GROUP_ADDRESS_BYTES_MAX)
        };
        let unreachable = || wrong("too many addresses, or one that is too long".to_owned());
        match self {
            Command::Set(set) if set.value.len() > GROUP_VALUE_BYTES_MAX => {
                wrong(format!("a value of a group has at most {GROUP_VALUE_BYTES_MAX} bytes"))
            }
            Command::Set(Set { key, .. }) | Command::Remove(Remove { key, .. }) if !key_fits(key) => {
                wrong(format!("a key of a group has 1 to {GROUP_KEY_BYTES_MAX} bytes"))
            }
            Command::Found(founding) if !fit(&founding.logs) => too_long(),
            Command::Amend(amendment) if !fit(&amendment.logs) => too_long(),
            Command::Propose(proposal) if !fit(proposal.motion.logs()) => too_long(),
            Command::Join(join) if !fit(std::slice::from_ref(&join.log)) => too_long(),
            Command::Keys(events) if !fit(std::slice::from_ref(events)) => too_long(),
            Command::Found(founding) if !reachable(&founding.addresses) => unreachable(),
            Command::Join(join) if !reachable(&join.addresses) => unreachable(),
            Command::Addresses(addresses) if !reachable(addresses) => unreachable(),
            Command::Submit(submit) => submit.check(),
            Command::Decline(decline) => decline.check(),
            Command::Complete(complete) => complete.check(),
            Command::Fail(fail) => fail.check(),
            Command::Refuse(refuse) => refuse.check(),
            Command::Abandon(abandon) => abandon.check(),
            Command::Define(define) => define.check(),
            Command::Vote(choice) | Command::Decide(choice) => choice.check(),
            Command::RunWorkflow(run) => run.check(),
            Command::Approve(approve) => approve.check(),
            Command::Schedule(schedule) => schedule.check(),
            Command::Unschedule(name) | Command::Fire(Fire { name, .. }) => workflow::check_schedule_name(name),
            _ => Ok(()),
        }
    }

    /// Data items of its encoding, at most.
    fn items_max(&self) -> usize {
        match self {
            // They are alone in their batch, and what they contain is bounded by itself.
            Command::Found(_) | Command::Join(_) => 0,
            Command::Expel(endorsed) | Command::Dissolve(endorsed) => 4 + endorsed.objects().count(),
            Command::Amend(amendment) => {
                let events: usize = amendment.logs.iter().map(|log| 1 + log.len()).sum();
                8 + amendment.charter.objects().count() + events
            }
            Command::Propose(proposal) => {
                let events: usize = proposal.motion.logs().iter().map(|log| 1 + log.len()).sum();
                16 + proposal.motion.signed().objects().count() + events
            }
            Command::Addresses(addresses) => 4 + addresses.len(),
            Command::Keys(events) => 4 + events.len(),
            Command::Submit(submit) => submit.items_max(),
            Command::Complete(_) => 30,
            Command::Fail(_) | Command::Approve(_) => 16,
            Command::RunWorkflow(run) => run.items_max(),
            Command::Schedule(schedule) => schedule.items_max(),
            _ => 12,
        }
    }
}
