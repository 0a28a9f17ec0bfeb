//! Nodes of one user on one machine, by name, that form a group.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{COMMAND_MAX, Machine, Node, Outcome, Running, binary, text, until};

const SOON: Duration = Duration::from_secs(60);

/// Nodes of one user on one machine, by name.
pub struct Desk(pub Machine);

impl Desk {
    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = self.0.command(&binary());
        command.args(["--json", "--name", name]).args(arguments);
        command
    }

    /// Runs a command on a node, to its end.
    pub fn run(&self, name: &str, arguments: &[&str]) -> Outcome {
        Running::start(&mut self.command(name, arguments)).end(COMMAND_MAX)
    }

    /// Runs a command that must succeed, and reads the JSON that it prints.
    pub fn json(&self, name: &str, arguments: &[&str]) -> Value {
        let outcome = self.run(name, arguments);
        assert_eq!(outcome.code, 0, "{name}: {arguments:?}: {outcome:?}");
        serde_json::from_str(&outcome.stdout).expect("JSON")
    }

    /// Starts a node.
    pub fn up(&self, name: &str, flags: &[&str]) -> Node {
        let alone = ["up", "--no-lan", "--gateway", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"];
        let mut running = Running::start(&mut self.command(name, &[&alone[..], flags].concat()));
        let line = running.line(COMMAND_MAX).expect("it starts");
        Node { running, said: serde_json::from_str(&line).expect("JSON"), ready: Instant::now() }
    }
}

/// Nodes of these names in a group `team`, in which all vote.
pub fn team(names: &[&str]) -> (Desk, Vec<Option<Node>>) {
    let desk = Desk(Machine::new());
    let mut nodes = vec![Some(desk.up(names[0], &[]))];
    desk.json(names[0], &["group", "create", "team"]);
    for name in &names[1..] {
        let peers: Vec<String> = nodes.iter().flatten().map(|node| node.address("/ip4/127.0.0.1")).collect();
        let flags: Vec<&str> = peers.iter().flat_map(|peer| ["--peer", peer.as_str()]).collect();
        let node = desk.up(name, &flags);
        let ticket = text(&desk.json(names[0], &["group", "invite", "team", &node.did()])["ticket"]);
        desk.json(name, &["group", "join", &ticket]);
        nodes.push(Some(node));
    }
    until(SOON, "all vote", || {
        names.iter().all(|name| desk.json(name, &["group", "status", "team"])["role"] != "learner")
    });
    (desk, nodes)
}
