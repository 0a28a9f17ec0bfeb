//! The audit log of a node and its witness, each a program of its own: what is signed, a copy that was restored, a history that was
//! written anew with the node's own key; and what is signed off before bodies of the log are deleted.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use althing_e2e::registry::{RegistryProcess, WitnessProcess};
use althing_e2e::{Machine, Node, ssh, text, until};
use serde_json::{Value, json};

/// A node asks its witness every five seconds.
const SIGNED: Duration = Duration::from_secs(30);

/// Puts people in force, which is an entry of the log each time.
fn record(machine: &Machine, name: &str) {
    let people = machine.write("people.yaml", &format!("owner: {name}\npeople:\n  {name}: {{}}\n"));
    machine.json(&["people", "load", people.to_str().expect("a plain path")]);
}

fn log(machine: &Machine) -> Value {
    machine.json(&["audit", "query"])
}

/// Waits until the witness signed so many entries.
fn is_signed(machine: &Machine, entries: u64) {
    until(SIGNED, "the witness signs", || log(machine)["witnesses"][0]["signed"] == json!(entries));
}

/// Waits until the doctor says this.
fn doctor_says(machine: &Machine, words: &str) -> String {
    let mut said = String::new();
    until(SIGNED, words, || {
        said = machine.run(&["doctor"]).stdout;
        said.contains(words)
    });
    said
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
    assert!(copied.success());
}

/// Starts the node with that witness.
fn witnessed(machine: &Machine, witness: &WitnessProcess) -> Node {
    let WitnessProcess { at, key, .. } = witness;
    machine.configure(&format!("[audit]\nwitnesses = [{{ url = {at:?}, vkey = {key:?} }}]\n"));
    machine.up_alone(&[])
}

#[test]
fn a_witness_signs_the_log_and_knows_it_from_an_older_copy_and_from_another_history() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    let key = text(&log(&machine)["key"]);
    node.running.kill();
    let watching = machine.folder().join("witness");
    let witness = WitnessProcess::start(&machine, &watching, &key, "127.0.0.1:0");

    let node = witnessed(&machine, &witness);
    record(&machine, "ada");
    is_signed(&machine, 1);
    doctor_says(&machine, "signed the audit log with 1 entries");
    let shown = machine.json(&["audit", "show", "1.0"]);
    let name = witness.key.split('+').next().expect("a name");
    assert_eq!(shown["witnesses"], json!([name]), "{shown}");
    let leaf = machine.folder().join("change.leaf");
    let leaf = leaf.to_str().expect("a plain path");
    machine.json(&["audit", "show", "1.0", "--export", leaf]);
    let stranger = Machine::new();
    let verified = stranger.json(&["audit", "verify", leaf, "--log", &key, "--witness", &witness.key]);
    assert_eq!((&verified["valid"], &verified["witnesses"]), (&json!(true), &json!([name])), "{verified}");

    // What is copied here has one entry, and the witness signs two.
    node.running.kill();
    let backup = machine.folder().join("backup");
    copy(&machine.data(), &backup);
    let node = witnessed(&machine, &witness);
    record(&machine, "grace");
    is_signed(&machine, 2);
    node.running.kill();
    copy(&backup, &machine.data());
    let node = witnessed(&machine, &witness);
    let said = doctor_says(&machine, "an older copy of the node's folder was restored");
    assert!(said.contains("WRONG L7"), "{said}");
    let now = log(&machine);
    let other = text(&now["key"]);
    assert!(other != key && now["size"] == json!(1), "{now}");
    let first = machine.json(&["audit", "show", "2.0"]);
    let old = key.split('+').next().expect("a name");
    assert_eq!(first["entry"]["action"], json!(format!("audit/begin-after/{old}@1")), "{first}");
    // The witness does not know the other log until its operator gives it the key.
    doctor_says(&machine, "was given the key of the log: ");

    // The same key, and another second entry.
    node.running.kill();
    copy(&backup, &machine.data());
    machine.configure("");
    let node = machine.up_alone(&[]);
    record(&machine, "eve");
    record(&machine, "mallory");
    assert_eq!(log(&machine)["key"], json!(key));
    node.running.kill();
    let _node = witnessed(&machine, &witness);
    let said = doctor_says(&machine, "signed another history of the audit log");
    assert!(said.contains("goes on under another name"), "{said}");
    assert_ne!(log(&machine)["key"], json!(key));
}

#[test]
fn a_witness_that_is_down_is_named_and_the_node_goes_on() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    let key = text(&log(&machine)["key"]);
    node.running.kill();
    let watching = machine.folder().join("witness");
    let witness = WitnessProcess::start(&machine, &watching, &key, "127.0.0.1:0");
    let address = witness.listens();
    let _node = witnessed(&machine, &witness);
    record(&machine, "ada");
    is_signed(&machine, 1);
    witness.running.kill();
    record(&machine, "grace");
    doctor_says(&machine, "nobody vouches for what was recorded");
    let silent = log(&machine)["witnesses"][0].clone();
    assert!(silent["silentMs"].is_u64() && silent["signed"] == json!(1), "{silent}");
    let _again = WitnessProcess::start(&machine, &watching, &key, &address);
    is_signed(&machine, 2);
}

#[test]
fn a_registry_is_a_witness_and_so_is_a_node_that_has_one() {
    let (machine, other) = (Machine::new(), Machine::new());
    let node = machine.up_alone(&[]);
    let key = text(&log(&machine)["key"]);
    node.running.kill();
    let mut registry =
        RegistryProcess::start(&other, &other.folder().join("registry"), &["--anyone", "--cosign", &key]);
    let line = registry.running.line(SIGNED).expect("it says its key");
    let by_registry = line.strip_prefix("witness").expect("its key").trim().to_owned();
    let flags = ["--registry", "--registry-listen", "127.0.0.1:0", "--registry-cosign", &key];
    let beside = other.up_alone(&flags);
    let mounted = &beside.said["registry"];
    let entry = |at: &str, key: &str| format!("{{ url = {at:?}, vkey = {key:?} }}");
    let all = [entry(&registry.at, &by_registry), entry(&text(&mounted["at"]), &text(&mounted["witness"]))];
    machine.configure(&format!("[audit]\nwitnesses = [{}]\n", all.join(", ")));
    let _node = machine.up_alone(&[]);
    record(&machine, "ada");
    until(SIGNED, "both sign", || {
        let witnesses = log(&machine)["witnesses"].as_array().cloned().unwrap_or_default();
        witnesses.len() == 2 && witnesses.iter().all(|witness| witness["signed"] == json!(1))
    });
    let shown = machine.json(&["audit", "show", "1.0"]);
    assert_eq!(shown["witnesses"].as_array().map(Vec::len), Some(2), "both signed the same checkpoint: {shown}");
    // It is a registry all the same.
    let list = other.run(&["registry", "add", &registry.at, "--key", &registry.key]);
    assert_eq!(list.code, 0, "{list:?}");
}

#[test]
fn bodies_are_pruned_once_as_many_signed_as_the_file_of_people_wants() {
    if ssh::is_missing() {
        return;
    }
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let line = |name: &str| {
        let key = ssh::key(&machine, name, "ed25519");
        format!("  {name}: {{ keys: [{key:?}], roles: [{}] }}\n", role(name))
    };
    let people = ["ada", "grace", "eve"].map(line).concat();
    let people = format!("owner: barbara\npeople:\n  barbara: {{}}\n{people}prune: {{ role: auditor, count: 2 }}\n");
    let file = machine.write("people.yaml", &people);
    machine.json(&["people", "load", file.to_str().expect("a plain path")]);
    let shown = machine.run(&["people", "show"]);
    assert!(shown.stdout.contains("2 with the role auditor must sign"), "{shown:?}");

    let before = "2026-01-01T00:00:00Z";
    let text = machine.run(&["audit", "prune", "--before", before, "--text"]);
    assert!(text.code == 0 && text.stdout.starts_with("althing prune\nlog: audit/"), "{text:?}");
    let signed = |key: &str, text: &str| {
        let name = format!("{key}-signs");
        machine.write(&name, text);
        let signature = ssh::signature(&machine, key, "althing-consent", &name);
        signature.to_str().expect("a plain path").to_owned()
    };
    let prune = |signatures: &[&str]| {
        let mut arguments = vec!["audit", "prune", "--before", before, "--yes"];
        signatures.iter().for_each(|signature| arguments.extend(["--signature", signature]));
        machine.run(&arguments)
    };
    let (ada, grace, eve) = (signed("ada", &text.stdout), signed("grace", &text.stdout), signed("eve", &text.stdout));
    for (signatures, says) in [
        (&[][..], "0 signed of the 2 people"),
        (&[ada.as_str()][..], "1 signed of the 2 people"),
        (&[ada.as_str(), ada.as_str()][..], "1 signed of the 2 people"),
        (&[ada.as_str(), eve.as_str()][..], "eve signed, and has not the role"),
    ] {
        let refused = prune(signatures);
        assert!(refused.code == 5 && refused.stderr.contains(says), "{refused:?}");
    }
    let pruned = prune(&[&ada, &grace]);
    assert_eq!(pruned.code, 0, "{pruned:?}");
    let list = machine.json(&["audit", "query", "--action", "audit/prune/"]);
    assert_eq!(list["entries"][0]["principals"], json!(["barbara", "ada", "grace"]), "{list}");
    let other = signed("grace", &text.stdout.replace("before: ", "before: 1"));
    let refused = prune(&[&ada, &other]);
    assert!(refused.code == 5 && refused.stderr.contains("what grace signed is not this"), "{refused:?}");
}

fn role(name: &str) -> &'static str {
    if name == "eve" { "guest" } else { "auditor" }
}
