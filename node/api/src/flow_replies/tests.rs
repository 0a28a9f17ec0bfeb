//! The JSON of replies about workflows and schedules.

use super::*;
use crate::golden::assert_json;

fn own(text: &str) -> String {
    text.to_owned()
}

fn summary() -> RunSummary {
    RunSummary {
        run: own("0a"),
        number: 3,
        workflow: own("letter"),
        state: RunCondition::Running,
        steps: 4,
        completed: 1,
        skipped: 0,
        asking: 1,
        started_ms: 5,
        schedule: None,
    }
}

/// A run as JSON, whose end is left open.
const SUMMARY: &str = concat!(
    r#"{"run":"0a","number":3,"workflow":"letter","state":"running","steps":4,"completed":1,"skipped":0,"#,
    r#""asking":1,"startedMs":5,"schedule":null"#,
);

#[test]
fn runs_are_listed_with_the_schedule_that_began_them() {
    let planned = RunSummary { schedule: Some(own("nightly")), ..summary() };
    let second = SUMMARY.replace(r#""schedule":null"#, r#""schedule":"nightly""#);
    let list = RunList { runs: vec![summary(), planned] };
    assert_json(&list, &format!(r#"{{"runs":[{SUMMARY}}},{second}}}]}}"#));
    let all = [RunCondition::Running, RunCondition::Completed, RunCondition::Failed, RunCondition::Canceled];
    all.iter().for_each(|state| assert_json(state, &format!("{:?}", state.name())));
    let steps = [
        StepCondition::Waiting,
        StepCondition::Working,
        StepCondition::Asking,
        StepCondition::Completed,
        StepCondition::Skipped,
        StepCondition::Failed,
    ];
    steps.iter().for_each(|state| assert_json(state, &format!("{:?}", state.name())));
}

#[test]
fn a_run_is_told_step_by_step() {
    let waits = StepStatus {
        step: own("draft"),
        state: StepCondition::Waiting,
        round: 0,
        tasks: Vec::new(),
        question: None,
        due_ms: None,
        by: None,
        result: None,
        why: None,
    };
    let asks = StepStatus {
        state: StepCondition::Asking,
        tasks: vec![own("0b")],
        question: Some(own("Good?")),
        due_ms: Some(9),
        by: Some(own("urn:a")),
        result: Some(own("yes")),
        why: Some(own("no")),
        ..waits.clone()
    };
    let run = RunDetails {
        summary: summary(),
        author: own("urn:a"),
        input: own("reader"),
        resumed: 2,
        ended_ms: None,
        result: None,
        failure: None,
        step: vec![waits],
    };
    let told = concat!(
        r#","author":"urn:a","input":"reader","resumed":2,"endedMs":null,"result":null,"failure":null,"#,
        r#""step":[{"step":"draft","state":"waiting","round":0,"tasks":[],"question":null,"dueMs":null,"by":null,"#,
        r#""result":null,"why":null}]}"#,
    );
    assert_json(&run, &format!("{SUMMARY}{told}"));
    let ended = RunDetails {
        ended_ms: Some(8),
        result: Some(own("x")),
        failure: Some(StepFailure { step: own("draft"), why: own("no") }),
        step: vec![asks],
        ..run
    };
    let told = concat!(
        r#","author":"urn:a","input":"reader","resumed":2,"endedMs":8,"result":"x","#,
        r#""failure":{"step":"draft","why":"no"},"step":[{"step":"draft","state":"asking","round":0,"tasks":["0b"],"#,
        r#""question":"Good?","dueMs":9,"by":"urn:a","result":"yes","why":"no"}]}"#,
    );
    assert_json(&ended, &format!("{SUMMARY}{told}"));
}

#[test]
fn what_is_done_with_a_run_is_told() {
    assert_json(&RunStart { run: own("0a"), number: Some(3) }, r#"{"run":"0a","number":3}"#);
    assert_json(&RunStart { run: own("0a"), number: None }, r#"{"run":"0a","number":null}"#);
    assert_json(&RunResumption { resumed: own("0a") }, r#"{"resumed":"0a"}"#);
    assert_json(&RunCancellation { canceled: own("0a") }, r#"{"canceled":"0a"}"#);
    let approval = StepApproval { run: own("0a"), step: own("review"), approved: false };
    let json = r#"{"run":"0a","step":"review","approved":false}"#;
    assert_json(&approval, json);
    assert_eq!(serde_json::to_string(&WorkflowReply::Approval(approval)).expect("a reply is JSON"), json);
}

#[test]
fn schedules_are_told_with_what_became_of_their_runs() {
    assert_json(
        &ScheduleAddition { schedule: own("nightly"), next_ms: vec![7] },
        r#"{"schedule":"nightly","nextMs":[7]}"#,
    );
    assert_json(&ScheduleRemoval { removed: own("nightly") }, r#"{"removed":"nightly"}"#);
    let fresh = ScheduleStatus {
        schedule: own("nightly"),
        cron: own("0 2 * * *"),
        zone: own("UTC"),
        catch_up: false,
        overlap: OverlapRule::Skip,
        skipped: 0,
        last_skipped_ms: None,
        asking: None,
        workflow: own("letter"),
        author: own("urn:a"),
        last_ms: None,
        last_run: None,
        failures: 0,
        alarm_ms: None,
        next_ms: vec![7],
    };
    let question = ScheduleQuestion { run: own("0a"), number: 3, step: own("review"), started_ms: 5 };
    let ran = ScheduleStatus {
        skipped: 2,
        last_skipped_ms: Some(4),
        asking: Some(question),
        last_ms: Some(5),
        last_run: Some(own("0a")),
        failures: 3,
        alarm_ms: Some(6),
        next_ms: Vec::new(),
        ..fresh.clone()
    };
    assert_json(
        &ScheduleList { schedules: vec![fresh, ran] },
        concat!(
            r#"{"schedules":[{"schedule":"nightly","cron":"0 2 * * *","zone":"UTC","catchUp":false,"overlap":"skip","#,
            r#""skipped":0,"lastSkippedMs":null,"asking":null,"workflow":"letter","author":"urn:a","lastMs":null,"#,
            r#""lastRun":null,"failures":0,"alarmMs":null,"nextMs":[7]},{"schedule":"nightly","cron":"0 2 * * *","#,
            r#""zone":"UTC","catchUp":false,"overlap":"skip","skipped":2,"lastSkippedMs":4,"#,
            r#""asking":{"run":"0a","number":3,"step":"review","startedMs":5},"workflow":"letter","author":"urn:a","#,
            r#""lastMs":5,"lastRun":"0a","failures":3,"alarmMs":6,"nextMs":[]}]}"#,
        ),
    );
}
