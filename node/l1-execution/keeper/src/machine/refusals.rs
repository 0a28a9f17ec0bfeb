//! What a program's sandbox refuses it, in words.
//!
//! **Input**: what the program tried; its grants; what is at the paths, on the machine and where the program looks.
//! **Output**: what it was refused although its account may do it, and what it lacks therefore.
//!
//! **Invariants**
//! - It names, and decides nothing. What is judged here is what a call held when the kernel told of it; the program may
//!   have changed that before the kernel read it. So a race changes a name, and never a right.
//! - Each access is named once, and the names of a program are bounded, in number and in bytes.
//! - What the account may not do either is not refused by the sandbox, and what is not there is refused by nobody.
//!
//! **Never knows**: which process tried, or how its call was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::libc;

use super::facts::{Facts, Kind, destination, resolved};
use super::grants::Grants;
use super::plan::{Use, wanted};
use super::rules::{self, DEVICES, beside};
use crate::job::{Access, Lack, Level, Refusal, Told};

/// Refusals that are told of one program.
pub const REFUSALS_MAX: usize = 64;
/// All that is told of one program's refusals, bytes as JSON: the channel has room for it, so that nobody waits for a node
/// that does not read.
const TOLD_BYTES_MAX: usize = 48 << 10;
/// What a program tried lately: what is in there is not judged again.
const TRIED_MAX: usize = 1_024;
/// The longest path that is told, bytes.
const PATH_BYTES_MAX: usize = 4 << 10;
/// Where names are asked for: an asker that has no network reaches none on its own loopback either.
const NAME_SERVICE: u16 = 53;
/// The state of a socket that listens, as the kernel's tables have it.
const LISTENING: &str = "0A";
/// The version of Landlock since which it asks who connects to TCP ports.
const PORTS_SINCE: u8 = 4;
/// The version of Landlock since which it asks who connects to Unix sockets.
const SOCKETS_SINCE: u8 = 9;
/// What programs and their libraries look at by habit, and do well without. The rest of `/proc` is no file of the machine.
const HABITS: [&str; 12] = [
    "/proc",
    "/dev/fd",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
    "/etc/ld.so.preload",
    "/run/nscd",
    "/run/systemd/userdb",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
];
/// Where Python keeps what it compiled; it does without where it cannot write.
const COMPILED: &str = "__pycache__";

/// What a program tried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tried {
    /// A file, a folder or a Unix socket.
    File {
        /// Its path: absolute, not resolved.
        path: PathBuf,
        /// What it tried to do.
        access: Access,
        /// Would it have been made where it was not there?
        creates: bool,
    },
    /// A host, by its address and port.
    Host(SocketAddr),
}

/// What is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket, by its path, which may be relative.
    Path(PathBuf),
    /// A port of a host.
    Host(SocketAddr),
}

/// What is asked about files, beside what [`Facts`] says of the machine's.
pub trait Outlook: Facts {
    /// Whether the account may do that with what is at a path without links.
    fn may(&self, path: &Path, access: Access) -> bool;

    /// Whether the program finds something at that path, in the root that it has. It does where that is not known.
    fn finds(&self, path: &Path) -> bool;

    /// Whether somebody listens at that TCP port of this machine whom the program does not reach at its own loopback, if it has one:
    /// there nobody does. Not where that is not known.
    fn misses(&self, port: u16) -> bool;
}

/// What a call opens a file for, by its flags (open(2)), and whether it makes it; none if it opens nothing.
#[must_use]
pub fn opening(flags: u64) -> Option<(Access, bool)> {
    let has = |flag: libc::c_int| flags & u64::from(flag.unsigned_abs()) != 0;
    if has(libc::O_PATH) {
        return None;
    }
    let writes = has(libc::O_ACCMODE) || has(libc::O_TRUNC);
    Some((if writes { Access::Write } else { Access::Read }, has(libc::O_CREAT)))
}

/// What an address of a socket leads to, as `connect` is given it; none of what is neither a path nor a port of a host.
#[must_use]
pub fn address(bytes: &[u8]) -> Option<Address> {
    let (family, rest) = bytes.split_first_chunk()?;
    match libc::c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_UNIX => {
            // One that begins with a zero is abstract, and lies in no folder.
            let path = rest.split(|byte| *byte == 0).next().filter(|path| !path.is_empty())?;
            Some(Address::Path(PathBuf::from(OsStr::from_bytes(path))))
        }
        libc::AF_INET => {
            let (port, rest) = rest.split_first_chunk()?;
            let ip: &[u8; 4] = rest.first_chunk()?;
            Some(Address::Host(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(*ip)), u16::from_be_bytes(*port))))
        }
        libc::AF_INET6 => {
            let (port, rest) = rest.split_first_chunk()?;
            // The flow comes before it.
            let ip: &[u8; 16] = rest.get(4..)?.first_chunk()?;
            // An IPv4 address in the form of IPv6 is an IPv4 address.
            let ip = Ipv6Addr::from(*ip).to_canonical();
            Some(Address::Host(SocketAddr::new(ip, u16::from_be_bytes(*port))))
        }
        _ => None,
    }
}

/// Whether somebody listens at that port, of a table of the kernel's: `/proc/net/tcp` (proc_pid_net(5)).
#[must_use]
pub fn listens(table: &str, port: u16) -> bool {
    table.lines().skip(1).any(|line| {
        // `NUMBER: ADDRESS:PORT ADDRESS:PORT STATE …`, in hexadecimal digits.
        let mut fields = line.split_whitespace().skip(1);
        let own = fields.next().and_then(|own| own.rsplit_once(':'));
        let is_it = own.is_some_and(|(_, digits)| u16::from_str_radix(digits, 16) == Ok(port));
        is_it && fields.nth(1) == Some(LISTENING)
    })
}

/// What a program reaches, as far as names need it.
#[derive(Debug, Clone)]
pub struct Reach {
    level: Level,
    /// The version of Landlock; 0: none.
    version: u8,
    /// What is granted and hidden where.
    used: BTreeMap<PathBuf, Use>,
    /// The ports that it may connect to where the network is the machine's.
    ports: Vec<u16>,
}

impl Reach {
    /// Of a program that is enclosed by that level, as if there were no Landlock ([`Reach::by_version`]); none where nothing encloses it,
    /// or an account of its own alone.
    #[must_use]
    pub fn of(level: Level, grants: &Grants, ports: &[u16], facts: &impl Facts) -> Option<Reach> {
        let used = match level {
            // What is kept from another account, no file of an agent gives it.
            Level::None | Level::Account => return None,
            Level::Namespaces => {
                let mut used: BTreeMap<PathBuf, Use> =
                    wanted(grants, facts).ok()?.into_iter().map(|(at, (used, _))| (at, used)).collect();
                used.extend(DEVICES.iter().map(|device| (PathBuf::from(device), Use::Write)));
                used.insert(PathBuf::from("/dev/shm"), Use::Private);
                used
            }
            Level::Landlock => {
                let hidden = grants.hidden.iter().map(|path| (destination(path, facts), Use::Hidden));
                let rules = beside(grants, facts).ok()?;
                let rules = rules.into_iter().filter_map(|(at, access)| match access {
                    rules::Access::List => None,
                    rules::Access::Read => Some((at, Use::Read)),
                    rules::Access::Write => Some((at, Use::Write)),
                });
                hidden.chain(rules).collect()
            }
        };
        Some(Reach { level, version: 0, used, ports: ports.to_vec() })
    }

    /// The same with that version of Landlock (its ABI; 0: none), which shows later than all else.
    #[must_use]
    pub fn by_version(self, version: u8) -> Reach {
        Reach { version, ..self }
    }

    /// What was refused of what a program tried; none if it was not, or not by its sandbox, or is not worth a word.
    #[must_use]
    pub fn refusal(&self, tried: &Tried, outlook: &impl Outlook) -> Option<Refusal> {
        match tried {
            Tried::Host(address) => self.host(*address, outlook),
            Tried::File { path, access, creates } => self.file(path, *access, *creates, outlook),
        }
    }

    fn file(&self, path: &Path, access: Access, creates: bool, outlook: &impl Outlook) -> Option<Refusal> {
        if is_habit(path) {
            return None;
        }
        let (at, kind, access, is_new) = match resolved(path, outlook) {
            Some((at, kind)) => (at, kind, access, false),
            // What is not there is made in its folder.
            None if creates => {
                let (at, kind) = resolved(path.parent()?, outlook)?;
                (kind == Kind::Folder).then_some((at, kind, Access::Write, true))?
            }
            None => return None,
        };
        // A folder is neither written nor executed itself.
        let is_nothing = kind == Kind::Folder && !is_new && access != Access::Read;
        if is_nothing || is_habit(&at) || !self.refuses(&at, &kind, access, is_new, outlook) {
            return None;
        }
        if !outlook.may(&at, access) {
            return None;
        }
        let lack = match access {
            _ if self.used(&at) == Some(Use::Hidden) => Lack::NodesOwn,
            Access::Read | Access::Execute => Lack::Read,
            Access::Write | Access::Connect => Lack::Write,
        };
        Some(Refusal { access, path: cut(&at.to_string_lossy()), lack })
    }

    /// Whether the sandbox refuses what is tried with what is there.
    fn refuses(&self, at: &Path, kind: &Kind, access: Access, is_new: bool, outlook: &impl Outlook) -> bool {
        let used = self.used(at);
        match (used, access) {
            (Some(Use::Write), _) | (Some(Use::Read), Access::Read | Access::Execute) => false,
            (Some(Use::Read), Access::Write) => true,
            (Some(Use::Read), Access::Connect) => self.version >= SOCKETS_SINCE,
            // What it makes there is its own.
            (Some(Use::Private), _) => !is_new && !outlook.finds(at),
            (Some(Use::Parts | Use::Hidden) | None, _) if self.level == Level::Namespaces => match access {
                Access::Write => true,
                _ => !outlook.finds(at),
            },
            (Some(Use::Parts | Use::Hidden) | None, Access::Connect) => self.version >= SOCKETS_SINCE,
            // Whoever looks for something that is granted lists the folders above it.
            (Some(Use::Parts | Use::Hidden) | None, Access::Read) if *kind == Kind::Folder => {
                !self.used.keys().any(|granted| granted.starts_with(at))
            }
            (Some(Use::Parts | Use::Hidden) | None, _) => true,
        }
    }

    /// How a path without links is granted or hidden: in a root of its own as the innermost path that it lies in; among the
    /// machine's files as all of those together, but for what lies around something hidden.
    fn used(&self, at: &Path) -> Option<Use> {
        let mut around = at.ancestors().filter_map(|at| self.used.get(at).copied());
        let innermost = around.next()?;
        if self.level == Level::Namespaces {
            return Some(innermost);
        }
        Some(around.take_while(|used| *used != Use::Hidden).fold(innermost, Use::max))
    }

    fn host(&self, address: SocketAddr, outlook: &impl Outlook) -> Option<Refusal> {
        let is_own = address.ip().is_loopback() || address.ip().is_unspecified();
        let port = address.port();
        let is_refused = match self.level {
            Level::None | Level::Account => false,
            Level::Namespaces => true,
            Level::Landlock => self.version >= PORTS_SINCE && !self.ports.contains(&port),
        };
        // Port 0 asks only which way would be taken.
        if !is_refused || port == 0 {
            return None;
        }
        let asks_for_names = port == NAME_SERVICE;
        let (at, lack) = if !is_own || (asks_for_names && self.level == Level::Namespaces) {
            (address, Lack::Proxy)
        } else if !asks_for_names && outlook.misses(port) {
            // No address is that of this machine, too.
            let at = match address.ip() {
                ip if !ip.is_unspecified() => ip,
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            let at = SocketAddr::new(at, port);
            (at, Lack::Service(at.to_string()))
        } else {
            // Where nobody listens, nobody is missed: so a program waits for its own processes.
            return None;
        };
        Some(Refusal { access: Access::Connect, path: at.to_string(), lack })
    }
}

/// Whether programs try that by habit.
fn is_habit(path: &Path) -> bool {
    HABITS.iter().any(|habit| path.starts_with(habit)) || path.iter().any(|part| part == COMPILED)
}

/// The start of a text.
fn cut(text: &str) -> String {
    let kept = text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= PATH_BYTES_MAX);
    kept.map(|(_, c)| c).collect()
}

/// What was told of a program.
#[derive(Debug, Default)]
pub struct Refusals {
    tried: BTreeSet<Tried>,
    told: BTreeSet<(Access, String)>,
    bytes: usize,
    is_full: bool,
}

impl Refusals {
    /// Whether nothing more is told, whatever the program tries.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Notes what a program tried; gives whether it is to be judged: it was not tried lately.
    pub fn notes(&mut self, tried: &Tried) -> bool {
        if self.tried.contains(tried) {
            return false;
        }
        if self.tried.len() >= TRIED_MAX {
            self.tried.clear();
        }
        self.tried.insert(tried.clone())
    }

    /// What is told of a refusal; none if it was told before, or enough was.
    pub fn report(&mut self, refusal: Refusal) -> Option<Told> {
        if self.is_full || !self.told.insert((refusal.access, refusal.path.clone())) {
            return None;
        }
        let told = Told::Refused(refusal);
        // A text always has a form in JSON.
        self.bytes += serde_json::to_vec(&told).map_or(TOLD_BYTES_MAX, |line| line.len());
        self.is_full = self.told.len() > REFUSALS_MAX || self.bytes > TOLD_BYTES_MAX;
        Some(if self.is_full { Told::MoreRefused } else { told })
    }
}

#[cfg(test)]
#[path = "refusals_tests.rs"]
mod tests;
