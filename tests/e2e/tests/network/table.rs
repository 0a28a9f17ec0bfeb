//! Beyond the LAN: machines that know one address, and find the rest through each other.

use std::path::Path;
use std::time::Duration;

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Node, Running, cast, until};
use serde_json::json;

const SOON: Duration = Duration::from_secs(30);
const MODEL: &str = include_str!("../../python/model.py");

/// Machines without multicast, of which each knows the first.
fn through_one(count: usize) -> Option<(World, Vec<Node>)> {
    let world = World::new(count, Multicast::Dropped)?;
    let mut nodes = vec![world.machines[0].up(&[])];
    for machine in &world.machines[1..] {
        nodes.push(machine.up(&["--peer", "/ip4/10.77.0.1/tcp/7421"]));
    }
    Some((world, nodes))
}

fn peers(machine: &Machine) -> Vec<String> {
    let peers = machine.json(&["peers"]);
    peers["peers"].as_array().expect("a list").iter().map(|peer| althing_e2e::text(&peer["node"])).collect()
}

#[test]
fn who_knows_one_address_finds_and_calls_agents_of_all() {
    let Some((world, mut nodes)) = through_one(3) else { return };
    let (two, three) = (&world.machines[1], &world.machines[2]);
    two.add("pong", &cast::echo("pong", "anyone"));
    until(SOON, "an agent of a node whose address nobody gave is found", || three.finds("pong"));
    let called = three.run(&["call", "--anyone", "pong", "hello"]);
    assert_eq!((called.code, called.stdout.contains("hello")), (0, true), "{called:?}");
    // The one that they know goes; they still know each other.
    let first = nodes.remove(0);
    let did = first.did();
    first.running.kill();
    until(SOON, "it is gone", || !peers(three).contains(&did));
    assert_eq!(three.run(&["call", "--anyone", "pong", "hello again"]).code, 0);
    assert!(peers(three).contains(&nodes[0].did()));
}

#[test]
fn a_chain_of_three_agents_on_three_nodes() {
    let Some((world, nodes)) = through_one(3) else { return };
    let mut models = Vec::new();
    for (at, (name, next)) in [("first", "second"), ("second", "third")].into_iter().enumerate() {
        let machine = &world.machines[at];
        machine.write("model.py", MODEL);
        let mut model = Running::start(machine.command(Path::new("python3")).arg("model.py"));
        let port = model.line(SOON).expect("the endpoint says its port");
        models.push(model);
        let endpoint = json!({ "url": format!("http://127.0.0.1:{}/v1", port.trim()), "model": "stub" });
        let file = json!({
            "name": name,
            "description": "Passes on what it is told",
            "callers": "trusted",
            "skills": [{ "id": format!("passing.{name}"), "name": "Pass", "description": "Passes on" }],
            "runtime": { "model": { "prompt": "Pass it on.", "endpoints": [endpoint] } },
            "contract": { "class": { "latency": "srt" }, "capabilities": [format!("agents/{next}")] },
        });
        machine.add(name, &file.to_string());
    }
    world.machines[2].add("third", &cast::echo("third", "trusted"));
    for machine in &world.machines {
        for node in &nodes {
            assert_eq!(machine.run(&["trust", &node.owner()]).code, 0);
        }
    }
    until(SOON, "all are found", || {
        world.machines[0].finds("second") && world.machines[1].finds("third") && world.machines[2].finds("first")
    });
    let inner = json!({ "message": "call agents__third {\"message\": \"the end\"}" }).to_string();
    let called = world.machines[0].run(&["call", "first", &format!("call agents__second {inner}")]);
    assert!(called.stdout.contains("heard: heard: the end"), "{called:?}");
}
