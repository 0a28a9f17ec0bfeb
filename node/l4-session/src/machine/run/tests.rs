use a2a::{Part, Role, TaskState};

use super::super::task;
use super::*;

fn asked(text: &str) -> Task {
    let mut message = Message::new(Role::User, vec![Part::text(text)]);
    message.message_id = "m-1".to_owned();
    task::submitted("t-1".to_owned(), "c-1".to_owned(), message, chrono::DateTime::UNIX_EPOCH)
}

fn done(task: &mut Task, text: &str) {
    let said = Message::new(Role::Agent, vec![Part::text(text)]);
    task::set_status(task, TaskState::Completed, Some(said), chrono::DateTime::UNIX_EPOCH);
}

fn context(message: &str) -> RunContext<'_> {
    RunContext {
        message,
        agent: ("clerk", "1.0.0"),
        node: "did:key:z6Mk",
        ended_ms: 7,
        traceparent: Some("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"),
        resumed: false,
    }
}

fn facts(calls: usize) -> TurnFacts {
    let call = CallFacts {
        tool: "shop/order".to_owned(),
        definition: "0a".repeat(32),
        arguments: "0b".repeat(32),
        result: Some("0c".repeat(32)),
        outcome: "done",
        breaks_schema: false,
        callee: None,
    };
    TurnFacts {
        binding: Some("0d".repeat(32).into()),
        models: vec!["small".to_owned()],
        calls: vec![call; calls],
        passages: vec!["0123456789ab".to_owned()],
        ..TurnFacts::default()
    }
}

fn run(calls: usize, task: &Task) -> RunRecord {
    RunRecord::of(&context("m-1"), facts(calls), task).expect("it began")
}

#[test]
fn a_turn_that_did_not_begin_leaves_no_record() {
    assert_eq!(RunRecord::of(&context("m-1"), TurnFacts::default(), &asked("hi")), None);
}

#[test]
fn a_record_says_with_what_a_turn_was_done_and_nothing_of_what_was_said() {
    let mut task = asked("a secret question");
    done(&mut task, "a secret answer");
    let record = run(1, &task);
    assert_eq!(record.trace.as_deref(), Some("0123456789abcdef0123456789abcdef"));
    let json = serde_json::to_string(&record).expect("JSON");
    assert!(json.contains("shop/order") && !json.contains("secret"), "{json}");
    let read: RunRecord = serde_json::from_str(&json).expect("its own JSON");
    assert_eq!(read, record);
}

#[test]
fn what_a_task_holds_is_held_against_its_newest_record() {
    let mut task = asked("how much?");
    done(&mut task, "three");
    let mut runs = Runs::default();
    runs.add(run(1, &task));
    assert_eq!(runs.checks(&task), [(DigestCheck::Equal, DigestCheck::Equal)]);

    let mut forged = task.clone();
    done(&mut forged, "four");
    assert_eq!(runs.checks(&forged), [(DigestCheck::Equal, DigestCheck::Different)]);
    let mut other = asked("how many?");
    other.status = task.status.clone();
    assert_eq!(runs.checks(&other), [(DigestCheck::Different, DigestCheck::Equal)]);
    other.history = None;
    assert_eq!(runs.checks(&other), [(DigestCheck::Gone, DigestCheck::Equal)]);

    done(&mut task, "four");
    runs.add(run(0, &task));
    let later = [(DigestCheck::Equal, DigestCheck::Gone), (DigestCheck::Equal, DigestCheck::Equal)];
    assert_eq!(runs.checks(&task), later, "the first output is not there any more");
}

#[test]
fn records_are_bounded_and_the_newest_stay() {
    let task = asked("how much?");
    let mut runs = Runs::default();
    for _ in 0..200 {
        runs.add(run(8, &task));
    }
    assert!(bytes(&runs.kept) <= RUNS_BYTES_MAX && runs.kept.len() > 1, "{}", runs.kept.len());
    assert_eq!(runs.kept.len() as u64 + runs.forgotten, 200);

    let mut large = Runs::default();
    large.add(run(64, &task));
    large.add(run(400, &task));
    let kept = large.kept.last().expect("one");
    assert!(bytes(&large.kept) <= RUNS_BYTES_MAX);
    assert_eq!(kept.calls.len() as u64 + kept.more_calls, 400);
    assert!(!kept.calls.is_empty());
}
