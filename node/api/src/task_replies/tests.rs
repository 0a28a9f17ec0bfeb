//! The JSON of replies about tasks.

use serde_json::json;

use super::*;
use crate::golden::assert_json;

fn own(text: &str) -> String {
    text.to_owned()
}

fn summary() -> TaskSummary {
    TaskSummary {
        task: own("0a"),
        number: 3,
        state: WorkState::Ready,
        needs: own("a.b"),
        priority: own("normal"),
        member: None,
        attempt: 1,
        last_member: None,
        fencing_token: 0,
        stolen: 0,
        handed_over: 0,
        why: None,
        verified: None,
    }
}

/// A task as JSON, whose end is left open.
const SUMMARY: &str = concat!(
    r#"{"task":"0a","number":3,"state":"ready","needs":"a.b","priority":"normal","member":null,"attempt":1,"#,
    r#""lastMember":null,"fencingToken":0,"stolen":0,"handedOver":0,"why":null"#,
);

fn details() -> TaskDetails {
    TaskDetails {
        summary: summary(),
        author: own("urn:a"),
        submitted_ms: 5,
        input: TaskContent::Text(own("do it")),
        result: None,
        lease_until_ms: None,
        deadline_ms: None,
        attempts_max: 3,
        resources: Vec::new(),
        channel: None,
        refused: Vec::new(),
        waits_for: Some(own("a member that can do it")),
        result_reference: None,
        result_error: None,
        candidates: None,
        explained_by_leader: None,
    }
}

#[test]
fn tasks_are_listed_with_what_they_do_not_have() {
    let held = TaskSummary {
        state: WorkState::TimedOut,
        member: Some(own("did:x")),
        last_member: Some(own("did:y")),
        fencing_token: 4,
        stolen: 1,
        handed_over: 2,
        why: Some(own("its deadline passed")),
        ..summary()
    };
    let json = concat!(
        r#"{"task":"0a","number":3,"state":"timed-out","needs":"a.b","priority":"normal","member":"did:x","#,
        r#""attempt":1,"lastMember":"did:y","fencingToken":4,"stolen":1,"handedOver":2,"why":"its deadline passed"}"#,
    );
    let list = TaskList { tasks: vec![summary(), held], total: 2 };
    assert_json(&list, &format!(r#"{{"tasks":[{SUMMARY}}},{json}],"total":2}}"#));
    let states = [
        WorkState::Blocked,
        WorkState::Ready,
        WorkState::Assigned,
        WorkState::Working,
        WorkState::Completed,
        WorkState::Failed,
        WorkState::TimedOut,
        WorkState::Canceled,
    ];
    states.iter().for_each(|state| assert_json(state, &format!("{:?}", state.name())));
    assert_eq!(states.iter().filter(|state| !state.is_finished()).count(), 4);
}

#[test]
fn a_task_is_told_and_what_was_not_asked_is_not_written() {
    let told = concat!(
        r#","author":"urn:a","submittedMs":5,"input":"do it","result":null,"leaseUntilMs":null,"deadlineMs":null,"#,
        r#""attemptsMax":3,"resources":[],"refused":[],"waitsFor":"a member that can do it"}"#,
    );
    assert_json(&details(), &format!("{SUMMARY}{told}"));
}

#[test]
fn a_task_is_told_with_where_its_result_is_and_what_members_lack() {
    let reference =
        ContentReference { digest: own("0f"), bytes: 7, media_type: own("text/plain"), holder: own("did:x") };
    let lost = TaskDetails {
        input: TaskContent::Message(json!({ "role": "ROLE_USER", "parts": [{ "text": "hi" }] })),
        lease_until_ms: Some(8),
        deadline_ms: Some(9),
        resources: vec![own("press")],
        channel: Some(own("web")),
        refused: vec![TaskRefusal { node: own("did:y"), reason: own("no") }],
        waits_for: None,
        result_reference: Some(reference.clone()),
        result_error: Some(own("nobody answers")),
        candidates: Some(vec![MemberVerdict { node: own("did:y"), reason: own("full"), verdict: own("is full") }]),
        explained_by_leader: Some(true),
        ..details()
    };
    let told = concat!(
        r#","author":"urn:a","submittedMs":5,"input":{"role":"ROLE_USER","parts":[{"text":"hi"}]},"result":null,"#,
        r#""leaseUntilMs":8,"deadlineMs":9,"attemptsMax":3,"resources":["press"],"channel":"web","#,
        r#""refused":[{"node":"did:y","reason":"no"}],"waitsFor":null,"#,
        r#""resultReference":{"digest":"0f","bytes":7,"mediaType":"text/plain","holder":"did:x"},"#,
        r#""resultError":"nobody answers","#,
        r#""candidates":[{"node":"did:y","reason":"full","verdict":"is full"}],"explainedByLeader":true}"#,
    );
    assert_json(&lost, &format!("{SUMMARY}{told}"));
    let json = r#"{"digest":"0f","bytes":7,"mediaType":"text/plain","holder":"did:x"}"#;
    assert_json(&TaskContent::Reference(reference), json);
    let message = TaskContent::Message(json!({ "digest": "0f", "bytes": 7, "mediaType": "a", "holder": "b", "of": 1 }));
    assert_json(&message, r#"{"digest":"0f","bytes":7,"mediaType":"a","holder":"b","of":1}"#);
}

#[test]
fn what_is_done_with_a_task_is_told() {
    assert_json(&TaskSubmission { task: own("0a"), number: Some(3) }, r#"{"task":"0a","number":3}"#);
    assert_json(&TaskSubmission { task: own("0a"), number: None }, r#"{"task":"0a","number":null}"#);
    assert_json(&TaskCancellation { canceled: own("0a") }, r#"{"canceled":"0a"}"#);
    assert_json(&TaskDependency { task: own("0a"), on: own("0b") }, r#"{"task":"0a","on":"0b"}"#);
    let rule = ResourceRule { resource: own("press"), rule: own("vote") };
    assert_json(&rule, r#"{"resource":"press","rule":"vote"}"#);
    let choice = ResourceChoice { resource: own("press"), task: own("0a") };
    assert_json(&choice, r#"{"resource":"press","task":"0a"}"#);
    let reply = serde_json::to_string(&TaskReply::Choice(choice)).expect("a reply is JSON");
    assert_eq!(reply, r#"{"resource":"press","task":"0a"}"#);
}

#[test]
fn of_tasks_that_are_not_shown_only_the_ids_are_told() {
    let deps = TaskDependencies {
        task: summary(),
        depends_on: vec![TaskLink::Id(TaskId { task: own("0b") }), TaskLink::Summary(Box::new(summary()))],
        needed_by: Vec::new(),
        waits_for: None,
    };
    let links = format!(r#""dependsOn":[{{"task":"0b"}},{SUMMARY}}}],"neededBy":[],"waitsFor":null"#);
    assert_json(&deps, &format!(r#"{{"task":{SUMMARY}}},{links}}}"#));
}

#[test]
fn resources_are_told_with_who_waits_and_what_was_decided() {
    let claim = ResourceClaim { task: own("0b"), number: 4, state: WorkState::Ready, votes: 2, next: true };
    let resource = ResourceStatus {
        resource: own("press"),
        rule: own("vote"),
        used_by: None,
        waiting: vec![claim],
        waiting_total: 1,
        votes: 2,
        members: 3,
        decided: Some(own("0b")),
    };
    let decision = ResourceDecision {
        number: 0,
        resource: own("press"),
        rule: own("vote"),
        task: own("0a"),
        others: vec![own("0b")],
        others_total: 1,
        dissent: vec![ResourceVote { node: own("did:x"), task: own("0b") }],
        dissent_total: 1,
        at_ms: 9,
    };
    assert_json(
        &ResourceList { resources: vec![resource], total: 1, decisions: vec![decision] },
        concat!(
            r#"{"resources":[{"resource":"press","rule":"vote","usedBy":null,"waiting":[{"task":"0b","number":4,"#,
            r#""state":"ready","votes":2,"next":true}],"waitingTotal":1,"votes":2,"members":3,"decided":"0b"}],"#,
            r#""total":1,"decisions":[{"number":0,"resource":"press","rule":"vote","task":"0a","others":["0b"],"#,
            r#""othersTotal":1,"dissent":[{"node":"did:x","task":"0b"}],"dissentTotal":1,"atMs":9}]}"#,
        ),
    );
}
