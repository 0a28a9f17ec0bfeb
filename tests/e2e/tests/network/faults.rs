//! Real faults under real processes, each machine in a namespace of its own: what happens is defined, nothing hangs, and
//! what was disturbed is well again when the disturbance is over.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::time::{Duration, Instant};

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Node, Outcome, cast, until};
use nix::sys::signal::Signal;

const SOON: Duration = Duration::from_secs(30);
/// A call to a node that does not answer fails within this.
const CALL_MAX: Duration = Duration::from_secs(40);

/// Machines on a LAN, each with an agent for anyone that is called as the machine is numbered, all found by all.
fn lan(count: usize) -> Option<(World, Vec<Node>)> {
    let world = World::new(count, Multicast::Carried)?;
    let nodes: Vec<Node> = world.machines.iter().map(|machine| machine.up(&[])).collect();
    for (at, machine) in world.machines.iter().enumerate() {
        machine.add(&name(at), &cast::echo(&name(at), "anyone"));
    }
    until(SOON, "all find all", || all_find_all(&world));
    Some((world, nodes))
}

fn name(at: usize) -> String {
    format!("agent-{at}")
}

fn all_find_all(world: &World) -> bool {
    let count = world.machines.len();
    world.machines.iter().all(|machine| (0..count).all(|at| machine.finds(&name(at))))
}

fn call(machine: &Machine, at: usize) -> Outcome {
    machine.run(&["call", "--anyone", &name(at), "hello"])
}

fn answers(machine: &Machine, at: usize) -> bool {
    let called = call(machine, at);
    called.code == 0 && called.stdout.contains("hello")
}

#[test]
fn two_that_do_not_hear_each_other_are_no_harm_to_a_third() {
    let Some((world, _nodes)) = lan(3) else { return };
    let [one, two, three] = &world.machines[..] else { panic!("three machines") };
    world.deafen(0, 1);
    world.deafen(1, 0);
    until(SOON, "they lose each other", || !one.finds(&name(1)) && !two.finds(&name(0)));
    let begun = Instant::now();
    let called = call(one, 1);
    assert!([4, 6].contains(&called.code), "{called:?}");
    assert!(begun.elapsed() < CALL_MAX, "it took {:?}", begun.elapsed());
    assert!(answers(three, 0) && answers(three, 1) && answers(one, 2) && answers(two, 2));
    world.mend(0);
    world.mend(1);
    until(SOON, "all find all again", || all_find_all(&world));
    assert!(answers(one, 1) && answers(two, 0));
}

#[test]
fn a_link_that_carries_one_way_only_is_no_link() {
    let Some((world, _nodes)) = lan(2) else { return };
    let [one, two] = &world.machines[..] else { panic!("two machines") };
    // The first still hears the second's multicast, so it goes on dialling; the second hears nothing at all.
    world.deafen(1, 0);
    until(SOON, "they lose each other", || !one.finds(&name(1)) && !two.finds(&name(0)));
    assert!([4, 6].contains(&call(one, 1).code));
    world.mend(1);
    until(SOON, "all find all again", || all_find_all(&world));
    assert!(answers(one, 1) && answers(two, 0));
}

#[test]
fn lossy_and_narrow_links_are_slow_and_lose_nothing() {
    let Some((world, _nodes)) = lan(2) else { return };
    let [one, two] = &world.machines[..] else { panic!("two machines") };
    for share in [0.05, 0.2] {
        world.lose(0, share);
        world.lose(1, share);
        for _ in 0..5 {
            assert!(answers(one, 1) && answers(two, 0), "with a share of {share} lost");
        }
        world.mend(0);
        world.mend(1);
    }
    world.narrow(0, 1_000);
    let long = "x".repeat(60_000);
    let called = one.run(&["call", "--anyone", &name(1), &long]);
    assert_eq!((called.code, called.stdout.contains(&long)), (0, true), "{} bytes came", called.stdout.len());
}

#[test]
fn a_node_that_is_stopped_is_gone_and_back_when_it_goes_on() {
    let Some((world, nodes)) = lan(2) else { return };
    let one = &world.machines[0];
    nodes[1].running.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    // A call to it is given up, and not for ever waited for.
    let called = call(one, 1);
    assert!([4, 6].contains(&called.code), "{called:?}");
    assert!(stopped.elapsed() < CALL_MAX, "it took {:?}", stopped.elapsed());
    until(SOON, "it is gone", || !one.finds(&name(1)));
    nodes[1].running.signal(Signal::SIGCONT);
    until(SOON, "it is back", || one.finds(&name(1)));
    assert!(answers(one, 1));
}

#[test]
fn a_node_that_is_killed_again_and_again_comes_back_as_itself() {
    let Some((world, mut nodes)) = lan(2) else { return };
    let [one, two] = &world.machines[..] else { panic!("two machines") };
    let did = nodes[1].did();
    for round in 0..8 {
        nodes.pop().expect("it runs").running.kill();
        nodes.push(two.up(&[]));
        assert_eq!(nodes[1].did(), did, "round {round}");
    }
    until(SOON, "it is found, with its agent", || one.finds(&name(1)) && answers(one, 1));
    until(SOON, "one connection to it is left", || {
        let peers = one.json(&["peers"]);
        let all = peers["peers"].as_array().expect("a list");
        all.len() == 1 && all[0]["connections"] == 1
    });
}
