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
        is_check: false,
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

/// An artifact of that id and text.
fn artifact(id: &str, text: &str) -> Artifact {
    Artifact {
        artifact_id: id.to_owned(),
        name: None,
        description: None,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
    }
}

/// A task whose first turn left those artifacts and a question, if that is said, and its second turn these, with the records of both.
fn twice(question: Option<&str>, left: &[Artifact], then: &[Artifact]) -> (Task, Runs) {
    let (mut task, mut runs, now) = (asked("how much?"), Runs::default(), chrono::DateTime::UNIX_EPOCH);
    let made = |artifacts: &[Artifact]| (!artifacts.is_empty()).then(|| artifacts.to_vec());
    task.artifacts = made(left);
    let question = question.map(|text| Message::new(Role::Agent, vec![Part::text(text)]));
    task::set_status(&mut task, TaskState::InputRequired, question, now);
    runs.add(run(1, &task));
    let mut message = Message::new(Role::User, vec![Part::text("that")]);
    message.message_id = "m-2".to_owned();
    task::continue_with(&mut task, message, now).expect("it waits");
    task.artifacts = made(then);
    done(&mut task, "done");
    runs.add(RunRecord::of(&context("m-2"), facts(0), &task).expect("it began"));
    (task, runs)
}

#[test]
fn what_the_last_turn_made_is_known_by_what_the_turn_before_had_left() {
    let (one, two, three) = (artifact("a", "12"), artifact("b", "34"), artifact("c", "56"));
    let all = [one.clone(), two.clone(), three.clone()];
    for question in [Some("which?"), None] {
        for left in 0..=all.len() {
            let (task, runs) = twice(question, &all[..left], &all);
            assert_eq!(runs.made_last(&task).as_deref(), Some(&all[left..]), "{question:?} {left}");
            assert_eq!(Runs::default().made_last(&task), None, "nothing is on record");
        }
        let (task, runs) = twice(question, &[], &[]);
        assert_eq!(runs.made_last(&task), Some(Vec::new()));
    }
    let (task, runs) = twice(Some("which?"), &[one], &[artifact("a", "1234")]);
    assert_eq!(runs.made_last(&task), None, "an artifact of the first turn changed");
    let many: Vec<Artifact> = (0..=DIVIDED_MAX).map(|at| artifact(&at.to_string(), "x")).collect();
    let (task, runs) = twice(Some("which?"), &many[..1], &many);
    assert_eq!(runs.made_last(&task), None, "so many are not looked through");
    let mut only = asked("how much?");
    only.artifacts = Some(many.clone());
    assert_eq!(Runs::default().made_last(&only), Some(many), "it had one turn");
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
