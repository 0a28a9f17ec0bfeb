//! The command line: what it says, how it fails, and what it leaves behind.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use althing_e2e::{COMMAND_MAX, Machine, Node, Running, binary, cast, family, http, runs, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(10);
const SLOW: &str = include_str!("../../python/slow.py");

/// A machine with the program of an agent that takes its time, and the agent's file.
fn slow(machine: &Machine) -> String {
    machine.write("slow.py", SLOW);
    cast::program("slow", &["python3", "slow.py"], "trusted")
}

fn pid_of(machine: &Machine, agent: &str) -> Option<u32> {
    let list = machine.json(&["ps"]);
    let row = list["agents"].as_array().expect("a list").iter().find(|row| row["name"] == agent)?.clone();
    (row["state"] == "ready").then(|| u32::try_from(row["pid"].as_u64()?).ok()).flatten()
}

#[test]
fn without_a_node_every_command_says_how_to_start_one() {
    let machine = Machine::new();
    let commands: [&[&str]; 9] = [
        &["find"],
        &["call", "echo", "hello"],
        &["status"],
        &["ps"],
        &["peers"],
        &["describe", "echo"],
        &["trust"],
        &["agent", "list"],
        &["agent", "remove", "echo"],
    ];
    for command in commands {
        let outcome = machine.run(command);
        assert_eq!(outcome.code, 3, "{command:?}: {outcome:?}");
        // The whole command, with the folder that this one was given.
        let (begins, ends) = ("`althing --data /", " up`\n");
        assert!(outcome.stderr.contains(begins) && outcome.stderr.ends_with(ends), "{command:?}: {outcome:?}");
    }
    let outcome = machine.run(&["--json", "find"]);
    let error: Value = serde_json::from_str(&outcome.stderr).expect("errors are JSON too");
    assert_eq!((outcome.code, &error["error"]["exitCode"]), (3, &json!(3)));
    assert_eq!(machine.run(&["id"]).code, 3, "a node that never ran has no id");
}

#[test]
fn without_the_node_that_is_meant_those_that_run_are_named() {
    let machine = Machine::new();
    let mut up = machine.command(&binary());
    up.args(["--json", "--name", "p1", "up", "--no-lan", "--gateway", "127.0.0.1:0"]);
    let mut running = Running::start(up.args(["--listen", "/ip4/127.0.0.1/tcp/0"]));
    assert!(running.line(3 * SOON).is_some(), "it runs");
    let outcome = Running::start(machine.command(&binary()).arg("status")).end(COMMAND_MAX);
    assert!(outcome.code == 3 && outcome.stderr.contains("Others run: p1. "), "{outcome:?}");
    let outcome = Running::start(machine.command(&binary()).args(["--name", "p1", "status"])).end(COMMAND_MAX);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    running.kill();
}

#[test]
fn mistakes_are_named_and_mended() {
    let machine = Machine::new();
    let outcome = machine.run(&["fnid"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("'find'"), "{outcome:?}");
    assert_eq!(machine.run(&["find", "--limit", "0"]).code, 2);
    for (command, told) in [
        (&["--json", "fnid"][..], "'find'"),
        (&["find", "--limit", "0", "--json"], "--limit"),
        (&["--json", "adopt", "server", "--dry-run"], "before the program"),
        (&["--json"], "Usage: althing"),
    ] {
        let outcome = machine.run(command);
        let error: Value = serde_json::from_str(&outcome.stderr).expect("usage errors are JSON too");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(outcome.code == 2 && error["error"]["exitCode"] == 2, "{command:?}: {outcome:?}");
        assert!(message.contains(told) && !message.starts_with("error:"), "{command:?}: {message}");
    }
    let help = machine.run(&["--json", "--help"]);
    assert!(help.code == 0 && help.stdout.contains("Usage: althing"), "{help:?}");
    for list in ["secret", "token"] {
        let outcome = machine.run(&[list, "list"]);
        let none = format!("no {list}; `althing {list} ");
        assert!(outcome.code == 0 && outcome.stdout.starts_with(&none), "{outcome:?}");
    }

    machine.configure("[gateway]\nlisten_on = \"127.0.0.1:0\"\n");
    let outcome = machine.run(&["up"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("did you mean `gateway.listen`?"), "{outcome:?}");
    machine.configure("");

    let _node = machine.up_alone(&[]);
    machine.write("bad.yaml", "name: bad\ntitel: A typo\n");
    let outcome = machine.run(&["agent", "add", "bad.yaml"]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.stderr.contains("bad.yaml") && outcome.stderr.contains("titel"), "{outcome:?}");
    assert_eq!(machine.run(&["agent", "add", "none.yaml"]).code, 2);
    for command in
        [&["call", "nobody", "hello"][..], &["describe", "nobody"], &["agent", "remove", "nobody"], &["find"]]
    {
        let outcome = machine.run(command);
        assert_eq!(outcome.code, 4, "{command:?}: {outcome:?}");
        assert!(!outcome.stderr.is_empty(), "{command:?} says why");
    }
    assert_eq!(machine.run(&["trust", "did:key:zzz"]).code, 2);
    let missing = machine.write("program.yaml", &cast::program("missing", &["no-such-program"], "trusted"));
    let outcome = machine.run(&["agent".as_ref(), "add".as_ref(), missing.as_os_str()]);
    assert!(outcome.code != 0 && outcome.stderr.contains("no-such-program"), "{outcome:?}");
    assert_eq!(machine.json(&["agent", "list"]), json!({ "agents": [] }), "nothing is kept of an agent that failed");
}

/// SR-3: else it would know none of its users.
#[cfg(target_os = "linux")]
#[test]
fn a_node_that_can_read_no_keys_of_its_issuer_does_not_start() {
    let machine = Machine::new();
    let config = "[gateway.oauth]\nissuer = \"https://id.example\"\naudience = \"https://mesh.example\"\n";
    machine.configure(config);
    let no_certificates = machine.folder().join("none");
    std::fs::create_dir(&no_certificates).expect("a new folder");
    let mut up = machine.althing(&["up", "--no-lan", "--gateway", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"]);
    up.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", no_certificates);
    let outcome = Running::start(&mut up).end(COMMAND_MAX);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    for told in ["gateway.oauth", "https://id.example", "SSL_CERT_FILE"] {
        assert!(outcome.stderr.contains(told), "{told}: {outcome:?}");
    }
}

#[test]
fn a_name_with_a_typo_is_answered_with_the_one_that_may_be_meant() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    machine.json(&["group", "create", "team"]);
    machine.json(&["schedule", "add", "team", "nightly", "0 6 * * *", "--cap", "no.body"]);
    let task = machine.json(&["task", "submit", "team", "--cap", "no.body", "x"])["task"].clone();
    let task = task.as_str().expect("an id");
    let other = format!("{}{}", &task[..task.len() - 1], if task.ends_with('0') { '1' } else { '0' });
    let commands: [(&[&str], i32, &str); 10] = [
        (&["call", "ecko", "hello"], 4, "echo"),
        (&["describe", "ehco"], 4, "echo"),
        (&["describe", "ehco/tool"], 4, "echo"),
        (&["agent", "remove", "ech"], 4, "echo"),
        (&["bind", "--running", "eccho"], 4, "echo"),
        (&["group", "status", "taem"], 4, "team"),
        (&["task", "list", "Team"], 4, "team"),
        (&["task", "show", "team", &task[..8]], 2, task),
        (&["task", "cancel", "team", &other], 5, task),
        (&["schedule", "remove", "team", "nigthly"], 5, "nightly"),
    ];
    for (command, code, meant) in commands {
        let outcome = machine.run(command);
        let hint = format!("; did you mean {meant:?}?");
        assert!(outcome.code == code && outcome.stderr.contains(&hint), "{command:?}: {outcome:?}");
    }
    let outcome = machine.run(&["call", "nobody", "hello"]);
    assert!(!outcome.stderr.contains("did you mean"), "{outcome:?}");
}

#[test]
fn taken_ports_and_a_taken_folder() {
    let machine = Machine::new();
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [gateway, nodes] = [0, 1].map(|at| taken[at].local_addr().expect("bound").port());
    let (listen_http, listen_p2p) = (format!("127.0.0.1:{gateway}"), format!("/ip4/127.0.0.1/tcp/{nodes}"));
    let named = machine.run(&["up", "--no-lan", "--gateway", &listen_http, "--listen", "/ip4/127.0.0.1/tcp/0"]);
    assert_eq!(named.code, 1, "a port that was named is that or none: {named:?}");
    let named = machine.run(&["up", "--no-lan", "--gateway", "127.0.0.1:0", "--listen", &listen_p2p]);
    assert_eq!(named.code, 1, "{named:?}");
    let file = format!("[gateway]\nlisten = {listen_http:?}\n[node]\nlisten = [{listen_p2p:?}]\n");
    machine.configure(&file);
    let node = machine.up(&["--no-lan"]);
    let notes = node.said["notes"].to_string();
    for port in [gateway, nodes] {
        assert!(notes.contains(&port.to_string()), "{notes} does not say that {port} is taken");
    }
    assert_eq!(http::get(&node.gateway(), "/healthz", &[]).status, 200);
    assert!(machine.run(&["status"]).stdout.contains("is taken"), "also who asks later is told");

    let second = machine.run(&["up", "--no-lan", "--gateway", "127.0.0.1:0"]);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.stderr.contains(&format!("pid {}", node.running.pid())), "{second:?}");
    assert!(second.stderr.contains("stop it first"), "{second:?}");
    assert_eq!(machine.run(&["status"]).code, 0, "the first one still runs");
}

#[test]
fn json_is_json_and_secrets_are_secret() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    let commands: [&[&str]; 8] =
        [&["status"], &["peers"], &["ps"], &["agent", "list"], &["trust"], &["find"], &["describe", "echo"], &["id"]];
    for command in commands {
        assert!(machine.json(command).is_object(), "{command:?}");
    }
    let events = machine.run(&["--json", "call", "echo", "hello"]).stdout;
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!(events.first().is_some_and(|event| event["task"]["id"].is_string()), "a task comes first: {events:?}");
    assert_eq!(
        events.last().map(|event| &event["statusUpdate"]["status"]["state"]),
        Some(&json!("TASK_STATE_COMPLETED"))
    );
    assert!(machine.run(&["call", "echo", "hello"]).stdout.contains("hello"));
    assert!(machine.run(&["find", "--skill", "echo.*", "--explain"]).stdout.contains("echo.say"));
    assert_eq!(machine.run(&["find", "--action", "sing"]).code, 4);

    let mut keys = 0;
    for folder in [machine.data(), machine.config()] {
        for entry in std::fs::read_dir(&folder).expect("a folder of the node") {
            let entry = entry.expect("readable");
            let (name, mode) = (entry.file_name(), entry.metadata().expect("readable").permissions().mode() & 0o777);
            let name = name.to_string_lossy().into_owned();
            if name.ends_with(".key") || name == "control.sock" {
                keys += 1;
                assert_eq!(mode, 0o600, "{name} is {mode:o}");
            }
        }
    }
    assert!(keys >= 4, "the node's key, the owner's two, and the socket");
    let mode = std::fs::metadata(machine.data()).expect("a folder").permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "between bind and chmod the socket is shielded by its folder");

    let id = machine.json(&["id"]);
    assert_eq!(id["node"], node.said["node"]);
    node.running.kill();
    assert_eq!(machine.json(&["id"]), id, "`id` needs no running node");
}

#[test]
fn after_kill_9_agents_and_tasks_are_there() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    let said = http::ask(&node.gateway(), "echo", "SendMessage", &http::says("remember me"));
    let id = said["task"]["id"].clone();
    assert!(id.is_string(), "{said}");
    let before = http::ask(&node.gateway(), "echo", "GetTask", &json!({ "id": id }));
    let did = node.did();
    for _ in 0..3 {
        machine.run(&["call", "echo", "and", "me"]);
    }
    node.running.kill();

    let node = machine.up_alone(&[]);
    assert_eq!(node.did(), did);
    assert_eq!(machine.run(&["call", "echo", "hello"]).code, 0);
    assert_eq!(http::ask(&node.gateway(), "echo", "GetTask", &json!({ "id": id })), before);
    let list = http::ask(&node.gateway(), "echo", "ListTasks", &json!({}));
    assert_eq!(list["totalSize"], 5, "{list}");

    node.running.signal(Signal::SIGTERM);
    let ended = node.running.end(COMMAND_MAX);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!machine.data().join("control.sock").exists(), "a node that stopped takes its socket with it");
    assert_eq!(machine.run(&["status"]).code, 3);
}

/// Calls the slow agent, and presses Ctrl-C when the lines of the answer so far are like this.
fn interrupted(machine: &Machine, node: &Node, text: &str, so_far: impl Fn(&[String]) -> bool) {
    let mut call = Running::start(&mut machine.althing(&["--json", "call", "slow", text]));
    let first: Value = serde_json::from_str(&call.line(SOON).expect("a task")).expect("JSON");
    let mut lines = Vec::new();
    until(SOON, "the moment for Ctrl-C", || {
        lines.extend(call.line(Duration::from_millis(10)));
        so_far(&lines)
    });
    call.signal(Signal::SIGINT);
    let pressed = Instant::now();
    let outcome = call.end(COMMAND_MAX);
    println!("measured: Ctrl-C to the end of the call: {:?}", pressed.elapsed());
    assert_eq!(outcome.code, 130, "{outcome:?}");
    assert!(outcome.stderr.contains("is cancelled"), "{outcome:?}");
    let kept = http::ask(&node.gateway(), "slow", "GetTask", &json!({ "id": first["task"]["id"] }));
    assert_eq!(kept["status"]["state"], "TASK_STATE_CANCELED", "{kept}");
}

#[test]
fn control_c_cancels_and_remove_ends_the_program() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    machine.add("slow", &slow(&machine));
    let quick = machine.run(&["call", "slow", "quick"]);
    assert_eq!((quick.code, quick.stdout.as_str()), (0, "0 \n"), "{quick:?}");

    interrupted(&machine, &node, "take your time", |lines| lines.iter().any(|line| line.contains("artifactUpdate")));
    until(SOON, "the program is told", || machine.folder().join("cancelled").exists());

    let pid = pid_of(&machine, "slow").expect("it runs");
    let all = family(pid);
    assert!(all.len() >= 3, "keeper, program and its child: {all:?}");
    machine.json(&["agent", "remove", "slow"]);
    assert!(all.iter().all(|pid| !runs(*pid)), "a program, or its child, outlives its agent");
    assert_eq!(machine.run(&["call", "slow", "quick"]).code, 4);
    assert_eq!(machine.json(&["ps"]), json!({ "agents": [] }));

    // Cancelled before the program said a word, and so before it named its task.
    std::fs::remove_file(machine.folder().join("cancelled")).expect("it was told");
    machine.add("slow", &slow(&machine));
    until(COMMAND_MAX, "the program is up", || pid_of(&machine, "slow").is_some());
    interrupted(&machine, &node, "late", |_| machine.folder().join("asked").exists());
    until(SOON, "the program is told all the same", || machine.folder().join("cancelled").exists());

    let all = family(pid_of(&machine, "slow").expect("it runs"));
    node.running.kill();
    until(SOON, "the program ends with its node", || all.iter().all(|pid| !runs(*pid)));
}

/// The admission test, as its page tells it.
#[test]
fn admission_is_proved_offline_and_a_refusal_says_why_and_what_would_do() {
    let machine = Machine::new();
    let set = r#"[{"id":"control","ts":[{"C":2500,"T":10000,"Q":1000},{"C":5000,"T":20000,"Q":1000},{"C":9000,"T":50000,"Q":1000}]}]"#;
    let file = machine.write("set.json", set);
    let file = file.to_str().expect("a plain path");
    let limited = machine.json(&["contract", "admit", file, "--preemption", "limited"]);
    let responses: Vec<u64> = limited["sets"][0]["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .map(|task| task["response"].as_u64().expect("a bound"))
        .collect();
    assert_eq!(responses, [3_499, 8_499, 19_000]);
    let refused = machine.run(&["--json", "contract", "admit", file, "--preemption", "none"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    let told: serde_json::Value = serde_json::from_str(&refused.stdout).expect("JSON");
    let third = &told["sets"][0]["tasks"][2];
    assert_eq!(third["reason"], serde_json::json!({ "code": "demand", "at_ns": 10_000, "excess_ns": 1_499 }));
    assert_eq!(third["hint"], serde_json::json!({ "C": 7_501 }));
    let followed = machine.write("followed.json", &set.replace("9000", "7501"));
    let followed = followed.to_str().expect("a plain path");
    assert_eq!(machine.run(&["contract", "admit", followed, "--preemption", "none"]).code, 0);
    for (name, wrong) in [
        ("empty", ""),
        ("no tasks", "{}"),
        ("no time", r#"{"ts":[{"C":0,"T":1}]}"#),
        ("negative", r#"{"ts":[{"C":-1,"T":1}]}"#),
    ] {
        let file = machine.write("wrong.json", wrong);
        let outcome = machine.run(&["contract", "admit", file.to_str().expect("a plain path")]);
        assert_eq!(outcome.code, 2, "{name}: {outcome:?}");
    }
}
