//! What agents' programs say: whoever adds one is told that it ended, and `althing logs` shows the rest.

use std::process::Stdio;
use std::time::Duration;

use althing_e2e::{COMMAND_MAX, Machine, Running, until};
use nix::sys::signal::Signal;
use serde_json::json;

/// A line comes within this, also on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// An agent whose program is that script of the shell.
fn weather(script: &str) -> String {
    let file = json!({
        "name": "weather",
        "description": "Says what the weather is",
        "skills": [{ "id": "weather.say", "name": "Say", "description": "Says it" }],
        "runtime": { "process": { "command": ["sh", "-c", script], "startup_timeout_ms": 600_000 } },
        "contract": { "class": { "latency": "srt" } },
    });
    file.to_string()
}

#[test]
fn an_agent_whose_program_ends_at_once_is_not_added_and_its_last_lines_are_told() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    machine.write("weather.yaml", &weather("echo loading; echo No module named maps >&2; exit 3"));
    for command in [&["agent", "add", "weather.yaml"][..], &["run", "weather.yaml"]] {
        let refused = machine.run(command);
        assert_eq!(refused.code, 1, "{refused:?}");
        let said = &refused.stderr;
        assert!(said.contains("exit status 3") && said.contains("\n  loading\n  No module named maps"), "{said}");
        assert!(!refused.stdout.contains("runs as"), "{refused:?}");
    }
    assert_eq!(machine.json(&["agent", "list"])["agents"], json!([]), "it is added again once it was mended");
    until(SOON, "nothing of it is left", || machine.run(&["logs", "weather"]).code == 4);
}

#[test]
fn what_a_program_says_is_shown_and_followed() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let file = machine.write("weather.yaml", &weather("echo loading; while true; do sleep 0.2; echo rain >&2; done"));
    let adding = Running::start(&mut machine.althing(&["agent".as_ref(), "add".as_ref(), file.as_os_str()]));
    let kept = || machine.run(&["logs", "weather"]).stdout;
    until(SOON, "its words are kept", || kept().contains(" loading\n") && kept().contains(" rain\n"));
    let row = machine.json(&["ps"])["agents"][0].clone();
    assert_eq!((&row["state"], &row["said"]["program"]), (&json!("starting"), &json!("runtime")), "{row}");
    let mut following = Running::start(&mut machine.althing(&["logs", "-f", "weather"]));
    let (first, before) = (following.line(SOON).expect("a line"), kept().lines().count());
    assert!(first.ends_with(" loading"), "{first}");
    for _ in 0..before + 2 {
        assert!(following.line(SOON).is_some_and(|line| line.ends_with(" rain")));
    }
    following.signal(Signal::SIGINT);
    assert_eq!(following.end(COMMAND_MAX).code, 0);
    let mut unread = machine.althing(&["logs", "-f", "weather"]).stdout(Stdio::piped()).spawn().expect("it is started");
    drop(unread.stdout.take());
    until(COMMAND_MAX, "it ends with its reader", || {
        unread.try_wait().expect("a child").is_some_and(|end| end.success())
    });
    // Whoever does not wait for the answer leaves it added.
    adding.signal(Signal::SIGINT);
    adding.end(COMMAND_MAX);
    assert_eq!(machine.json(&["agent", "list"])["agents"][0]["name"], "weather");
}
