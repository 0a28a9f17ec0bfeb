//! Tasks through a group of five beside the same through one node: how many a second, and how long each takes from its
//! submission until its result is known where it was submitted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use althing_coordination::machine::work::State;
use althing_protocol::group::{Command, Content, Needs, Priority, Submit, Target, WorkId};
use rand::Rng as _;

use super::member::Team;
use crate::figures::percentile;

/// Tasks, in all.
const TASKS: usize = 10_000;
/// Clients, each of which waits for the result of its task.
const CLIENTS: usize = 32;
/// Between two looks at a task.
const LOOK: Duration = Duration::from_millis(1);

/// Prints the figures of both.
pub async fn run() {
    for members in [1, 5] {
        let folder = tempfile::tempdir().expect("a folder");
        let team = Arc::new(Team::of(folder.path(), members, true).await);
        let (begun, left) = (Instant::now(), Arc::new(AtomicUsize::new(TASKS)));
        let clients = (0..CLIENTS).map(|_| tokio::spawn(client(team.clone(), left.clone())));
        let mut times = Vec::with_capacity(TASKS);
        for client in clients.collect::<Vec<_>>() {
            times.extend(client.await.expect("a client"));
        }
        let took = begun.elapsed().as_secs_f64();
        let (half, most) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
        println!(
            "groups: {TASKS} tasks of {CLIENTS} clients through {members} member(s): {:.0}/s, p50 {:.1} ms, p99 {:.1} ms",
            f64::from(u32::try_from(TASKS).expect("few")) / took,
            half.as_secs_f64() * 1e3,
            most.as_secs_f64() * 1e3
        );
    }
}

/// Submits tasks until there are none left; how long each took.
async fn client(team: Arc<Team>, left: Arc<AtomicUsize>) -> Vec<Duration> {
    let mut times = Vec::new();
    let take = |left: usize| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let begun = Instant::now();
        one(&team).await;
        times.push(begun.elapsed());
    }
    times
}

/// Submits a task, and waits until it is completed.
async fn one(team: &Team) {
    let task = WorkId::from_bytes(rand::rng().random());
    let submit = Submit {
        task,
        key: None,
        needs: Needs::of(Target::Capability("echo".to_owned())),
        input: Content::Inline(b"hello".to_vec().into()),
        priority: Priority::Normal,
        deadline_ms: None,
        attempts_max: 3,
        lease_ms: 10_000,
        dependencies: Vec::new(),
        resources: Vec::new(),
        label: None,
        channel: None,
    };
    team.groups.command(team.id, Command::Submit(Box::new(submit))).await.expect("it is taken");
    loop {
        let state = team.groups.look(team.id, |state| state.work().tasks().get(&task).map(|task| task.state));
        match state.expect("the group") {
            Some(State::Completed) => return,
            Some(State::Failed | State::TimedOut | State::Canceled) => panic!("the task {task} ended otherwise"),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}
