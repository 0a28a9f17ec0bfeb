//! Who may give which command about tasks.

use althing_protocol::group::{Author, Command, WorkId};
use althing_protocol::{PublicKey, PublisherId};

use super::super::members::Members;
use super::super::outcome::Refusal;
use super::super::shares::Moment;
use super::lifecycle::Work;
use super::steps::Steps;

/// The author of a command, as its group knows it.
pub struct Asker<'a> {
    /// The author.
    pub author: Author,
    /// In whose room is what it gives the group: the author itself, or the owner of the member.
    pub owner: PublisherId,
    /// Whether it is an owner of the group.
    pub is_owner: bool,
    /// Whether the policy lets it give the command.
    pub permit: Result<(), Refusal>,
    /// The members of the group.
    pub members: &'a Members,
    /// What the batch may cost yet.
    pub steps: &'a Steps,
    /// The time of the group, and who shares its room.
    pub moment: Moment<'a>,
}

impl Asker<'_> {
    /// Executes a command about tasks that the policy lets the author give.
    pub(in super::super) fn execute(&self, work: &mut Work, command: &Command) -> Result<Option<u64>, Refusal> {
        let (author, now_ms) = (self.author, self.moment.now_ms);
        let done = |()| None;
        match command {
            Command::Submit(submit) => work.tasks.submit(author, self.owner, submit, self.moment).map(Some),
            Command::Depend(depend) => {
                self.may_change(work, &depend.task)?;
                work.tasks.depend(depend, self.steps, now_ms).map(done)
            }
            Command::Cancel(task) => {
                self.may_change(work, task)?;
                work.cancel(*task, author, now_ms).map(done)
            }
            Command::Assign(assign) => {
                self.member()?;
                work.assign(assign, self.members, self.steps, now_ms).map(Some)
            }
            Command::Start(claim) => work.start(self.member()?, *claim, now_ms).map(done),
            Command::Decline(decline) => work.decline(self.member()?, decline).map(done),
            Command::Renew(claim) => work.renew(self.member()?, *claim, now_ms).map(done),
            Command::Complete(complete) => work.complete(self.member()?, complete, now_ms).map(done),
            Command::Fail(fail) => work.fail(self.member()?, fail, now_ms).map(done),
            Command::Refuse(refuse) => work.refuse(self.member()?, refuse, now_ms).map(done),
            Command::Abandon(abandon) => work.abandon(self.member()?, abandon, now_ms).map(done),
            Command::Steal(steal) => work.steal(self.member()?, steal, now_ms).map(Some),
            Command::Define(define) => work.resources.define(define, self.owner, self.moment.sharers).map(done),
            Command::Vote(choice) => work.resources.vote(&work.tasks, self.member()?, choice).map(done),
            Command::Decide(choice) if self.is_owner => work.resources.decide(&work.tasks, choice).map(done),
            Command::Decide(_) => {
                Err(Refusal::NotPermitted(format!("only an owner decides who gets a resource, and {author} is none")))
            }
            Command::Tick => Ok(None),
            other => Err(Refusal::Invalid(format!("{other:?} is no command about tasks"))),
        }
    }

    /// The author, if it is a member.
    fn member(&self) -> Result<PublicKey, Refusal> {
        match self.author {
            Author::Node(node) if self.members.get(&node).is_some() => Ok(node),
            Author::Node(node) => Err(Refusal::NotAMember(node)),
            Author::Publisher(_) => Err(Refusal::Author("only a member can do this; let a node sign it".to_owned())),
        }
    }

    /// Whether the author may change a task: its submitter and the owners may.
    fn may_change(&self, work: &Work, id: &WorkId) -> Result<(), Refusal> {
        let task = work.tasks.known(id)?;
        if task.author == self.author || self.is_owner {
            return Ok(());
        }
        let why = format!("only who submitted the task and the owners may change it, and {} is neither", self.author);
        Err(Refusal::NotPermitted(why))
    }
}
