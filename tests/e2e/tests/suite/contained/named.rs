//! What is named of each attempt to escape, by `althing ps` and in the log; and why the rest is not.
//!
//! A name is for what a file could grant, or for what is the node's own: a path, or a host. What no file could grant, and what the
//! kernel refuses before it tells anybody, has none.

use std::collections::BTreeSet;
use std::path::Path;

use althing_e2e::text;
use nix::sys::signal::Signal;

use super::table::{ATTEMPTS, Due, Held, OF_AGENTS};
use super::{SOON, Scene};

/// What holds a program of whom something is named: where an account of its own alone does, nothing is, as documented.
type Levels = &'static [Held];

const BOTH: Levels = &[Held::Namespaces, Held::Landlock];
const APART: Levels = &[Held::Namespaces];
const BESIDE: Levels = &[Held::Landlock];

/// An attempt, how it is named, and what: a path or an address, with what differs from run to run in braces.
type Row = (Levels, &'static str, &'static str, &'static str);

/// All that are named.
const NAMED: &[Row] = &[
    (BOTH, "paths: owner.key", "read", "{config}/owner.key"),
    (BOTH, "paths: owner-next.key", "read", "{config}/owner-next.key"),
    (BOTH, "paths: owner-after-next.key", "read", "{config}/owner-after-next.key"),
    (BOTH, "paths: owner.log", "read", "{config}/owner.log"),
    (BOTH, "paths: node.key", "read", "{data}/node.key"),
    (BOTH, "the node's configuration, to write", "write", "{config}/althing.toml"),
    (BOTH, "the secrets' folder", "read", "{data}/secrets"),
    (BOTH, "the store", "read", "{data}/store/db/CURRENT"),
    (BOTH, "paths: /proc/self/root", "read", "{data}/ways/root"),
    (BOTH, "paths: /proc/self/cwd/..", "read", "{data}/ways/cwd"),
    (BOTH, "paths: .. from an open folder", "read", "{data}/ways/folder"),
    (BOTH, "another agent's folder", "read", "{other}/notes"),
    (BOTH, "another agent's folder, to write", "write", "{other}/notes"),
    (BOTH, "links: one to node.key", "read", "{data}/ways/symbolic"),
    (BOTH, "the account's ~/.bashrc", "read", "{home}/.bashrc"),
    (BOTH, "the account's ~/.bashrc, to write", "write", "{home}/.bashrc"),
    (BOTH, "the account's ~/.ssh/authorized_keys", "read", "{home}/.ssh/authorized_keys"),
    (BOTH, "the account's ~/.ssh/authorized_keys, to write", "write", "{home}/.ssh/authorized_keys"),
    (BOTH, "the machine's /var/tmp", "read", "{temporary}"),
    (BOTH, "the machine's /var/tmp, to write", "write", "{temporary}"),
    (BOTH, "the machine's shared memory", "read", "{shared}"),
    (BOTH, "a file in /", "write", "/"),
    (BOTH, "a file in /etc", "write", "/etc"),
    (BOTH, "a file in /usr", "write", "/usr"),
    (BOTH, "a file in /usr/local", "write", "/usr/local"),
    (BOTH, "a file in /bin", "write", "/bin"),
    (BOTH, "a crontab", "write", "/etc/cron.d"),
    (BOTH, "the interpreter's folder, to write", "write", "{interpreter}"),
    (BOTH, "the account's passwords", "read", "/etc/shadow"),
    (BESIDE, "a filled disk: /tmp is the machine's", "write", "/tmp"),
    (BOTH, "memfd and re-exec", "read", "{data}/ways/re-executed"),
    (APART, "the control socket", "connect", "{data}/control.sock"),
    (APART, "another agent's socket", "connect", "{socket}"),
    (APART, "D-Bus: that of the session", "connect", "{home}/bus"),
    (BOTH, "TCP to the machine's loopback", "connect", "127.0.0.1:{tcp}"),
    (BOTH, "the node's gateway", "connect", "127.0.0.1:{gateway}"),
    (BOTH, "IPv6", "connect", "[::1]:{ipv6}"),
    (BOTH, "link-local and metadata addresses", "connect", "169.254.169.254:80"),
    (BOTH, "the machine's loopback by the node's proxy", "connect", "127.0.0.1:{proxied}"),
    (BOTH, "TIOCSTI", "write", "/dev/ptmx"),
    (BOTH, "/dev/mem", "read", "/dev/mem"),
    (BOTH, "/dev/kmsg", "read", "/dev/kmsg"),
    (BOTH, "other devices", "write", "/dev/fuse"),
];

/// Why attempts are not named, and which.
const UNNAMED: &[(Levels, &str, &[&str])] = &[
    (
        BOTH,
        "the kernel is asked to tell of what is opened, executed and connected to: to ask for more would slow each call down",
        &[
            "the size of node.key",
            "the mode of the account's ~/.bashrc",
            "the mode of the machine's /dev/null",
            "hard links: one to node.key",
            "a file by its handle",
            "a device of its own",
            "setuid files",
            "a control group",
        ],
    ),
    (
        BOTH,
        "whoever looks for what is granted lists the folders above it",
        &["the node's data folder", "block devices", "the machine's list of processes"],
    ),
    (
        BOTH,
        "/proc and /sys are the kernel's: no file grants anything there, and libraries look there by habit",
        &[
            "/proc of the node: environ",
            "/proc of the node: mem",
            "/proc of the node: fd",
            "/proc of the node: root",
            "/proc of other agents: environ",
            "/proc of other agents: mem",
            "/proc of other agents: fd",
            "/proc of other agents: root",
            "/proc of its keeper: mem",
            "/proc of its keeper: fd",
            "/proc/1/root",
            "setns to the node's network",
            "/proc/sys/kernel/core_pattern, to write",
            "/proc/sysrq-trigger, to write",
            "/sys/kernel/mm/transparent_hugepage/enabled, to write",
            "/proc/kcore",
        ],
    ),
    (
        BOTH,
        "other processes are not there for it, or are refused to it by the kernel, which tells nobody: no file grants them",
        &[
            "signals to others: the node",
            "signals to others: other agents",
            "ptrace of the node",
            "ptrace of other agents",
            "ptrace of its keeper",
            "process_vm_readv of the node",
            "a descriptor of the node",
            "the limits of the node",
            "the processors of the node",
            "the priority of the node",
            "the scheduling of the node",
            "the machine's shared memory, by its number",
        ],
    ),
    (
        BOTH,
        "the call itself is refused, by the filter or for want of a privilege, whatever it names: no file grants it",
        &[
            "raw sockets",
            "packet sockets",
            "sockets of the machine's host (vsock)",
            "routes of the machine",
            "privileges",
            "chroot",
            "mount",
            "mount of another /proc",
            "mount of the root, to write",
            "mount of the machine's folders elsewhere",
            "what covers the account's home",
            "unshare",
            "clone with a namespace",
            "clone3 with a namespace",
            "keyctl",
            "bpf",
            "perf_event_open",
            "userfaultfd",
            "io_uring_setup",
            "fanotify_init",
            "the kernel's log",
            "the machine's name",
            "a module of the kernel",
            "a class of real time",
        ],
    ),
    (
        BOTH,
        "nothing is refused",
        &["inherited descriptors", "a child that outlives", "a fork bomb", "the account's watches of files"],
    ),
    (APART, "nothing is refused: it has a /tmp of its own", &["a filled disk: /tmp is the machine's"]),
    (APART, "nothing is refused: it has a network of its own", &["a port of the machine, to listen at"]),
    (
        BESIDE,
        "the call itself is refused, or answered as done where the program has a socket that listens: no file grants it",
        &["a port of the machine, to listen at"],
    ),
    (BOTH, "a name that lies in no folder, which no file grants", &["abstract sockets"]),
    (BOTH, "no file grants datagrams", &["UDP to the machine's loopback", "name servers"]),
    (
        BOTH,
        "which of them there are is the machine's matter; that of the session is named as they are",
        &["D-Bus and others of the system"],
    ),
    (
        BESIDE,
        "it makes no Unix sockets at all there",
        &["the control socket", "another agent's socket", "D-Bus: that of the session"],
    ),
];

/// What is to be named of the attempts that a server of tools makes, or an agent itself (`of_agents`): how, and what. `filled` puts in
/// what is in braces; none where the machine does not have that. What takes root is named where the account may do it only.
fn due(held: Held, of_agents: bool, is_root: bool, filled: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let made = ATTEMPTS.iter().filter(|(name, _)| name.starts_with(OF_AGENTS) == of_agents);
    let due = made.filter_map(|(name, row)| {
        let plain = name.strip_prefix(OF_AGENTS).unwrap_or(name);
        let (_, _, access, what) = named(held).find(|(_, attempt, ..)| *attempt == plain)?;
        let takes_root = matches!(row[Held::Nothing as usize], Due::SuccessAsRoot | Due::AsHere(_) | Due::Either(_));
        let what = filled(what).filter(|_| is_root || !takes_root)?;
        let what =
            if what.starts_with('/') { Path::new(&what).canonicalize().ok()?.display().to_string() } else { what };
        Some(((*access).to_owned(), what))
    });
    due.collect()
}

impl Scene {
    /// What differs from run to run of what attempts of that agent aim at, by the name in braces; none of what
    /// this machine does not have.
    fn aim(&self, agent: &str, name: &str) -> Option<String> {
        let other = if agent == "escape" { "neighbour" } else { "escape" };
        match name {
            "other" => Some(self.folder(other).display().to_string()),
            "interpreter" => Some(self.interpreter.display().to_string()),
            "socket" => std::fs::read_to_string(self.folder("neighbour").join("socket")).ok(),
            "gateway" => Some(self.aims[name].to_string()),
            "config" | "data" | "home" | "temporary" | "shared" => self.aims[name].as_str().map(str::to_owned),
            port => self.aims["outside"][port].as_u64().map(|port| port.to_string()),
        }
    }

    /// A text with what is in braces.
    fn filled(&self, agent: &str, text: &str) -> Option<String> {
        let Some((before, rest)) = text.split_once('{') else { return Some(text.to_owned()) };
        let (name, after) = rest.split_once('}')?;
        Some(format!("{before}{}{after}", self.aim(agent, name)?))
    }

    /// `ps` names each attempt that can be named, and there is room for all of them. What is to be in the log too, with who it is.
    pub(super) fn names(&self, held: Held, is_root: bool) -> Vec<(&'static str, String)> {
        let agents = self.machine.json(&["ps"])["agents"].clone();
        let mut all = Vec::new();
        for (agent, logged) in [("escape", "agent: escape"), ("neighbour", "agent: neighbour")] {
            let shown = agents.as_array().into_iter().flatten().find(|shown| shown["name"] == agent);
            let contained = &shown.unwrap_or_else(|| panic!("{agents}"))["containment"][0];
            let refused = contained["refused"].as_array().expect("a list");
            let refused: BTreeSet<(String, String)> =
                refused.iter().map(|one| (text(&one["access"]), text(&one["path"]))).collect();
            let wanted = due(held, agent == "neighbour", is_root, |text| self.filled(agent, text));
            let missing: Vec<&(String, String)> = wanted.iter().filter(|one| !refused.contains(*one)).collect();
            assert!(missing.is_empty() && contained["moreRefused"] == false, "{agent}: {missing:?}: {contained}");
            let words = |(access, what): (String, String)| match access.as_str() {
                "connect" => format!(": connect to {what} "),
                _ => format!(": {access} {what} "),
            };
            all.extend(wanted.into_iter().map(|one| (logged, words(one))));
        }
        all
    }

    /// The node ends, and its log has named all this.
    pub(super) fn has_logged(mut self, named: &[(&'static str, String)]) {
        let node = self.node.take().expect("it runs");
        node.running.signal(Signal::SIGTERM);
        let log = node.running.end(SOON).stderr;
        let is_there = |(agent, words): &&(&str, String)| {
            log.lines().any(|line| line.contains(*agent) && line.contains(words.as_str()))
        };
        let missing: Vec<_> = named.iter().filter(|one| !is_there(one)).collect();
        assert!(missing.is_empty(), "{missing:?}: {log}");
    }
}

fn named(held: Held) -> impl Iterator<Item = &'static Row> {
    NAMED.iter().filter(move |(levels, ..)| levels.contains(&held))
}

#[test]
fn each_attempt_is_named_or_it_is_said_why_not() {
    let plain = |name: &'static str| name.strip_prefix(OF_AGENTS).unwrap_or(name);
    for held in [Held::Namespaces, Held::Landlock] {
        let unnamed = UNNAMED.iter().filter(|(levels, ..)| levels.contains(&held));
        let unnamed: Vec<&str> = unnamed.flat_map(|(_, _, all)| all.iter().copied()).collect();
        for (name, _) in ATTEMPTS {
            let ways = named(held).filter(|(_, attempt, ..)| *attempt == plain(name)).count();
            let reasons = unnamed.iter().filter(|attempt| **attempt == plain(name)).count();
            assert_eq!(ways + reasons, 1, "{name}: {held:?}");
        }
        let known = |attempt: &str| ATTEMPTS.iter().any(|(name, _)| *name == attempt);
        let strangers: Vec<&str> =
            named(held).map(|(_, attempt, ..)| *attempt).chain(unnamed).filter(|attempt| !known(attempt)).collect();
        assert!(strangers.is_empty(), "{strangers:?}");
    }
}
