//! A turn whose agent changed while its node was away: it stops, and the owner of the node has it go on from one of its steps.
#![expect(clippy::disallowed_methods, reason = "a turn may go on for a day of the real time of day")]

use std::time::{SystemTime, UNIX_EPOCH};

use althing_e2e::sessions::{SOON, Station, Teller, words};
use althing_e2e::{http, until};
use serde_json::{Value, json};

/// How long a turn that stopped may go on, milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// What the agent says when both of its calls were made.
const BOTH: &str = "heard [step 1] [step 2]";

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("a time of this age")
}

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

    let list = machine.json(&["session", "list"]);
    let stop = &list["stopped"][0];
    assert_eq!((&list["sessions"], &stop["task"], &stop["agent"]), (&json!([]), &json!(task), &json!("teller")));
    assert!(stop["why"].as_str().is_some_and(|why| why.contains("VERSION_CHANGED: ")), "{list}");
    let left_ms = stop["untilMs"].as_u64().map(|until| until.saturating_sub(now_ms()));
    assert!(left_ms.is_some_and(|left| left > DAY_MS / 2 && left <= DAY_MS), "about a day is left: {list}");
    let told = machine.run(&["session", "list"]).stdout;
    for words in ["These turns stopped", task.as_str(), "session show TASK --steps", "session resume TASK --from N"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    let totals = json!({ "sessions": 0, "inDoubt": 0, "stopped": 1 });
    assert_eq!(machine.json(&["status"])["layers"]["l4Session"], totals);
    assert!(machine.run(&["status"]).stdout.contains("1 stopped: `althing session list` tells why"));

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
    until(SOON, "its journal ends with it", || machine.json(&["session", "list"])["sessions"] == json!([]));
    assert_eq!(machine.json(&["session", "list"]), json!({ "sessions": [], "stopped": [] }));
    let totals = json!({ "sessions": 0, "inDoubt": 0, "stopped": 0 });
    assert_eq!(machine.json(&["status"])["layers"]["l4Session"], totals, "nothing stands still any more");
    refused("2", 5);
    let told = machine.run(&["doctor"]);
    assert!(!told.stdout.contains(&task), "nothing is lost any more: {told:?}");
}
