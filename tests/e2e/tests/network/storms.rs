//! Severe faults: all machines crash, a link loses half of its packets, a link is slow, a disk is full. Acknowledged tasks survive,
//! and nothing hangs.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::time::{Duration, Instant};

use althing_e2e::disk::Disk;
use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Node, Running, cast, http, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);
/// A call to a node that does not answer fails within this.
const CALL_MAX: Duration = Duration::from_secs(40);

fn name(at: usize) -> String {
    format!("agent-{at}")
}

/// All machines find all agents.
fn whole(world: &World) -> bool {
    let count = world.machines.len();
    world.machines.iter().all(|machine| (0..count).all(|at| machine.finds(&name(at))))
}

fn lan(count: usize) -> Option<(World, Vec<Node>)> {
    let world = World::new(count, Multicast::Carried)?;
    let nodes: Vec<Node> = world.machines.iter().map(|machine| machine.up(&[])).collect();
    // They call each other by name, over their gateways too.
    for (at, machine) in world.machines.iter().enumerate() {
        let others = nodes.iter().enumerate().filter(|(other, _)| *other != at);
        others.for_each(|(_, node)| drop(machine.json(&["trust", &node.owner()])));
    }
    for (at, machine) in world.machines.iter().enumerate() {
        machine.add(&name(at), &cast::echo(&name(at), "anyone"));
    }
    until(SOON, "all find all", || whole(&world));
    Some((world, nodes))
}

/// What a call's answer says of its task.
fn task(machine: &Machine, at: usize, text: &str) -> Value {
    let called = machine.run(&["--json", "call", "--anyone", &name(at), text]);
    assert_eq!(called.code, 0, "{called:?}");
    let first: Value = serde_json::from_str(called.stdout.lines().next().expect("a line")).expect("JSON");
    first["task"]["id"].clone()
}

#[test]
fn a_lan_whose_nodes_all_die_at_once_is_whole_again_and_has_lost_no_task() {
    let Some((world, nodes)) = lan(4) else { return };
    let mut tasks = Vec::new();
    for from in 0..4 {
        for to in 0..4 {
            tasks.push((from, to, task(&world.machines[from], to, &format!("from {from} to {to}"))));
        }
    }
    for node in &nodes {
        node.running.signal(Signal::SIGKILL);
    }
    drop(nodes);
    let nodes: Vec<Node> = std::thread::scope(|scope| {
        let starting: Vec<_> = world.machines.iter().map(|machine| scope.spawn(|| machine.up(&[]))).collect();
        starting.into_iter().map(|node| node.join().expect("a node starts")).collect()
    });
    let took = until(SOON, "all find all again", || whole(&world));
    println!("measured: whole again {:.2} s after the last one was ready", took.as_secs_f64());
    for (from, to, id) in tasks {
        let gateway = nodes[from].gateway();
        let kept = world.inside(from, || http::ask(&gateway, &name(to), "GetTask", &json!({ "id": id })));
        assert_eq!(kept["status"]["state"], "TASK_STATE_COMPLETED", "{kept}");
        assert!(kept["artifacts"].to_string().contains(&format!("from {from} to {to}")), "{kept}");
    }
}

#[test]
fn a_link_that_loses_half_of_all_packets_hangs_nobody() {
    let Some((world, _nodes)) = lan(2) else { return };
    let one = &world.machines[0];
    world.lose(0, 0.5);
    world.lose(1, 0.5);
    let mut answered = 0;
    let calls: Vec<Running> =
        (0..6).map(|_| Running::start(&mut one.althing(&["call", "--anyone", &name(1), "hello"]))).collect();
    for call in calls {
        let called = call.end(CALL_MAX);
        match called.code {
            0 => answered += 1,
            4 | 6 => {}
            _ => panic!("{called:?}"),
        }
    }
    println!("measured: {answered} of 6 calls answered while half of all packets were lost both ways");
    world.mend(0);
    world.mend(1);
    until(SOON, "all find all again", || whole(&world));
    assert_eq!(one.run(&["call", "--anyone", &name(1), "hello"]).code, 0);
}

#[test]
fn a_slow_link_is_slow_and_nothing_else() {
    /// Each way.
    const BY: Duration = Duration::from_millis(150);
    let Some(world) = World::new(3, Multicast::Dropped) else { return };
    let [one, two, _] = &world.machines[..] else { panic!("three machines") };
    // They reach each other through the third only.
    world.deafen(0, 1);
    world.deafen(1, 0);
    world.delay(2, 1, BY);
    let _nodes = [two.up(&[]), one.up(&["--peer", "/ip4/10.77.0.3/tcp/7421"])];
    one.add(&name(0), &cast::echo(&name(0), "anyone"));
    two.add(&name(1), &cast::echo(&name(1), "anyone"));
    until(SOON, "they find each other", || one.finds(&name(1)) && two.finds(&name(0)));
    for (from, to) in [(one, 1), (two, 0)] {
        let begun = Instant::now();
        let called = from.run(&["call", "--anyone", &name(to), "hello"]);
        let took = begun.elapsed();
        assert_eq!((called.code, called.stdout.contains("hello")), (0, true), "{called:?}");
        assert!(took >= 2 * BY && took < Duration::from_secs(5), "{took:?}");
    }
    // Longer than a placement lives: neither loses the other in between.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        assert!(one.finds(&name(1)) && two.finds(&name(0)), "after {:?}", begun.elapsed());
    }
}

#[test]
fn a_full_disk_acknowledges_nothing_and_loses_nothing() {
    let machine = Machine::new();
    let data = machine.data();
    let Some(disk) = Disk::mount(&data) else { return };
    let node = machine.up_alone(&[]);
    machine.add(&name(0), &cast::echo(&name(0), "anyone"));
    let before = task(&machine, 0, "before");
    let fill = disk.fill();
    for _ in 0..5 {
        let refused = machine.run(&["call", &name(0), "while it is full"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("is full") && refused.stderr.contains("free space"), "{refused:?}");
    }
    let shown = |id: &Value| http::ask(&node.gateway(), &name(0), "GetTask", &json!({ "id": id }));
    assert_eq!(shown(&before)["status"]["state"], "TASK_STATE_COMPLETED", "what was kept is shown still");
    assert_eq!(machine.run(&["status"]).code, 0);

    std::fs::remove_file(&fill).expect("there is room again");
    until(SOON, "calls are taken again", || machine.run(&["call", &name(0), "hello"]).code == 0);
    let after = task(&machine, 0, "after");
    node.running.kill();
    let again = machine.up_alone(&[]);
    for (id, text) in [(before, "before"), (after, "after")] {
        let kept = http::ask(&again.gateway(), &name(0), "GetTask", &json!({ "id": id }));
        assert!(kept["artifacts"].to_string().contains(text), "{kept}");
    }
    drop(again);
}
