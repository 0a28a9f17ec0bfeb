//! Key rotation and revocation while nodes run: what changes, what ends, and how soon other nodes know.

use std::path::Path;
use std::time::Duration;

use althing_e2e::{Machine, Node, Outcome, Running, cast, until};

const SOON: Duration = Duration::from_secs(30);
/// Revoked keys stop working everywhere within this, where there is contact.
const BOUND: Duration = Duration::from_secs(10);
const REFUSED: i32 = 5;

/// A machine that hosts an agent for those whom it trusts, and others that know its address and whose owners it trusts.
struct Mesh {
    host: Machine,
    node: Node,
    others: Vec<(Machine, Node)>,
}

fn mesh(others: usize) -> Mesh {
    let host = Machine::new();
    let node = host.up_alone(&[]);
    host.add("teller", &cast::echo("teller", "trusted"));
    let address = node.address("/ip4/127.0.0.1/tcp/");
    let others: Vec<(Machine, Node)> = (0..others)
        .map(|_| {
            let machine = Machine::new();
            let node = machine.up_alone(&["--peer", &address]);
            assert_eq!(host.run(&["trust", &node.owner()]).code, 0);
            (machine, node)
        })
        .collect();
    for (machine, _) in &others {
        until(SOON, "the agent is found", || machine.finds("teller"));
    }
    Mesh { host, node, others }
}

fn call(machine: &Machine) -> Outcome {
    machine.run(&["call", "--anyone", "teller", "hello"])
}

fn copy(from: &Path, to: &Path, names: &[&str]) {
    for name in names {
        std::fs::copy(from.join(name), to.join(name)).expect("a file of the owner's");
    }
}

#[test]
fn a_rotation_loses_no_call_and_no_name() {
    let mesh = mesh(1);
    let (caller, node) = &mesh.others[0];
    caller.add("pong", &cast::echo("pong", "anyone"));
    until(SOON, "the other way too", || mesh.host.finds("pong"));
    let before = caller.json(&["key", "show"]);
    for round in 0..2 {
        let mut calls = Vec::new();
        for at in 0..12 {
            calls.push(Running::start(&mut caller.althing(&["call", "--anyone", "teller", "hello"])));
            if at == 4 {
                let rotated = caller.run(&["key", "rotate", "--overlap-minutes", if round == 0 { "0" } else { "60" }]);
                assert_eq!(rotated.code, 0, "{rotated:?}");
            }
        }
        for running in calls {
            let called = running.end(SOON);
            assert_eq!(called.code, 0, "{called:?}");
        }
    }
    let after = caller.json(&["key", "show"]);
    assert_eq!(after["owner"].as_str(), Some(node.owner().as_str()));
    assert_ne!(after["key"], before["key"]);
    assert_eq!((after["state"].as_str(), after["events"].as_array().map(Vec::len)), (Some("rotating"), Some(3)));
    until(SOON, "the running node follows", || caller.json(&["status"])["ownerKeys"]["key"] == after["key"]);
    // The agents' descriptions and grants are signed again; other nodes find them as before.
    until(SOON, "its agents are still found", || {
        let called = mesh.host.run(&["call", "--anyone", "pong", "hello"]);
        called.code == 0
    });
    assert_eq!(call(caller).code, 0);
}

/// What the old key signed ends at once; the node signs its agents anew when it starts.
#[test]
fn a_rotation_while_the_node_is_down_loses_no_agent() {
    let Mesh { host, node, others } = mesh(1);
    let (caller, calling) = &others[0];
    assert_eq!(call(caller).code, 0);
    node.running.kill();
    let rotated = host.run(&["key", "rotate", "--overlap-minutes", "0"]);
    assert_eq!(rotated.code, 0, "{rotated:?}");
    let _again = host.up_alone(&["--peer", &calling.address("/ip4/127.0.0.1/tcp/")]);
    until(SOON, "its agent is found and answers", || caller.finds("teller") && call(caller).code == 0);
}

#[test]
fn who_stole_a_key_is_shut_out_by_a_rotation_also_after_a_restart() {
    let mut mesh = mesh(2);
    let (owner, _) = &mesh.others[0];
    let thief = Machine::new();
    // Without the next key: that is what rotates.
    copy(&owner.config(), &thief.config(), &["owner.key", "owner.log"]);
    let address = mesh.node.address("/ip4/127.0.0.1/tcp/");
    let _thieving = thief.up_alone(&["--peer", &address]);
    until(SOON, "the stolen key works", || call(&thief).code == 0);
    assert_ne!(thief.run(&["key", "rotate"]).code, 0, "it cannot rotate");
    assert_eq!(owner.run(&["key", "rotate", "--overlap-minutes", "0"]).code, 0);
    let took = until(BOUND, "the stolen key is refused", || call(&thief).code == REFUSED);
    eprintln!("refused after {took:?}");
    assert_eq!(call(owner).code, 0, "the owner goes on");
    until(BOUND, "the thief is told as well", || thief.json(&["status"])["ownerKeys"]["state"] == "outdated");
    // The host restarts with its store, and receives only the thief's log.
    drop(std::mem::take(&mut mesh.others));
    mesh.node.running.kill();
    let again = mesh.host.up_alone(&["--peer", &_thieving.address("/ip4/127.0.0.1/tcp/")]);
    until(SOON, "the thief finds it again", || thief.finds("teller"));
    let called = call(&thief);
    assert_eq!(called.code, REFUSED, "{called:?}");
    drop(again);
}

#[test]
fn a_revoked_owner_is_refused_and_found_no_more_everywhere() {
    let mesh = mesh(2);
    let [(owner, node), (third, _)] = &mesh.others[..] else { panic!("two") };
    owner.add("pong", &cast::echo("pong", "anyone"));
    until(SOON, "its agent is found", || mesh.host.finds("pong") && third.finds("pong"));
    let careful = owner.run(&["key", "revoke"]);
    assert_eq!((careful.code, careful.stderr.contains("--yes")), (2, true), "{careful:?}");
    assert_eq!(call(owner).code, 0);
    let revoked = owner.run(&["key", "revoke", "--yes"]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    let took = until(BOUND, "nobody finds it or answers it", || {
        !mesh.host.finds("pong") && !third.finds("pong") && call(owner).code == REFUSED
    });
    eprintln!("gone after {took:?}");
    assert_eq!(owner.json(&["status"])["ownerKeys"]["state"], "revoked");
    let added = owner.run(&["agent", "add", "pong.yaml"]);
    assert!(added.code != 0 && added.stderr.contains("revoked"), "{added:?}");
    assert_eq!(call(third).code, 0, "others go on");
    node.running.signal(nix::sys::signal::Signal::SIGTERM);
    until(SOON, "it ends", || owner.run(&["status"]).code == 3);
    let up = owner.run(&["up", "--no-lan"]);
    assert!(up.code == 1 && up.stderr.contains("revoked its keys"), "{up:?}");
}

#[test]
fn keys_are_kept_elsewhere_and_come_back() {
    let machine = Machine::new();
    let first = machine.up_alone(&[]).owner();
    let with = |arguments: &[&str], passphrase: &str| {
        let file = machine.write("passphrase", passphrase);
        let mut command = machine.althing(arguments);
        command.stdin(std::fs::File::open(file).expect("just written"));
        Running::start(&mut command).end(SOON)
    };
    let short = with(&["key", "export", "kept.keys"], "short\n");
    assert_eq!((short.code, short.stderr.contains("8 characters")), (2, true), "{short:?}");
    let kept = with(&["key", "export", "kept.keys", "--remove-next"], "correct horse\n");
    assert_eq!(kept.code, 0, "{kept:?}");
    assert_eq!(machine.json(&["key", "show"])["nextKeyHere"], false);
    let twice = with(&["key", "export", "kept.keys"], "correct horse\n");
    assert!(twice.code == 1 && twice.stderr.contains("is not overwritten"), "{twice:?}");
    let stuck = machine.run(&["key", "rotate"]);
    assert!(stuck.code == 2 && stuck.stderr.contains("--from"), "{stuck:?}");
    let wrong = with(&["key", "rotate", "--from", "kept.keys"], "wrong horse\n");
    assert!(wrong.code == 2 && wrong.stderr.contains("passphrase"), "{wrong:?}");
    assert_eq!(with(&["key", "rotate", "--from", "kept.keys"], "correct horse\n").code, 0);
    // The machine is lost; another takes the owner over from a newer copy.
    assert_eq!(with(&["key", "export", "newer.keys"], "correct horse\n").code, 0);
    let other = Machine::new();
    std::fs::copy(machine.folder().join("newer.keys"), other.folder().join("newer.keys")).expect("copied");
    let file = other.write("passphrase", "correct horse\n");
    let mut command = other.althing(&["key", "import", "newer.keys"]);
    command.stdin(std::fs::File::open(file).expect("just written"));
    let imported = Running::start(&mut command).end(SOON);
    assert_eq!(imported.code, 0, "{imported:?}");
    assert_eq!(other.up_alone(&[]).owner(), first);
    let old = with(&["key", "import", "kept.keys"], "correct horse\n");
    assert!(old.code == REFUSED && old.stderr.contains("newer"), "{old:?}");
}

#[test]
fn a_node_that_its_owner_took_back_is_a_stranger_everywhere() {
    let mesh = mesh(2);
    for (machine, _) in &mesh.others {
        assert_eq!(call(machine).code, 0);
    }
    let withdrawn = mesh.host.run(&["key", "revoke", "--node", &mesh.node.did()]);
    assert_eq!(withdrawn.code, 0, "{withdrawn:?}");
    for (machine, _) in &mesh.others {
        until(BOUND, "its agent is found no more", || !machine.finds("teller"));
        assert_ne!(call(machine).code, 0);
    }
    assert_eq!(mesh.host.json(&["status"])["ownerKeys"]["state"], "withdrawn");
    let doctor = mesh.host.run(&["doctor"]);
    assert!(doctor.stdout.contains("has taken back what it let this node do"), "{doctor:?}");
    // The owner itself goes on: another node of its is what it was.
    let shown = mesh.host.json(&["key", "show"]);
    assert_eq!((&shown["state"], &shown["withdrawn"][0]["node"]), (&"active".into(), &mesh.node.did().into()));
    assert!(mesh.host.run(&["key", "show"]).stdout.contains(&mesh.node.did()));
}

#[test]
fn a_stolen_owner_key_worn_as_a_node_s_key_opens_nothing() {
    let mesh = mesh(1);
    let (owner, _) = &mesh.others[0];
    assert_eq!(call(owner).code, 0);
    // A node whose own key is the owner's: its did:key is not the owner's id, before a rotation and after it.
    let thief = Machine::new();
    std::fs::create_dir_all(thief.data()).expect("a folder");
    std::fs::copy(owner.config().join("owner.key"), thief.data().join("node.key")).expect("the key is stolen");
    let address = mesh.node.address("/ip4/127.0.0.1/tcp/");
    let thieving = thief.up_alone(&["--peer", &address]);
    assert_ne!(thieving.owner(), mesh.others[0].1.owner());
    until(SOON, "the agent is found", || thief.finds("teller"));
    assert_eq!(call(&thief).code, REFUSED);
    assert_eq!(owner.run(&["key", "rotate", "--overlap-minutes", "0"]).code, 0);
    assert_eq!(call(&thief).code, REFUSED);
    assert_eq!(call(owner).code, 0);
}

#[test]
fn who_has_an_owner_s_key_and_not_its_log_is_refused_and_makes_no_second_one() {
    let owner = Machine::new();
    drop(owner.up_alone(&[]));
    let thief = Machine::new();
    std::fs::create_dir_all(thief.config()).expect("a folder");
    copy(&owner.config(), &thief.config(), &["owner.key"]);
    let refused = thief.run(&["up", "--no-lan"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("owner.log is missing") && refused.stderr.contains("key import"), "{refused:?}");
    assert!(!thief.config().join("owner.log").exists());
}

#[test]
fn trust_takes_an_owner_or_a_node_and_refuses_an_agent() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    for id in [node.did(), node.owner()] {
        assert_eq!(machine.run(&["trust", &id]).code, 0, "{id}");
    }
    assert_eq!(machine.json(&["trust"])["trusted"], serde_json::json!([node.owner(), node.did()]));
    let agent = format!("{}:echo", node.owner());
    let refused = machine.run(&["trust", &agent]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("is an agent; name its publisher"), "{refused:?}");
}
