//! E40: each fault is injected for real, and `doctor` names the layer at fault. The symptoms are those of the Agent OSI model,
//! for the layers that are there.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use althing_e2e::{COMMAND_MAX, Machine, Running, cast, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const MODEL: &str = include_str!("../../python/model.py");
const SOON: Duration = Duration::from_secs(60);

/// The layers at fault, with what is wrong there.
fn faults(machine: &Machine, asked: &[&str]) -> Vec<(String, String)> {
    let mut arguments = vec!["--json", "doctor"];
    arguments.extend(asked);
    let told = machine.run(&arguments);
    let report: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told:?}"));
    let findings = report["findings"].as_array().expect("findings").iter();
    let wrong: Vec<(String, String)> = findings
        .filter(|finding| finding["fine"] == false)
        .map(|finding| {
            assert_ne!(finding["remedy"], "", "{finding}");
            (althing_e2e::text(&finding["layer"]), althing_e2e::text(&finding["what"]))
        })
        .collect();
    assert_eq!((told.code == 0, report["fine"] == true), (wrong.is_empty(), wrong.is_empty()), "{told:?}");
    wrong
}

/// The only layer at fault on the way to an agent; none where it answers.
fn at_fault(machine: &Machine, agent: &str) -> Option<String> {
    let wrong = faults(machine, &[agent, "--anyone"]);
    assert!(wrong.len() <= 1, "{wrong:?}");
    wrong.first().map(|(layer, _)| layer.clone())
}

#[test]
fn the_layer_of_each_symptom_is_named() {
    let (here, there) = (Machine::new(), Machine::new());
    let serving = there.up_alone(&[]);
    let _asking = here.up_alone(&["--peer", &serving.address("/ip4/127.0.0.1")]);
    there.add("far", &cast::echo("far", "anyone"));
    there.add("choosy", &cast::echo("choosy", "trusted").replace("exposure: trusted", "exposure: public"));
    until(SOON, "both are found", || here.finds("far") && here.finds("choosy"));
    assert_eq!(at_fault(&here, "far"), None, "nothing is wrong with it");

    // L1: an agent does not start.
    let script = "while [ ! -e go ]; do sleep 0.1; done; exit 1";
    let file = here.write("broken.yaml", &cast::program("broken", &["sh", "-c", script], "anyone"));
    let adding = Running::start(&mut here.althing(&["agent".as_ref(), "add".as_ref(), file.as_os_str()]));
    until(SOON, "it is being started", || here.json(&["agent", "list"])["agents"].to_string().contains("broken"));
    // Whoever does not wait for its answer leaves it added.
    adding.signal(Signal::SIGINT);
    adding.end(COMMAND_MAX);
    here.write("go", "");
    until(SOON, "L1 is named", || {
        faults(&here, &[]).iter().any(|(layer, what)| layer == "L1" && what.contains("broken"))
    });
    assert_eq!(at_fault(&here, "broken").as_deref(), Some("L1"));
    assert_eq!(here.run(&["agent", "remove", "broken"]).code, 0);

    // L2: an agent cannot authenticate, since its key is not the right one; then it can.
    here.write("model.py", MODEL);
    let mut model = Running::start(here.command(Path::new("python3")).args(["model.py", "right"]));
    let port = model.line(SOON).expect("the endpoint says its port");
    let endpoint =
        json!({ "url": format!("http://127.0.0.1:{}/v1", port.trim()), "model": "stub", "secret": "MODEL_KEY" });
    let file = json!({
        "name": "helper",
        "description": "Helps",
        "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
        "contract": { "class": { "latency": "srt" }, "security": { "secrets": ["MODEL_KEY"] } },
    });
    for (secret, answers) in [("wrong", false), ("right", true)] {
        keep_secret(&here, "MODEL_KEY", secret);
        here.add("helper", &file.to_string());
        let called = here.run(&["call", "helper", "hello"]);
        assert_eq!(called.code == 0, answers, "{called:?}");
        let wrong = faults(&here, &[]);
        let told = wrong.iter().any(|(layer, what)| layer == "L2" && what.contains("helper") && what.contains("401"));
        assert_eq!(told, !answers, "{wrong:?}");
        assert_eq!(here.run(&["agent", "remove", "helper"]).code, 0);
    }

    // L2: the other side does not admit this caller.
    assert_eq!(at_fault(&here, "choosy").as_deref(), Some("L2"));

    // L3: an agent cannot be found.
    assert_eq!(at_fault(&here, "nobody").as_deref(), Some("L3"));

    // The other node is gone: at first nobody answers (L2), then it is forgotten (L3).
    drop(serving);
    until(SOON, "a layer is named", || matches!(at_fault(&here, "far").as_deref(), Some("L2" | "L3")));
    until(SOON, "L3 is named", || faults(&here, &[]).iter().any(|(layer, _)| layer == "L3"));
}

pub(super) fn keep_secret(machine: &Machine, name: &str, value: &str) {
    let mut command = machine.althing(&["secret", "set", name]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(value.as_bytes()).expect("it is read");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn what_others_wrote_is_checked_without_a_node() {
    let machine = Machine::new();
    let td = json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "title": "Lamp",
        "securityDefinitions": { "none": { "scheme": "nosec" } },
        "security": "none",
    });
    let mut bad = td.clone();
    bad["security"] = json!("another");
    let card = json!({ "name": "Billing", "url": "https://a.example" });
    for (name, value) in [("good.json", &td), ("bad.json", &bad), ("card.json", &card)] {
        machine.write(name, &value.to_string());
    }
    let lint = |what: &str, files: &[&str]| {
        let mut arguments = vec![what, "lint"];
        arguments.extend(files);
        machine.run(&arguments)
    };
    let good = lint("td", &["good.json"]);
    assert_eq!((good.code, good.stdout.as_str()), (0, "good.json: valid\n"), "{good:?}");
    let both = lint("td", &["good.json", "bad.json"]);
    assert!(both.code == 1 && both.stdout.contains("at /security"), "{both:?}");
    let old = lint("card", &["card.json"]);
    assert!(old.code == 1 && old.stdout.contains("old-version") && old.stdout.contains("/skills"), "{old:?}");
    let missing = lint("card", &["nowhere.json"]);
    assert!(missing.code == 2 && missing.stderr.contains("nowhere.json"), "{missing:?}");
}
