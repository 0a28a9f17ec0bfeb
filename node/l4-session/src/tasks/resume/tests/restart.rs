//! Turns that stopped with `DIVERGED` or `VERSION_CHANGED`: their owner has them go on anew from a step.

use althing_protocol::AnswerAttributes;
use futures::FutureExt as _;

use super::*;
use crate::machine::session::{RESTART_MS_MAX, RestartError};
use crate::tasks::events::TaskEvents;
use crate::tasks::restart::RestartRefusal;

/// A disk on which a turn was cut off when it had made the first three of its calls, of which none is in doubt.
async fn unfinished() -> (MemoryStore, u64, String) {
    for left in 0..64 {
        let (disk, world) = (disk(), world());
        let Some(id) = cut_off(&disk, world, left).await else { continue };
        let list = Node::start(&disk, world, "1.0.0", UNENDING).await.sessions().list();
        if calls(world).len() == 3 && list.iter().any(|session| session.doubts.is_empty() && session.rows > 0) {
            return (disk, world, id);
        }
    }
    panic!("no turn was cut off there");
}

/// A node on that disk, whose agent in that version was given the time to go on.
async fn tried(disk: &MemoryStore, world: u64, version: &str) -> Node {
    let node = Node::start(disk, world, version, UNENDING).await;
    node.add();
    node.settle().await;
    tokio::time::sleep(VERSION_PATIENCE + RETRY * 2).await;
    node.settle().await;
    node
}

async fn restart(node: &Node, id: &str, from: u32) -> Result<(), RestartRefusal> {
    let restarted = node.sessions().restart(id, from, &Principal::Local).await;
    node.settle().await;
    restarted
}

/// Each call that must not be made twice, or that is made by a key, took effect once.
fn once(world: u64) {
    let calls = calls(world);
    for (number, effect) in STEPS.into_iter().enumerate() {
        if matches!(effect, Effect::Keyed | Effect::Final) {
            assert_eq!(calls[&number].len(), 1, "step {number}: {calls:?}");
        }
    }
}

fn has_rows(disk: &MemoryStore) -> bool {
    !disk.keys(SESSION_ROWS, Range::all(1)).expect("readable").is_empty()
}

#[tokio::test(start_paused = true)]
async fn another_version_goes_on_from_a_step_and_repeats_no_call() {
    let (disk, world, id) = unfinished().await;
    let node = tried(&disk, world, "1.0.1").await;
    assert_eq!(node.state(&id), "TASK_STATE_FAILED");
    assert!(node.said(&id).contains("VERSION_CHANGED: ") && node.sessions().list().is_empty(), "{}", node.said(&id));
    let lost = node.sessions().lost();
    assert!(lost.len() == 1 && lost[0].task == id && lost == node.sessions().stopped(), "{lost:?}");
    let until_ms = lost[0].restart_until_ms.expect("its owner may have it go on");
    assert!(until_ms > NOW_MS && until_ms <= NOW_MS + RESTART_MS_MAX, "for a day: {lost:?}");
    assert!(lost[0].agent == "worker" && lost[0].why.contains("VERSION_CHANGED: "), "{lost:?}");
    let before = calls(world);
    for from in [0, 1] {
        let refused = restart(&node, &id, from).await.expect_err("a payment would be forgotten");
        let error = RestartError::Final { seq: 1, name: "count/add".to_owned() };
        assert_eq!(refused, RestartRefusal::Step { task: id.clone(), error });
    }
    assert_eq!((calls(world), node.state(&id).as_str()), (before, "TASK_STATE_FAILED"), "nothing changed");
    // Whoever looks for the step is shown it, though nothing is recorded for good.
    assert_eq!(node.sessions().steps(&id).map(|turns| turns.len()), Ok(1));
    assert!(node.sessions().tape(&id).is_ok_and(|tape| tape.turns.is_empty()));
    // The key of the one that is made again is the one that it had.
    assert_eq!(restart(&node, &id, 2).await, Ok(()));
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{}", node.task(&id));
    once(world);
    assert!(node.sessions().lost().is_empty() && node.sessions().stopped().is_empty(), "nothing is lost any more");
    assert!(!has_rows(&disk), "its journal ends with it");
    assert_eq!(restart(&node, &id, 2).await, Err(RestartRefusal::NotStopped { task: id.clone() }));
    let none = restart(&node, "none", 2).await;
    assert_eq!(none, Err(RestartRefusal::NoTask { task: "none".to_owned() }));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_diverged_goes_on_from_the_step_that_is_another_now() {
    let (disk, world, id) = unfinished().await;
    OTHERS.lock().expect("nobody panics with it").insert(world, 2);
    let node = tried(&disk, world, "1.0.0").await;
    assert!(
        node.state(&id) == "TASK_STATE_FAILED" && node.said(&id).contains("DIVERGED: step 2 "),
        "{}",
        node.said(&id)
    );
    // It is there when the node starts again, and its agent has to be there first.
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    let nobody = restart(&node, &id, 2).await;
    assert!(matches!(nobody, Err(RestartRefusal::NoAgent { .. })), "{nobody:?}");
    node.add();
    let beyond = restart(&node, &id, 4).await;
    let error = RestartError::NoStep { from: 4, end: 3 };
    assert_eq!(beyond, Err(RestartRefusal::Step { task: id.clone(), error }));
    assert_eq!(restart(&node, &id, 2).await, Ok(()));
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{}", node.task(&id));
    let calls = calls(world);
    assert_eq!((calls[&1].len(), calls[&2].len()), (1, 2), "the other call has another key");
    assert!(!has_rows(&disk));
}

#[tokio::test(start_paused = true)]
async fn after_a_day_a_turn_that_stopped_is_gone() {
    for has_ended in [false, true] {
        let (disk, world, id) = unfinished().await;
        let node = tried(&disk, world, "1.0.1").await;
        assert!(has_rows(&disk));
        // The node that it stopped on, or the next one, which began before that.
        let node = if has_ended { Node::start(&disk, world, "1.0.1", UNENDING).await } else { node };
        node.now_ms.store(NOW_MS + RESTART_MS_MAX, Ordering::Relaxed);
        assert!(node.sessions().stopped().is_empty(), "nobody is told to do what is refused");
        assert_eq!(restart(&node, &id, 2).await, Err(RestartRefusal::NotStopped { task: id.clone() }));
        tokio::time::sleep(Duration::from_millis(RESTART_MS_MAX + 1)).await;
        node.settle().await;
        assert!(!has_rows(&disk), "{has_ended}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_whichever_write_the_node_ends_a_turn_that_goes_on_anew_repeats_no_call() {
    for left in 0.. {
        assert!(left < 64, "it never went on by itself");
        let (disk, world, id) = unfinished().await;
        drop(tried(&disk, world, "1.0.1").await);
        let living = tokio::spawn({
            let (disk, id) = (disk.clone(), id.clone());
            async move {
                let node = Node::start(&disk, world, "1.0.1", left).await;
                node.add();
                restart(&node, &id, 2).await
            }
        });
        // It settles itself: whatever it may still do it has done by then.
        for _ in 0..5 {
            settle().await;
        }
        living.abort();
        let has_restarted = matches!(living.await, Ok(Ok(())));
        let node = Node::start(&disk, world, "1.0.1", UNENDING).await;
        let was_over = node.state(&id) == "TASK_STATE_COMPLETED";
        node.add();
        node.settle().await;
        // It was not on disk that it goes on.
        if node.state(&id) == "TASK_STATE_FAILED" {
            assert!(!has_restarted, "what was acknowledged is kept");
            assert_eq!(restart(&node, &id, 2).await, Ok(()));
        }
        let doubts: Vec<u32> =
            node.sessions().list().iter().flat_map(|session| session.doubts.iter().map(|doubt| doubt.seq)).collect();
        let calls = calls(world);
        assert!(
            calls.values().zip(STEPS).all(|(keys, effect)| effect != Effect::Final || keys.len() <= 1),
            "{calls:?}"
        );
        if doubts.is_empty() {
            assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{left}: {}", node.task(&id));
            once(world);
        }
        if was_over {
            return;
        }
    }
}

/// A turn that diverged, whose end is on disk, and of which somebody who listens to it has not taken the news: the node, the task, and
/// what keeps its turn from being over.
async fn ending() -> (Node, u64, String, TaskEvents) {
    let (disk, world, id) = in_doubt().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    node.add();
    node.settle().await;
    let live = node.tasks.runner.live().running(&id).expect("it waits for what is said of its call");
    let (_, mut unread) = live.listen(true, &AnswerAttributes::default()).expect("there is room");
    let word = || a2a::StreamResponse::Message(a2a::Message::new(Role::Agent, vec![Part::text("a word")]));
    while live.change(|_| Some(word())).now_or_never().is_some() {}
    // There is room for the news that it works, and for no other.
    unread.recv().await.expect("a word");
    let doubt = node.sessions().list()[0].doubts[0].seq;
    OTHERS.lock().expect("nobody panics with it").insert(world, 0);
    let done = Resolution::Done(json!(1));
    node.sessions().settle(&id, doubt, done, &Principal::Local).await.expect("it is in doubt");
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_FAILED");
    assert!(node.said(&id).contains("DIVERGED: ") && node.tasks.runner.live().running(&id).is_some());
    assert_eq!(node.sessions().stopped().len(), 1, "it is listed already");
    // Its agent does what it did before, from now on.
    OTHERS.lock().expect("nobody panics with it").remove(&world);
    (node, world, id, unread)
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_still_ending_goes_on_anew_when_it_has_ended_and_not_before() {
    let (node, world, id, _unread) = ending().await;
    let before = calls(world);
    let refused = restart(&node, &id, 2).await.expect_err("whoever listens has time to read");
    assert_eq!(refused, RestartRefusal::StillEnding { task: id.clone() });
    assert!(refused.to_string().contains("try again in a moment"), "{refused}");
    assert_eq!((calls(world), node.state(&id).as_str()), (before, "TASK_STATE_FAILED"), "nothing changed");
    // Whoever reads nothing is given up, and then its turn is over.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(node.tasks.runner.live().running(&id).is_none());
    assert_eq!(restart(&node, &id, 2).await, Ok(()));
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{}", node.task(&id));
    assert_eq!(node.tasks.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_in_a_moment_is_waited_for() {
    let (node, _, id, unread) = ending().await;
    let reads = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(unread);
    };
    let (restarted, ()) = tokio::join!(restart(&node, &id, 2), reads);
    assert_eq!(restarted, Ok(()));
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{}", node.task(&id));
}
