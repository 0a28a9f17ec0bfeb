//! The JSON of what releases bring.

use serde_json::json;

use super::*;
use crate::golden::assert_json;

fn own(text: &str) -> String {
    text.to_owned()
}

fn work(target: StepTarget) -> WorkflowStep {
    let task = StepTask { input: own("{{input}}"), for_each: None, attempts_max: 3, target };
    let action = StepAction::Task(task);
    WorkflowStep { id: own("draft"), after: Vec::new(), timeout_ms: None, when: None, repeat: None, action }
}

/// Two steps as JSON.
const STEPS: &str = concat!(
    r#"[{"id":"draft","after":[],"timeoutMs":null,"input":"{{input}}","forEach":null,"attemptsMax":3,"#,
    r#""capability":"letter.write"},{"id":"ask","after":["draft"],"timeoutMs":7,"#,
    r#""when":{"step":"draft","is":"equals \"yes\""},"approve":"Well?"}]"#,
);

fn steps() -> Vec<WorkflowStep> {
    let question = WorkflowStep {
        id: own("ask"),
        after: vec![own("draft")],
        timeout_ms: Some(7),
        when: Some(StepTest { step: own("draft"), is: own("equals \"yes\"") }),
        repeat: None,
        action: StepAction::Approval(StepQuestion { approve: own("Well?") }),
    };
    vec![work(StepTarget::Capability(own("letter.write"))), question]
}

#[test]
fn a_step_is_told_with_what_it_does_behind_its_conditions() {
    let repeat = StepRepeat { from: own("draft"), until: own("contains \"done\""), rounds_max: 4 };
    let often = WorkflowStep { repeat: Some(repeat), ..work(StepTarget::Agent(own("clerk"))) };
    let json = concat!(
        r#"{"id":"draft","after":[],"timeoutMs":null,"#,
        r#""repeat":{"from":"draft","until":"contains \"done\"","roundsMax":4},"#,
        r#""input":"{{input}}","forEach":null,"attemptsMax":3,"agent":"clerk"}"#,
    );
    assert_json(&often, json);
    let task = StepTask {
        input: own("x"),
        for_each: Some(own("list")),
        attempts_max: 1,
        target: StepTarget::Capability(own("a.b")),
    };
    assert_json(&task, r#"{"input":"x","forEach":"list","attemptsMax":1,"capability":"a.b"}"#);
}

#[test]
fn a_release_brings_an_agent_or_a_workflow() {
    let file = json!({ "name": "echo", "runtime": { "magic": { "x": 1.5 } }, "callers": "this-node" });
    let agent = ReleaseContents::Agent { file: file.clone(), reaches: vec![own("runtime: its folder")] };
    let json = concat!(
        r#"{"file":{"name":"echo","runtime":{"magic":{"x":1.5}},"callers":"this-node"},"#,
        r#""reaches":["runtime: its folder"]}"#,
    );
    assert_json(&agent, json);
    let workflow = WorkflowOutline {
        name: own("letter"),
        title: own("Letter"),
        description: None,
        version: own("1.0.0"),
        steps: steps(),
        capabilities: vec![own("letter.write")],
        agents: Vec::new(),
        unknown: vec![own("letter.write")],
    };
    let begun = r#"{"workflow":{"name":"letter","title":"Letter","description":null,"version":"1.0.0","steps":"#;
    let ended = r#","capabilities":["letter.write"],"agents":[],"unknown":["letter.write"]}}"#;
    assert_json(&ReleaseContents::Workflow { workflow }, &format!("{begun}{STEPS}{ended}"));
}

#[test]
fn what_is_installed_is_told_as_far_as_it_is_compared() {
    let agent = InstallContents::Agent { reaches: Vec::new(), file: json!({ "name": "echo" }) };
    assert_json(&agent, r#"{"reaches":[],"file":{"name":"echo"}}"#);
    let workflow = InstallContents::Workflow { workflow: WorkflowSteps { steps: steps() } };
    assert_json(&workflow, &format!(r#"{{"workflow":{{"steps":{STEPS}}}}}"#));
}
