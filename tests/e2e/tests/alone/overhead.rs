//! T10: the overhead of every layer is known, on a node that runs, and stays in proportion.

use std::time::Duration;

use althing_e2e::{Machine, until};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(20);
/// A call that reads is allowed so many bare tasks of the runtime, and a turn as many.
const TASKS_MAX: f64 = 100.0;
/// A turn wakes threads, which takes twice as long in some measurements as in others: the best of so many counts.
const MEASUREMENTS: usize = 8;

fn p50(measured: &Value, layer: &str, what: &str) -> f64 {
    let rows = measured["overhead"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["layer"] == layer && row["what"].as_str().is_some_and(|it| it.contains(what)));
    let row = row.unwrap_or_else(|| panic!("no {layer}, {what}: {measured}"));
    let (p50, p99) = (row["us"]["p50"].as_f64().expect("a number"), row["us"]["p99"].as_f64().expect("a number"));
    assert!(p50 > 0.0 && p99 >= p50 && row["addsUs"].as_f64().expect("a number") >= 0.0, "{row}");
    p50
}

#[test]
fn what_each_layer_adds_to_a_call_is_measured_and_in_proportion() {
    let _alone = crate::alone();
    let here = Machine::new();
    let node = here.up_alone(&[]);
    let measured = || here.json(&["doctor", "--overhead"]);
    let is_in_proportion = |alone: &Value| {
        let most = TASKS_MAX * p50(alone, "floor", "bare task");
        p50(alone, "L1 execution", "turn") < most && p50(alone, "calls", "reads") < most
    };
    let mut alone = measured();
    for _ in 1..MEASUREMENTS {
        if is_in_proportion(&alone) {
            break;
        }
        alone = measured();
    }
    assert_eq!(alone["remote"], false);
    assert!(is_in_proportion(&alone), "{alone}");
    assert!(p50(&alone, "calls", "message") > p50(&alone, "calls", "reads"), "{alone}");
    assert!(p50(&alone, "L3 discovery", "name") < p50(&alone, "calls", "reads") * 10.0, "{alone}");

    // With a node of the same owner the way to it is measured; signatures are a part of that.
    let there = here.of_same_owner();
    let _other = there.up_alone(&["--peer", &node.address("/ip4/127.0.0.1")]);
    until(SOON, "they are connected", || !here.json(&["peers"])["peers"].as_array().expect("a list").is_empty());
    let mut both = Value::Null;
    until(SOON, "the other answers", || {
        both = here.json(&["doctor", "--overhead"]);
        both["remote"] == true
    });
    assert!(p50(&both, "L2 communication", "there and back") > p50(&both, "L2 communication", "signed and verified"));
    // Its agent is gone again, and was nobody else's to see.
    assert!(here.json(&["ps"])["agents"].as_array().expect("a list").is_empty());
    let shown = here.run(&["doctor", "--overhead"]);
    assert!(shown.code == 0 && shown.stdout.contains("ADDS"), "{shown:?}");
}
