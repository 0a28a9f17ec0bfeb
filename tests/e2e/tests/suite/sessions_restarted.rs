//! A turn whose agent changed while its node was away: it stops, and the owner of the node has it go on from one of its steps.

use althing_e2e::sessions::{SOON, Station, Teller, words};
use althing_e2e::{http, until};
use serde_json::{Value, json};

/// What the agent says when both of its calls were made.
const BOTH: &str = "heard [step 1] [step 2]";

#[test]
fn another_version_goes_on_from_a_step_with_what_was_done_before_and_forgets_no_final_call() {
    let station = Station::new();
    let teller = Teller::of("restarted");
    let machine = &teller.machine;
    let node = teller.begin(&station, None);
    station.hold("hold-tool");
    let task = teller.is_told(&node);
    until(SOON, "the call is made", || !station.calls("restarted").is_empty());
    station.hold("hold-model");
    station.release("hold-tool");
    let show = ["session", "show", task.as_str(), "--steps"];
    until(SOON, "the call is answered", || {
        let shown = machine.json(&show);
        let rows = shown["turns"][0]["rows"].as_array().cloned().unwrap_or_default();
        rows.iter().any(|row| row["kind"] == "result" && row["name"] == "count/add")
    });
    node.running.kill();
    assert_eq!(station.counts("restarted"), [1, 0]);
    drop(station);

    // Its model and its tool are elsewhere by now.
    let station = Station::new();
    let node = machine.up_alone(&[]);
    machine.json(&["agent", "remove", "teller"]);
    let mut file: Value = serde_json::from_str(&station.file(None)).expect("JSON");
    file["version"] = "2.0.0".into();
    machine.add("teller", &file.to_string());
    let shown = || http::ask_while_up(&node.gateway(), "teller", "GetTask", &json!({ "id": task })).unwrap_or_default();
    until(SOON * 2, "the turn stops", || shown()["status"]["state"] == "TASK_STATE_FAILED");
    let said = shown()["status"]["message"].to_string();
    assert!(said.contains("VERSION_CHANGED: ") && said.contains("the owner of its node"), "{said}");

    let told = machine.run(&["doctor"]);
    assert!(told.code == 1 && told.stdout.contains("WRONG L4") && told.stdout.contains(&task), "{told:?}");
    assert!(told.stdout.contains(&format!("althing session resume {task} --from N")), "{told:?}");

    let refused = |from: &str, code: i32| {
        let refused = machine.run(&["session", "resume", &task, "--from", from]);
        assert!(refused.code == code && !refused.stderr.is_empty(), "{from}: {refused:?}");
        refused.stderr
    };
    let forgets = refused("0", 5);
    assert!(forgets.contains("count/add") && forgets.contains("step 1"), "{forgets}");
    refused("9", 2);
    assert_eq!(station.counts("restarted"), [0, 0], "nothing of that made a call");
    let resumed = machine.json(&["session", "resume", &task, "--from", "2"]);
    assert_eq!(resumed, json!({ "resumed": task, "step": 2 }));
    until(SOON, "the task is completed", || shown()["status"]["state"] == "TASK_STATE_COMPLETED");
    assert_eq!(words(&shown()), BOTH);
    assert_eq!(station.counts("restarted"), [0, 1], "the first call was not made again");
    until(SOON, "its journal ends with it", || machine.json(&["session", "list"]) == json!({ "sessions": [] }));
    refused("2", 5);
    let told = machine.run(&["doctor"]);
    assert!(!told.stdout.contains(&task), "nothing is lost any more: {told:?}");
}
