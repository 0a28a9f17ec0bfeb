//! What a profile demands of a node: a regulated one does not start without a witness, two people who can approve, and gates.

use althing_e2e::sessions::{Station, Teller};
use althing_e2e::{Machine, Outcome, ssh};
use althing_protocol::SecretKey;
use althing_protocol::tlog::{NoteKey, NoteKeyKind};
use serde_json::{Value, json};

const ALONE: [&str; 6] = ["up", "--no-lan", "--gateway", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"];

/// A node of that profile, which does not start.
fn refused(machine: &Machine, profile: &str) -> Outcome {
    let mut arguments = ALONE.to_vec();
    arguments.extend(["--profile", profile]);
    machine.run(&arguments)
}

/// Puts two people in force who can approve.
fn load_approvers(machine: &Machine) {
    let people = ["ada", "grace"]
        .map(|name| format!("  {name}: {{ keys: [{:?}], roles: [approver] }}\n", ssh::key(machine, name, "ed25519")));
    let text = format!("owner: ada\npeople:\n{}", people.concat());
    let file = machine.write("people.yaml", &text);
    machine.json(&["people", "load", file.to_str().expect("a plain path")]);
}

fn configure_witness(machine: &Machine) {
    let key = NoteKey::new("w.example", NoteKeyKind::Cosignature, SecretKey::from_seed(&[9; 32]).public());
    let key = key.expect("a good name").to_string();
    machine.configure(&format!("[audit]\nwitnesses = [{{ url = \"http://127.0.0.1:9\", vkey = {key:?} }}]\n"));
}

/// The same agent, whose answers a gate looks at.
fn gated(station: &Station) -> String {
    let mut file: Value = serde_json::from_str(&station.file(None)).expect("JSON");
    file["contract"]["verify"] = json!({ "finished": true });
    file.to_string()
}

#[test]
fn a_regulated_node_does_not_start_until_all_is_there_and_says_what_it_does_not_check() {
    if ssh::is_missing() {
        return;
    }
    let station = Station::new();
    let teller = Teller::of("regulated");
    let machine = &teller.machine;
    let node = teller.begin(&station, None);
    node.running.kill();

    let all = refused(machine, "regulated");
    assert_eq!(all.code, 5, "{all:?}");
    for says in [
        "its profile is regulated",
        "no witness signs the audit log",
        "0 of its people can answer as approver, and 2 must",
        "the agent \"teller\" may call count/add, which has an effect",
    ] {
        assert!(all.stderr.contains(says), "{says}: {all:?}");
    }
    let enterprise = refused(machine, "enterprise");
    assert!(enterprise.code == 5 && enterprise.stderr.contains("no witness"), "{enterprise:?}");
    assert!(!enterprise.stderr.contains("approver"), "{enterprise:?}");
    let unknown = refused(machine, "strict");
    assert_eq!(unknown.code, 2, "{unknown:?}");

    configure_witness(machine);
    let node = machine.up_alone(&["--profile", "enterprise"]);
    load_approvers(machine);
    node.running.kill();
    let one = refused(machine, "regulated");
    assert!(one.code == 5 && one.stderr.contains("\"teller\"") && !one.stderr.contains("witness"), "{one:?}");

    let node = machine.up_alone(&[]);
    machine.run(&["agent", "remove", "teller"]);
    machine.add("teller", &gated(&station));
    node.running.kill();
    let node = machine.up_alone(&["--profile", "regulated"]);
    let notes = node.said["notes"].to_string();
    assert!(notes.contains("the profile regulated is fulfilled; it does not check"), "{notes}");
    let doctor = machine.run(&["doctor"]);
    assert!(doctor.stdout.contains("labels decide") && doctor.stdout.contains("any law"), "{doctor:?}");

    // What it demands stays demanded while it runs.
    let file = machine.write("again.yaml", &station.file(None).replace("\"teller\"", "\"other\""));
    let added = machine.run(&["agent", "add", "--yes", file.to_str().expect("a plain path")]);
    assert!(added.code == 5 && added.stderr.contains("write `verify` in its contract"), "{added:?}");
    let nobody = machine.write("nobody.yaml", "people: {}\n");
    let loaded = machine.run(&["people", "load", nobody.to_str().expect("a plain path")]);
    assert!(loaded.code == 5 && loaded.stderr.contains("the people stay as they were"), "{loaded:?}");
}
