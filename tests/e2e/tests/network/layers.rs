//! A1: each layer in turn loses what it depends on; the other layers still answer, and report what they cannot do and why.

use std::time::Duration;

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, cast, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SOON: Duration = Duration::from_secs(40);
const SLOW: &str = include_str!("../../python/slow.py");

/// The findings of `doctor` for a layer.
fn wrong(machine: &Machine, layer: &str) -> String {
    let told = machine.run(&["--json", "doctor"]);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    let findings = told["findings"].as_array().expect("findings").iter();
    findings
        .filter(|finding| finding["fine"] == false && finding["layer"] == layer)
        .map(|finding| format!("{}\n", althing_e2e::text(&finding["what"])))
        .collect()
}

/// The layers in `status`.
fn layers(machine: &Machine) -> Vec<String> {
    let status = machine.json(&["status"]);
    status["layers"].as_object().expect("layers").keys().cloned().collect()
}

#[test]
fn what_is_taken_from_one_layer_is_missed_by_that_one_only() {
    let Some(world) = World::new(2, Multicast::Carried) else { return };
    let [one, two] = &world.machines[..] else { panic!("two machines") };
    let nodes = [one.up(&[]), two.up(&[])];
    one.add("native", &cast::echo("native", "anyone"));
    two.add("far", &cast::echo("far", "anyone"));
    one.write("slow.py", SLOW);
    let program = cast::program("beside", &["python3", "slow.py"], "anyone");
    // A call while it does not start fails after that time.
    one.add("beside", &program.replace("startup_timeout_ms: 30000", "startup_timeout_ms: 5000"));
    until(SOON, "all find all", || one.finds("far") && two.finds("native") && two.finds("beside"));
    assert_eq!(two.run(&["call", "--anyone", "beside", "quick"]).code, 0);
    let all = layers(one);

    // L1: an agent's program cannot be run any more.
    std::fs::remove_file(one.home().join("slow.py")).expect("it was there");
    let ps = one.json(&["ps"]);
    let agents = ps["agents"].as_array().expect("agents");
    let beside = agents.iter().find(|agent| agent["name"] == "beside").expect("it is there");
    let pid = Pid::from_raw(i32::try_from(beside["pid"].as_i64().expect("a pid")).expect("a pid"));
    kill(pid, Signal::SIGKILL).expect("it runs");
    until(SOON, "the doctor names the layer", || wrong(one, "L1").contains("beside"));
    let called = two.run(&["call", "--anyone", "beside", "quick"]);
    assert!(called.code == 1 && called.stderr.contains("beside"), "{called:?}");
    assert_eq!(
        (two.run(&["call", "--anyone", "native", "hello"]).code, one.run(&["call", "--anyone", "far", "hello"]).code),
        (0, 0)
    );

    // Without multicast no new node is discovered; connections stay open.
    world.quiet();
    assert_eq!(
        (two.run(&["call", "--anyone", "native", "hello"]).code, one.run(&["call", "--anyone", "far", "hello"]).code),
        (0, 0)
    );

    // L2: no connection.
    world.cut(1);
    until(SOON, "it is found no more", || !one.finds("far"));
    let called = one.run(&["call", "--anyone", "far", "hello"]);
    assert!(called.code == 4 && called.stderr.contains("far"), "{called:?}");
    assert_eq!(one.run(&["call", "native", "hello"]).code, 0);
    assert!(one.finds("native"));
    assert_eq!(layers(one), all, "each layer is spoken of, whatever happened to it");
    world.restore(1);
    until(SOON, "it is found again, without a word by multicast", || one.finds("far"));

    // L3: a node that starts now discovers no peer, and reports that; its own agents answer.
    drop(nodes);
    let _nodes = [one.up(&[]), two.up(&[])];
    until(SOON, "the doctor names the layer", || one.run(&["doctor"]).stdout.contains("L3  no peer is connected"));
    assert!(one.finds("native") && !one.finds("far"));
    assert_eq!(one.run(&["call", "native", "hello"]).code, 0);
    let called = one.run(&["call", "--anyone", "far", "hello"]);
    assert!(called.code == 4 && called.stderr.contains("far"), "{called:?}");
    assert_eq!(layers(one), all);
}
