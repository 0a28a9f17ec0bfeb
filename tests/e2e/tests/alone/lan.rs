//! Nodes on one LAN, each on its own machine: found, lost and found again within the required times.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::time::{Duration, Instant};

use althing_e2e::world::{Multicast, World};
use althing_e2e::{COMMAND_MAX, Machine, Node, cast, until};
use nix::sys::signal::Signal;

/// Far longer than any of the limits, so that a miss says by how much.
const PATIENCE: Duration = Duration::from_secs(20);
/// A connection without acknowledgements ends after this.
const GIVEN_UP: Duration = Duration::from_secs(60);

fn within(took: Duration, limit_secs: u64, what: &str) {
    println!("measured: {what}: {:.2} s (limit {limit_secs} s)", took.as_secs_f64());
    assert!(took < Duration::from_secs(limit_secs), "{what} took {took:?}, over {limit_secs} s");
}

/// `peers` shows one connection to each peer.
fn connections(machine: &Machine) -> Vec<(String, u64)> {
    let peers = machine.json(&["peers"]);
    let peers = peers["peers"].as_array().expect("a list").iter();
    peers.map(|peer| (althing_e2e::text(&peer["node"]), peer["connections"].as_u64().expect("a count"))).collect()
}

/// Starts nodes at the same moment.
fn up<'a>(machines: impl IntoIterator<Item = &'a Machine>, flags: &[&str]) -> Vec<Node> {
    std::thread::scope(|scope| {
        let starting: Vec<_> = machines.into_iter().map(|machine| scope.spawn(|| machine.up(flags))).collect();
        starting.into_iter().map(|node| node.join().expect("a node starts")).collect()
    })
}

/// Two nodes with one agent each, and the time from when both were ready until each found the other's.
fn meet(world: &World) -> (Vec<Node>, Duration) {
    let (one, two) = (&world.machines[0], &world.machines[1]);
    let nodes = up([one, two], &[]);
    let ready = nodes.iter().map(|node| node.ready).max().expect("two nodes");
    one.add("ping", &cast::echo("ping", "trusted"));
    two.add("pong", &cast::echo("pong", "trusted"));
    until(PATIENCE, "each finds the other's agent", || one.finds("pong") && two.finds("ping"));
    (nodes, ready.elapsed())
}

#[test]
fn two_machines_meet_are_cut_off_and_meet_again() {
    let _alone = crate::alone();
    let Some(world) = World::new(2, Multicast::Carried) else { return };
    let (one, two) = (&world.machines[0], &world.machines[1]);
    assert_eq!(world.ways_out(0) + &world.ways_out(1), "", "these machines are on no other network");
    let (mut nodes, took) = meet(&world);
    within(took, 2, "found by multicast, from both nodes ready");
    assert_eq!(connections(one), [(nodes[1].did(), 1)]);
    assert_eq!(connections(two), [(nodes[0].did(), 1)]);

    // Nodes of other owners are strangers until they are trusted.
    assert_ne!(nodes[0].owner(), nodes[1].owner());
    let refused = one.run(&["call", "--anyone", "pong", "hello"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    two.json(&["trust", &nodes[0].owner()]);
    let answered = one.run(&["call", "--anyone", "pong", "hello"]);
    assert_eq!((answered.code, answered.stdout.contains("hello")), (0, true), "{answered:?}");
    two.json(&["trust", "--remove", &nodes[0].owner()]);
    assert_eq!(one.run(&["call", "--anyone", "pong", "hello"]).code, 5);
    two.json(&["trust", &nodes[0].did()]);
    assert_eq!(one.run(&["call", "--anyone", "pong", "hello"]).code, 0, "a node can be trusted as well as an owner");

    world.cut(1);
    until(PATIENCE, "a machine without a cable is not found", || !one.finds("pong") && !two.finds("ping"));
    world.restore(1);
    let restored = Instant::now();
    until(PATIENCE, "each finds the other's agent again", || one.finds("pong") && two.finds("ping"));
    within(restored.elapsed(), 5, "found again, from the link restored");
    until(PATIENCE, "one connection per peer", || {
        connections(one) == [(nodes[1].did(), 1)] && connections(two) == [(nodes[0].did(), 1)]
    });

    // Cut off until the connection ends, so that a new one is needed.
    world.cut(1);
    until(GIVEN_UP, "the connection is given up", || connections(one).is_empty() && connections(two).is_empty());
    world.restore(1);
    let restored = Instant::now();
    until(PATIENCE, "each finds the other's agent again", || one.finds("pong") && two.finds("ping"));
    within(restored.elapsed(), 5, "found again, from the link restored after the connection was lost");
    until(PATIENCE, "one connection per peer", || {
        connections(one) == [(nodes[1].did(), 1)] && connections(two) == [(nodes[0].did(), 1)]
    });

    nodes.pop().expect("two nodes").running.kill();
    let killed = Instant::now();
    until(PATIENCE, "a killed node is not found", || !one.finds("pong"));
    within(killed.elapsed(), 8, "gone, from kill -9");

    // The same data: the same node, and its agents start again.
    let again = two.up(&[]);
    until(PATIENCE, "a node that came back is found", || one.finds("pong"));
    within(again.ready.elapsed(), 5, "found again, from ready after kill -9");
    assert_eq!(one.run(&["call", "--anyone", "pong", "hello"]).code, 0, "trust is kept");

    again.running.signal(Signal::SIGTERM);
    let told = Instant::now();
    until(PATIENCE, "a node that said goodbye is not found", || !one.finds("pong"));
    within(told.elapsed(), 2, "gone, from SIGTERM");
    let ended = again.running.end(COMMAND_MAX);
    assert_eq!(ended.code, 0, "{ended:?}");
    for at in 0..2 {
        assert_eq!(world.tries_to_leave(at), 0, "machine {at} tried to reach an address beyond its LAN");
    }
}

#[test]
fn without_multicast_one_address_is_enough() {
    let _alone = crate::alone();
    let Some(world) = World::new(3, Multicast::Dropped) else { return };
    let (one, two, alone) = (&world.machines[0], &world.machines[1], &world.machines[2]);
    let nodes = up([one, alone], &[]);
    one.add("ping", &cast::echo("ping", "trusted"));
    two.configure("peers = [\"/ip4/10.77.0.1/tcp/7421\"]\n");
    let joined = two.up(&[]);
    two.add("pong", &cast::echo("pong", "trusted"));
    until(PATIENCE, "each finds the other's agent", || one.finds("pong") && two.finds("ping"));
    within(joined.ready.elapsed(), 3, "found by one address, from the second node ready");
    assert_eq!(connections(one), [(joined.did(), 1)]);
    assert_eq!(connections(two), [(nodes[0].did(), 1)]);
    // Longer than multicast takes: without this the time would prove nothing.
    while nodes[1].ready.elapsed() < Duration::from_secs(3) {
        assert!(alone.found().is_empty(), "this LAN carries multicast");
    }
    for at in 0..3 {
        assert_eq!(world.tries_to_leave(at), 0, "machine {at} tried to reach an address beyond its LAN");
    }
}

#[test]
fn an_address_that_the_machine_has_no_more_is_not_announced() {
    let _alone = crate::alone();
    let Some(world) = World::new(1, Multicast::Carried) else { return };
    let machine = &world.machines[0];
    let _node = machine.up(&[]);
    let announces = |address: &str| {
        let announced = machine.json(&["status"])["layers"]["l2Communication"]["reach"]["announced"].clone();
        announced.as_array().expect("a list").iter().any(|text| althing_e2e::text(text).contains(address))
    };
    until(PATIENCE, "its address is announced", || announces("/10.77.0.1/"));
    world.add_address(0, "10.77.5.1");
    until(PATIENCE, "a new one is announced", || announces("/10.77.5.1/"));
    world.remove_address(0, "10.77.5.1");
    until(PATIENCE, "it is announced no more", || !announces("/10.77.5.1/"));
    assert!(announces("/10.77.0.1/"));
}
