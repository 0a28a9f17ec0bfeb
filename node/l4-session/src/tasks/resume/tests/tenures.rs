//! Turns for tasks of groups: they go on under the token that they had, if the group says that it still counts.

use althing_execution::lease::Leases;

use super::*;
use crate::machine::session::GroupAttempt;
use crate::tasks::tenure::{Tenure, Tenures};

/// A group that gives the same answer whenever it is asked.
struct Group(Mutex<Tenure>);

impl Group {
    fn says(tenure: Tenure) -> Arc<Group> {
        Arc::new(Group(Mutex::new(tenure)))
    }
}

impl Tenures for Group {
    fn tenure(&self, attempt: GroupAttempt) -> BoxFuture<'static, Tenure> {
        assert_eq!(attempt, GroupAttempt { group: "g".to_owned(), task: "t".to_owned(), token: 4 });
        Box::pin(std::future::ready(self.0.lock().expect("nobody panics with it").clone()))
    }
}

/// Runs the turn of a group's task under token 4, whose node ends at that write; gives the task, if it was begun.
async fn cut_off(disk: &MemoryStore, world: u64, left: usize) -> Option<String> {
    let living = tokio::spawn({
        let disk = disk.clone();
        async move { Node::start(&disk, world, "1.0.0", left).await.work(Leases::default().begin("g", "t", 4)).await }
    });
    settle().await;
    living.abort();
    let keys = disk.keys(TASKS, Range::all(2)).expect("readable");
    keys.first().map(|key| String::from_utf8_lossy(key).into_owned())
}

/// A disk on which the turn was cut off when it had made some of its calls, of which none is in doubt.
async fn unfinished() -> (MemoryStore, u64, String) {
    for left in 0..64 {
        let (disk, world) = (disk(), world());
        let Some(id) = cut_off(&disk, world, left).await else { continue };
        let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
        let list = node.sessions().list();
        if calls(world).len() == 3 && list.iter().any(|session| session.doubts.is_empty() && session.rows > 0) {
            return (disk, world, id);
        }
    }
    panic!("no turn was cut off there");
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_a_group_goes_on_under_its_token_once_the_group_says_that_it_counts() {
    let (disk, world, id) = unfinished().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    let (group, leases) = (Group::says(Tenure::Unknown), Leases::default());
    node.sessions().ask_tenures(group.clone());
    node.add();
    let before = calls(world);
    // The worker of the group asks again for what it asked before, and hears the end.
    let worker = node.work(leases.begin("g", "t", 4));
    let waiting = async {
        tokio::time::sleep(RETRY * 3).await;
        assert_eq!((node.state(&id), calls(world)), ("TASK_STATE_SUBMITTED".to_owned(), before), "nobody knows yet");
        *group.0.lock().expect("nobody panics with it") = Tenure::Valid(leases.begin("g", "t", 4));
    };
    let (answer, ()) = tokio::join!(worker, waiting);
    assert_eq!(answer["task"]["id"], json!(id));
    assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    for (number, effect) in STEPS.into_iter().enumerate() {
        if matches!(effect, Effect::Keyed | Effect::Final) {
            assert_eq!(calls(world)[&number].len(), 1, "step {number}");
        }
    }
    assert!(disk.keys(SESSION_ROWS, Range::all(1)).expect("readable").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_task_the_group_gave_away_does_nothing_more_and_says_so() {
    let (disk, world, id) = unfinished().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    node.sessions().ask_tenures(Group::says(Tenure::Over("its token is 9 now".to_owned())));
    let before = calls(world);
    node.add();
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_FAILED");
    let said = node.said(&id);
    assert!(said.contains("STALE_TOKEN: ") && said.contains("its token is 9 now"), "{said}");
    assert_eq!(calls(world), before, "nothing was called again");
    assert!(node.sessions().list().is_empty());
    assert!(disk.keys(SESSION_ROWS, Range::all(1)).expect("readable").is_empty(), "its journal is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_a_group_waits_while_nobody_knows_groups() {
    let (disk, world, id) = unfinished().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    node.add();
    tokio::time::sleep(VERSION_PATIENCE * 2).await;
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_SUBMITTED");
    assert_eq!(node.sessions().list().first().map(|session| session.state), Some(SessionState::Waiting));
}
