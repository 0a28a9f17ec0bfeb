//! A1: each layer of the node that is there (L1, L2, L3 and L5) in turn loses what it depends on; the other layers still
//! answer, and report what they cannot do and why.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Node, cast, text, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(40);
const SLOW: &str = include_str!("../../python/slow.py");
/// Machines 0, 2 and 3 are members of a group; on 0 and 1 are the agents.
const MACHINES: usize = 4;
const MEMBERS: [usize; 3] = [0, 2, 3];

/// The layers in which `doctor` finds something wrong.
fn at_fault(machine: &Machine) -> BTreeSet<String> {
    let told = machine.run(&["--json", "doctor"]);
    let told: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let findings = told["findings"].as_array().expect("findings").iter();
    findings.filter(|finding| finding["fine"] == false).map(|finding| text(&finding["layer"])).collect()
}

/// The layers in `status`.
fn layers(machine: &Machine) -> Vec<String> {
    let status = machine.json(&["status"]);
    status["layers"].as_object().expect("layers").keys().cloned().collect()
}

struct Scene {
    nodes: Vec<Option<Node>>,
    world: World,
    /// The layers of which the first machine's node speaks.
    all: Vec<String>,
}

impl Scene {
    fn new() -> Option<Scene> {
        let world = World::new(MACHINES, Multicast::Carried)?;
        let nodes: Vec<Option<Node>> = world.machines.iter().map(|machine| Some(machine.up(&[]))).collect();
        let (one, two) = (&world.machines[0], &world.machines[1]);
        one.json(&["group", "create", "team"]);
        for at in &MEMBERS[1..] {
            let did = nodes[*at].as_ref().expect("it runs").did();
            let ticket = text(&one.json(&["group", "invite", "team", &did])["ticket"]);
            world.machines[*at].json(&["group", "join", &ticket]);
        }
        let votes = |at: &usize| {
            let said = world.machines[*at].run(&["--json", "group", "status", "team"]);
            let status: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
            status["role"].as_str().is_some_and(|role| role != "learner")
        };
        until(SOON, "all vote", || MEMBERS.iter().all(votes));
        one.add("native", &cast::echo("native", "anyone"));
        two.add("far", &cast::echo("far", "anyone"));
        one.write("slow.py", SLOW);
        let program = cast::program("beside", &["python3", "slow.py"], "anyone");
        // A call while it does not start fails after that time.
        one.add("beside", &program.replace("startup_timeout_ms: 30000", "startup_timeout_ms: 5000"));
        until(SOON, "all find all", || one.finds("far") && two.finds("native") && two.finds("beside"));
        let all = layers(one);
        let scene = Scene { nodes, world, all };
        scene.blames(&[]);
        Some(scene)
    }

    fn one(&self) -> &Machine {
        &self.world.machines[0]
    }

    fn two(&self) -> &Machine {
        &self.world.machines[1]
    }

    /// The doctor of the first machine finds something wrong in these layers, and in no others.
    fn blames(&self, layers: &[&str]) {
        let layers: BTreeSet<String> = layers.iter().map(|layer| (*layer).to_owned()).collect();
        let mut found = BTreeSet::new();
        until(SOON, &format!("the doctor finds fault with {layers:?} only"), || {
            found = at_fault(self.one());
            found == layers
        });
    }

    /// Agents of both machines answer each other.
    fn they_answer(&self) {
        let there = self.two().run(&["call", "--anyone", "native", "hello"]);
        let here = self.one().run(&["call", "--anyone", "far", "hello"]);
        assert_eq!((there.code, here.code), (0, 0), "{there:?} {here:?}");
    }

    fn group_decides(&self) -> bool {
        self.one().run(&["group", "set", "team", "key", "value"]).code == 0
    }

    /// L5: a group loses its majority, and has it again.
    fn without_a_majority(&mut self) {
        for at in &MEMBERS[1..] {
            self.nodes[*at].take().expect("it runs").running.kill();
        }
        self.blames(&["L5"]);
        self.they_answer();
        assert!(self.one().finds("far"));
        assert_eq!(layers(self.one()), self.all, "each layer is spoken of, whatever happened to it");
        for at in &MEMBERS[1..] {
            self.nodes[*at] = Some(self.world.machines[*at].up(&[]));
        }
        until(SOON, "the group decides again", || self.group_decides());
        self.blames(&[]);
    }

    /// L1: an agent's program cannot be run any more.
    fn without_a_program(&self) {
        let (one, two) = (self.one(), self.two());
        assert_eq!(two.run(&["call", "--anyone", "beside", "quick"]).code, 0);
        std::fs::remove_file(one.folder().join("slow.py")).expect("it was there");
        let ps = one.json(&["ps"]);
        let agents = ps["agents"].as_array().expect("agents");
        let beside = agents.iter().find(|agent| agent["name"] == "beside").expect("it is there");
        let pid = Pid::from_raw(i32::try_from(beside["pid"].as_i64().expect("a pid")).expect("a pid"));
        kill(pid, Signal::SIGKILL).expect("it runs");
        self.blames(&["L1"]);
        let called = two.run(&["call", "--anyone", "beside", "quick"]);
        assert!(called.code == 1 && called.stderr.contains("beside"), "{called:?}");
        self.they_answer();
        assert!(self.group_decides());
        assert_eq!(layers(one), self.all);
        assert_eq!(one.run(&["agent", "remove", "beside"]).code, 0);
        self.blames(&[]);
    }

    /// L2: no connection to the second machine, which is then found no more.
    fn without_a_connection(&self) {
        let one = self.one();
        self.world.cut(1);
        until(SOON, "it is found no more", || !one.finds("far"));
        let called = one.run(&["call", "--anyone", "far", "hello"]);
        assert!(called.code == 4 && called.stderr.contains("far"), "{called:?}");
        assert_eq!(one.run(&["call", "native", "hello"]).code, 0);
        assert!(one.finds("native") && self.group_decides());
        let found = at_fault(one);
        assert!(["L1", "L5"].iter().all(|layer| !found.contains(*layer)), "nothing is wrong with those: {found:?}");
        assert_eq!(layers(one), self.all);
        self.world.restore(1);
        until(SOON, "it is found again, without a word by multicast", || one.finds("far"));
    }

    /// L3: a node that starts where nobody is heard or reached discovers no peer, and reports that; its own agents answer. By what it
    /// knew before it finds its peer as soon as that is reached.
    fn without_discovery(&mut self) {
        self.nodes.clear();
        self.world.cut(1);
        self.nodes = self.world.machines[..2].iter().map(|machine| Some(machine.up(&[]))).collect();
        let one = self.one();
        until(SOON, "the doctor names the layer", || one.run(&["doctor"]).stdout.contains("L3  no peer is connected"));
        assert!(!at_fault(one).contains("L1") && !at_fault(one).contains("L2"), "{:?}", at_fault(one));
        assert!(one.finds("native") && !one.finds("far"));
        assert_eq!(one.run(&["call", "native", "hello"]).code, 0);
        let called = one.run(&["call", "--anyone", "far", "hello"]);
        assert!(called.code == 4 && called.stderr.contains("far"), "{called:?}");
        assert_eq!(layers(one), self.all);
        self.world.restore(1);
        until(SOON, "it is found by what was known of it", || one.finds("far"));
    }
}

#[test]
fn what_is_taken_from_one_layer_is_missed_by_that_one_only() {
    let Some(mut scene) = Scene::new() else { return };
    scene.without_a_majority();
    scene.without_a_program();
    // Without multicast no new node is discovered; connections stay open.
    scene.world.quiet();
    scene.they_answer();
    scene.without_a_connection();
    scene.without_discovery();
}
