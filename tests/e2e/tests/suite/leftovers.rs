//! What killed nodes and killed keepers leave of programs is gone once they are started again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_e2e::http::{HONEST, raw, request, says};
use althing_e2e::sandbox::interpreter;
use althing_e2e::{Machine, Node, Running, runs, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

const PLAIN_MCP: &str = include_str!("../../python/plain_mcp.py");
/// An agent that shows no card, or a server of one tool, which writes a temporary file.
const PROGRAM: &str = "
import os, sys, threading
import plain_mcp
if sys.argv[1] == 'agent':
    threading.Event().wait()
with open(os.path.join(os.environ.get('TMPDIR', '/tmp'), 'mine'), 'w') as file:
    file.write('temporary')
TOOLS = [{'name': 'says', 'description': 'Says a word.', 'inputSchema': {'type': 'object'}}]
plain_mcp.serve('says', TOOLS, lambda tool, arguments: 'here')
";
/// Python programs start slowly on a busy machine, and those of a killed node have their time to end.
const SOON: Duration = Duration::from_secs(40);

/// A machine with a program that is an agent, and one that serves the tools of another.
struct Scene {
    machine: Machine,
    /// A word on the command lines of its programs, and of no others.
    mark: String,
}

impl Scene {
    /// With its node, on which both run.
    fn start(python: &Path) -> (Scene, Node) {
        let machine = Machine::new();
        machine.write("plain_mcp.py", PLAIN_MCP);
        let program = machine.write("program.py", PROGRAM);
        let mark = format!("{}-left", machine.home().file_name().expect("a name").to_string_lossy());
        let node = machine.up_alone(&[]);
        let command = |role: &str| json!([python, program, role, mark]);
        let tools = json!({
            "name": "tools",
            "description": "Says a word",
            "runtime": { "native": { "builtin": "tools" } },
            "tools": { "server": { "command": command("tools") } },
            "contract": { "class": { "latency": "srt" }, "capabilities": ["server/says"] },
        });
        machine.add("tools", &tools.to_string());
        let agent = json!({
            "name": "agent",
            "description": "Shows no card",
            "skills": [{ "id": "x.y", "name": "X", "description": "Does nothing" }],
            "runtime": { "process": { "command": command("agent"), "startup_timeout_ms": 600_000 } },
            "contract": { "class": { "latency": "srt" } },
        });
        let file = machine.write("agent.yaml", &agent.to_string());
        // It would wait for an answer.
        let adding = Running::start(&mut machine.althing(&["agent".as_ref(), "add".as_ref(), file.as_os_str()]));
        let scene = Scene { machine, mark };
        scene.is_up(&node);
        // Its program runs before it is written down.
        let kept = || scene.machine.json(&["who", "server/says"])["agents"].to_string().contains(":agent\"");
        until(SOON, "the agent is kept", kept);
        adding.signal(Signal::SIGINT);
        adding.end(SOON);
        (scene, node)
    }

    /// Its programs that run.
    fn programs(&self) -> BTreeSet<u32> {
        let names =
            fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_ours = |pid: &u32| {
            // It may be gone already.
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == self.mark.as_bytes()) && runs(*pid)
        };
        names.filter_map(|name| name.parse().ok()).filter(is_ours).collect()
    }

    /// The folders of programs, and what was set aside of them.
    fn folders(&self) -> BTreeSet<String> {
        let data = self.machine.data();
        let names = |folder: PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten();
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let aside = names(data.clone()).into_iter().filter(|name| name.starts_with(".left-"));
        names(data.join("run")).into_iter().chain(aside).collect()
    }

    /// Waits until both programs run, and the tool answers.
    fn is_up(&self, node: &Node) {
        let call = json!({ "tool": "says", "arguments": {} }).to_string();
        let answers = || {
            let asked =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": says(&call) }).to_string();
            let gateway = node.gateway();
            let answer = raw(&gateway, &request(&gateway, "POST", "/a2a/tools", &HONEST, asked.as_bytes())).json();
            answer["result"]["task"]["artifacts"][0]["parts"][0]["text"] == "\"here\""
        };
        until(SOON, "the tool answers", answers);
        until(SOON, "both programs run", || self.programs().len() == 2);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.programs().into_iter().for_each(end);
    }
}

/// As if it crashed.
fn end(pid: u32) {
    // It may be gone already.
    let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL);
}

/// The keeper of a program: what the node started.
fn keeper(program: u32, node: u32) -> u32 {
    let parent = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent");
        line.trim().parse::<u32>().expect("a pid")
    };
    let mut pid = program;
    while parent(pid) != node {
        pid = parent(pid);
    }
    pid
}

/// Control groups of these keepers, wherever they are.
fn groups(keepers: &BTreeSet<u32>) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(at) = open.pop() {
        // What is gone by now is none.
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let keeper = name.strip_prefix("althing-").and_then(|keeper| keeper.parse().ok());
            if keeper.is_some_and(|keeper| keepers.contains(&keeper)) {
                found.push(entry.path());
            }
            open.push(entry.path());
        }
    }
    found
}

#[test]
fn a_killed_node_leaves_nothing_of_its_programs_once_it_is_started_again() {
    let Some(python) = interpreter() else { return };
    let (scene, node) = Scene::start(&python);
    let (programs, folders) = (scene.programs(), scene.folders());
    let keepers: BTreeSet<u32> = programs.iter().map(|program| keeper(*program, node.running.pid())).collect();
    assert_eq!((folders.len(), keepers.len()), (2, 2), "{folders:?}");
    node.running.kill();
    let node = scene.machine.up_alone(&[]);
    scene.is_up(&node);
    until(SOON, "the programs are gone", || scene.programs().is_disjoint(&programs));
    until(SOON, "their folders are gone", || scene.folders().is_disjoint(&folders) && scene.folders().len() == 2);
    until(SOON, "their control groups are gone", || groups(&keepers).is_empty());
}

#[test]
fn a_killed_keeper_leaves_nothing_of_its_program_once_that_is_started_again() {
    let Some(python) = interpreter() else { return };
    let (scene, node) = Scene::start(&python);
    let programs = scene.programs();
    let keepers: BTreeSet<u32> = programs.iter().map(|program| keeper(*program, node.running.pid())).collect();
    keepers.iter().copied().for_each(end);
    until(SOON, "the programs are gone", || scene.programs().is_disjoint(&programs));
    scene.is_up(&node);
    // That of the agent is used again, and that of the server is another one.
    until(SOON, "no folder is left", || scene.folders().len() == 2);
    until(SOON, "no control group is left", || groups(&keepers).is_empty());
}
