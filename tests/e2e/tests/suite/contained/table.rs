//! What is to come of each attempt to escape: where nothing holds the program, where an account of its own alone does, where Landlock
//! alone does, and in namespaces.
//!
//! Each row is an attempt, each column a way of holding a program. A further way is one more [`Held`], and one more column in
//! [`COLUMNS`] and in the rows' kinds below ([`OPEN`], [`either`] and so on), from which all rows are made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::net::{Ipv6Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;

use nix::libc;
use nix::unistd::{AccessFlags, access};

/// What holds a program; the column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Nothing: `sandbox: none`.
    Nothing,
    /// An account of its own, and the filter of system calls.
    Account,
    /// Landlock, and the filter of system calls.
    Landlock,
    /// Namespaces of its own, and what Landlock has.
    Namespaces,
}

/// How many ways there are.
const COLUMNS: usize = 4;

/// What is to come of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It succeeds.
    Success,
    /// It succeeds for root with all privileges of the machine; for others either may be.
    SuccessAsRoot,
    /// As it is for this process, which is of the same account and held by nothing.
    AsHere(Probe),
    /// Either: it takes this of the machine, which nobody finds out but by making the attempt.
    Either(&'static str),
    /// It fails.
    Failure,
    /// It fails even where nothing holds the program, for this reason.
    Never(&'static str),
}

/// What this process finds out of the machine, before an attempt is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Whether this path is opened to be read.
    Read(&'static str),
    /// Whether this path is opened to be written; nothing is.
    Write(&'static str),
    /// Whether one of these folders may be written.
    Folders(&'static [&'static str]),
    /// Whether somebody listens at one of these Unix sockets.
    Sockets(&'static [&'static str]),
    /// Whether the loopback has IPv6.
    Ipv6,
}

impl Probe {
    fn succeeds(self) -> bool {
        let opened = |path: &str, options: &mut OpenOptions| options.custom_flags(libc::O_NONBLOCK).open(path).is_ok();
        match self {
            Probe::Read(path) => opened(path, OpenOptions::new().read(true)),
            Probe::Write(path) => opened(path, OpenOptions::new().write(true)),
            Probe::Folders(all) => all.iter().any(|folder| access(*folder, AccessFlags::W_OK).is_ok()),
            Probe::Sockets(all) => all.iter().any(|socket| UnixStream::connect(socket).is_ok()),
            Probe::Ipv6 => TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok(),
        }
    }
}

/// What came of an attempt.
#[derive(Debug)]
pub struct Outcome {
    pub reached: bool,
    pub how: String,
}

type Row = [Due; COLUMNS];

/// Open to whoever is held by nothing.
const OPEN: Row = [Due::Success, Due::Failure, Due::Failure, Due::Failure];
/// Open to root alone.
const AS_ROOT: Row = [Due::SuccessAsRoot, Due::Failure, Due::Failure, Due::Failure];
/// Open beside Landlock, which asks neither who looks at what a file or a process is, nor who changes a mode: with that a program
/// reads no file, but may let other accounts read it.
const BESIDE: Row = [Due::Success, Due::Failure, Due::Either(UNASKED), Due::Failure];
/// Open to root alone, and beside Landlock to root too, which does not ask who changes a mode.
const AS_ROOT_BESIDE: Row = [Due::SuccessAsRoot, Due::Failure, Due::Either(UNASKED), Due::Failure];
/// Open where programs are counted with the others of their account; an account of its own is one as well.
const IN_EACH_ACCOUNT: Row = [Due::Success, Due::Success, Due::Success, Due::Failure];
/// Open to every account of the machine, whatever it is: an account of its own is one among others.
const AMONG_ACCOUNTS: Row = [Due::Success, Due::Success, Due::Failure, Due::Failure];
/// Open to every account, and beside Landlock too: it hides no process.
const AMONG_ACCOUNTS_AND_BESIDE: Row = [Due::Success, Due::Success, Due::Either(UNASKED), Due::Failure];

const UNASKED: &str = "a Landlock that does not ask of it";
const EVERYBODYS: &str = "a machine on which that is everybody's";
const RANKED: &str = "an account that may go before others";
const NONE_INHERITED: &str = "a program gets no others, whatever holds it";
const LATER: &str = "it shows when its agent is removed: nothing of it runs on";
const NO_PROXY: &str = "a program that nothing holds has no proxy, and needs none";
const UNCOVERED: &str = "nothing covers the home of a program that nothing holds";

/// Open to whoever is held by nothing, if it is to this process.
const fn as_here(probe: Probe) -> Row {
    [Due::AsHere(probe), Due::Failure, Due::Failure, Due::Failure]
}

/// Open to whoever is held by nothing, on a machine that has this.
const fn either(of_the_machine: &'static str) -> Row {
    [Due::Either(of_the_machine), Due::Failure, Due::Failure, Due::Failure]
}

/// The same, and open to every account on a machine that has that.
const fn either_among_accounts(of_the_machine: &'static str, for_all: &'static str) -> Row {
    [Due::Either(of_the_machine), Due::Either(for_all), Due::Failure, Due::Failure]
}

/// Not open to anybody.
const fn never(because: &'static str) -> Row {
    [Due::Never(because), Due::Failure, Due::Failure, Due::Failure]
}

/// Where services of the machine listen (`attempts_beyond.py`).
const SERVICES: &[&str] = &[
    "/run/dbus/system_bus_socket",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/systemd/private",
    "/run/systemd/journal/socket",
    "/dev/log",
    "/tmp/.X11-unix/X0",
];

/// What an agent that is a program tries itself begins with this: other code starts it than a server of tools.
pub const OF_AGENTS: &str = "an agent's: ";

/// All attempts.
pub const ATTEMPTS: &[(&str, Row)] = &[
    ("paths: owner.key", OPEN),
    ("paths: owner-next.key", OPEN),
    ("paths: owner-after-next.key", OPEN),
    ("paths: owner.log", OPEN),
    ("paths: node.key", OPEN),
    ("the size of node.key", BESIDE),
    ("the node's configuration, to write", OPEN),
    ("the secrets' folder", OPEN),
    ("the store", OPEN),
    ("the node's data folder", OPEN),
    ("paths: /proc/self/root", OPEN),
    ("paths: /proc/self/cwd/..", OPEN),
    ("paths: .. from an open folder", OPEN),
    ("another agent's folder", OPEN),
    ("another agent's folder, to write", OPEN),
    ("links: one to node.key", OPEN),
    ("hard links: one to node.key", OPEN),
    ("a file by its handle", either("a file system that gives handles, and root")),
    ("the account's ~/.bashrc", AMONG_ACCOUNTS),
    ("the account's ~/.bashrc, to write", OPEN),
    ("the account's ~/.ssh/authorized_keys", OPEN),
    ("the account's ~/.ssh/authorized_keys, to write", OPEN),
    ("the mode of the account's ~/.bashrc", BESIDE),
    ("the mode of the machine's /dev/null", AS_ROOT_BESIDE),
    ("the machine's /var/tmp", OPEN),
    ("the machine's /var/tmp, to write", OPEN),
    ("the machine's shared memory", OPEN),
    ("a file in /", AS_ROOT),
    ("a file in /etc", AS_ROOT),
    ("a file in /usr", AS_ROOT),
    ("a file in /usr/local", AS_ROOT),
    ("a file in /bin", AS_ROOT),
    ("a crontab", as_here(Probe::Folders(&["/etc/cron.d", "/var/spool/cron/crontabs", "/var/spool/cron"]))),
    ("the interpreter's folder, to write", AS_ROOT),
    ("the account's passwords", AS_ROOT),
    ("a filled disk: /tmp is the machine's", AMONG_ACCOUNTS),
    ("the machine's list of processes", AMONG_ACCOUNTS_AND_BESIDE),
    ("/proc of the node: environ", OPEN),
    ("/proc of the node: mem", AS_ROOT),
    ("/proc of the node: fd", OPEN),
    ("/proc of the node: root", OPEN),
    ("signals to others: the node", OPEN),
    ("ptrace of the node", AS_ROOT),
    ("/proc of other agents: environ", OPEN),
    ("/proc of other agents: mem", AS_ROOT),
    ("/proc of other agents: fd", OPEN),
    ("/proc of other agents: root", OPEN),
    ("signals to others: other agents", OPEN),
    ("ptrace of other agents", AS_ROOT),
    ("/proc of its keeper: mem", AS_ROOT),
    ("/proc of its keeper: fd", AS_ROOT),
    ("ptrace of its keeper", AS_ROOT),
    ("/proc/1/root", either("a first process whose root this account sees")),
    ("process_vm_readv of the node", AS_ROOT),
    ("a descriptor of the node", AS_ROOT),
    ("the limits of the node", OPEN),
    ("the processors of the node", OPEN),
    ("the priority of the node", OPEN),
    ("the scheduling of the node", OPEN),
    ("a class of real time", either(RANKED)),
    ("the account's watches of files", IN_EACH_ACCOUNT),
    ("the machine's shared memory, by its number", OPEN),
    ("inherited descriptors", never(NONE_INHERITED)),
    ("a child that outlives", never(LATER)),
    ("a fork bomb", never(LATER)),
    ("memfd and re-exec", OPEN),
    ("the control socket", OPEN),
    ("another agent's socket", OPEN),
    ("abstract sockets", OPEN),
    ("D-Bus: that of the session", OPEN),
    ("D-Bus and others of the system", as_here(Probe::Sockets(SERVICES))),
    ("TCP to the machine's loopback", AMONG_ACCOUNTS),
    ("UDP to the machine's loopback", OPEN),
    ("name servers", OPEN),
    ("the node's gateway", AMONG_ACCOUNTS),
    ("IPv6", [Due::AsHere(Probe::Ipv6), Due::AsHere(Probe::Ipv6), Due::Failure, Due::Failure]),
    (
        "link-local and metadata addresses",
        either_among_accounts("a way out of this machine", "a way out of this machine"),
    ),
    ("a port of the machine, to listen at", AMONG_ACCOUNTS),
    ("the machine's loopback by the node's proxy", never(NO_PROXY)),
    ("raw sockets", AS_ROOT),
    ("packet sockets", AS_ROOT),
    ("sockets of the machine's host (vsock)", either("a kernel that has them")),
    ("routes of the machine", AS_ROOT),
    ("privileges", AS_ROOT),
    ("chroot", AS_ROOT),
    ("mount", AS_ROOT),
    ("mount of another /proc", AS_ROOT),
    ("mount of the root, to write", AS_ROOT),
    ("mount of the machine's folders elsewhere", AS_ROOT),
    ("what covers the account's home", never(UNCOVERED)),
    ("unshare", AS_ROOT),
    ("clone with a namespace", AS_ROOT),
    ("clone3 with a namespace", AS_ROOT),
    ("setns to the node's network", AS_ROOT),
    ("keyctl", AS_ROOT),
    ("bpf", AS_ROOT),
    ("perf_event_open", AS_ROOT),
    ("userfaultfd", AS_ROOT),
    ("io_uring_setup", either("a kernel that has it, and has it on")),
    ("fanotify_init", AS_ROOT),
    ("the kernel's log", AS_ROOT),
    ("the machine's name", AS_ROOT),
    ("a module of the kernel", either("a kernel that takes modules, and root")),
    ("TIOCSTI", AS_ROOT),
    ("/dev/mem", as_here(Probe::Read("/dev/mem"))),
    ("/dev/kmsg", [Due::AsHere(Probe::Read("/dev/kmsg")), Due::Either(EVERYBODYS), Due::Failure, Due::Failure]),
    ("block devices", either("a machine that has it, and root")),
    ("other devices", either_among_accounts("a machine that has it, and root", EVERYBODYS)),
    ("/proc/sys/kernel/core_pattern, to write", AS_ROOT),
    ("/proc/sysrq-trigger, to write", as_here(Probe::Write("/proc/sysrq-trigger"))),
    (
        "/sys/kernel/mm/transparent_hugepage/enabled, to write",
        as_here(Probe::Write("/sys/kernel/mm/transparent_hugepage/enabled")),
    ),
    ("/proc/kcore", as_here(Probe::Read("/proc/kcore"))),
    ("a device of its own", AS_ROOT),
    ("setuid files", OPEN),
    ("a control group", either("a hierarchy of control groups that can be written, and root")),
    ("an agent's: paths: node.key", OPEN),
    ("an agent's: paths: owner.key", OPEN),
    ("an agent's: the secrets' folder", OPEN),
    ("an agent's: the store", OPEN),
    ("an agent's: the control socket", OPEN),
    ("an agent's: another agent's folder", OPEN),
    ("an agent's: links: one to node.key", OPEN),
    ("an agent's: /proc of the node: environ", OPEN),
    ("an agent's: signals to others: the node", OPEN),
    ("an agent's: inherited descriptors", never(NONE_INHERITED)),
    ("an agent's: abstract sockets", OPEN),
    ("an agent's: D-Bus: that of the session", OPEN),
    ("an agent's: TCP to the machine's loopback", AMONG_ACCOUNTS),
    ("an agent's: a port of the machine, to listen at", AMONG_ACCOUNTS),
    ("an agent's: privileges", AS_ROOT),
];

/// The attempts that an agent makes itself, by their own names.
pub fn of_agents() -> impl Iterator<Item = &'static str> {
    ATTEMPTS.iter().filter_map(|(name, _)| name.strip_prefix(OF_AGENTS))
}

/// What came otherwise than it was to come, in a line each; and which attempts are missing, or are not in the table.
pub fn wrong(tried: &BTreeMap<String, Outcome>, held: Held, is_root: bool) -> Vec<String> {
    let known: BTreeMap<&str, Due> = ATTEMPTS.iter().map(|(name, row)| (*name, row[held as usize])).collect();
    let names: BTreeSet<&str> = known.keys().copied().chain(tried.keys().map(String::as_str)).collect();
    let judged = |name: &str| match (known.get(name), tried.get(name)) {
        (None, _) => Some(format!("{name}: it is not in the table of attempts")),
        (_, None) => Some(format!("{name}: it was not made")),
        (Some(due), Some(Outcome { reached, how })) => {
            let is_due = match due {
                Due::Success => *reached,
                Due::SuccessAsRoot => *reached || !is_root,
                Due::AsHere(probe) => *reached == probe.succeeds(),
                Due::Either(_) => true,
                Due::Failure | Due::Never(_) => !reached,
            };
            let what = if *reached { "succeeds" } else { "fails" };
            (!is_due).then(|| format!("{name}: it {what}: {how}"))
        }
    };
    names.into_iter().filter_map(judged).collect()
}

/// What came of all of them, a line each, with what those take that failed although nothing holds the program.
pub fn shown(tried: &BTreeMap<String, Outcome>, held: Held) -> String {
    let line = |(name, row): &(&str, Row)| {
        let Outcome { reached, how } = tried.get(*name)?;
        let why = match row[held as usize] {
            Due::SuccessAsRoot => " (it takes root)".to_owned(),
            Due::AsHere(_) => " (as for the tests themselves)".to_owned(),
            Due::Either(of_the_machine) => format!(" (it takes {of_the_machine})"),
            Due::Never(because) => format!(" ({because})"),
            Due::Success | Due::Failure => String::new(),
        };
        Some(if *reached { format!("succeeds {name}: {how}") } else { format!("fails    {name}: {how}{why}") })
    };
    ATTEMPTS.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_attempt_is_judged_so_that_it_can_be_wrong() {
    let columns = [Held::Nothing, Held::Account, Held::Landlock, Held::Namespaces];
    assert_eq!(columns.map(|held| held as usize), [0, 1, 2, 3], "each its own column");
    for held in columns {
        for (name, row) in ATTEMPTS {
            let judged = |reached| {
                let all = ATTEMPTS.iter().map(|(other, row)| {
                    let due = match row[held as usize] {
                        Due::Success | Due::SuccessAsRoot => true,
                        Due::AsHere(probe) => probe.succeeds(),
                        Due::Either(_) | Due::Failure | Due::Never(_) => false,
                    };
                    let reached = if other == name { reached } else { due };
                    ((*other).to_owned(), Outcome { reached, how: String::new() })
                });
                wrong(&all.collect(), held, true).len()
            };
            let either = matches!(row[held as usize], Due::Either(_));
            assert_eq!(judged(true) + judged(false), usize::from(!either), "{name}");
        }
    }
    let none = wrong(&BTreeMap::new(), Held::Nothing, true);
    assert_eq!(none.len(), ATTEMPTS.len(), "an attempt that is lost is noticed");
}
