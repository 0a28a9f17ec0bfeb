//! Agents as WebAssembly components: equal ones in Python, JavaScript and Rust, and a hostile one.

use std::path::Path;

use althing_e2e::guests::{from_javascript, from_python, from_rust};
use althing_e2e::sessions::{BY_HAND, End, SOON, Station, Teller, words};
use althing_e2e::{ADD_MAX, Machine, Node, Running, cast, http, text, until};
use serde_json::{Value, json};

const PYTHON: &str = include_str!("../../../../examples/counter-agent/app.py");
const JAVASCRIPT: &str = include_str!("../../../../examples/counter-agent/app.js");
const RUST: &str = include_str!("../../../../examples/counter-agent/rust/src/lib.rs");
const HOSTILE: &str = include_str!("../../python/hostile.py");
/// What a component may hold, bytes.
const MEMORY: u64 = 128 << 20;
/// Calls of a long turn, each of which counts; after every second one the component saves how far it came.
const CALLS: u64 = 5;
/// The call during which its node ends, and how many it had made when it had saved last.
const CUT: u64 = 4;
const SAVED: u64 = 2;
/// What it tries, and what it is told when it is stopped. A recursion ends where the first of three limits is.
const ATTACKS: [(&str, &[&str]); 3] = [
    ("spin", &["it was stopped: it exceeded its 500 ms"]),
    ("allocate", &["it exceeded its 100663296 bytes of memory"]),
    ("recurse", &["it exceeded its 500 ms", "it exceeded its 100663296 bytes of memory", "call stack exhausted"]),
];
/// Turns at once of each.
const AT_ONCE: usize = 3;
/// Growth of the node's memory that is allowed over all attacks. The memory of a guest goes back to the system at the
/// end of its turn (`linear_memory_keep_resident`), so that the 96 MiB of not even one may be left. What stays is the
/// stacks of the turns at once, 2.5 MiB each; the ring of spans, 4 MiB; and the write buffers of the store, 8 MiB. The
/// allocator may keep more: 18 to 26 MiB were measured in all, and 32 on a busy machine, where the neighbour is asked more often
/// meanwhile and each of its tasks leaves a record and entries of the audit log. The bound is half of what one guest would leave.
const GROWTH_KIB_MAX: u64 = 48 << 10;

fn add(machine: &Machine, module: &Path, compute: &Value) {
    let file = json!({
        "name": "guest",
        "description": "Is a component",
        "runtime": { "wasm": { "module": module } },
        "contract": { "class": { "latency": "srt" }, "compute": compute },
    });
    machine.write("guest.yaml", &file.to_string());
    let mut adding = Running::start(&mut machine.althing(&["agent", "add", "guest.yaml"]));
    until(ADD_MAX, "it is compiled", || adding.ended());
    let added = adding.end(ADD_MAX);
    assert_eq!(added.code, 0, "{added:?}");
}

/// The same component, with a tool, is told to make its calls: gives its task, in the middle of one of them.
fn cut_off(station: &Station, teller: &Teller, node: &Node, module: &Path) -> String {
    teller.machine.add("teller", &station.guest(module, MEMORY));
    station.hold(&format!("hold-step-{CUT}"));
    let each: Vec<String> = (1..=CALLS).map(|step| format!("{}.{step}", teller.run)).collect();
    let mut params = http::says(&format!("each count/word {}", each.join(" ")));
    params["configuration"] = json!({ "returnImmediately": true });
    let task = text(&http::ask(&node.gateway(), "teller", "SendMessage", &params)["task"]["id"]);
    until(SOON, "the call is made", || station.calls(&teller.run).len() as u64 == CUT);
    task
}

/// The turn goes on from what it saved last: what was before is gone, what came after it is told again, and the call that was cut
/// off is made again by nobody.
fn goes_on_from_its_checkpoint(station: &Station, teller: &Teller, node: &Node, task: &str) {
    station.release(&format!("hold-step-{CUT}"));
    let End::Doubt(_) = teller.end(node, task) else { panic!("a final call was cut off") };
    let shown = teller.machine.json(&["session", "show", task, "--steps"]);
    let rows = shown["turns"][0]["rows"].as_array().expect("rows");
    let steps = |kind: &str| {
        let of_kind = rows.iter().filter(|row| row["kind"] == kind);
        of_kind.map(|row| row["step"].as_u64().expect("a number")).collect::<Vec<u64>>()
    };
    // Steps are numbered from 0.
    assert_eq!(steps("checkpoint"), [SAVED], "{shown}");
    assert_eq!((steps("result"), steps("intent")), (vec![SAVED], vec![SAVED, SAVED + 1]), "{shown}");
    let (doubtful, step) = teller.doubt();
    assert_eq!((doubtful.as_str(), step), (task, CUT - 1));
    let file = teller.result(BY_HAND);
    let done = teller.settle(node, &["--done", &step.to_string(), file.to_str().expect("a plain path")]);
    assert_eq!(words(&done), format!("{CALLS} called, on from {SAVED}"), "{done}");
    let made: Vec<u64> = station.calls(&teller.run).iter().filter_map(|call| call["step"].as_u64()).collect();
    assert_eq!(made, (1..=CALLS).collect::<Vec<u64>>(), "each was made once");
}

fn is_the_counter(module: &Path) {
    let (station, teller) = (Station::new(), Teller::of("component"));
    let machine = &teller.machine;
    let node = machine.up_alone(&[]);
    add(machine, module, &json!({ "memory_bytes": MEMORY }));
    let called = machine.run(&["call", "guest", "one", "two"]);
    assert_eq!((called.code, called.stdout.as_str()), (0, "one two (1)\n"), "{called:?}");
    let failed = machine.run(&["call", "guest", "fail"]);
    assert!(failed.code == 1 && failed.stderr.contains("as it was told"), "{failed:?}");
    let denied = machine.run(&["call", "guest", "call", "files/delete", "{}"]);
    assert!(denied.stderr.contains("denied") || denied.stdout.contains("denied"), "{denied:?}");
    // It may call nothing, so nothing is journalled, and what it saves is refused; it goes on without that.
    let each = machine.run(&["call", "guest", "each", "files/delete", "one", "two"]);
    assert_eq!((each.code, each.stdout.as_str()), (0, "2 called\n"), "{each:?}");
    // It waits for an answer, and counts on from its checkpoint, on another instance and after a crash.
    let asked = machine.run(&["--json", "call", "guest", "ask"]);
    let task: Value = serde_json::from_str(asked.stdout.lines().next().expect("a task")).expect("JSON");
    let task = task["task"]["id"].as_str().expect("an id").to_owned();
    // The same code is compiled once.
    let long = cut_off(&station, &teller, &node, module);
    node.running.kill();
    let node = machine.up_alone(&[]);
    until(ADD_MAX, "both are here again", || {
        let shown = machine.json(&["ps"]);
        shown["agents"].as_array().expect("a list").iter().filter(|agent| agent["state"] == "ready").count() == 2
    });
    let answered = machine.run(&["call", "--task", &task, "guest", "three"]);
    assert_eq!((answered.code, answered.stdout.as_str()), (0, "three (2)\n"), "{answered:?}");
    goes_on_from_its_checkpoint(&station, &teller, &node, &long);
}

#[test]
fn an_agent_from_python() {
    let Some(module) = from_python(PYTHON) else { return };
    is_the_counter(&module);
}

#[test]
fn an_agent_from_rust() {
    let Some(module) = from_rust(RUST) else { return };
    is_the_counter(&module);
}

#[test]
fn an_agent_from_javascript() {
    let Some(module) = from_javascript(JAVASCRIPT) else { return };
    is_the_counter(&module);
}

#[test]
fn one_that_means_no_good_harms_nobody() {
    let Some(module) = from_python(HOSTILE) else { return };
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    add(&machine, &module, &json!({ "memory_bytes": 96 << 20, "cpu_ms_per_turn": 500, "calls_per_turn": 3 }));
    machine.add("echo", &cast::echo("echo", "trusted"));
    let reached = machine.run(&["call", "guest", "reach out"]);
    assert_eq!(reached.code, 0, "{reached:?}");
    assert!(reached.stdout.matches("refused").count() == 6 && !reached.stdout.contains("got"), "{reached:?}");
    let tools = machine.run(&["call", "guest", "tools"]);
    assert!(tools.stdout.matches("refused").count() == 2, "{tools:?}");
    let before = node.memory_kib();
    for (what, reasons) in ATTACKS {
        // Several at once, and a neighbour that is asked as long as one of them works.
        let mut guests: Vec<Running> =
            (0..AT_ONCE).map(|_| Running::start(&mut machine.althing(&["call", "guest", what]))).collect();
        let mut answered = 0;
        until(ADD_MAX, "they are stopped", || {
            let echoed = machine.run(&["call", "echo", "Hello"]);
            assert_eq!((echoed.code, echoed.stdout.as_str()), (0, "Hello\n"), "{what}: {echoed:?}");
            answered += 1;
            guests.iter_mut().all(Running::ended)
        });
        for guest in guests {
            let stopped = guest.end(ADD_MAX);
            let is_told = reasons.iter().any(|why| stopped.stderr.contains(why));
            assert!(stopped.code == 1 && is_told, "{what}: {stopped:?}");
            println!("{what}: {}", stopped.stderr.trim());
        }
        println!("measured: {what}: the neighbour answered {answered} times meanwhile");
    }
    let flooded = machine.run(&["call", "guest", "flood"]);
    assert!(flooded.code == 0 || flooded.stderr.contains("500 ms"), "{flooded:?}");
    let after = node.memory_kib();
    println!("measured: memory before {before} KiB, after {after} KiB");
    assert!(after < before + GROWTH_KIB_MAX, "what guests had was given back: {before} KiB became {after} KiB");
}
