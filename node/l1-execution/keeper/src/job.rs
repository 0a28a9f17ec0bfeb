//! What a keeper is given to keep: a program, how it ends, and what it may reach.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::machine::grants::Grants;

/// The longest job, bytes as JSON: the longest arguments and environment that Linux takes, and as much again.
pub const JOB_BYTES_MAX: usize = 4 << 20;

/// A program that is started once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The program and its arguments; never a shell line. The program is looked for in the `PATH` of `environment` where it
    /// is no path.
    pub command: Vec<String>,
    /// The directory that it starts in; absolute.
    pub folder: PathBuf,
    /// All variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// Which descriptors come with the job, in this order.
    pub descriptors: Vec<Descriptor>,
    /// How long it has to end once the node is gone, milliseconds; 0: it is killed at once.
    pub orphan_ms: u64,
    /// What it may take of the machine.
    pub limits: Limits,
    /// The port of its loopback to which connections of [`Descriptor::Bridge`] are led.
    pub bridge: Option<u16>,
    /// What it may reach. None: whatever the account may (`sandbox: none`).
    pub enclosure: Option<Enclosure>,
}

impl Job {
    /// At what its program listens.
    #[must_use]
    pub fn listener(&self) -> Listener {
        match self.bridge {
            Some(_) => Listener::Own,
            None if self.descriptors.contains(&Descriptor::Socket) => Listener::Handed,
            None => Listener::None,
        }
    }
}

/// At what a program listens for whoever connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// At nothing.
    None,
    /// At [`Descriptor::Socket`], which listens already.
    Handed,
    /// At a port, [`Job::bridge`], by a socket that it makes itself.
    Own,
}

/// What a descriptor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Descriptor {
    /// Its standard input.
    Input,
    /// Its standard output.
    Output,
    /// Its standard error.
    Error,
    /// A listening socket, which it gets as descriptor 3, with `LISTEN_PID`.
    Socket,
    /// Not for the program: a listening socket whose connections are led to [`Job::bridge`].
    Bridge,
    /// Not for the program: a stream by which the node is handed listening sockets of the program's own loopback.
    Listeners,
}

/// What a program may take of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// KiB that each process may write to of its private memory (`RLIMIT_DATA`); where a control group bounds that, KiB of memory of any
    /// kind that all of them have together; 0: any. None of its private folders holds more either.
    pub memory_kib: u64,
    /// Processes and threads at once, with the first one of namespaces; 0: any. It is bounded by a control group, else in the
    /// program's own namespace of users, where the account is not the machine's root (`RLIMIT_NPROC`).
    pub processes: u32,
    /// Descriptors that each process may have open at once (`RLIMIT_NOFILE`); 0, and at most: what the account may have.
    pub files: u32,
    /// The longest that it may make a file, KiB (`RLIMIT_FSIZE`); 0: any. How many such files it makes, nothing bounds.
    pub file_kib: u64,
    /// Behind all that is not: in the idle class of the scheduler, or with the highest nice value, and with the least share of a
    /// control group.
    pub idle: bool,
}

/// How a program is held to its limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bounds {
    /// That it leaves the processors to others.
    pub processor: Bound,
    /// What it may write to.
    pub memory: Bound,
    /// How many processes it may have.
    pub processes: Bound,
    /// Why not all is bounded by a control group, as a person reads it.
    pub why: String,
}

/// By what something is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Its job asks for no bound.
    #[default]
    Unasked,
    /// By a control group: all of its processes together.
    Group,
    /// By limits, or a class of the scheduler, which each of its processes has.
    Limits,
    /// By nothing.
    Nothing,
}

impl Bounds {
    /// What is not bounded, and why, as a person reads it; none where all is.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let all = [
            (self.processor, Bound::Nothing, "its share of the processors"),
            (self.memory, Bound::Nothing, "its memory"),
            // The limit of a process knows nothing of memory that is shared, or lies in a file without a disk.
            (self.memory, Bound::Limits, "its shared memory, while only private memory is bounded"),
            (self.processes, Bound::Nothing, "the number of its processes"),
        ];
        let names: Vec<&str> = all.iter().filter(|(bound, open, _)| bound == open).map(|(.., name)| *name).collect();
        (!names.is_empty()).then(|| format!("{} ({})", names.join(" and "), self.why))
    }
}

/// What a program may reach; it is enclosed by the strongest level that this machine has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enclosure {
    /// It is not started where its files or its network would not be bounded: by nothing, by an account of its own alone, or by
    /// a Landlock that leaves one of them open.
    pub required: bool,
    /// What it may read and write.
    pub grants: Grants,
    /// The folder for its temporary files where it shares the machine's folders; where it has its own, that is `/tmp`.
    pub temporary: PathBuf,
    /// Ports of loopback that it may listen on and connect to where the loopback is the machine's.
    pub ports: Vec<u16>,
    /// Ports of its own loopback, where it has one, at which the node listens: the sockets are handed to it by
    /// [`Descriptor::Listeners`], in this order.
    pub listen: Vec<u16>,
    /// Variables in place of those of its environment where the loopback is the machine's, and others of the machine reach what it
    /// reaches there.
    pub shared_environment: BTreeMap<String, String>,
    /// Under what it runs where the machine can enclose it by nothing else, and the node may change its account.
    pub account: Option<Account>,
    /// Why what is hidden may show by other paths, which it reaches where it has them by their paths alone; as a person reads it, and told
    /// with why no level is stronger. None: it does not.
    pub unhidden: Option<String>,
    /// Why it is not started without a network of its own, as a person reads it. None: it is.
    pub apart: Option<String>,
}

/// An account of a program's own: what the node's account keeps for itself is kept from the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The number of the user, and of its group; or why there is none for it, as a person reads it: where nothing else encloses the
    /// program, it is not started then. No name is needed; the range that it is of is to be nobody else's.
    pub id: Result<u32, String>,
    /// What it must reach: where it starts, its program, and what its file and its arguments name; absolute.
    pub needed: Vec<PathBuf>,
    /// What its file names to be written; absolute.
    pub written: Vec<PathBuf>,
}

/// How strongly a program is enclosed; the later, the stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// It reaches whatever the account reaches.
    None,
    /// An account of its own, and seccomp: files, as far as they are not everybody's, and signals; the machine's network by TCP.
    Account,
    /// Landlock and seccomp: files, TCP ports, signals; the machine's network for nothing else.
    Landlock,
    /// Namespaces of its own (files, processes, network), and what `Landlock` has.
    Namespaces,
}

/// What a node tells a keeper, one line of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The program shall end: it is asked to (`SIGTERM`), and killed after this time.
    End {
        /// Milliseconds.
        grace_ms: u64,
    },
}

/// What a keeper tells the node, one line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// The program runs.
    Started {
        /// How it is enclosed.
        level: Level,
        /// Why no level is stronger, and what it leaves open nevertheless ([`Enclosure::unhidden`], ports), as a person reads it; empty
        /// where it is the strongest.
        why: String,
        /// How it is held to its limits.
        bounds: Bounds,
        /// The version of Landlock (its ABI) that encloses it, alone or with namespaces; 0: none does.
        landlock: u8,
    },
    /// It could not be started.
    Failed {
        /// What could not be done.
        step: String,
        /// The system's reason.
        why: String,
    },
    /// It was refused something; it runs on. Each is told once, and a bounded number of them.
    Refused(Refusal),
    /// It was refused more than is told.
    MoreRefused,
    /// A process of it was killed since all of them together took more memory than they may.
    RanOut,
    /// It ended, and nothing of it is left.
    Ended {
        /// Its exit code, or 128 and the signal.
        status: i32,
    },
}

/// What a program tries to do with a file or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read a file, or list a folder.
    Read,
    /// Write a file, or make one in a folder.
    Write,
    /// Execute a file.
    Execute,
    /// Connect to a Unix socket, or to a port of a host.
    Connect,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Execute => "execute",
            Access::Connect => "connect to",
        })
    }
}

/// What a program tried, what its account may do, and its sandbox does not let it do. It is a name for people: what was
/// refused, the kernel decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What it tried to do.
    pub access: Access,
    /// The path as it lies on the machine, its links followed, or the address with the port. Where a file was to be made,
    /// the folder. At most 4 KiB; the program chose it, so it may hold anything.
    pub path: String,
    /// What it lacks therefore.
    pub lack: Lack,
}

/// What a program lacks that was refused something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// The path, to read or execute.
    Read,
    /// The path, to write or connect to.
    Write,
    /// That host, as a file names it: `api.example.org`, `api.example.org:8443`.
    Host(String),
    /// That service of this very machine: `127.0.0.1:5432`.
    Service(String),
    /// The proxy: it connected, or asked for a name, by itself.
    Proxy,
    /// The host's answer, for that reason: it may ask.
    Answer(String),
    /// Nothing that it could be given: that is the node's own.
    NodesOwn,
}

/// In words, on one line: `read /srv/map`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| -> String {
            let one = |c: char| if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() };
            text.chars().map(one).collect()
        };
        write!(f, "{} {}", self.access, shown(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_line_whatever_the_program_called_its_file() {
        let refusal = |access, path: &str, lack| Refusal { access, path: path.to_owned(), lack }.to_string();
        assert_eq!(refusal(Access::Read, "/srv/map", Lack::Read), "read /srv/map");
        assert_eq!(refusal(Access::Write, "/a\n\u{1b}", Lack::NodesOwn), "write /a\\u{a}\\u{1b}");
    }

    #[test]
    fn a_refusal_is_told_as_one_line_of_json() {
        let refusal = Refusal { access: Access::Connect, path: "a\nb".to_owned(), lack: Lack::Proxy };
        let line = serde_json::to_string(&Told::Refused(refusal.clone())).expect("it has a form");
        assert_eq!(line, r#"{"refused":{"access":"connect","path":"a\nb","lack":"proxy"}}"#);
        assert_eq!(serde_json::from_str::<Told>(&line).expect("it is read"), Told::Refused(refusal));
        assert_eq!(serde_json::to_string(&Told::MoreRefused).expect("it has a form"), r#""more-refused""#);
    }

    #[test]
    fn what_nothing_bounds_is_said_with_the_reason() {
        let bounds = |processor, memory, processes| Bounds { processor, memory, processes, why: "no group".to_owned() };
        assert_eq!(bounds(Bound::Group, Bound::Group, Bound::Unasked).missing(), None);
        let missing = bounds(Bound::Group, Bound::Limits, Bound::Limits).missing();
        assert_eq!(missing.as_deref(), Some("its shared memory, while only private memory is bounded (no group)"));
        let missing = bounds(Bound::Nothing, Bound::Unasked, Bound::Nothing).missing();
        assert_eq!(missing.as_deref(), Some("its share of the processors and the number of its processes (no group)"));
    }
}
