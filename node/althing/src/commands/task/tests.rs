//! What is said of tasks.

use althing_api::{ResourceClaim, TaskId};
use clap::Parser as _;

use super::*;
use crate::args::{Args, Command};

fn summary(state: WorkState) -> TaskSummary {
    TaskSummary {
        task: "0a".to_owned(),
        number: 3,
        state,
        needs: "a.b".to_owned(),
        priority: "normal".to_owned(),
        member: None,
        attempt: 1,
        last_member: None,
        fencing_token: 4,
        stolen: 0,
        handed_over: 0,
        why: None,
        verified: None,
    }
}

fn details(state: WorkState) -> TaskDetails {
    TaskDetails {
        summary: summary(state),
        author: "urn:a".to_owned(),
        submitted_ms: 5,
        input: TaskContent::Text("do it".to_owned()),
        result: None,
        lease_until_ms: None,
        deadline_ms: None,
        attempts_max: 3,
        resources: Vec::new(),
        channel: None,
        refused: Vec::new(),
        waits_for: None,
        result_reference: None,
        result_error: None,
        candidates: None,
        explained_by_leader: None,
    }
}

#[test]
fn why_nobody_takes_a_task_is_told_by_the_reasons_of_the_members() {
    let words = ["althing", "task", "submit", "team", "--cap", "a.b", "x"];
    let Command::Task(Task::Submit(given)) = Args::try_parse_from(words).expect("words").command else {
        panic!("a task")
    };
    let member = |reason: &str| MemberVerdict {
        node: "did:key:z6Mk".to_owned(),
        reason: reason.to_owned(),
        verdict: "in other words".to_owned(),
    };
    let shown = |reasons: &[&str]| {
        let candidates = Some(reasons.iter().copied().map(member).collect());
        let explained_by_leader = Some(true);
        untaken(&given, "0a", &TaskDetails { candidates, explained_by_leader, ..details(WorkState::Ready) })
    };
    assert!(shown(&["noCapability", "noCapability"]).starts_with("no member has the capability a.b"));
    assert!(shown(&["noCapability", "full"]).contains("in other words"));
    assert!(shown(&[]).contains("--explain"));
}

#[test]
fn the_answer_of_a_task_is_its_words_or_why_there_are_none() {
    let text = |result| answer(&TaskDetails { result: Some(result), ..details(WorkState::Completed) });
    assert_eq!(text(TaskContent::Text("done".to_owned())), "done");
    let message = json!({ "message": { "parts": [{ "text": "done, too" }] } });
    assert_eq!(text(TaskContent::Message(message)), "done, too");
    let lost = TaskDetails { result_error: Some("nobody has it".to_owned()), ..details(WorkState::Completed) };
    assert_eq!(answer(&lost), "completed; its result cannot be had: nobody has it");
    let mut late = details(WorkState::TimedOut);
    late.summary.why = Some("its deadline passed".to_owned());
    assert_eq!(answer(&late), "timed-out: its deadline passed");
}

#[test]
fn a_task_is_shown_with_what_there_is_of_it() {
    let mut task = details(WorkState::Failed);
    (task.summary.member, task.summary.why) = (Some("did:key:z6Ma".to_owned()), Some("no".to_owned()));
    task.refused = vec![TaskRefusal { node: "did:key:z6Mb".to_owned(), reason: "must not".to_owned() }];
    let said = shown(&task);
    for line in [
        "task      0a (number 3)",
        "state     failed, attempt 1 of 3",
        "member    did:key:z6Ma",
        "why       no",
        "history   token 4, stolen 0 times, handed over 0 times",
    ] {
        assert!(said.lines().any(|told| told == line), "{line} in\n{said}");
    }
    assert!(said.contains(": must not") && !said.contains("result") && !said.contains("waits for"), "{said}");
    let forged = "no\nstate     completed\u{202e}".to_owned();
    let refused = vec![TaskRefusal { node: "did:key:z6Mb".to_owned(), reason: forged.clone() }];
    let forged_summary = TaskSummary { why: Some(forged.clone()), ..task.summary.clone() };
    let result = Some(TaskContent::Text(forged));
    let said = shown(&TaskDetails { summary: forged_summary, refused, result, ..task.clone() });
    assert_eq!(said.lines().filter(|line| line.starts_with("state")).count(), 1, "{said}");
    assert!(said.contains("result    \n  | no\n  | state") && !said.contains('\u{202e}'), "{said}");
    let deps = TaskDependencies {
        task: summary(WorkState::Blocked),
        depends_on: vec![TaskLink::Id(TaskId { task: "0b".to_owned() })],
        needed_by: Vec::new(),
        waits_for: None,
    };
    assert_eq!(dependencies(&deps), "0a  blocked  a.b\ndepends on:\n  0b    \nneeded by: nothing");
    let of = |verified| TaskLink::Summary(Box::new(TaskSummary { verified, ..summary(WorkState::Completed) }));
    let said = dependencies(&TaskDependencies { depends_on: vec![of(Some(true)), of(Some(false))], ..deps });
    assert!(said.contains("depends on:\n  0a  completed  a.b\n  0a  completed  a.b  not verified\n"), "{said}");
}

#[test]
fn resources_are_shown_with_who_has_them_and_who_waits() {
    let claim =
        |task: &str, next| ResourceClaim { task: task.to_owned(), number: 4, state: WorkState::Ready, votes: 2, next };
    let press = ResourceStatus {
        resource: "press".to_owned(),
        rule: "vote".to_owned(),
        used_by: Some("0a".to_owned()),
        waiting: vec![claim("0b", true), claim("0c", false), claim("0d", false)],
        waiting_total: 3,
        votes: 2,
        members: 3,
        decided: Some("0c".to_owned()),
    };
    let idle = ResourceStatus {
        resource: "door".to_owned(),
        rule: "first".to_owned(),
        used_by: None,
        waiting: Vec::new(),
        decided: None,
        ..press.clone()
    };
    let decision = ResourceDecision {
        number: 0,
        resource: "press".to_owned(),
        rule: "vote".to_owned(),
        task: "0a".to_owned(),
        others: Vec::new(),
        others_total: 3,
        dissent: Vec::new(),
        dissent_total: 1,
        at_ms: 9,
    };
    let list = |resources, decisions| ResourceList { resources, total: 0, decisions };
    let said = resources(&list(vec![press, idle], vec![decision]));
    for part in ["has it", "is next, 2 votes", "is decided on, 2 votes", "waits, 2 votes", "nobody wants it"] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert!(said.ends_with("last decisions:\n  press went to 0a by vote, 3 waited, 1 voted otherwise"), "{said}");
    assert_eq!(resources(&list(Vec::new(), Vec::new())), "no task wants a resource, and none has a rule");
}
