//! Real processes of the binary, each with its own home, killed when the test ends however it ends.
#![allow(clippy::disallowed_methods, reason = "real processes live in real time")]
#![allow(missing_docs, reason = "what only these tests use says by its name what it is")]
#![allow(clippy::new_without_default, reason = "a machine is made, with folders on the disk")]

pub mod attack;
pub mod cast;
pub mod counter;
pub mod delay;
pub mod desk;
pub mod disk;
pub mod dns;
pub mod documents;
pub mod go;
pub mod guests;
pub mod history;
pub mod http;
pub mod node;
pub mod python;
pub mod registry;
pub mod sandbox;
pub mod sessions;
pub mod ssh;
pub mod world;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// No command of the command line may take longer.
pub const COMMAND_MAX: Duration = Duration::from_secs(30);
/// An agent is added within this: a node of a development build compiles a component of Python's for a long time, when other
/// tests use the machine.
pub const ADD_MAX: Duration = Duration::from_secs(240);
/// A node is up within this, also while other tests use the machine.
pub const UP_MAX: Duration = Duration::from_secs(20);
/// How often a process is looked at.
const POLL: Duration = Duration::from_millis(10);
/// After how long a condition is looked at again: first, and at most. Most looks start a program, whose start takes 20 ms of a
/// processor, so that those who wait long would keep others from what they wait for.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// The program under test: it lies beside the tests. `cargo test` alone does not build it.
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(built).clone()
}

fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    let binary = profile.join("althing");
    let changed = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let Some(built) = changed(&binary) else { panic!("{} is not built: run `make build` first", binary.display()) };
    // What cargo notes of the files that went into it: `PROGRAM: FILE FILE …`.
    let sources = std::fs::read_to_string(profile.join("althing.d")).unwrap_or_default();
    let mut sources = sources.split_once(": ").map_or("", |(_, files)| files.trim()).split(' ').map(Path::new);
    if let Some(newer) = sources.find(|source| changed(source).is_some_and(|changed| changed > built)) {
        let stale = format!("{} is older than {}: `make build` builds it", binary.display(), newer.display());
        assert!(!althing_testing::in_ci(), "{stale}");
        eprintln!("note: {stale}");
    }
    binary
}

/// Looks until it is so, and says how long that took; fails when it does not come about.
pub fn until(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let (begun, mut next) = (Instant::now(), LOOK.0);
    loop {
        if is_so() {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(next);
        next = (next * 3 / 2).min(LOOK.1);
    }
}

/// A port of loopback for a server that a test starts later. The system hands none of these out by itself, no other test of this
/// program gets it, and nobody listens there now.
pub fn free_port() -> u16 {
    /// Below the ephemeral ports of Linux and macOS; each program begins elsewhere.
    const PORTS: std::ops::Range<u32> = 12_000..32_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let length = PORTS.end - PORTS.start;
    let mut ports = std::iter::repeat_with(|| {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        u16::try_from(PORTS.start + (std::process::id().wrapping_mul(613) + tried) % length).expect("below 65,536")
    });
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.by_ref().take(1_000).find(is_free).expect("a free port")
}

/// A user's account on a machine: home, keys and data of its own; perhaps a network of its own.
pub struct Machine {
    home: TempDir,
    folder: PathBuf,
    namespace: Option<String>,
}

impl Machine {
    /// On this machine's loopback.
    pub fn new() -> Machine {
        Machine::at(None)
    }

    /// Another machine of the same owner: it has a copy of the owner's keys and configuration.
    pub fn of_same_owner(&self) -> Machine {
        let machine = Machine::new();
        for entry in std::fs::read_dir(self.config()).expect("the owner's keys") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), machine.config().join(entry.file_name())).expect("copied");
        }
        machine
    }

    /// In a network namespace.
    pub fn within(namespace: &str) -> Machine {
        Machine::at(Some(namespace.to_owned()))
    }

    fn at(namespace: Option<String>) -> Machine {
        // Paths of Unix sockets are short.
        let home = tempfile::Builder::new().prefix("alt").tempdir_in("/tmp").expect("/tmp takes a folder");
        for folder in ["config/althing", "data", "cache", "work"] {
            std::fs::create_dir_all(home.path().join(folder)).expect("a new folder");
        }
        let folder = home.path().join("work");
        Machine { home, folder, namespace }
    }

    /// The home of the account.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Where commands are run, and agents' files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the node keeps its data.
    pub fn data(&self) -> PathBuf {
        self.home().join("data/node")
    }

    /// Where the owner's keys and the configuration are.
    pub fn config(&self) -> PathBuf {
        self.home().join("config/althing")
    }

    /// Writes a file into the folder.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::write(&path, content).expect("the folder takes files");
        path
    }

    /// Writes the node's configuration.
    pub fn configure(&self, content: &str) -> PathBuf {
        let path = self.config().join("althing.toml");
        std::fs::write(&path, content).expect("the folder takes files");
        path
    }

    /// Any program, as this user, on this network.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = match &self.namespace {
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
            None => Command::new(program),
        };
        let home = self.home();
        for (name, value) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ALTHING_") {
                command.env_remove(&name);
            }
            drop(value);
        }
        command
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env_remove("XDG_RUNTIME_DIR")
            // A build for tests has the allocator of the system, which keeps what was freed for each thread and, once a large
            // piece was freed, for all that are as large: what grows would not be seen.
            .env("MALLOC_ARENA_MAX", "2")
            .env("MALLOC_MMAP_THRESHOLD_", "131072")
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    /// `althing`, told where the node's data is.
    pub fn althing<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = self.command(&binary());
        command.arg("--data").arg(self.data()).args(arguments);
        command
    }

    /// Runs a command to its end.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Outcome {
        Running::start(&mut self.althing(arguments)).end(COMMAND_MAX)
    }

    /// Runs a command that must succeed, and reads the JSON that it prints.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend(arguments);
        let outcome = self.run(&all);
        assert_eq!(outcome.code, 0, "althing {arguments:?}: {outcome:?}");
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {outcome:?}"))
    }

    /// Starts a node.
    pub fn up(&self, flags: &[&str]) -> Node {
        let mut arguments = vec!["--json", "up"];
        arguments.extend(flags);
        let mut running = Running::start(&mut self.althing(&arguments));
        let Some(line) = running.line(UP_MAX) else { panic!("no node: {:?}", running.end(COMMAND_MAX)) };
        let said = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        Node { running, said, ready: Instant::now() }
    }

    /// Starts a node that is on no LAN and takes free ports of loopback.
    pub fn up_alone(&self, flags: &[&str]) -> Node {
        let mut all = vec!["--no-lan", "--gateway", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"];
        all.extend(flags);
        self.up(&all)
    }

    /// The names of the agents that `find` shows, with the DIDs of their nodes.
    pub fn found(&self) -> Vec<(String, String)> {
        let outcome = self.run(&["--json", "find"]);
        assert!(outcome.code == 0 || outcome.code == 4, "{outcome:?}");
        let list: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        let list = list["agents"].as_array().expect("a list").iter();
        list.map(|row| (text(&row["name"]), text(&row["node"]))).collect()
    }

    /// Is an agent of this name known?
    pub fn finds(&self, name: &str) -> bool {
        self.found().iter().any(|(found, _)| found == name)
    }

    /// Adds an agent from the text of its file, whatever that lets it do.
    pub fn add(&self, name: &str, file: &str) {
        let path = self.write(&format!("{name}.yaml"), file);
        let mut adding = self.althing(&["agent", "add", "--yes"]);
        let adding = Running::start(adding.arg(&path));
        let outcome = adding.end(ADD_MAX);
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }
}

/// The text of a JSON string.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// A node that runs.
pub struct Node {
    pub running: Running,
    /// What it said when it was ready.
    pub said: Value,
    /// When it said so.
    pub ready: Instant,
}

impl Node {
    pub fn did(&self) -> String {
        text(&self.said["node"])
    }

    pub fn owner(&self) -> String {
        text(&self.said["owner"])
    }

    /// `http://127.0.0.1:PORT`
    pub fn gateway(&self) -> String {
        text(&self.said["gateway"])
    }

    /// An address that others can dial.
    pub fn address(&self, starts_with: &str) -> String {
        let all = self.said["listening"].as_array().expect("a list").iter().map(text);
        let found = all.into_iter().find(|address| address.starts_with(starts_with));
        found.unwrap_or_else(|| panic!("no address begins with {starts_with}: {}", self.said))
    }

    /// Files and sockets that it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.running.pid())).expect("it runs").count()
    }

    /// What it holds in memory, KiB.
    pub fn memory_kib(&self) -> u64 {
        self.running.memory_kib()
    }
}

/// A process group, killed on drop.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

/// How a process ended.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit code; −1 when a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (out, lines) = sync_channel(100_000);
        let stdout = child.stdout.take().expect("piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if out.send(line).is_err() {
                    break;
                }
            }
        });
        let (err, errors) = sync_channel(1);
        let mut stderr = child.stderr.take().expect("piped");
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // What could be read is shown, whatever happened after.
            let _ = stderr.read_to_end(&mut text);
            let _ = err.send(String::from_utf8_lossy(&text).into_owned());
        });
        Running { child, lines, errors }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it holds in memory, KiB. Pages of its files do not count: the system takes them and brings them back as it likes.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// The next line of its standard output.
    pub fn line(&mut self, limit: Duration) -> Option<String> {
        self.lines.recv_timeout(limit).ok()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.pid()).expect("a pid")), signal).expect("it runs");
    }

    /// Has it ended?
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_some()
    }

    /// Waits for its end.
    pub fn end(mut self, limit: Duration) -> Outcome {
        let begun = Instant::now();
        let mut stdout = String::new();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                break status;
            }
            assert!(begun.elapsed() < limit, "a process runs for longer than {limit:?}; it said {stdout}");
            if let Ok(line) = self.lines.recv_timeout(POLL) {
                stdout = stdout + &line + "\n";
            }
        };
        let left = Duration::from_secs(2);
        while let Ok(line) = self.lines.recv_timeout(left) {
            stdout = stdout + &line + "\n";
        }
        let stderr = self.errors.recv_timeout(left).unwrap_or_default();
        Outcome { code: status.code().unwrap_or(-1), stdout, stderr }
    }

    /// As if its machine lost power.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.pid()).expect("a pid"));
        // It may be gone already.
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Does a process of this id run? One that is dead and waits to be noticed does not.
pub fn runs(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}

/// The process and everything that it started, directly or not.
pub fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, stat.rsplit_once(") ")?.1.split_whitespace().nth(1)?.parse().ok()?))
        })
        .collect();
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        all.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        at += 1;
    }
    all
}
