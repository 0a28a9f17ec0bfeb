//! Work that a group shares out, in virtual time: each task is completed once, whoever is killed.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use althing_conformance::groups::{GroupNode, Owner, echo_task, group_of, leader, task_id};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS};
use althing_coordination::machine::outcome::Refusal;
use althing_coordination::machine::work::{State, WorkItem};
use althing_coordination::{GroupError, PART_BYTES, RESULT_BYTES_MAX, content};
use althing_protocol::group::{Claim, Command, Complete, Content, GroupId, Needs, Reference, Submit, Target, WorkId};
use althing_simnet::{LinkConfig, SimNet};

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

async fn submit_some(node: &GroupNode, id: GroupId, count: u32, input: &str) -> Vec<WorkId> {
    let mut tasks = Vec::new();
    for number in 0..count {
        tasks.push(node.submit(id, number, input, &[]).await);
    }
    tasks
}

/// The result of each task is of the last run that came to its end, and of a member that all name.
fn completions(nodes: &[GroupNode], tasks: &[WorkId], id: GroupId) {
    for task in tasks {
        let (token, last) = nodes[0].task(id, *task, |task| (task.token, task.last));
        for node in nodes {
            let told = node.groups.look(id, |state| {
                state
                    .work()
                    .tasks()
                    .get(task)
                    .filter(|task| task.state == State::Completed)
                    .map(|it| (it.token, it.last))
            });
            // Those that have not heard of the end yet say nothing.
            assert!(told.ok().flatten().is_none_or(|told| told == (token, last)), "all members name one completion");
        }
        let ended: Vec<u64> = nodes
            .iter()
            .flat_map(|node| node.worker.ended.lock().expect("no panic").clone())
            .filter(|(ended, _)| ended == task)
            .map(|(_, token)| token)
            .collect();
        assert!(ended.contains(&token), "the result that counts is of the last token {token}: {ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_are_shared_among_the_members_and_each_is_completed() {
    let net = net();
    let (nodes, id) = group_of(&net, 5).await;
    let tasks = submit_some(&nodes[2], id, 40, "sleep 300").await;
    nodes[2].completed(id, &tasks).await;
    let workers = nodes.iter().filter(|node| !node.worker.ended.lock().expect("no panic").is_empty()).count();
    assert!(workers >= 4, "{workers} of 5 members worked");
    let result = nodes[2].task(id, tasks[0], |task| task.result.clone());
    assert_eq!(result, Some(Content::Inline(b"sleep 300".to_vec().into())));
    completions(&nodes, &tasks, id);
}

/// P-114, P-115
#[tokio::test(start_paused = true)]
async fn work_goes_on_when_the_leader_is_killed_and_nothing_is_completed_twice() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 5).await;
    let (at, _) = leader(&nodes, id).await;
    let other = (at + 1) % 5;
    let tasks = submit_some(&nodes[other], id, 30, "sleep 1500").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let asked = nodes[other].key.clone();
    let _ = nodes.remove(at).crash(&net).await;
    let other = nodes.iter().position(|node| node.key.public() == asked.public()).expect("it lives");
    nodes[other].completed(id, &tasks).await;
    completions(&nodes, &tasks, id);
}

/// P-115: a member that was cut off lost its task to another one, which works on it when the late result comes.
#[tokio::test(start_paused = true)]
async fn a_result_under_an_old_token_is_refused() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let (leads, _) = leader(&nodes, id).await;
    let [lead, late, next] = [0, 1, 2].map(|after| &nodes[(leads + after) % 3]);
    let can = |node: &GroupNode| node.worker.capabilities.lock().expect("no panic").push("slow".to_owned());
    // The token by which a member began the task.
    let began = |node: &GroupNode| {
        let begun = node.worker.begun.lock().expect("no panic").clone();
        begun.into_iter().find(|(task, _)| *task == task_id(1)).map(|(_, token)| token)
    };
    can(late);
    let needs = Needs::of(Target::Capability("slow".to_owned()));
    let task = Submit { needs, ..echo_task(1, "sleep 60000") };
    lead.groups.command(id, Command::Submit(Box::new(task))).await.expect("it is submitted");
    until("one works on it", || began(late).is_some()).await;
    can(next);
    [lead, next].iter().for_each(|other| net.cut(late.id(), other.id()));
    until("another one works on it", || began(next).is_some()).await;
    net.heal_all();
    late.groups.catch_up(id).await.expect("the group answers");
    let (old, new) = (began(late).expect("it began"), began(next).expect("it began"));
    let is_live = || {
        let seen = lead.task(id, task_id(1), |task| {
            (task.state, task.held.map(|held| (held.member, held.token)), task.result.is_some())
        });
        assert_eq!(
            seen,
            (State::Working, Some((next.id(), new)), false),
            "the other one works on it, by a later token"
        );
    };
    assert!(old < new, "{old}, {new}");
    is_live();
    let result = Content::Inline(b"late".to_vec().into());
    let claim = Claim { task: task_id(1), token: old };
    let late_result = Command::Complete(Complete { claim, result, label: None, verified: None });
    let refused = late.groups.command(id, late_result).await.expect_err("it is fenced");
    assert!(
        matches!(refused, GroupError::Refused(Refusal::Fenced { current }) if current == new),
        "for its token: {refused}"
    );
    is_live();
    lead.completed(id, &[task_id(1)]).await;
    let result = lead.task(id, task_id(1), |task| task.result.clone());
    assert_eq!(result, Some(Content::Inline(b"sleep 60000".to_vec().into())), "the other one's");
}

/// A member whose task takes a minute, and the token by which it began it; it does not lead.
async fn busy_member(nodes: &[GroupNode], id: GroupId, lease_ms: u64) -> (usize, u64) {
    let (leads, _) = leader(nodes, id).await;
    let at = (leads + 1) % nodes.len();
    nodes[at].worker.capabilities.lock().expect("no panic").push("slow".to_owned());
    let needs = Needs::of(Target::Capability("slow".to_owned()));
    let task = Submit { needs, lease_ms, ..echo_task(1, "sleep 60000") };
    nodes[leads].groups.command(id, Command::Submit(Box::new(task))).await.expect("it is submitted");
    until("it works on it", || !nodes[at].worker.effects.lock().expect("no panic").is_empty()).await;
    (at, nodes[at].worker.effects.lock().expect("no panic")[0].1)
}

/// P-115: whoever has a journal of what it did goes on under the token that it had.
#[tokio::test(start_paused = true)]
async fn a_worker_that_starts_again_goes_on_under_its_token() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 3).await;
    let (at, token) = busy_member(&nodes, id, 20_000).await;
    let worker = nodes[at].worker.clone();
    // It is killed twice while it works.
    for _ in 0..2 {
        let (secret, kept) = nodes.remove(at).crash(&net).await;
        let begun = worker.begun.lock().expect("no panic").len();
        nodes.insert(at, GroupNode::restart(&net, &secret, &Owner::new(101), kept, worker.clone()).await);
        until("it goes on", || worker.begun.lock().expect("no panic").len() > begun).await;
    }
    nodes[at].completed(id, &[task_id(1)]).await;
    let ended = nodes[at].task(id, task_id(1), |task| (task.state, task.token, task.attempt));
    assert_eq!(ended, (State::Completed, token, 1), "the group gave it to nobody else");
    assert_eq!(*worker.effects.lock().expect("no panic"), [(task_id(1), token)], "its effect was had once");
    completions(&nodes, &[task_id(1)], id);
}

/// P-115: a node that starts again does not give up what it worked on because its agents are not there yet.
#[tokio::test(start_paused = true)]
async fn a_worker_whose_agents_start_late_keeps_its_task_until_they_are_there() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 3).await;
    let lease_ms = 20_000;
    let (at, token) = busy_member(&nodes, id, lease_ms).await;
    let worker = nodes[at].worker.clone();
    worker.starting.store(true, Ordering::Relaxed);
    let begun = worker.begun.lock().expect("no panic").len();
    let (secret, kept) = nodes.remove(at).crash(&net).await;
    nodes.insert(at, GroupNode::restart(&net, &secret, &Owner::new(101), kept, worker.clone()).await);
    // Longer than its lease, which is extended meanwhile.
    tokio::time::sleep(Duration::from_millis(lease_ms * 3)).await;
    let held = nodes[(at + 1) % 3].task(id, task_id(1), |task| (task.state, task.token, task.attempt));
    assert_eq!(held, (State::Working, token, 1), "nobody else was given it");
    assert_eq!(worker.begun.lock().expect("no panic").len(), begun, "nobody knows yet whether it goes on");
    worker.starting.store(false, Ordering::Relaxed);
    nodes[at].completed(id, &[task_id(1)]).await;
    let ended = nodes[at].task(id, task_id(1), |task| (task.state, task.token, task.attempt));
    assert_eq!(ended, (State::Completed, token, 1));
    assert_eq!(*worker.effects.lock().expect("no panic"), [(task_id(1), token)], "its effect was had once");
    completions(&nodes, &[task_id(1)], id);
}

/// P-115: once the group gave the task to another member, what was journalled of it is not gone on with.
#[tokio::test(start_paused = true)]
async fn a_worker_that_starts_again_too_late_leaves_its_task_to_who_has_it() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 3).await;
    let (at, old) = busy_member(&nodes, id, 2_000).await;
    let worker = nodes[at].worker.clone();
    let begun = worker.begun.lock().expect("no panic").len();
    let (secret, kept) = nodes.remove(at).crash(&net).await;
    nodes[0].worker.capabilities.lock().expect("no panic").push("slow".to_owned());
    until("another one works on it", || !nodes[0].worker.effects.lock().expect("no panic").is_empty()).await;
    nodes.push(GroupNode::restart(&net, &secret, &Owner::new(101), kept, worker.clone()).await);
    nodes[0].completed(id, &[task_id(1)]).await;
    let (token, last) = nodes[0].task(id, task_id(1), |task| (task.token, task.last));
    assert!(token > old && last == Some(nodes[0].id()), "{old}, {token}, {last:?}");
    assert_eq!(worker.begun.lock().expect("no panic").len(), begun, "it did nothing more");
    assert!(worker.ended.lock().expect("no panic").is_empty());
}

/// P-113, P-121
#[tokio::test(start_paused = true)]
async fn a_task_waits_for_what_it_depends_on_and_for_who_can_do_it() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let first = nodes[0].submit(id, 1, "sleep 800", &[]).await;
    let second = nodes[0].submit(id, 2, "after", &[1]).await;
    let mut special = echo_task(3, "special");
    special.needs = Needs::of(Target::Capability("billing.view".to_owned()));
    nodes[0].groups.command(id, Command::Submit(Box::new(special))).await.expect("it is submitted");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(nodes[0].task(id, second, |task| task.state), State::Blocked);
    nodes[0].completed(id, &[first, second]).await;
    assert_eq!(nodes[0].task(id, task_id(3), |task| task.state), State::Ready, "nobody can do it");
    let why = nodes[0].groups.explain(id, task_id(3)).expect("the group").expect("the task");
    assert!(why.iter().all(|(_, verdict)| verdict.to_string().contains("billing.view")), "{why:?}");
    nodes[2].worker.capabilities.lock().expect("no panic").push("billing.view".to_owned());
    nodes[0].completed(id, &[task_id(3)]).await;
    assert_eq!(nodes[2].worker.ended.lock().expect("no panic").last().map(|(task, _)| *task), Some(task_id(3)));
}

/// P-115, P-121
#[tokio::test(start_paused = true)]
async fn what_all_declined_is_asked_again() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let refuse = |why: Option<&str>| {
        nodes.iter().for_each(|node| *node.worker.refuses.lock().expect("no panic") = why.map(str::to_owned));
    };
    refuse(Some("no room"));
    let task = nodes[0].submit(id, 1, "x", &[]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!nodes[0].task(id, task, |task| task.state.is_finished()));
    refuse(None);
    nodes[0].completed(id, &[task]).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_member_declines_another_one_does() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    for node in &nodes[..2] {
        *node.worker.refuses.lock().expect("no panic") = Some("no room".to_owned());
    }
    let tasks = submit_some(&nodes[0], id, 5, "x").await;
    nodes[0].completed(id, &tasks).await;
    assert_eq!(nodes[2].worker.ended.lock().expect("no panic").len(), 5);
}

/// Waits until a task has ended; its state, its attempt, and why it has no result.
async fn end_of(node: &GroupNode, id: GroupId, task: WorkId) -> (State, u8, String) {
    for _ in 0..4_000 {
        if node.task(id, task, |task| task.state.is_finished()) {
            let why = |task: &WorkItem| task.why.as_ref().map(ToString::to_string).unwrap_or_default();
            return node.task(id, task, |task| (task.state, task.attempt, why(task)));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the task does not end: {:?}", node.task(id, task, Clone::clone));
}

fn begun(node: &GroupNode) -> usize {
    node.worker.begun.lock().expect("no panic").len()
}

#[tokio::test(start_paused = true)]
async fn a_task_that_always_fails_is_begun_as_often_as_it_may_be_attempted() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let task = nodes[0].submit(id, 1, "fail", &[]).await;
    let (state, attempt, why) = end_of(&nodes[0], id, task).await;
    assert_eq!((state, attempt), (State::Failed, 4));
    assert!(why.contains("it was told to fail"), "{why}");
    assert_eq!(nodes.iter().map(begun).sum::<usize>(), 4);
}

/// P-151
#[tokio::test(start_paused = true)]
async fn what_a_member_must_refuse_another_one_does_in_the_first_attempt() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    for node in &nodes[..2] {
        *node.worker.forbids.lock().expect("no panic") = Some("not for you".to_owned());
    }
    let tasks = submit_some(&nodes[0], id, 5, "x").await;
    nodes[0].completed(id, &tasks).await;
    assert_eq!(nodes[2].worker.ended.lock().expect("no panic").len(), 5);
    for task in tasks {
        assert_eq!(nodes[0].task(id, task, |task| task.attempt), 1);
        for node in &nodes[..2] {
            let tried = node.worker.begun.lock().expect("no panic").iter().filter(|(it, _)| *it == task).count();
            assert!(tried <= 1, "a member that refused it has it again");
        }
    }
}

/// P-151, P-152
#[tokio::test(start_paused = true)]
async fn what_all_members_refuse_fails_with_the_reasons_and_no_attempt_is_used_up() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    for (number, node) in nodes.iter().enumerate() {
        *node.worker.forbids.lock().expect("no panic") = Some(format!("reason {number}"));
    }
    let task = nodes[0].submit(id, 1, "x", &[]).await;
    let waits = nodes[0].submit(id, 2, "y", &[1]).await;
    let (state, attempt, why) = end_of(&nodes[0], id, task).await;
    assert_eq!((state, attempt), (State::Failed, 1));
    assert!((0..3).all(|number| why.contains(&format!("reason {number}"))), "{why}");
    assert_eq!(nodes.iter().map(begun).sum::<usize>(), 3, "each member was asked once");
    assert_eq!(end_of(&nodes[0], id, waits).await.0, State::Failed);
}

/// P-121, P-152
#[tokio::test(start_paused = true)]
async fn a_task_goes_only_to_members_whose_agents_answer_its_submitter() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let answer =
        |node: &GroupNode, owners: Option<BTreeSet<_>>| *node.worker.answers.lock().expect("no panic") = owners;
    nodes[..2].iter().for_each(|node| answer(node, Some(BTreeSet::new())));
    let tasks = submit_some(&nodes[0], id, 5, "x").await;
    nodes[0].completed(id, &tasks).await;
    assert_eq!((begun(&nodes[0]), begun(&nodes[1]), begun(&nodes[2])), (0, 0, 5));
    // Nobody answers any more: no attempt is made.
    nodes.iter().for_each(|node| answer(node, Some(BTreeSet::new())));
    // What the leader heard before is too old then.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let task = nodes[0].submit(id, 9, "x", &[]).await;
    let (state, attempt, why) = end_of(&nodes[0], id, task).await;
    assert_eq!((state, attempt), (State::Failed, 1));
    assert!(why.contains("no member is left that may do it") && why.contains("does not answer"), "{why}");
    assert_eq!(begun(&nodes[2]), 5);
    let (at, _) = leader(&nodes, id).await;
    let verdicts = nodes[at].groups.explain(id, task).expect("the group").expect("the task");
    assert!(verdicts.iter().all(|(_, verdict)| verdict.forbids()), "{verdicts:?}");
}

/// P-158
#[tokio::test(start_paused = true)]
async fn a_large_result_stays_with_its_member_and_is_fetched_and_verified() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let bytes = 2 * PART_BYTES + 1;
    let task = nodes[0].submit(id, 1, &format!("large {bytes}"), &[]).await;
    let again = nodes[0].submit(id, 2, &format!("large {bytes}"), &[]).await;
    let too_large = nodes[0].submit(id, 3, &format!("large {}", RESULT_BYTES_MAX + 1), &[]).await;
    nodes[0].completed(id, &[task, again]).await;
    let (state, _, why) = end_of(&nodes[0], id, too_large).await;
    assert!(state == State::Failed && why.contains("2097152 are possible"), "{why}");
    for task in [task, again] {
        let result = nodes[0].task(id, task, |task| task.result.clone()).expect("it completed");
        let Content::Reference(reference) = &result else { panic!("it is inline: {} bytes", bytes) };
        assert_eq!(reference.bytes, bytes as u64);
        for node in &nodes {
            node.groups.catch_up(id).await.expect("the group answers");
            let read = content(&node.groups, id, &result).await.expect("its holder is there");
            assert!(read == vec![b'x'; bytes], "{} bytes", read.len());
        }
        // Another digest, and another length, are refused.
        let of = |reference: Reference| Content::Reference(reference);
        let unknown = content(&nodes[0].groups, id, &of(Reference { digest: [1; 32], ..reference.clone() })).await;
        assert!(matches!(unknown, Err(GroupError::Content { .. })), "{unknown:?}");
        let shorter =
            content(&nodes[0].groups, id, &of(Reference { bytes: bytes as u64 - 1, ..reference.clone() })).await;
        assert!(matches!(shorter, Err(GroupError::Content { .. })), "{shorter:?}");
    }
}
