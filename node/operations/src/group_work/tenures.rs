//! Turns that worked on tasks of groups when the node ended: each goes on only if its group says that its token still counts.

use std::sync::{Arc, Weak};

use althing_calls::{GroupAttempt, Tenure, Tenures};
use althing_coordination::machine::group::Group;
use althing_coordination::{GroupError, Groups, WeakGroups, promptly};
use althing_execution::lease::Lease;
use althing_protocol::group::{Claim, Command, GroupId, WorkId};
use futures::future::BoxFuture;

use super::GroupWorker;

/// Asks groups. Weak, since groups and their worker hold what asks.
struct GroupTenures {
    worker: Weak<GroupWorker>,
    groups: WeakGroups,
}

impl GroupWorker {
    /// From now on turns that are for tasks of these groups go on where the node ended, if their tokens still count.
    pub(crate) fn tell_tenures(self: &Arc<GroupWorker>, groups: &Groups) {
        let tenures = GroupTenures { worker: Arc::downgrade(self), groups: WeakGroups::of(groups) };
        self.calls.ask_tenures(Arc::new(tenures));
    }

    /// The lease of an attempt that its group says to count, for a task that came by this channel; none if it was given up here
    /// meanwhile.
    fn lease(&self, attempt: &GroupAttempt, channel: Option<&str>) -> Result<Lease, String> {
        let lease = self.leases.begin(&attempt.group, &attempt.task, attempt.token).by_channel(channel);
        lease.check().map(|()| lease).map_err(|superseded| superseded.to_string())
    }
}

impl Tenures for GroupTenures {
    fn tenure(&self, attempt: GroupAttempt) -> BoxFuture<'static, Tenure> {
        let both = (self.worker.upgrade(), self.groups.upgrade());
        Box::pin(async move {
            // The node is being stopped.
            let (Some(worker), Some(groups)) = both else { return Tenure::Unknown };
            let Some((group, claim)) = named(&attempt) else {
                return Tenure::Over("its journal names no task of a group".to_owned());
            };
            match promptly(&groups, group, groups.command(group, Command::Renew(claim))).await {
                Ok(_) => {
                    let channel = groups.look(group, |state| channel(state, &claim.task)).ok().flatten();
                    worker.lease(&attempt, channel.as_deref()).map_or_else(Tenure::Over, Tenure::Valid)
                }
                Err(error) => unheld(&error),
            }
        })
    }
}

/// The channel by which a task of a group came.
fn channel(state: &Group, task: &WorkId) -> Option<String> {
    state.work().tasks().get(task)?.submit.channel.clone()
}

/// What it means that a group did not extend a lease.
fn unheld(error: &GroupError) -> Tenure {
    match error {
        GroupError::Refused(_) | GroupError::NoSuchGroup(_) | GroupError::Dissolved(_) => {
            Tenure::Over(error.to_string())
        }
        error => {
            tracing::debug!(%error, "a group does not say yet whether a task is still this node's");
            Tenure::Unknown
        }
    }
}

/// The group of an attempt, and what its member claims.
fn named(attempt: &GroupAttempt) -> Option<(GroupId, Claim)> {
    Some((attempt.group.parse().ok()?, Claim { task: attempt.task.parse().ok()?, token: attempt.token }))
}

#[cfg(test)]
mod tests {
    use althing_coordination::machine::outcome::Refusal;

    use super::*;

    #[test]
    fn only_a_group_that_refuses_or_is_gone_takes_a_task_away() {
        let group = GroupId::from_digest([2; 32]);
        for error in [
            GroupError::Refused(Refusal::Fenced { current: 9 }),
            GroupError::NoSuchGroup(group),
            GroupError::Dissolved(group),
        ] {
            assert_eq!(unheld(&error), Tenure::Over(error.to_string()));
        }
        let silent = GroupError::NoAnswer { group, seconds: 10, why: "nobody leads".to_owned() };
        assert_eq!((unheld(&silent), unheld(&GroupError::OutcomeUnknown)), (Tenure::Unknown, Tenure::Unknown));
    }

    #[test]
    fn an_attempt_names_its_task_as_a_lease_does() {
        let (group, task) = (GroupId::from_digest([2; 32]), WorkId::from_bytes([3; 16]));
        let mut attempt = GroupAttempt { group: group.to_string(), task: task.to_string(), token: 9 };
        assert_eq!(named(&attempt), Some((group, Claim { task, token: 9 })));
        attempt.task.push('x');
        assert_eq!(named(&attempt), None);
    }
}
