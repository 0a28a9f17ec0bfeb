//! T10: the overhead of every layer is known, on a node that runs, and stays in proportion.

use std::time::Duration;

use althing_e2e::{Machine, until};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(20);
/// A row of a measurement, and how many bare tasks of the same measurement it may take.
struct Bound {
    layer: &'static str,
    /// What is in its name.
    what: &'static str,
    tasks_max: f64,
}

/// A test cannot judge speed: a build for tests took 4.9 to 20.6 for the same turn on different machines, 2.1 to 7.4 for a frame, 0.03 to
/// 0.15 for a name, 6.0 to 30.8 for a task that is read. So these are orders of magnitude, five times the highest, and find what waits or
/// polls; `althing bench layers` has the goals, of a release.
const ALONE: [Bound; 4] = [
    Bound { layer: "L1 execution", what: "turn", tasks_max: 100.0 },
    Bound { layer: "L2 communication", what: "signed and verified", tasks_max: 40.0 },
    Bound { layer: "L3 discovery", what: "name", tasks_max: 1.0 },
    Bound { layer: "calls", what: "reads", tasks_max: 150.0 },
];
/// Likewise: 38 and 49 on one machine.
const REMOTE: Bound = Bound { layer: "L2 communication", what: "there and back", tasks_max: 500.0 };
/// Other programs delay some measurements: of so many the best counts, for each row.
const MEASUREMENTS: usize = 8;

fn p50(measured: &Value, layer: &str, what: &str) -> f64 {
    let rows = measured["overhead"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["layer"] == layer && row["what"].as_str().is_some_and(|it| it.contains(what)));
    let row = row.unwrap_or_else(|| panic!("no {layer}, {what}: {measured}"));
    let (p50, p99) = (row["us"]["p50"].as_f64().expect("a number"), row["us"]["p99"].as_f64().expect("a number"));
    assert!(p50 > 0.0 && p99 >= p50 && row["addsUs"].as_f64().expect("a number") >= 0.0, "{row}");
    p50
}

fn measured(machine: &Machine) -> Value {
    machine.json(&["doctor", "--overhead"])
}

/// Measures until each row was within its bound once, and fails where one never was.
fn in_proportion(machine: &Machine, bounds: &[Bound]) {
    let mut least = vec![f64::INFINITY; bounds.len()];
    let mut last = Value::Null;
    for _ in 0..MEASUREMENTS {
        last = measured(machine);
        let floor = p50(&last, "floor", "bare task");
        for (least, of) in least.iter_mut().zip(bounds) {
            *least = least.min(p50(&last, of.layer, of.what) / floor);
        }
        if least.iter().zip(bounds).all(|(least, of)| *least <= of.tasks_max) {
            break;
        }
    }
    for (least, of) in least.iter().zip(bounds) {
        let Bound { layer, what, tasks_max } = of;
        println!("measured: {layer}, {what}: {least:.2} bare tasks, at most {tasks_max}");
    }
    let is_over = |(least, of): (&f64, &Bound)| *least > of.tasks_max;
    assert!(!least.iter().zip(bounds).any(is_over), "{least:?} bare tasks; the last measurement: {last}");
}

#[test]
fn what_each_layer_adds_to_a_call_is_measured_and_in_proportion() {
    let _alone = crate::alone();
    let here = Machine::new();
    let node = here.up_alone(&[]);
    in_proportion(&here, &ALONE);
    let alone = measured(&here);
    assert_eq!(alone["remote"], false);
    assert!(p50(&alone, "calls", "message") > p50(&alone, "calls", "reads"), "{alone}");

    // With a node of the same owner the way to it is measured; signatures are a part of that.
    let there = here.of_same_owner();
    let _other = there.up_alone(&["--peer", &node.address("/ip4/127.0.0.1")]);
    until(SOON, "they are connected", || !here.json(&["peers"])["peers"].as_array().expect("a list").is_empty());
    let mut both = Value::Null;
    until(SOON, "the other answers", || {
        both = measured(&here);
        both["remote"] == true
    });
    assert!(p50(&both, "L2 communication", "there and back") > p50(&both, "L2 communication", "signed and verified"));
    in_proportion(&here, &[REMOTE]);
    // Its agent is gone again, and was nobody else's to see.
    assert!(here.json(&["ps"])["agents"].as_array().expect("a list").is_empty());
    let shown = here.run(&["doctor", "--overhead"]);
    assert!(shown.code == 0 && shown.stdout.contains("ADDS"), "{shown:?}");
}
