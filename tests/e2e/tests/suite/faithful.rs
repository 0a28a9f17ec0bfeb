//! An agent of the official server is the same behind a node, and behind two, as when it is asked directly.

use std::process::Stdio;
use std::time::Duration;

use althing_e2e::python::python;
use althing_e2e::{Machine, Running, until};

const STOCK: &str = include_str!("../../python/stock.py");
const COMPARE: &str = include_str!("../../python/compare.py");
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(30);

const FILE: &str = "name: stock
description: Does as it is told
skills: [{ id: acting.do, name: Do, description: Does as it is told, action: do, target: play }]
runtime: { process: { command: [PYTHON, stock.py], cwd: ., startup_timeout_ms: 30000 } }
contract: { class: { latency: srt } }
callers: trusted
";

/// How the agent came to its node.
#[derive(Clone, Copy, PartialEq)]
enum Joined {
    /// The node runs its program.
    Run,
    /// It runs elsewhere, and was adopted by its address.
    Adopted,
}

#[test]
fn an_agent_is_the_same_directly_through_one_node_and_through_two() {
    compare(Joined::Run);
}

#[test]
fn an_adopted_agent_is_the_same_directly_through_one_node_and_through_two() {
    compare(Joined::Adopted);
}

fn compare(joined: Joined) {
    let Some(python) = python() else { return };
    let (one, two) = (Machine::new(), Machine::new());
    // The receiver of notifications is on this machine.
    two.configure("[push]\nnets = [\"127.0.0.0/8\"]\n");
    let caller = one.up_alone(&[]);
    let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
    two.json(&["trust", &caller.owner()]);
    // A name leads to those who are trusted only.
    one.json(&["trust", &host.owner()]);
    two.write("stock.py", STOCK);
    let mut stock = two.command(python);
    let mut directly = Running::start(stock.arg("stock.py").stdout(Stdio::piped()));
    let ports = directly.line(SOON).expect("its ports");
    let (port, grpc) = ports.split_once(' ').expect("two ports");
    if joined == Joined::Run {
        two.add("stock", &FILE.replace("PYTHON", &format!("{:?}", python.to_string_lossy())));
    } else {
        two.json(&["adopt", "--callers", "trusted", &format!("http://127.0.0.1:{port}/")]);
    }
    let ready = || {
        let list = two.json(&["ps"]);
        list["agents"].as_array().is_some_and(|rows| rows.iter().any(|row| row["state"] == "ready"))
    };
    until(SOON, "the program is up", ready);
    until(SOON, "the agent is found on the other node", || one.finds("stock"));

    one.write("compare.py", COMPARE);
    let mut compare = one.command(python);
    compare.arg("compare.py").arg(format!("direct=http://127.0.0.1:{port}/,127.0.0.1:{grpc}"));
    if joined == Joined::Adopted {
        compare.arg("--adopted");
    }
    for (name, node) in [("one node", &host), ("two nodes", &caller)] {
        let gateway = node.gateway();
        compare.arg(format!("{name}={gateway}/a2a/stock,{}", althing_e2e::http::authority(&gateway)));
    }
    let outcome = Running::start(&mut compare).end(Duration::from_secs(120));
    directly.kill();
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.ends_with("COMPARE OK\n"), "{outcome:?}");
}
