//! Contracts: no agent runs without one, deadlines are proved or refused with the proof, overruns are stopped.

use std::time::Duration;

use althing_e2e::{COMMAND_MAX, Machine, Outcome, Running, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(15);
const CLASSES: [&str; 3] = ["hrt", "srt", "dt"];
/// The processor time that shows in which queue a turn runs: no other work of these threads takes as much.
const WORK_MS: u64 = 200;
/// Beside other programs delay-tolerant work gets a twentieth of a processor. Turns are stopped after a minute.
const WORKED: Duration = Duration::from_secs(30);
/// Adds its two inputs.
const ADD: &str = r#"(module
  (import "althing" "input" (func $input (param i32) (result f64)))
  (import "althing" "output" (func $output (param i32 f64)))
  (func (export "turn")
    (call $output (i32.const 0) (f64.add (call $input (i32.const 0)) (call $input (i32.const 1))))))"#;
const STUCK: &str = r#"(module (func (export "turn") (loop $for_ever (br $for_ever))))"#;

/// An agent file whose module lies beside it.
fn file(name: &str, module: &str, contract: &Value) -> String {
    json!({
        "name": name,
        "description": "Plays its part in a test",
        "runtime": { "wasm": { "module": module } },
        "contract": contract,
    })
    .to_string()
}

fn hrt(period_us: u64, budget_us: u64) -> Value {
    json!({
        "class": { "latency": "hrt", "period_us": period_us, "deadline_us": period_us, "budget_us": budget_us },
        // The machine of a test may have no privilege; what is tested is not how well it keeps time.
        "placement": { "min_grade": "C" },
    })
}

fn machine() -> Machine {
    let machine = Machine::new();
    machine.write("add.wat", ADD);
    machine.write("stuck.wat", STUCK);
    machine
}

fn add(machine: &Machine, name: &str, text: &str) -> Outcome {
    let path = machine.write(&format!("{name}.yaml"), text);
    machine.run(&["agent".as_ref(), "add".as_ref(), path.as_os_str()])
}

fn row(machine: &Machine, name: &str) -> Value {
    let list = machine.json(&["ps"]);
    let found = list["agents"].as_array().expect("a list").iter().find(|row| row["name"] == name).cloned();
    found.unwrap_or_default()
}

#[test]
fn without_a_contract_nothing_runs() {
    let machine = machine();
    let _node = machine.up_alone(&[]);
    for command in [&["run", "add.wat"][..], &["agent", "add", "none.yaml"]] {
        machine.write("none.yaml", "name: none\ndescription: Has none.\nruntime: { wasm: { module: add.wat } }\n");
        let outcome = machine.run(command);
        assert_eq!(outcome.code, 2, "{outcome:?}");
        assert!(outcome.stderr.contains("no contract") && outcome.stderr.contains("latency: srt"), "{outcome:?}");
    }
    assert_eq!(machine.json(&["ps"]), json!({ "agents": [] }));
}

/// The processor time that the threads of a process with that name had, milliseconds.
fn processor_ms(pid: u32, thread: &str) -> u64 {
    let named = format!("({thread}");
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let ticks = stats.filter_map(|stat| {
        // `TID (NAME) STATE …`; the 14th and the 15th field are ticks of 10 ms (proc_pid_stat(5)).
        let (before, after) = stat.rsplit_once(") ")?;
        let mut times = after.split(' ').skip(11).map_while(|field| field.parse::<u64>().ok());
        before.ends_with(&named).then(|| times.next().zip(times.next()))?
    });
    ticks.map(|(user, system)| (user + system) * 10).sum()
}

/// The same agent in each class, under the name of the class: it does the same.
fn all_add(machine: &Machine) {
    for class in CLASSES {
        let inputs = json!({ "inputs": { format!("{class}.x"): 2, format!("{class}.y"): 0.5 } }).to_string();
        let called = machine.run(&["call", class, &inputs]);
        assert_eq!(called.code, 0, "{called:?}");
        let told: Value = serde_json::from_str(&called.stdout).expect("numbers");
        assert_eq!(told["outputs"], json!({ format!("{class}.sum"): 2.5 }), "{class}");
    }
}

#[test]
fn the_class_selects_the_queue() {
    let machine = machine();
    let node = machine.up_alone(&[]);
    let mut hard = hrt(10_000, 500);
    for (class, spec) in
        CLASSES.into_iter().zip([hard["class"].take(), json!({ "latency": "srt" }), json!({ "latency": "dt" })])
    {
        let [x, y, sum] = ["x", "y", "sum"].map(|signal| format!("{class}.{signal}"));
        let signals = json!({ "inputs": [x, y], "outputs": [sum] });
        let contract = json!({ "class": spec, "signals": signals, "placement": { "min_grade": "C" } });
        let added = add(&machine, class, &file(class, "add.wat", &contract));
        assert_eq!(added.code, 0, "{added:?}");
        let wrong = machine.run(&["call", class, r#"{"inputs": {"z": 2}}"#]);
        assert_eq!(wrong.code, 5, "{wrong:?}");
        assert!(wrong.stderr.contains(&format!("{class}.x, {class}.y")), "{wrong:?}");
    }
    assert_eq!(CLASSES.map(|class| row(&machine, class)["class"].clone()), CLASSES);
    all_add(&machine);

    // Side by side: two that never end, each on the threads of its class, while the loop goes on with its jobs on a thread
    // of its own; and whoever asks another agent of a class is answered.
    let endless = ["srt", "dt"].map(|class| {
        let name = format!("endless-{class}");
        let added = add(&machine, &name, &file(&name, "stuck.wat", &json!({ "class": { "latency": class } })));
        assert_eq!(added.code, 0, "{added:?}");
        (class, processor_ms(node.running.pid(), class), name)
    });
    let jobs = || row(&machine, "hrt")["hrt"]["jobs"].as_u64().expect("a number");
    let before = jobs();
    let mut calls: Vec<Running> =
        endless.iter().map(|(_, _, name)| Running::start(&mut machine.althing(&["call", name, ""]))).collect();
    until(WORKED, "each works in its queue", || {
        let worked = |class: &str, had: u64| processor_ms(node.running.pid(), class) >= had + WORK_MS;
        endless.iter().all(|(class, had, _)| worked(class, *had)) && jobs() >= before + 20
    });
    all_add(&machine);
    assert!(!calls.iter_mut().any(Running::ended), "they go on meanwhile");
    let hard = &row(&machine, "hrt")["hrt"];
    // A loop that shares a queue is stopped in nearly each job; one that a busy machine holds up, in a few.
    let count = |what: &str| hard[what].as_u64().expect("a number");
    assert!(count("overruns") * 10 < count("jobs") && count("failures") == 0, "{hard}");

    let native = json!({
        "name": "echo", "description": "Says it again.", "runtime": { "native": { "builtin": "echo" } },
        "contract": hrt(10_000, 500),
    });
    let refused = add(&machine, "echo", &native.to_string());
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("runtime.wasm"), "{refused:?}");
}

#[test]
fn what_cannot_be_kept_is_refused_and_the_hint_is_admitted() {
    let machine = machine();
    let _node = machine.up_alone(&[]);
    assert_eq!(add(&machine, "one", &file("one", "add.wat", &hrt(10_000, 4_000))).code, 0);
    let refused = add(&machine, "two", &file("two", "add.wat", &hrt(20_000, 15_000)));
    assert_eq!(refused.code, 5, "{refused:?}");
    for told in ["one: ", "proof", "what now"] {
        assert!(refused.stderr.contains(told), "{told}: {refused:?}");
    }
    assert_eq!(machine.json(&["agent", "list"])["agents"].as_array().map(Vec::len), Some(1), "nothing is kept of it");
    let hint = refused.stderr.split("a budget of at most ").nth(1).and_then(|rest| rest.split(' ').next());
    let budget: u64 = hint.and_then(|hint| hint.parse().ok()).expect("a hint");
    let follows = add(&machine, "two", &file("two", "add.wat", &hrt(20_000, budget)));
    assert_eq!(follows.code, 0, "{follows:?}");
    // Another agent may have what one gives back.
    let third = file("three", "add.wat", &hrt(10_000, 3_000));
    assert_eq!(add(&machine, "three", &third).code, 5);
    assert_eq!(machine.run(&["agent", "remove", "two"]).code, 0);
    assert_eq!(add(&machine, "three", &third).code, 0);
}

#[test]
fn what_runs_over_is_stopped_and_promises_survive_a_crash() {
    let machine = machine();
    let node = machine.up_alone(&[]);
    assert_eq!(add(&machine, "adder", &file("adder", "add.wat", &hrt(10_000, 1_000))).code, 0);
    let mut contract = hrt(10_000, 1_000);
    contract["class"]["on_overrun"] = json!("suspend");
    assert_eq!(add(&machine, "stuck", &file("stuck", "stuck.wat", &contract)).code, 0);
    until(SOON, "it is stopped", || row(&machine, "stuck")["state"] == "suspended");
    assert_eq!(row(&machine, "stuck")["hrt"]["overruns"], 1);
    let called = machine.run(&["call", "stuck", ""]);
    assert!(called.code == 1 && called.stderr.contains("budget"), "{called:?}");
    let failed = || {
        let list = machine.json(&["trace"]);
        let mut traces = list["traces"].as_array().expect("a list").iter();
        traces.find(|trace| trace["failed"] == true).map(|trace| trace["trace"].as_str().expect("an id").to_owned())
    };
    until(SOON, "its trace says that it failed", || failed().is_some());
    let trace = machine.json(&["trace", &failed().expect("a trace")]);
    let mut spans = trace["spans"].as_array().expect("spans").iter();
    assert!(
        spans.any(|span| span["attributes"]["error.type"] == span["failed"] && span["failed"].is_string()),
        "{trace}"
    );
    let jobs = |name: &str| row(&machine, name)["hrt"]["jobs"].as_u64().unwrap_or_default();
    let before = jobs("adder");
    until(SOON, "its neighbour goes on", || jobs("adder") > before + 10);
    let neighbour = &row(&machine, "adder")["hrt"];
    // A machine that is busy with other tests holds a few jobs up.
    let count = |what: &str| neighbour[what].as_u64().expect("a number");
    assert!(count("overruns") * 10 < count("jobs") && count("failures") == 0, "{neighbour}");

    // The placement announces the machine's capabilities, by which agents can be searched.
    let grade = machine.json(&["status"])["layers"]["l1Execution"]["machine"]["grade"].clone();
    let told = || machine.json(&["find", "--min-grade", "C"])["agents"][0]["machine"].clone();
    until(SOON, "the grade is told", || told()["grade"] == grade && told()["promised"].as_f64() > Some(0.1));
    assert!(told()["cores"].as_u64() > Some(0) && told()["memoryMib"].as_u64() > Some(0), "{}", told());

    node.running.kill();
    let _node = machine.up_alone(&[]);
    until(SOON, "both are admitted again", || row(&machine, "adder")["state"] == "ready" && jobs("adder") > 0);
    until(SOON, "and it is stopped again", || row(&machine, "stuck")["state"] == "suspended");
}

#[test]
fn an_agent_runs_for_as_long_as_somebody_looks_on() {
    let machine = machine();
    let _node = machine.up_alone(&[]);
    machine.write("contract.yaml", "class: { latency: srt, priority: 7 }\n");
    let arguments = ["--json", "run", "add.wat", "--contract", "contract.yaml", "--as", "adder"];
    let mut running = Running::start(&mut machine.althing(&arguments));
    until(SOON, "it runs", || row(&machine, "adder")["state"] == "ready");
    assert_eq!(machine.run(&["call", "adder", ""]).code, 0);
    assert_eq!(machine.json(&["agent", "list"]), json!({ "agents": [] }), "it is not kept");
    assert!(!running.ended());
    running.signal(Signal::SIGINT);
    assert_eq!(running.end(COMMAND_MAX).code, 0);
    until(SOON, "it is gone", || row(&machine, "adder").is_null());
    // However whoever looked on ended.
    let running = Running::start(&mut machine.althing(&arguments));
    until(SOON, "it runs", || row(&machine, "adder")["state"] == "ready");
    running.kill();
    until(SOON, "it is gone", || row(&machine, "adder").is_null());
}

#[test]
fn contracts_are_checked_without_a_node() {
    let machine = machine();
    let good = file("good", "add.wat", &hrt(10_000, 500));
    machine.write("good.yaml", &good);
    machine.write("contract.json", &hrt(10_000, 500).to_string());
    machine.write(
        "beside.yaml",
        "name: beside\ndescription: x\nruntime: { wasm: { module: add.wat } }\ncontract: contract.json\n",
    );
    let digests = machine.json(&["contract", "lint", "good.yaml", "contract.json", "beside.yaml"]);
    let digests: Vec<&Value> =
        digests["contracts"].as_array().expect("a list").iter().map(|row| &row["digest"]).collect();
    assert!(digests.len() == 3 && digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    machine.write("bad.yaml", "class:\n  latency: hrt\n  period_us: 10000\n  budget_us: 500\n  prio: 3\n");
    let bad = machine.run(&["contract", "lint", "contract.json", "bad.yaml"]);
    assert_eq!(bad.code, 2, "{bad:?}");
    for told in ["class.deadline_us", "missing", "class.prio", "line 5"] {
        assert!(bad.stderr.contains(told), "{told}: {bad:?}");
    }
    let measure = ["--json", "bench", "--no-goals", "hrt", "--jobs", "20"];
    let bench = Running::start(&mut machine.althing(&measure)).end(COMMAND_MAX);
    assert_eq!(bench.code, 0, "nothing is judged: {bench:?}");
    let report: Value = serde_json::from_str(&bench.stdout).unwrap_or_else(|error| panic!("{error}: {bench:?}"));
    let rows: Vec<&Value> = report["rows"].as_array().expect("rows").iter().map(|row| &row["name"]).collect();
    assert_eq!(rows, ["bare thread", "agent", "plain tokio"]);
    assert!(report.get("goals").is_none(), "how well it keeps time is not tested here: {report}");
}

/// Pipes and devices in place of files: every command and the node refuse them at once, and the node keeps running.
#[test]
fn what_is_no_regular_file_holds_up_neither_a_command_nor_the_node() {
    let machine = machine();
    let node = machine.up_alone(&[]);
    nix::unistd::mkfifo(&machine.folder().join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    machine.write("contract.json", &hrt(10_000, 500).to_string());
    let agent = |contract: &str, module: &str| {
        format!("name: adder\ndescription: Adds.\nruntime: {{ wasm: {{ module: {module} }} }}\ncontract: {contract}\n")
    };
    for (contract, module) in [("pipe", "add.wat"), ("/dev/zero", "add.wat"), ("contract.json", "pipe")] {
        let refused = add(&machine, "adder", &agent(contract, module));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("only regular files are read"), "{refused:?}");
    }
    let folder = machine.folder().join("notes");
    std::fs::create_dir(&folder).expect("a folder");
    machine.write("notes/a.md", "The heron fishes.\n");
    nix::unistd::mkfifo(&folder.join("pipe.md"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let knowledge = "name: notes\ndescription: x\nruntime: { native: { builtin: knowledge, config: { folder: notes } } }\n\
                     contract: { class: { latency: srt } }\n";
    let added = add(&machine, "notes", knowledge);
    assert_eq!(added.code, 0, "{added:?}");
    let answer = machine.run(&["call", "notes", "heron"]);
    assert!(answer.stdout.contains("a.md:1"), "{answer:?}");
    assert_eq!(add(&machine, "adder", &agent("contract.json", "add.wat")).code, 0, "those that come later are added");
    for command in [["contract", "lint", "pipe"], ["contract", "lint", "/dev/zero"], ["contract", "admit", "/dev/zero"]]
    {
        let refused = machine.run(&command);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("only regular files are read"), "{refused:?}");
    }
    // A module that becomes a pipe later prevents neither the node nor its other agents from starting.
    drop(node);
    std::fs::remove_file(machine.folder().join("add.wat")).expect("removed");
    nix::unistd::mkfifo(&machine.folder().join("add.wat"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let _node = machine.up_alone(&[]);
    until(SOON, "the module is refused", || row(&machine, "adder")["why"].to_string().contains("only regular files"));
    assert!(machine.run(&["call", "notes", "heron"]).stdout.contains("a.md:1"));
}

/// After a refusal in the report no empty error is printed.
#[test]
fn task_sets_that_are_refused_say_so_once_and_unknown_letters_are_named() {
    let machine = machine();
    machine.write("over.json", r#"{"id": "over", "ts": [{"C": 9, "T": 10}, {"C": 9, "T": 10}]}"#);
    let refused = machine.run(&["--json", "contract", "admit", "over.json"]);
    assert_eq!((refused.code, refused.stderr.as_str()), (5, ""), "{refused:?}");
    machine.write("letter.json", r#"{"id": "x", "ts": [{"C": 7, "T": 10, "d": 6}]}"#);
    let refused = machine.run(&["contract", "admit", "letter.json"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("task 1") && refused.stderr.contains("Did you mean \"D\""), "{refused:?}");
}

/// A new version of a control loop runs its jobs beside the old one, where both can be kept, and one of them puts out.
#[test]
fn two_versions_of_a_control_loop_are_both_admitted_or_the_new_one_is_refused_with_the_proof() {
    let machine = machine();
    // Its output says which version it is of.
    for (module, word) in [("one.wat", "1"), ("two.wat", "2")] {
        let code = r#"(module (import "althing" "output" (func $output (param i32 f64)))
          (func (export "turn") (call $output (i32.const 0) (f64.const WORD))))"#;
        machine.write(module, &code.replace("WORD", word));
    }
    // It doubles what the loop puts out.
    machine.write(
        "reader.wat",
        r#"(module
          (import "althing" "input" (func $input (param i32) (result f64)))
          (import "althing" "output" (func $output (param i32 f64)))
          (func (export "turn")
            (call $output (i32.const 0) (f64.add (call $input (i32.const 0)) (call $input (i32.const 0))))))"#,
    );
    let _node = machine.up_alone(&[]);
    let signals = |inputs: &[&str], outputs: &[&str]| json!({ "inputs": inputs, "outputs": outputs });
    let with = |budget_us: u64, signals: Value| {
        let mut contract = hrt(10_000, budget_us);
        contract["signals"] = signals;
        contract
    };
    let loop_of = |version: &str, module: &str, budget_us: u64| {
        let text = file("loop", module, &with(budget_us, signals(&[], &["word"])));
        let mut file: Value = serde_json::from_str(&text).expect("JSON");
        file["version"] = json!(version);
        file.to_string()
    };
    let begin = |version: &str, module: &str, budget_us: u64| {
        let path = machine.write("new.yaml", &loop_of(version, module, budget_us));
        machine.run(&["rollout".as_ref(), "loop".as_ref(), "--yes".as_ref(), "--to".as_ref(), path.as_os_str()])
    };
    assert_eq!(add(&machine, "loop", &loop_of("1.0.0", "one.wat", 1_000)).code, 0);
    let reader = file("reader", "reader.wat", &with(500, signals(&["word"], &["double"])));
    assert_eq!(add(&machine, "reader", &reader).code, 0);
    let says = |double: &str| {
        let heard: String = machine.run(&["call", "reader", ""]).stdout.split_whitespace().collect();
        heard.contains(&format!("\"double\":{double}"))
    };
    until(SOON, "the first version puts out", || says("2"));

    let refused = begin("1.1.0", "two.wat", 9_000);
    assert_eq!(refused.code, 5, "{refused:?}");
    for told in ["loop: ", "proof", "what now"] {
        assert!(refused.stderr.contains(told), "{told}: {refused:?}");
    }
    assert_eq!(machine.run(&["rollout", "show", "loop"]).code, 4, "nothing was begun");
    let begun = begin("1.2.0", "two.wat", 1_000);
    assert_eq!(begun.code, 0, "{begun:?}");
    let jobs = || {
        let list = machine.json(&["ps"]);
        let rows: Vec<Value> = list["agents"].as_array().expect("a list").clone();
        let of_new = rows.iter().find(|row| row["name"] == "loop" && row["rollout"]["version"] == "1.2.0");
        of_new.and_then(|row| row["hrt"]["jobs"].as_u64()).unwrap_or_default()
    };
    until(SOON, "both run", || jobs() > 5);
    assert!(says("2"), "the new version puts nothing out yet");
    machine.json(&["rollout", "promote", "loop"]);
    until(SOON, "the new one puts out", || says("4"));
    assert!((0..5).all(|_| says("4")), "and the old one nothing any more");
}
