//! Programs that try to escape from their sandboxes in some hundred ways, as the server of an agent's tools and as an agent;
//! the same where Landlock alone holds them, or an account of their own alone; and without a sandbox, which shows that the tests can
//! fail. What is to come of each attempt is in one table, and what is named of it in another; nobody else is harmed by any.

mod named;
mod table;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_e2e::http::{ask, authority, says};
use althing_e2e::sandbox::{
    everybodys_interpreter, forbids_namespaces, gives_accounts, has_landlock, has_namespaces, interpreter,
    tells_of_calls,
};
use althing_e2e::{Machine, Node, Running, cast, runs, until};
use althing_testing::{remedy, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use table::{Held, OF_AGENTS, Outcome, of_agents, shown, wrong};
use tempfile::NamedTempFile;

const PROGRAM: [(&str, &str); 4] = [
    ("escape.py", include_str!("../../python/escape.py")),
    ("attempts.py", include_str!("../../python/attempts.py")),
    ("attempts_beyond.py", include_str!("../../python/attempts_beyond.py")),
    ("plain_mcp.py", include_str!("../../python/plain_mcp.py")),
];
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Files beside the node's key, one for each way to it, so that each way is named by itself (`attempts.py`).
const WAYS: [&str; 5] = ["root", "cwd", "folder", "symbolic", "re-executed"];
/// As many processes run on after the attempts to outlive the agent: a child, and those of the fork bomb.
const OUTLIVING: usize = 65;

/// What root may that some attempts take (capabilities(7)): other accounts' files, networks and raw sockets, other roots, tracing,
/// administration, devices, the kernel's log.
const PRIVILEGES: [u32; 9] = [1, 2, 12, 13, 18, 19, 21, 27, 34];

/// A node with a program as the server of the tools of one agent, `escape`, and one that is an agent itself, `neighbour`.
///
/// The home of the account has the node's data, the owner's configuration and the agents' folders, each apart.
struct Scene {
    /// None once its log is read.
    node: Option<Node>,
    machine: Machine,
    /// What the attempts aim at, but for the other agent of each.
    aims: Value,
    /// The folder of the interpreter: `bin` lies in it.
    interpreter: PathBuf,
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

/// Writes what lies where the node's key does: the node has made that folder.
fn lay_ways(machine: &Machine) {
    let folder = machine.data().join("ways");
    std::fs::create_dir(&folder).expect("a new folder");
    WAYS.iter().for_each(|way| std::fs::write(folder.join(way), "# the node's own\n").expect("it takes files"));
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
        lay_ways(&machine);
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
            "network": std::fs::metadata("/proc/self/ns/net").expect("it has one").ino(),
        });
        let files = files.into_iter().flatten().collect();
        let kept = kept(&machine);
        let interpreter = python.parent().and_then(Path::parent).expect("it lies in a folder's bin").to_owned();
        let node = Some(node);
        let scene = Scene { node, machine, aims: aims.clone(), interpreter, kept, _outside: outside, _files: files };
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
        let gateway = self.node.as_ref().expect("it runs").gateway();
        let said = ask(&gateway, agent, "SendMessage", &says(message));
        let told = said["task"]["artifacts"][0]["parts"][0]["text"].as_str();
        let told = told.and_then(|text| serde_json::from_str(text).ok());
        told.unwrap_or_else(|| panic!("{agent} was told {message:?}, and says {said}"))
    }

    /// Makes all attempts, and those that an agent makes itself.
    fn tried(&self) -> BTreeMap<String, Outcome> {
        let names = self.told("escape", &json!({ "tool": "list" }).to_string());
        let names: Vec<String> = serde_json::from_value(names).expect("names");
        let outcome = |name: &str, told: &Value| Outcome {
            reached: told["reached"].as_bool().unwrap_or_else(|| panic!("{name}: {told}")),
            how: told["how"].as_str().unwrap_or_default().to_owned(),
        };
        let mut tried = BTreeMap::new();
        for name in names {
            let call = json!({ "tool": "attempt", "arguments": { "name": name } });
            tried.insert(name.clone(), outcome(&name, &self.told("escape", &call.to_string())));
        }
        for name in of_agents() {
            tried.insert(format!("{OF_AGENTS}{name}"), outcome(name, &self.told("neighbour", name)));
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

    /// Both programs are contained by accounts, each by another one.
    fn has_accounts(&self) {
        let agents = self.machine.json(&["ps"])["agents"].clone();
        let number = |agent: &Value| {
            let said = agent["containment"][0]["how"].as_str().unwrap_or_default().to_owned();
            let rest =
                said.strip_prefix("contained (an account of its own only, ").unwrap_or_else(|| panic!("{agent}"));
            rest.split(':').next().and_then(|number| number.parse::<u32>().ok()).expect("its number")
        };
        let numbers: Vec<u32> = agents.as_array().expect("a list").iter().map(number).collect();
        assert!(numbers.len() == 2 && numbers[0] != numbers[1], "{numbers:?}");
    }

    /// Nobody changed the files that nobody may.
    fn is_unchanged(&self) {
        for (path, before) in &self.kept {
            let after = std::fs::read(path).expect("it is there");
            assert!(after == *before, "{} was changed", path.display());
        }
    }

    /// The node and its agents are as well as before, and answer.
    fn is_well(&self) {
        let agents = self.machine.json(&["ps"])["agents"].clone();
        let states: Vec<&Value> = agents.as_array().expect("a list").iter().map(|agent| &agent["state"]).collect();
        assert_eq!(states, ["ready", "ready"], "{agents}");
        let told = self.told("neighbour", "privileges");
        assert!(told["how"].is_string(), "the other agent answers: {told}");
        // And so does one that is added now.
        self.machine.add("bystander", &cast::echo("bystander", "anyone"));
        let called = self.machine.run(&["call", "bystander", "all is well"]);
        assert!(called.code == 0 && called.stdout.contains("all is well"), "{called:?}");
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
        "config/althing/owner-next.key",
        "config/althing/owner-after-next.key",
        "data/node/node.key",
        "data/node/secrets/KEY",
        "work/agents/escape/notes",
        "work/agents/neighbour/notes",
    ];
    let paths = names.map(|name| machine.home().join(name));
    paths.map(|path| (path.clone(), std::fs::read(&path).expect("it is there"))).into()
}

/// Makes all attempts, and prints what came of each; fails if something else comes of one than is to come of it.
fn try_all(scene: &Scene, held: Held) {
    let tried = scene.tried();
    println!("{}", shown(&tried, held));
    let is_root = is_root_of_the_machine();
    let wrong = wrong(&tried, held, is_root);
    assert!(wrong.is_empty(), "{} of {} attempts end otherwise:\n{}", wrong.len(), tried.len(), wrong.join("\n"));
    if held == Held::Nothing && !is_root {
        skip("what takes root is not shown to succeed without a sandbox", remedy::ROOT);
    }
}

/// What was named of the attempts; nothing, with the reason printed, where the kernel does not tell of them.
fn named_of(scene: &Scene, held: Held) -> Vec<(&'static str, String)> {
    if tells_of_calls() { scene.names(held, is_root_of_the_machine()) } else { Vec::new() }
}

/// Whether this process may do on this machine what the attempts take that root alone may.
fn is_root_of_the_machine() -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).expect("the kernel has it");
    let status = read("status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default();
    // Every account is itself here, and not one of another namespace.
    let is_whole = read("uid_map").split_whitespace().eq(["0", "0", "4294967295"]);
    is_whole && PRIVILEGES.iter().all(|capability| effective >> capability & 1 == 1)
}

#[test]
fn no_attempt_to_escape_succeeds() {
    let Some(python) = interpreter() else { return };
    if !has_namespaces(&python) {
        return;
    }
    let scene = Scene::start(&python, None, |machine| machine.up_alone(&[]));
    scene.is_contained("contained");
    try_all(&scene, Held::Namespaces);
    let named = named_of(&scene, Held::Namespaces);
    scene.is_unchanged();
    scene.is_well();
    scene.leaves_nothing();
    scene.has_logged(&named);
}

#[test]
fn where_nobody_makes_namespaces_landlock_holds_all_that_it_knows_of() {
    let Some(python) = interpreter() else { return };
    if !has_landlock(&python) || !forbids_namespaces() {
        return;
    }
    let scene = Scene::start(&python, None, Machine::up_without_namespaces);
    scene.is_contained("contained (Landlock only");
    try_all(&scene, Held::Landlock);
    let named = named_of(&scene, Held::Landlock);
    scene.is_unchanged();
    scene.is_well();
    scene.leaves_nothing();
    scene.has_logged(&named);
}

/// Lets every account in to where agents are, and keeps from it what its account keeps from others anywhere.
fn let_in(machine: &Machine) {
    let all = [
        ("", 0o711),
        ("config/althing", 0o700),
        (".ssh", 0o700),
        ("work/agents/escape", 0o777),
        ("work/agents/neighbour", 0o777),
        ("work/agents/escape/notes", 0o600),
        ("work/agents/neighbour/notes", 0o600),
    ];
    for (name, mode) in all {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(machine.home().join(name), permissions).expect("it is ours");
    }
}

#[test]
fn where_there_are_neither_an_account_of_its_own_holds_a_program_back() {
    let Some(python) = everybodys_interpreter() else { return };
    if !gives_accounts(&python) {
        return;
    }
    let up = |machine: &Machine| {
        let_in(machine);
        machine.up_bare(&python)
    };
    let scene = Scene::start(&python, None, up);
    scene.has_accounts();
    try_all(&scene, Held::Account);
    scene.is_unchanged();
    scene.is_well();
    scene.leaves_nothing();
}

#[test]
fn without_the_sandbox_the_attempts_succeed() {
    let Some(python) = interpreter() else { return };
    let scene = Scene::start(&python, Some("none"), |machine| machine.up_alone(&[]));
    try_all(&scene, Held::Nothing);
    scene.is_well();
    scene.leaves_nothing();
}
