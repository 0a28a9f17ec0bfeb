//! NAT: nodes that cannot be dialled are found and called through relays and hole punching.

use std::time::Duration;

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Outcome, cast, until};

const SOON: Duration = Duration::from_secs(40);
/// A peer whose answer is lost, with one of two connections that are made at once, is asked again after 12 s and half a minute.
const ASKED_AGAIN: Duration = Duration::from_secs(60);
const VPS: &str = "/ip4/5.0.0.1/tcp/7421";

fn reach(machine: &Machine) -> serde_json::Value {
    machine.json(&["status"])["layers"]["l2Communication"]["reach"].clone()
}

#[test]
fn two_machines_behind_routers_call_each_other() {
    let Some(world) = World::behind_routers(2) else { return };
    let [internet, one, two] = &world.machines[..] else { panic!("three machines") };
    let _middle = internet.up(&["--no-lan"]);
    let first = one.up(&["--no-lan", "--peer", VPS]);
    let _second = two.up(&["--no-lan", "--peer", VPS]);
    until(SOON, "the one on the internet knows that it can be reached", || reach(internet)["state"] == "internet");
    until(ASKED_AGAIN, "the others know that they cannot, and have a relay", || {
        [one, two].iter().all(|machine| reach(machine)["state"] == "relayed")
    });
    one.add("hidden", &cast::echo("hidden", "anyone"));
    until(SOON, "it is found through the one on the internet", || {
        two.run(&["find", "--cap", "hidden.say"]).stdout.contains("hidden")
    });
    // A node outside the LAN is searched for in the DHT, and the output says so.
    let explained = two.run(&["find", "--cap", "hidden.say", "--explain"]);
    assert!(explained.stdout.contains("searched the table: "), "{explained:?}");
    let sought = &two.json(&["find", "--cap", "hidden.say", "--explain"])["explain"]["sought"];
    let number = |name: &str| sought[name].as_u64().expect("a number");
    assert!(number("requests") >= number("answered") && number("answered") > 0, "{sought}");
    assert!(number("lookupMicroseconds") > 0 && number("tookMicroseconds") >= number("lookupMicroseconds"), "{sought}");
    let called = two.run(&["call", "--anyone", "hidden", "through the routers"]);
    assert!(called.code == 0 && called.stdout.contains("through the routers"), "{called:?}");
    let peers = || two.json(&["peers"])["peers"].as_array().expect("a list").clone();
    let address = || {
        let peer = peers().into_iter().find(|peer| peer["node"] == first.did().as_str());
        peer.map(|peer| althing_e2e::text(&peer["address"])).unwrap_or_default()
    };
    eprintln!("connected at {}", address());
    until(SOON, "a hole is punched, and the relay is passed by", || {
        let address = address();
        address.starts_with("/ip4/5.0.1.1/") && !address.contains("p2p-circuit")
    });
    let called = two.run(&["call", "--anyone", "hidden", "directly"]);
    assert!(called.code == 0 && called.stdout.contains("directly"), "{called:?}");
}

/// The findings of `althing doctor`, as layer and message; a fault makes it exit with 1.
fn doctor(machine: &Machine) -> Vec<(String, String)> {
    let Outcome { code, stdout, stderr } = machine.run(&["--json", "doctor"]);
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let findings = report["findings"].as_array().expect("a list").iter();
    let wrong: Vec<(String, String)> = findings
        .filter(|finding| finding["fine"] == false)
        .map(|finding| {
            assert!(!althing_e2e::text(&finding["remedy"]).is_empty(), "{finding}");
            (althing_e2e::text(&finding["layer"]), althing_e2e::text(&finding["what"]))
        })
        .collect();
    assert_eq!(code, i32::from(!wrong.is_empty()), "{report}");
    wrong
}

fn names(machine: &Machine, layer: &str, what: &str) -> bool {
    doctor(machine).iter().any(|(of, words)| of == layer && words.contains(what))
}

#[test]
fn a_forwarded_port_is_found_and_announced() {
    let Some(world) = World::behind_routers(1) else { return };
    let [internet, one] = &world.machines[..] else { panic!("two machines") };
    world.forward(1, 7421, 7421);
    let middle = internet.up(&["--no-lan"]);
    let node = one.up(&["--no-lan", "--peer", VPS]);
    let trusted = one.run(&["trust", &middle.owner()]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    until(SOON, "the one on the internet came through", || reach(one)["state"] == "internet");
    assert_eq!(reach(one)["confirmed"][0], "/ip4/5.0.1.1/tcp/7421");
    assert_eq!(reach(one)["announced"][0], "/ip4/5.0.1.1/tcp/7421", "{}", node.did());
    assert_eq!(doctor(one), []);
}

#[test]
fn a_port_that_the_operator_names_is_where_others_dial() {
    let Some(world) = World::behind_routers(2) else { return };
    let [internet, one, two] = &world.machines[..] else { panic!("three machines") };
    // On a port other than the node's, and without a relay, so that no other path leads there.
    const NAMED: &str = "/ip4/5.0.1.1/tcp/9000";
    world.forward(1, 9_000, 7_421);
    internet.configure("[node]\nrelay = false\n");
    one.configure(&format!("[node]\nannounce = [\"{NAMED}\"]\n"));
    let _middle = internet.up(&["--no-lan"]);
    let node = one.up(&["--no-lan", "--peer", VPS]);
    one.add("behind", &cast::echo("behind", "anyone"));
    assert_eq!(reach(one)["announced"][0], NAMED);
    let _other = two.up(&["--no-lan", "--peer", VPS]);
    until(SOON, "it is found", || two.run(&["find", "behind"]).stdout.contains("behind"));
    let called = two.run(&["call", "--anyone", "behind", "hello"]);
    assert_eq!((called.code, called.stdout.contains("hello")), (0, true), "{called:?}");
    let peers = two.json(&["peers"]);
    let there = peers["peers"].as_array().expect("a list").iter().find(|peer| peer["node"] == node.did());
    assert!(there.is_some_and(|peer| peer["address"].to_string().contains(NAMED)), "{peers}");
}

#[test]
fn the_doctor_says_why_nobody_sees_a_node() {
    let Some(world) = World::behind_routers(1) else { return };
    let [internet, one] = &world.machines[..] else { panic!("two machines") };
    let alone = one.up(&["--no-lan", "--peer", VPS]);
    until(SOON, "the address that does not answer is named", || names(one, "L3", VPS));
    internet.configure("[node]\nrelay = false\n");
    let _middle = internet.up(&["--no-lan"]);
    until(SOON, "it is connected", || !names(one, "L3", VPS));
    until(SOON, "nobody can dial it, and nobody passes connections on", || {
        names(one, "L3", "nobody on the internet can dial this node")
    });
    let people = one.run(&["doctor"]);
    assert!(people.stdout.contains("what to do: forward its port"), "{people:?}");
    alone.running.kill();
    let gone = one.run(&["doctor"]);
    assert_eq!((gone.code, gone.stderr.contains("althing")), (3, true), "{gone:?}");
}

#[test]
fn the_doctor_names_a_firewall_of_its_own_machine() {
    let Some(world) = World::new(2, Multicast::Carried) else { return };
    let [one, two] = &world.machines[..] else { panic!("two machines") };
    world.shut(0, 7421);
    let (_first, _second) = (one.up(&[]), two.up(&[]));
    until(SOON, "they are connected, since one of them dialled out", || {
        one.json(&["peers"])["peers"].as_array().is_some_and(|peers| !peers.is_empty())
    });
    until(SOON, "it is told", || names(one, "L3", "peers on the same network cannot dial this node"));
    until(SOON, "the other one is well", || reach(two)["state"] == "nearby" && doctor(two).is_empty());
    let broken = cast::program("broken", &["/nonexistent"], "anyone");
    let path = two.write("broken.yaml", &broken);
    // An agent that does not start is not added.
    assert_ne!(two.run(&["agent".as_ref(), "add".as_ref(), path.as_os_str()]).code, 0);
    assert_eq!(two.run(&["key", "revoke", "--yes"]).code, 0);
    until(SOON, "a revoked owner is named", || names(two, "L2", "revoked"));
}
