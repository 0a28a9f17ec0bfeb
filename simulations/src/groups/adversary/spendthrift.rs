//! Sends what costs most, again and again: assignments of the last of many tasks that want the same resources, links that would
//! close a circle, and key logs as long as they may be, of a known owner and of nobody (P-89). Of each batch only so much is
//! executed as one may cost, and all members must agree how much that is. Nobody can do its tasks; it cancels them in the end.

use std::time::Duration;

use althing_coordination::GroupError;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::outcome::{Outcome, Refusal};
use althing_protocol::KeyLog;
use althing_protocol::group::{self, Assign, Command, Depend, Needs, Submit, WorkId};
use althing_protocol::limits::{GROUP_BATCH_COMMANDS_MAX, KEYLOG_EVENTS_MAX, WORK_RESOURCES_MAX};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::super::clients::{task, task_id, task_number};
use super::super::evidence::{Deed, Operation};
use super::super::worker::Order;
use super::{Target, keys};
use crate::NOW_MS;
use crate::mesh::Owner;

/// Between two batches.
const EVERY: Duration = Duration::from_millis(300);
/// Batches of each kind: what costs most takes every member tens of real milliseconds.
const ROUNDS: usize = 4;
/// Tasks that want the same resources: enough that not all assignments of a batch are executed, and few enough that the history
/// of all tasks can be judged.
const TASKS: u32 = 12;
/// The number of the first one. Those of clients are lower.
const FIRST: u32 = 1_001;
/// As which client it is judged: its tasks are seen by all others.
const CLIENT: u32 = 2_000;
/// The number of the owner whose long key logs contradict the one that the group knows.
const KNOWN: u32 = 212;
/// The number of one whom the group does not know.
const STRANGER: u32 = 213;
/// Long key logs in a batch: of the stranger, and of the known owner. Three of the latter cost more than a batch may.
const LOGS: [usize; 2] = [3, 4];

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let owner = Owner::new(crate::key(KNOWN));
        target.adopt(&owner).await;
        for number in FIRST..FIRST + TASKS {
            submit(&target, number).await;
        }
        let batches = [("assignments", assignments(&target)), ("links", links()), ("key logs", logs(&owner))];
        for (what, commands) in batches.iter().cycle().take(ROUNDS * batches.len()) {
            tokio::time::sleep(EVERY).await;
            let outcomes = target.submit(target.author(), &target.key, commands.clone()).await;
            let costly = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Refused(Refusal::Costly))).count();
            target.books.note(format_args!("{what}: {costly} of {} cost too much", outcomes.len()));
        }
        // Also what was submitted long before it was executed.
        loop {
            cancel_all(&target).await;
            tokio::time::sleep(EVERY).await;
        }
    }
    .boxed()
}

/// It is the turn of the first task, for as long as that waits.
fn assignments(target: &Target) -> Vec<Command> {
    let assign = Assign { task: task_id(FIRST + TASKS - 1), member: target.key.public(), attempt: 1 };
    vec![Command::Assign(assign); GROUP_BATCH_COMMANDS_MAX]
}

/// A search for a circle that finds one costs as much as the longest.
fn links() -> Vec<Command> {
    let task = task_id(FIRST);
    vec![Command::Depend(Depend { task, on: task }); GROUP_BATCH_COMMANDS_MAX]
}

/// The owner's log is known; the long one forks from it, and has to be verified before that is seen.
fn logs(owner: &Owner) -> Vec<Command> {
    let known = owner.rotated(NOW_MS).rotated(NOW_MS).log;
    let long = [Owner::new(crate::key(STRANGER)), owner.clone()].map(longest);
    let long = long.iter().zip(LOGS).flat_map(|(log, times)| vec![keys(log); times]);
    std::iter::once(keys(&known)).chain(long).collect()
}

/// A log with as many events as one may have.
fn longest(owner: Owner) -> KeyLog {
    (1..KEYLOG_EVENTS_MAX).fold(owner, |owner, _| owner.rotated(NOW_MS + 1)).log
}

/// Submits a task that wants what all others of its own want.
async fn submit(target: &Target, number: u32) {
    let needs = Needs::of(group::Target::Capability("nothing".to_owned()));
    let resources = (0..WORK_RESOURCES_MAX).map(|name| format!("machine-{name}")).collect();
    let submit = Submit { needs, resources, ..task(number, Order { takes_ms: 0, is_flaky: false }) };
    let at = begin(target, Deed::Submit { task: number, number: None });
    let done = target.running.command(target.group, Command::Submit(Box::new(submit))).await;
    if let Some(done) = done.ok().flatten() {
        end(target, at, Deed::Submit { task: number, number: Some(done) });
    }
}

/// Cancels the tasks of its own that have not ended.
async fn cancel_all(target: &Target) {
    let open = |state: &Group| -> Vec<WorkId> {
        let tasks = state.work().tasks().iter().filter(|task| !task.state.is_finished());
        tasks.map(|task| task.id()).filter(|id| (FIRST..FIRST + TASKS).contains(&task_number(*id))).collect()
    };
    for id in target.running.read(target.group, true, open).await.unwrap_or_default() {
        let task = task_number(id);
        let at = begin(target, Deed::Cancel { task, done: None });
        let done = match target.running.command(target.group, Command::Cancel(id)).await {
            Ok(_) => true,
            Err(Some(GroupError::Refused(Refusal::TaskState { .. }))) => false,
            Err(_) => continue,
        };
        end(target, at, Deed::Cancel { task, done: Some(done) });
    }
}

/// Notes what it does as clients do, before anybody knows what becomes of it: it may be dropped before it knows. Where that is.
fn begin(target: &Target, deed: Deed) -> usize {
    let called = target.books.event();
    let mut evidence = target.books.open();
    evidence.history.push(Operation { client: CLIENT, called, returned: None, deed });
    evidence.history.len() - 1
}

/// Notes what became of it.
fn end(target: &Target, at: usize, deed: Deed) {
    let returned = Some(target.books.event());
    let mut evidence = target.books.open();
    let operation = &mut evidence.history[at];
    (operation.returned, operation.deed) = (returned, deed);
}

#[cfg(test)]
mod tests {
    use super::super::tests::noted;

    /// P-89, SG-5
    #[test]
    fn of_each_kind_as_much_is_executed_as_a_batch_may_cost() {
        let noted = noted("spendthrift");
        for what in ["assignments", "links", "key logs"] {
            let of_it = noted.lines().filter(|line| line.contains(what) && line.ends_with("cost too much"));
            let refused = of_it.filter(|line| !line.contains(&format!("{what}: 0 of"))).count();
            assert!(refused >= 2, "{what}: {refused}");
        }
    }
}
