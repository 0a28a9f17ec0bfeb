//! What sandboxes of programs need of a machine, and nodes on a machine that has less.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use althing_testing::{BARE, remedy, skip};

use super::python::done;
use super::{COMMAND_MAX, Machine, Node, Running, UP_MAX, binary};

/// Prints the interpreter itself: what `PATH` leads to may be a script that looks for it.
const INTERPRETER: &str = "import os, sys; print(os.path.realpath(sys.executable))";
/// Fails, and says why, where this account may not make the namespaces of a sandbox, or not mount in them.
const NAMESPACES: &str = "import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
failed = libc.unshare(0x7c020000) or libc.mount(b'none', b'/', None, ctypes.c_ulong(0x44000), None)
sys.exit(os.strerror(ctypes.get_errno()) if failed else 0)";
/// Fails where the kernel's Landlock is not there, or knows nothing of signals and abstract sockets: before version 6.
const LANDLOCK: &str = "import ctypes, sys
version = ctypes.CDLL(None).syscall(ctypes.c_long(444), None, ctypes.c_long(0), ctypes.c_long(1))
sys.exit(f'its version is {version}' if version < 6 else 0)";
/// Executes its arguments where nobody makes namespaces: in one of users that allows no further one.
const ALONE: &str = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";

/// The interpreter of Python; none, with the reason printed, where there is none.
pub fn interpreter() -> Option<PathBuf> {
    let found = done(Command::new("python3").args(["-c", INTERPRETER]));
    let found = found.inspect_err(|why| skip(&format!("no Python: {why}"), remedy::PYTHON)).ok()?;
    Some(PathBuf::from(found.trim()))
}

/// Whether programs have namespaces of their own here; if not, the reason is printed.
pub fn has_namespaces(python: &Path) -> bool {
    let tried = done(Command::new(python).args(["-c", NAMESPACES]));
    tried.inspect_err(|why| skip(&format!("no namespaces for a sandbox: {why}"), remedy::ROOT)).is_ok()
}

/// Whether this kernel's Landlock knows all that a sandbox asks of it; if not, the reason is printed.
pub fn has_landlock(python: &Path) -> bool {
    let tried = done(Command::new(python).args(["-c", LANDLOCK]));
    tried.inspect_err(|why| skip(&format!("Landlock lacks, or lacks something: {why}"), remedy::KERNEL)).is_ok()
}

/// Whether a node can be started where nobody makes namespaces; if not, the reason is printed.
pub fn forbids_namespaces() -> bool {
    let tried = done(Command::new("unshare").args(["-Ur", "sh", "-c", ALONE, "true"]));
    tried.inspect_err(|why| skip(&format!("namespaces cannot be forbidden: {why}"), remedy::ROOT)).is_ok()
}

/// Whether this kernel tells keepers of what programs try, so that it is named; if not, the reason is printed.
pub fn tells_of_calls() -> bool {
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let tells = actions.split_whitespace().any(|action| action == "user_notif");
    if !tells {
        skip("this kernel does not tell of calls", remedy::KERNEL);
    }
    tells
}

/// The machine's own Python, which every account may execute; none, with the reason printed, where there is none.
pub fn everybodys_interpreter() -> Option<PathBuf> {
    let found = Path::new("/usr/bin/python3").canonicalize();
    found.inspect_err(|why| skip(&format!("no Python for every account: {why}"), remedy::PYTHON)).ok()
}

/// Whether a node can be started where nobody makes namespaces, where there is no Landlock, and which may give its programs
/// accounts of their own; if not, the reason is printed.
pub fn gives_accounts(python: &Path) -> bool {
    let takes = "import os; os.setgroups([]); os.setresgid(*3 * [1900000003]); os.setresuid(*3 * [1900000003])";
    let tried = done(Command::new(python).args(["-c", BARE]).arg(python).args(["-c", takes]));
    tried.inspect_err(|why| skip(&format!("no accounts for programs: {why}"), remedy::ROOT)).is_ok()
}

impl Machine {
    /// Starts a node as [`Machine::up_alone`], where nobody makes namespaces and there is no Landlock.
    pub fn up_bare(&self, python: &Path) -> Node {
        let mut command = self.command(python);
        command.args(["-c", BARE]);
        self.started(command)
    }

    /// Starts a node as [`Machine::up_alone`], where nobody makes namespaces: its programs are enclosed by Landlock, if at all.
    pub fn up_without_namespaces(&self) -> Node {
        let mut command = self.command(Path::new("unshare"));
        command.args(["-Ur", "sh", "-c", ALONE]);
        self.started(command)
    }

    /// The node that a command starts which is given the program of nodes.
    fn started(&self, mut command: Command) -> Node {
        command.arg(binary()).arg("--data").arg(self.data());
        command.args(["--json", "up", "--no-lan", "--gateway", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"]);
        let mut running = Running::start(&mut command);
        let Some(line) = running.line(UP_MAX) else { panic!("no node: {:?}", running.end(COMMAND_MAX)) };
        let said = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        Node { running, said, ready: Instant::now() }
    }
}
