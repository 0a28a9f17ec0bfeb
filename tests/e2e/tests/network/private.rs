//! A private network: nodes of different people, on one LAN with others, whom a shared key lets in.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use althing_e2e::world::{Multicast, World};
use althing_e2e::{COMMAND_MAX, Machine, Running, cast, until};

const PATIENCE: Duration = Duration::from_secs(20);

/// Makes a key on `machine`, and copies it to the others.
fn share(machine: &Machine, with: &[&Machine]) -> String {
    let file = machine.folder().join("mesh.key");
    let made = machine.json(&["network-key", "new", file.to_str().expect("a path")]);
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    for other in with {
        let copy = other.folder().join("mesh.key");
        std::fs::copy(&file, &copy).expect("a copy");
        let copy = other.json(&["network-key", "show", copy.to_str().expect("a path")]);
        assert_eq!(copy["mark"], made["mark"]);
    }
    althing_e2e::text(&made["mark"])
}

fn names(found: &[(String, String)]) -> Vec<&str> {
    found.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn the_key_lets_in_and_nothing_else_does() {
    let Some(world) = World::new(4, Multicast::Carried) else { return };
    let [one, two, open, other] = &world.machines[..] else { panic!("four machines") };
    let mark = share(one, &[two]);
    share(other, &[]);
    let with = |machine: &Machine| machine.folder().join("mesh.key").to_str().expect("a path").to_owned();
    let first = one.up(&["--network-key", &with(one)]);
    // In the configuration: beside it, wherever the node is started.
    std::fs::rename(two.folder().join("mesh.key"), two.config().join("mesh.key")).expect("moved");
    two.configure("network_key = \"mesh.key\"\n");
    let second = two.up(&[]);
    let address = first.address("/ip4/10.");
    let stranger = open.up(&["--peer", &address]);
    let _another = other.up(&["--network-key", &with(other), "--peer", &address]);
    for (machine, name) in [(one, "ping"), (two, "pong"), (open, "passer-by"), (other, "neighbour")] {
        machine.add(name, &cast::echo(name, "trusted"));
    }
    two.add("mine", &cast::echo("mine", "own"));

    until(PATIENCE, "the two with the key find each other", || one.finds("pong") && two.finds("ping"));
    assert_ne!(first.owner(), second.owner());
    let answered = one.run(&["call", "pong", "hello"]);
    assert_eq!((answered.code, answered.stdout.contains("hello")), (0, true), "nobody had to trust: {answered:?}");
    assert_eq!(one.run(&["call", "mine", "hello"]).code, 5, "what is for the owner alone stays so");
    let status = one.json(&["status"]);
    assert_eq!(status["network"], format!("althing+{mark}"));
    assert_eq!(status["private"], true);
    assert!(!first.said["listening"].to_string().contains("quic"), "{}", first.said);

    // The others found nobody: not by multicast, which they hear, and not at the address, which they were given.
    for outsider in [open, other] {
        assert_eq!(outsider.json(&["peers"])["peers"], serde_json::json!([]));
        assert_eq!(outsider.found().len(), 1, "its own only: {:?}", outsider.found());
    }
    assert_eq!(names(&one.found()).iter().filter(|name| ["passer-by", "neighbour"].contains(name)).count(), 0);
    assert_eq!(one.json(&["peers"])["peers"].as_array().map(Vec::len), Some(1));
    assert_eq!(open.run(&["call", "pong", "hello"]).code, 4, "whom it cannot find it cannot call");
    until(PATIENCE, "the doctor names what may be wrong", || {
        open.run(&["doctor"]).stdout.contains("the same network key")
    });
    drop(stranger);
}

#[test]
fn a_key_that_cannot_be_used_is_refused_with_the_reason() {
    let machine = Machine::new();
    let file = machine.folder().join("mesh.key");
    let path = file.to_str().expect("a path");
    let refused = |arguments: &[&str], code: i32, reason: &str| {
        let ended = Running::start(&mut machine.althing(arguments)).end(COMMAND_MAX);
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.stderr.contains(reason), "{ended:?}");
    };
    let up = ["up", "--gateway", "127.0.0.1:0", "--no-lan", "--network-key", path];
    refused(&up, 2, "there is no network key at");
    machine.json(&["network-key", "new", path]);
    refused(&["network-key", "new", path], 1, "is not overwritten");
    let open_to = |mode: u32| std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("a mode");
    open_to(0o644);
    refused(&up, 1, "chmod 600");
    open_to(0o600);
    let quic = [&up[..], &["--listen", "/ip4/127.0.0.1/udp/0/quic-v1"]].concat();
    refused(&quic, 2, "a private network is on TCP only");
    std::fs::write(&file, "/key/swarm/psk/1.0.0/\n/base16/\n00ff\n").expect("written");
    refused(&up, 2, "64 hexadecimal digits");
}

#[test]
fn agents_stay_when_the_network_gets_a_key_and_another() {
    let (machine, other) = (Machine::new(), Machine::new());
    let node = machine.up_alone(&[]);
    machine.add("stays", &cast::echo("stays", "anyone"));
    node.running.kill();
    for name in ["first.key", "second.key"] {
        let (file, copy) = (machine.folder().join(name), other.folder().join(name));
        let (file, path) = (file.to_str().expect("a path"), copy.to_str().expect("a path"));
        machine.json(&["network-key", "new", file]);
        std::fs::copy(file, path).expect("a copy");
        let node = machine.up_alone(&["--network-key", file]);
        assert_eq!(node.said["notes"], serde_json::json!([]), "it starts as before");
        let address = node.address("/ip4/127.0.0.1");
        let visitor = other.up_alone(&["--network-key", path, "--peer", &address]);
        until(PATIENCE, "another member finds it", || other.finds("stays"));
        assert_eq!(other.run(&["call", "stays", "hello"]).code, 0);
        visitor.running.kill();
        node.running.kill();
    }
}
