//! Generated endings of A2A answers, of a server elsewhere and of a node's program: asked directly, through another node, and by the
//! steps of workflows. None is complete that its agent did not complete, and none fails that it did.

use std::path::Path;
use std::time::Duration;

use althing_e2e::{Machine, Node, Running, cast, text, until};
use althing_testing::at_night;
use serde_json::Value;

const SCRIPT: &str = include_str!("../../python/endings.py");
/// How many endings each of the two agents is asked for, and at night.
const EACH: [u32; 2] = [500, 5_000];
/// How many workflows there are, and at night; and the steps of each, as many as it may have.
const WORKFLOWS: [u32; 2] = [3, 32];
const STEPS: u32 = 64;
/// Workflows that run at the same time.
const TOGETHER: u32 = 4;
const SOON: Duration = Duration::from_secs(120);
/// All endings of an agent, with each of two nodes.
const ENDINGS_MAX: Duration = Duration::from_secs(900);

/// What these tests stand on: a node that has both agents, and one of another owner.
struct Scene {
    one: Machine,
    two: Machine,
    host: Node,
    caller: Node,
    _server: Running,
}

impl Scene {
    fn start() -> Scene {
        let (one, two) = (Machine::new(), Machine::new());
        let host = one.up_alone(&[]);
        let caller = two.up_alone(&["--peer", &host.address("/ip4/127.0.0.1/")]);
        one.json(&["trust", &caller.owner()]);
        two.json(&["trust", &host.owner()]);
        one.write("endings.py", SCRIPT);
        let mut server = Running::start(one.command(Path::new("python3")).args(["endings.py", "serve"]));
        let port = server.line(SOON).expect("its port");
        one.json(&["adopt", "--callers", "trusted", "--as", "remote", &format!("http://127.0.0.1:{port}")]);
        one.add("program", &cast::program("program", &["python3", "endings.py", "serve"], "trusted"));
        let ready = |row: &Value| row["state"] == "ready";
        until(SOON, "both are ready", || one.json(&["ps"])["agents"].as_array().expect("a list").iter().all(ready));
        until(SOON, "both are found on the other node", || two.finds("remote") && two.finds("program"));
        Scene { one, two, host, caller, _server: server }
    }

    /// Runs the script to its end, which must be a good one; what it printed.
    fn script(&self, arguments: &[&str]) -> String {
        let mut command = self.two.command(Path::new("python3"));
        command.arg(self.one.folder().join("endings.py")).args(arguments);
        let outcome = Running::start(&mut command).end(ENDINGS_MAX);
        assert_eq!(outcome.code, 0, "{arguments:?}: {}\n{}", outcome.stdout, outcome.stderr);
        outcome.stdout
    }

    /// What is right for endings from this one on: complete, failed, or either.
    fn right(&self, first: u32, count: u32) -> Vec<Option<bool>> {
        let printed = self.script(&["right", &first.to_string(), &count.to_string()]);
        let list: Value = serde_json::from_str(&printed).expect("JSON");
        list.as_array().expect("a list").iter().map(Value::as_bool).collect()
    }

    /// Begins a workflow whose steps ask an agent for endings from this one on, all at once; its run.
    fn begin(&self, agent: &str, first: u32) -> String {
        let steps: Vec<String> = (first..first + STEPS)
            .map(|seed| format!("  - {{ id: s{seed}, agent: {agent}, input: \"{seed}\" }}\n"))
            .collect();
        let file = self.one.write("ends.yaml", &format!("name: ends\nsteps:\n{}", steps.concat()));
        text(&self.one.json(&["workflow", "run", "team", file.to_str().expect("a plain path"), "x"])["run"])
    }

    /// Its steps, when it is over.
    fn steps(&self, run: &str) -> Vec<String> {
        let shown = || self.one.json(&["workflow", "show", "team", run]);
        until(SOON, "the run is over", || shown()["state"] != "running");
        shown()["step"].as_array().expect("a list").iter().map(|step| text(&step["state"])).collect()
    }
}

#[test]
fn none_is_complete_that_was_not_and_none_fails_that_was() {
    let scene = Scene::start();
    let each = EACH[usize::from(at_night())];
    for (first, agent) in [(0, "remote"), (each, "program")] {
        let urls = [&scene.host, &scene.caller].map(|node| format!("{}/a2a/{agent}", node.gateway()));
        let said = scene.script(&["check", &first.to_string(), &each.to_string(), &urls[0], &urls[1]]);
        println!("measured: {agent}: {said}");
        assert!(said.ends_with("ENDINGS OK\n"), "{said}");
    }
    scene.one.json(&["group", "create", "team"]);
    let all: Vec<u32> = (0..WORKFLOWS[usize::from(at_night())]).collect();
    for some in all.chunks(usize::try_from(TOGETHER).expect("few")) {
        let begin = |number: &u32| {
            let first = number * STEPS;
            (first, scene.begin(["remote", "program"][usize::from(number % 2 == 1)], first))
        };
        let runs: Vec<(u32, String)> = some.iter().map(begin).collect();
        for (first, run) in runs {
            let (states, right) = (scene.steps(&run), scene.right(first, STEPS));
            assert_eq!(states.len(), right.len());
            let mut decided = 0;
            for (seed, (state, right)) in (first..).zip(states.iter().zip(right)) {
                let is_complete = match state.as_str() {
                    "completed" => true,
                    "failed" => false,
                    _ => continue,
                };
                assert!(right.is_none_or(|right| right == is_complete), "seed {seed}: its step is {state}");
                decided += 1;
            }
            assert!(decided > STEPS / 2, "{decided} of {STEPS} steps of {run} were decided: {states:?}");
        }
    }
}
