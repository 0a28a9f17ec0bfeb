//! Programs that try to escape from their sandboxes in some hundred ways, as the server of an agent's tools and as an agent;
//! the same where Landlock alone holds them; and without a sandbox, which shows that the tests can fail.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_e2e::http::{ask, authority, says};
use althing_e2e::sandbox::{forbids_namespaces, has_landlock, has_namespaces, interpreter};
use althing_e2e::{Machine, Node, Running, runs, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

const PROGRAM: [(&str, &str); 4] = [
    ("escape.py", include_str!("../../python/escape.py")),
    ("attempts.py", include_str!("../../python/attempts.py")),
    ("attempts_beyond.py", include_str!("../../python/attempts_beyond.py")),
    ("plain_mcp.py", include_str!("../../python/plain_mcp.py")),
];
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// There are at least as many attempts: none is lost.
const ATTEMPTS_MIN: usize = 100;
/// As many processes run on after the attempts to outlive the agent: a child, and those of the fork bomb.
const OUTLIVING: usize = 65;

/// What an agent that is a program tries itself: other code starts it than a server of tools.
const OF_AGENTS: [&str; 14] = [
    "paths: node.key",
    "paths: owner.key",
    "the secrets' folder",
    "the store",
    "the control socket",
    "another agent's folder",
    "links: one to node.key",
    "/proc of the node: environ",
    "signals to others: the node",
    "inherited descriptors",
    "abstract sockets",
    "D-Bus: that of the session",
    "TCP to the machine's loopback",
    "privileges",
];
/// What a program in no sandbox reaches under every account, and as an agent of the same.
const WITHOUT: [&str; 32] = [
    "paths: node.key",
    "paths: owner.key",
    "paths: owner-next.key",
    "paths: owner-after-next.key",
    "paths: /proc/self/root",
    "paths: /proc/self/cwd/..",
    "paths: .. from an open folder",
    "the secrets' folder",
    "the store",
    "the node's data folder",
    "another agent's folder",
    "links: one to node.key",
    "hard links: one to node.key",
    "the account's ~/.bashrc, to write",
    "the account's ~/.ssh/authorized_keys",
    "the machine's /var/tmp",
    "a filled disk: /tmp is the machine's",
    "the machine's list of processes",
    "/proc of the node: environ",
    "signals to others: the node",
    "signals to others: other agents",
    "the control socket",
    "another agent's socket",
    "abstract sockets",
    "D-Bus: that of the session",
    "TCP to the machine's loopback",
    "UDP to the machine's loopback",
    "name servers",
    "setuid files",
    "an agent's: paths: node.key",
    "an agent's: the control socket",
    "an agent's: TCP to the machine's loopback",
];

/// What Landlock alone does not keep from a program. It asks neither who looks at what a file is, nor who changes its mode: with
/// that a program reads no file, but may let other accounts read it. And it hides no process.
const BESIDE: [&str; 4] = [
    "the size of node.key",
    "the mode of the account's ~/.bashrc",
    "the machine's list of processes",
    "the processors of the node",
];

/// What came of an attempt.
#[derive(Debug)]
struct Outcome {
    reached: bool,
    how: String,
}

/// A node with a program as the server of the tools of one agent, `escape`, and one that is an agent itself, `neighbour`.
///
/// The home of the account has the node's data, the owner's configuration and the agents' folders, each apart.
struct Scene {
    node: Node,
    machine: Machine,
    /// Files that nobody changes, and what is in them.
    kept: Vec<(PathBuf, Vec<u8>)>,
    /// Who listens outside.
    _outside: Running,
    /// Files of the machine that are aimed at, outside of the home.
    _files: Vec<NamedTempFile>,
}

/// The processes that have this word on their command line.
fn marked(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let all = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has_mark = |pid: &u32| {
        // It may be gone already.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()) && runs(*pid)
    };
    all.filter(has_mark).collect()
}

/// A file of the machine in this folder; none where there is no such folder.
fn file_in(folder: &str) -> Option<NamedTempFile> {
    let file = tempfile::Builder::new().prefix("althing-escape").tempfile_in(folder).ok()?;
    std::fs::write(file.path(), "of the machine\n").expect("it is ours");
    Some(file)
}

/// Writes what the account has of its own, and the agents' programs.
fn furnish(machine: &Machine) {
    let write = |name: &str, text: &str| std::fs::write(machine.home().join(name), text).expect("it takes files");
    for folder in [".ssh", "work/agents/escape", "work/agents/neighbour"] {
        std::fs::create_dir_all(machine.home().join(folder)).expect("a new folder");
    }
    for name in [".bashrc", ".ssh/authorized_keys", "config/althing/althing.toml"] {
        write(name, "# the account's own\n");
    }
    for agent in ["escape", "neighbour"] {
        write(&format!("work/agents/{agent}/notes"), "# the agent's own\n");
        for (name, text) in PROGRAM {
            write(&format!("work/agents/{agent}/{name}"), text);
        }
    }
}

fn keep_secret(machine: &Machine) {
    let file = File::open(machine.write("secret", "correct-horse-battery-staple")).expect("it was written");
    let kept = Running::start(machine.althing(&["secret", "set", "KEY"]).stdin(file)).end(SOON);
    assert_eq!(kept.code, 0, "{kept:?}");
}

impl Scene {
    /// Starts the node by `up`, and its agents; `sandbox` is what their files say of it, if anything.
    fn start(python: &Path, sandbox: Option<&str>, up: impl FnOnce(&Machine) -> Node) -> Scene {
        let machine = Machine::new();
        furnish(&machine);
        let node = up(&machine);
        keep_secret(&machine);
        let mut outside = machine.command(python);
        outside.arg(machine.folder().join("agents/escape/escape.py")).arg("outside").arg(machine.home());
        let mut outside = Running::start(&mut outside);
        let listening: Value =
            serde_json::from_str(&outside.line(SOON).expect("it says where it listens")).expect("JSON");
        let files = ["/var/tmp", "/dev/shm"].map(file_in);
        let paths = files.each_ref().map(|file| file.as_ref().map(NamedTempFile::path));
        let aims = json!({
            "data": machine.data(),
            "config": machine.config(),
            "home": machine.home(),
            "node": node.running.pid(),
            "gateway": port(&node),
            "outside": listening,
            "temporary": paths[0],
            "shared": paths[1],
            "tmp_device": std::fs::metadata("/tmp").expect("a folder").dev(),
        });
        let files = files.into_iter().flatten().collect();
        let kept = kept(&machine);
        let scene = Scene { node, machine, kept, _outside: outside, _files: files };
        scene.add_neighbour(python, sandbox, aims.clone());
        scene.add_escape(python, sandbox, aims);
        scene
    }

    fn folder(&self, agent: &str) -> PathBuf {
        self.machine.folder().join("agents").join(agent)
    }

    /// A word that is on the command lines of an agent's programs, and of no others.
    fn mark(&self, agent: &str) -> String {
        format!("{}-{agent}", self.machine.home().file_name().expect("a name").to_string_lossy())
    }

    /// What starts the program of an agent as `role`, with its aims in its environment.
    fn program(&self, python: &Path, sandbox: Option<&str>, agent: &str, role: &str, mut aims: Value) -> Value {
        let mark = self.mark(agent);
        aims["mark"] = json!(mark);
        let bus = format!("unix:path={}", aims["outside"]["bus"].as_str().expect("a path"));
        let mut program = json!({
            "command": [python, self.folder(agent).join("escape.py"), role, mark],
            "env": { "ESCAPE": aims.to_string(), "DBUS_SESSION_BUS_ADDRESS": bus },
        });
        if let Some(sandbox) = sandbox {
            program["sandbox"] = json!(sandbox);
        }
        program
    }

    fn add_neighbour(&self, python: &Path, sandbox: Option<&str>, mut aims: Value) {
        aims["other"] = json!({ "folder": self.folder("escape") });
        let mut process = self.program(python, sandbox, "neighbour", "agent", aims);
        process["startup_timeout_ms"] = json!(30_000);
        let file = json!({
            "name": "neighbour",
            "description": "Tries to escape",
            "skills": [{ "id": "escape.try", "name": "Try", "description": "Tries one way" }],
            "runtime": { "process": process },
            "contract": { "class": { "latency": "srt" } },
        });
        self.machine.add("agents/neighbour/neighbour", &file.to_string());
        until(SOON, "the neighbour listens", || self.folder("neighbour").join("socket").exists());
    }

    fn add_escape(&self, python: &Path, sandbox: Option<&str>, mut aims: Value) {
        let neighbour = self.folder("neighbour");
        let pids = marked(&self.mark("neighbour"));
        aims["other"] = json!({
            "folder": neighbour,
            "socket": std::fs::read_to_string(neighbour.join("socket")).expect("its path"),
            "pid": pids.first().expect("it runs"),
        });
        let file = json!({
            "name": "escape",
            "description": "Tries to escape",
            "runtime": { "native": { "builtin": "tools" } },
            "tools": { "server": self.program(python, sandbox, "escape", "tools", aims) },
            "contract": { "class": { "latency": "srt" }, "capabilities": ["server/list", "server/attempt"] },
        });
        self.machine.add("agents/escape/escape", &file.to_string());
    }

    /// The JSON that an agent answers.
    fn told(&self, agent: &str, message: &str) -> Value {
        let said = ask(&self.node.gateway(), agent, "SendMessage", &says(message));
        let told = said["task"]["artifacts"][0]["parts"][0]["text"].as_str();
        let told = told.and_then(|text| serde_json::from_str(text).ok());
        told.unwrap_or_else(|| panic!("{agent} was told {message:?}, and says {said}"))
    }

    /// Makes all attempts, and those that an agent makes itself.
    fn tried(&self) -> BTreeMap<String, Outcome> {
        let names = self.told("escape", &json!({ "tool": "list" }).to_string());
        let names: Vec<String> = serde_json::from_value(names).expect("names");
        assert!(names.len() >= ATTEMPTS_MIN, "{names:?}");
        let outcome = |name: &str, told: &Value| Outcome {
            reached: told["reached"].as_bool().unwrap_or_else(|| panic!("{name}: {told}")),
            how: told["how"].as_str().unwrap_or_default().to_owned(),
        };
        let mut tried = BTreeMap::new();
        for name in names {
            let call = json!({ "tool": "attempt", "arguments": { "name": name } });
            tried.insert(name.clone(), outcome(&name, &self.told("escape", &call.to_string())));
        }
        for name in OF_AGENTS {
            tried.insert(format!("an agent's: {name}"), outcome(name, &self.told("neighbour", name)));
        }
        tried
    }

    /// Both programs are contained so, as is said before any reason.
    fn is_contained(&self, how: &str) {
        let agents = self.machine.json(&["ps"])["agents"].clone();
        for agent in agents.as_array().expect("a list") {
            let said = agent["containment"][0]["how"].as_str().and_then(|said| said.split(':').next());
            assert_eq!(said, Some(how), "{agent}");
        }
    }

    /// Nobody changed the files that nobody may.
    fn is_unchanged(&self) {
        for (path, before) in &self.kept {
            let after = std::fs::read(path).expect("it is there");
            assert!(after == *before, "{} was changed", path.display());
        }
    }

    /// The node and its agents are as well as before.
    fn is_well(&self) {
        let agents = self.machine.json(&["ps"])["agents"].clone();
        let states: Vec<&Value> = agents.as_array().expect("a list").iter().map(|agent| &agent["state"]).collect();
        assert_eq!(states, ["ready", "ready"], "{agents}");
    }

    /// What of an agent's programs runs when it is removed is gone, and its neighbour is not.
    fn leaves_nothing(&self) {
        let (escape, neighbour) = (self.mark("escape"), self.mark("neighbour"));
        let left = marked(&escape).len();
        assert!(left > OUTLIVING, "the attempts to outlive the agent were made: {left} run");
        assert_eq!(self.machine.run(&["agent", "remove", "escape"]).code, 0);
        until(SOON, "its programs are gone", || marked(&escape).is_empty());
        assert!(!marked(&neighbour).is_empty(), "its neighbour runs on");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for pid in ["escape", "neighbour"].iter().flat_map(|agent| marked(&self.mark(agent))) {
            // It may be gone already.
            let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL);
        }
    }
}

/// The port of the node's gateway.
fn port(node: &Node) -> u16 {
    let gateway = node.gateway();
    authority(&gateway).rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Files that no contained program changes, as they are now.
fn kept(machine: &Machine) -> Vec<(PathBuf, Vec<u8>)> {
    let names = [
        ".bashrc",
        ".ssh/authorized_keys",
        "config/althing/althing.toml",
        "config/althing/owner.key",
        "data/node/node.key",
        "work/agents/escape/notes",
        "work/agents/neighbour/notes",
    ];
    let paths = names.map(|name| machine.home().join(name));
    paths.map(|path| (path.clone(), std::fs::read(&path).expect("it is there"))).into()
}

/// Those that succeed, as they are printed.
fn successes(tried: &BTreeMap<String, Outcome>) -> BTreeMap<&str, String> {
    let reached = tried.iter().filter(|(_, outcome)| outcome.reached);
    reached.map(|(name, outcome)| (name.as_str(), format!("{name}: {}", outcome.how))).collect()
}

fn shown(successes: BTreeMap<&str, String>) -> String {
    successes.into_values().collect::<Vec<_>>().join("\n")
}

#[test]
fn no_attempt_to_escape_succeeds() {
    let Some(python) = interpreter() else { return };
    if !has_namespaces(&python) {
        return;
    }
    let scene = Scene::start(&python, None, |machine| machine.up_alone(&[]));
    scene.is_contained("contained");
    let tried = scene.tried();
    let reached = successes(&tried);
    assert!(reached.is_empty(), "{} of {} attempts succeed:\n{}", reached.len(), tried.len(), shown(reached));
    scene.is_unchanged();
    scene.is_well();
    scene.leaves_nothing();
}

#[test]
fn where_nobody_makes_namespaces_landlock_holds_all_that_it_knows_of() {
    let Some(python) = interpreter() else { return };
    if !has_landlock(&python) || !forbids_namespaces() {
        return;
    }
    let scene = Scene::start(&python, None, Machine::up_without_namespaces);
    scene.is_contained("contained (Landlock only");
    let tried = scene.tried();
    let (known, reached): (BTreeMap<_, _>, BTreeMap<_, _>) =
        successes(&tried).into_iter().partition(|(name, _)| BESIDE.contains(name));
    println!("these succeed where Landlock alone holds a program:\n{}", shown(known));
    assert!(reached.is_empty(), "{} of {} attempts succeed:\n{}", reached.len(), tried.len(), shown(reached));
    scene.is_unchanged();
    scene.is_well();
    scene.leaves_nothing();
}

#[test]
fn without_the_sandbox_the_attempts_succeed() {
    let Some(python) = interpreter() else { return };
    let scene = Scene::start(&python, Some("none"), |machine| machine.up_alone(&[]));
    let tried = scene.tried();
    for (name, Outcome { reached, how }) in &tried {
        println!("{} {name}: {how}", if *reached { "succeeds" } else { "fails   " });
    }
    let failed: Vec<String> = WITHOUT
        .iter()
        .filter(|name| !tried.get(**name).is_some_and(|outcome| outcome.reached))
        .map(|name| format!("{name}: {:?}", tried.get(*name)))
        .collect();
    assert!(failed.is_empty(), "{} attempts fail without a sandbox too:\n{}", failed.len(), failed.join("\n"));
    scene.is_well();
    scene.leaves_nothing();
}
