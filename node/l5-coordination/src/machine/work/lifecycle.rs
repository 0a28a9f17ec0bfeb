//! The work of a group: how a task goes from being ready to its end, and which resources it has meanwhile.

use althing_protocol::group::{Abandon, Assign, Author, Claim, Complete, Decline, Fail, Refuse, Steal, Submit, WorkId};
use althing_protocol::{PublicKey, PublisherId};

use super::super::members::Members;
use super::super::outcome::Refusal;
use super::super::shares::Moment;
use super::item::{REFUSED_MAX, State, Why, WorkItem};
use super::items::WorkItems;
use super::resources::Resources;
use super::steps::Steps;
use super::turns::Turns;
use super::watch::Finished;

/// The tasks of a group, and the resources that they share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    pub(super) tasks: WorkItems,
    pub(super) resources: Resources,
    /// The highest fencing token so far.
    pub(super) last_token: u64,
}

impl Work {
    /// The tasks.
    #[must_use]
    pub fn tasks(&self) -> &WorkItems {
        &self.tasks
    }

    /// The rules of resources, and the decisions about them.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The ready tasks that a group of that many members may assign now, since their resources are free and it is their
    /// turn: the most urgent first, and of these the first submitted.
    pub fn assignable(&self, members: usize) -> impl Iterator<Item = &WorkItem> {
        let mut turns = Turns::new(&self.tasks, &self.resources, members);
        self.tasks.ready().filter(move |task| turns.check(task).is_ok())
    }

    /// Why a ready task cannot be assigned now, in a group of that many members.
    ///
    /// # Errors
    /// [`Refusal::Resource`]: another task has the resource, goes first, or a decision is open.
    pub fn check_turn(&self, task: &WorkItem, members: usize) -> Result<(), Refusal> {
        Turns::new(&self.tasks, &self.resources, members).check(task)
    }

    /// Time passes: leases and deadlines expire.
    pub(in super::super) fn expire(&mut self, now_ms: u64) {
        self.tasks.expire(now_ms);
    }

    /// What was done to tasks since it was asked last what that cost (P-89).
    pub(in super::super) fn take_cost(&mut self) -> usize {
        self.tasks.take_cost()
    }

    /// A node is no member any more: what it had is ready, and its votes end.
    pub(in super::super) fn leave(&mut self, node: PublicKey) {
        self.tasks.take_from(node);
        self.resources.leave(&node);
    }

    /// Gives a ready task to a member; the fencing token.
    pub(super) fn assign(
        &mut self,
        assign: &Assign,
        members: &Members,
        steps: &Steps,
        now_ms: u64,
    ) -> Result<u64, Refusal> {
        if members.get(&assign.member).is_none() {
            return Err(Refusal::NotAMember(assign.member));
        }
        let task = self.tasks.known(&assign.task)?;
        if task.state != State::Ready {
            return Err(Refusal::TaskState { task: assign.task, state: task.state });
        }
        if task.attempt != assign.attempt {
            return Err(Refusal::Attempt { current: task.attempt });
        }
        check_member(task, assign.member)?;
        let mut turns = Turns::new(&self.tasks, &self.resources, members.len());
        let is_next = turns.check(task);
        steps.spend(turns.looked());
        is_next?;
        let decide = |name: &String| self.resources.conflict(&self.tasks, name, assign.task);
        let conflicts: Vec<_> = task.submit.resources.iter().filter_map(decide).collect();
        for conflict in conflicts {
            self.resources.decided(conflict, now_ms);
        }
        Ok(self.give(assign.task, assign.member, now_ms))
    }

    fn give(&mut self, id: WorkId, member: PublicKey, now_ms: u64) -> u64 {
        self.last_token = self.last_token.saturating_add(1);
        let token = self.last_token;
        self.tasks.change(id, |task| task.give(member, token, now_ms));
        token
    }

    /// The task, if `node` has it by that token.
    fn claimed(&self, node: PublicKey, claim: Claim) -> Result<&WorkItem, Refusal> {
        let task = self.tasks.known(&claim.task)?;
        match task.held {
            Some(held) if held.token == claim.token && held.member == node => Ok(task),
            Some(held) if held.token == claim.token => Err(Refusal::Holder(held.member)),
            _ => Err(Refusal::Fenced { current: task.token }),
        }
    }

    /// The member begins.
    pub(super) fn start(&mut self, node: PublicKey, claim: Claim, now_ms: u64) -> Result<(), Refusal> {
        let task = self.claimed(node, claim)?;
        if task.state != State::Assigned {
            return Err(Refusal::TaskState { task: claim.task, state: task.state });
        }
        self.tasks.change(claim.task, |task| {
            task.state = State::Working;
            task.extend(now_ms);
        });
        Ok(())
    }

    /// The member does not begin: the task waits for another one, in the same attempt.
    pub(super) fn decline(&mut self, node: PublicKey, decline: &Decline) -> Result<(), Refusal> {
        let task = self.claimed(node, decline.claim)?;
        if task.state != State::Assigned {
            return Err(Refusal::TaskState { task: decline.claim.task, state: task.state });
        }
        self.tasks.change(decline.claim.task, |task| {
            task.take_back(Why::Declined(node, decline.reason.clone()));
            task.note_declined(node);
        });
        Ok(())
    }

    /// The member must not do it: the task waits for another one, in the same attempt, or fails when too many must not.
    pub(super) fn refuse(&mut self, node: PublicKey, refuse: &Refuse, now_ms: u64) -> Result<(), Refusal> {
        let task = self.claimed(node, refuse.claim)?;
        let is_last = task.refused.len() + 1 >= REFUSED_MAX;
        let (id, why) = (refuse.claim.task, Why::Refused(node, refuse.reason.clone()));
        self.tasks.change(id, |task| {
            task.take_back(why.clone());
            task.note_refused(node, &refuse.reason);
        });
        if is_last {
            self.tasks.end(id, State::Failed, Some(why), None, now_ms);
        }
        Ok(())
    }

    /// No member may do it.
    pub(super) fn abandon(&mut self, node: PublicKey, abandon: &Abandon, now_ms: u64) -> Result<(), Refusal> {
        let task = self.tasks.known(&abandon.task)?;
        if task.state != State::Ready {
            return Err(Refusal::TaskState { task: abandon.task, state: task.state });
        }
        let why = Why::Abandoned(node, abandon.reason.clone());
        self.tasks.end(abandon.task, State::Failed, Some(why), None, now_ms);
        Ok(())
    }

    /// Extends the lease.
    pub(super) fn renew(&mut self, node: PublicKey, claim: Claim, now_ms: u64) -> Result<(), Refusal> {
        self.claimed(node, claim)?;
        self.tasks.change(claim.task, |task| task.extend(now_ms));
        Ok(())
    }

    /// Records the result.
    pub(super) fn complete(&mut self, node: PublicKey, complete: &Complete, now_ms: u64) -> Result<(), Refusal> {
        self.claimed(node, complete.claim)?;
        self.tasks.change(complete.claim.task, |task| task.note_result(complete));
        self.tasks.end(complete.claim.task, State::Completed, None, Some(complete.result.clone()), now_ms);
        Ok(())
    }

    /// The member gives up.
    pub(super) fn fail(&mut self, node: PublicKey, fail: &Fail, now_ms: u64) -> Result<(), Refusal> {
        self.claimed(node, fail.claim)?;
        let why = Why::Failed(node, fail.reason.clone());
        if fail.retry {
            self.tasks.end_attempt(fail.claim.task, State::Failed, why, now_ms);
        } else {
            self.tasks.end(fail.claim.task, State::Failed, Some(why), None, now_ms);
        }
        Ok(())
    }

    /// A member takes a task that another one has not begun; the fencing token.
    pub(super) fn steal(&mut self, node: PublicKey, steal: &Steal, now_ms: u64) -> Result<u64, Refusal> {
        let task = self.tasks.known(&steal.task)?;
        match task.held {
            Some(held) if held.member != steal.from || held.member == node => Err(Refusal::Holder(held.member)),
            Some(_) if task.state == State::Assigned => {
                check_member(task, node)?;
                self.tasks.change(steal.task, |task| task.steals = task.steals.saturating_add(1));
                Ok(self.give(steal.task, node, now_ms))
            }
            _ => Err(Refusal::TaskState { task: steal.task, state: task.state }),
        }
    }

    /// A task is not wanted any more.
    pub(super) fn cancel(&mut self, id: WorkId, author: Author, now_ms: u64) -> Result<(), Refusal> {
        let task = self.tasks.known(&id)?;
        if task.state.is_finished() {
            return Err(Refusal::TaskState { task: id, state: task.state });
        }
        self.tasks.end(id, State::Canceled, Some(Why::Canceled(author)), None, now_ms);
        Ok(())
    }

    /// Submits a task of a step of a workflow: its end is reported.
    pub(in super::super) fn submit_watched(
        &mut self,
        author: Author,
        owner: PublisherId,
        submit: &Submit,
        moment: Moment<'_>,
    ) -> Result<(), Refusal> {
        self.tasks.submit(author, owner, submit, moment)?;
        self.tasks.watch.open(submit.task);
        Ok(())
    }

    /// Ends such a task, which is not reported.
    pub(in super::super) fn cancel_watched(&mut self, id: WorkId, author: Author, now_ms: u64) {
        if self.tasks.watch.close(&id) {
            self.tasks.end(id, State::Canceled, Some(Why::Canceled(author)), None, now_ms);
        }
    }

    /// The next such task that ended.
    pub(in super::super) fn next_finished(&mut self) -> Option<Finished> {
        self.tasks.watch.next()
    }

    /// Watches a task of a snapshot; whether there is one that can end yet.
    pub(in super::super) fn watch(&mut self, id: WorkId) -> bool {
        self.tasks.get(&id).is_some_and(|task| !task.state.is_finished()) && self.tasks.watch.open(id)
    }
}

/// Whether the member may get the task: it has not refused it.
fn check_member(task: &WorkItem, member: PublicKey) -> Result<(), Refusal> {
    if task.refused.of(&member).is_some() { Err(Refusal::Excluded(member)) } else { Ok(()) }
}
