//! A registry with a witness, each a program of its own; and a registry beside a node.

use std::path::PathBuf;
use std::time::Duration;

use althing_e2e::registry::{RegistryProcess, WitnessProcess, program};
use althing_e2e::{COMMAND_MAX, Machine, Outcome, Running, cast, until};

/// A witness that was down is asked again within this: at most 30 seconds.
const ASKED_AGAIN: Duration = Duration::from_secs(45);

fn said(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}

fn file(machine: &Machine, version: &str) -> PathBuf {
    let text = cast::echo("echo", "anyone").replace("version: 1.0.0", &format!("version: {version}"));
    machine.write(&format!("echo-{version}.yaml"), &text)
}

fn publish(machine: &Machine, version: &str) -> Outcome {
    machine.run(&["publish", file(machine, version).to_str().expect("a path")])
}

#[test]
fn a_node_that_wants_a_witness_takes_nothing_without_its_signature() {
    let (publisher, user) = (Machine::new(), Machine::new());
    let nodes = [publisher.up_alone(&[]), user.up_alone(&[])];
    let owner = nodes[0].owner();
    let (data, watching) = (publisher.folder().join("registry"), publisher.folder().join("witness"));
    // It makes its key at its first start; the witness is told it.
    let first = RegistryProcess::start(&publisher, &data, &["--publisher", &owner]);
    let key = first.key.clone();
    first.running.kill();
    let witness = WitnessProcess::start(&publisher, &watching, &key, "127.0.0.1:0");
    assert!(witness.log.ends_with(" 0 entries signed"), "{}", witness.log);
    let flags = ["--publisher", &owner, "--witness", &witness.at, &witness.key];
    let registry = RegistryProcess::start(&publisher, &data, &flags);
    let wanted = ["registry", "add", &registry.at, "--key", &key, "--witness", &witness.key];
    publisher.json(&wanted);
    user.json(&["registry", "add", &registry.at, "--key", &key]);
    assert_eq!(publish(&publisher, "1.0.0").code, 0);
    let listed = publisher.run(&["registry", "list"]);
    assert!(said(&listed).contains("1 of these witnesses must have cosigned"), "{listed:?}");

    // Killed: the registry goes on, and who wants the witness is told why it takes nothing.
    let (address, witness_key) = (witness.listens(), witness.key.clone());
    witness.running.kill();
    let unsigned = publish(&publisher, "1.1.0");
    assert!(unsigned.code == 5 && said(&unsigned).contains("0 of the witnesses"), "{unsigned:?}");
    let listed = user.run(&["release", "list", &format!("{owner}:echo")]);
    assert!(said(&listed).contains("1.1.0"), "the registry accepted it: {listed:?}");
    let other = Machine::new();
    let _node = other.up_alone(&[]);
    let refused = other.run(&wanted);
    assert!(refused.code == 5 && said(&refused).contains("you want 1"), "{refused:?}");

    // It knows what it signed, and signs what it missed when the registry asks again.
    let again = WitnessProcess::start(&publisher, &watching, &key, &address);
    assert_eq!(again.key, witness_key);
    assert!(again.log.ends_with(" 2 entries signed"), "{}", again.log);
    until(ASKED_AGAIN, "the witness signs again", || other.run(&wanted).code == 0);
    assert_eq!(publish(&publisher, "1.1.0").code, 0, "the same again is no error, and cosigned now");
    // What is attested is shown under what the witness signed, too.
    publisher.json(&["release", "attest", "echo@1.1.0", "--claim", "audit"]);
    let shown = publisher.json(&["release", "show", "echo@1.1.0"]);
    assert_eq!(shown["attested"].as_array().map(Vec::len), Some(1), "{shown}");

    // An older copy of the folder would be a second history: the witness knows.
    registry.running.kill();
    let copy = publisher.folder().join("copy");
    let copied = std::process::Command::new("cp").arg("-r").args([&data, &copy]).status().expect("cp runs");
    assert!(copied.success());
    let registry =
        RegistryProcess::start(&publisher, &data, &["--publisher", &owner, "--witness", &again.at, &again.key]);
    publisher.json(&["registry", "add", &registry.at, "--key", &key, "--witness", &again.key]);
    let name = registry.at.clone();
    let file = file(&publisher, "1.2.0");
    let published = publisher.run(&["publish", file.to_str().expect("a path"), "--registry", &name]);
    assert_eq!(published.code, 0, "{published:?}");
    registry.running.kill();
    let mut older = publisher.command(&program());
    older.arg("--data").arg(&copy).args(["--listen", "127.0.0.1:0", "--publisher", &owner]);
    let older = Running::start(older.args(["--witness", &again.at, &again.key])).end(COMMAND_MAX);
    assert!(older.code == 1 && older.stderr.contains("an older copy of the folder was restored"), "{older:?}");
}

#[test]
fn a_node_has_a_registry_beside_it_only_if_asked() {
    let machine = Machine::new();
    let plain = machine.up_alone(&[]);
    assert!(plain.said["registry"].is_null());
    assert!(!machine.data().join("registry").exists());
    plain.running.kill();
    let flags = ["--registry", "--registry-listen", "127.0.0.1:0"];
    let node = machine.up_alone(&flags);
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let (at, key) = (text(&node.said["registry"]["at"]), text(&node.said["registry"]["key"]));
    machine.json(&["registry", "add", &at, "--key", &key]);
    assert_eq!(publish(&machine, "1.0.0").code, 0, "its owner may publish");
    machine.run(&["registry", "remove", &at]);
    node.running.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(node.running.end(COMMAND_MAX).code, 0);

    let again = machine.up_alone(&flags);
    assert_eq!(text(&again.said["registry"]["key"]), key, "the same registry");
    machine.json(&["registry", "add", &text(&again.said["registry"]["at"]), "--key", &key]);
    let listed = machine.run(&["release", "list", "echo"]);
    assert!(said(&listed).contains("1.0.0"), "{listed:?}");
    let flag = machine.run(&["up", "--registry-listen", "127.0.0.1:0"]);
    assert!(flag.code == 2, "it says nothing without --registry: {flag:?}");
}
