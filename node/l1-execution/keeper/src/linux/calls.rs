//! The calls of a program that name a file or a host, as the kernel tells of them (seccomp_unotify(2)).
//!
//! Each of them goes on as soon as it was read: nothing is decided here. What is read may be changed by the program before the
//! kernel reads it in turn, so it is good for names alone.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{IoSliceMut, Read as _, Seek as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc::{self, seccomp_notif};
use nix::sys::stat::Mode;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::{AccessFlags, Pid, access};

use super::disk::{Disk, held};
use super::sys;
use crate::job::{Access, Level, Refusal};
use crate::machine::facts::{Facts, Kind};
use crate::machine::filter::notify_filter;
use crate::machine::grants::Grants;
use crate::machine::refusals::{Address, Outlook, Reach, Tried, address, listens, opening};

/// The longest path that the kernel takes, bytes, with the zero at its end (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4_096;
/// The longest address that the kernel takes, bytes (`struct sockaddr_storage`).
const ADDRESS_BYTES_MAX: usize = 128;
/// Memory may end at a multiple of this, bytes.
const PAGE: usize = 4_096;
/// Where the kernel lists who listens.
const TABLES: [&str; 2] = ["tcp", "tcp6"];
/// As much of such a list is read, bytes: of some thousand connections.
const TABLE_BYTES_MAX: u64 = 1 << 20;
/// How often these lists are read for one program, whatever it connects to: that takes longer than to look for a file.
const TABLE_LOOKS_MAX: u16 = 256;
/// What a process is called in `/proc` by itself.
const ITSELF: [&str; 2] = ["self", "thread-self"];

/// In the process that becomes the program, once it is locked: from now on the calls of this process, and of all that it
/// becomes and starts, are told by a descriptor. Whoever has it must let each of them go on.
///
/// # Errors
/// The system's: this kernel does not tell, or tells somebody else already.
pub fn listen() -> nix::Result<OwnedFd> {
    sys::listen(&notify_filter())
}

/// What a program reaches that has these grants and ports and is enclosed by that level, without Landlock ([`Reach::by_version`]);
/// none where nothing encloses it, or an account of its own alone.
#[must_use]
pub fn reach(level: Level, grants: &Grants, ports: &[u16]) -> Option<Reach> {
    Reach::of(level, grants, ports, &Disk)
}

/// The calls of one program.
pub struct Calls {
    listener: OwnedFd,
    reach: Reach,
    view: View,
}

impl Calls {
    /// Those that a [`listen`]er tells, of a program that is enclosed by that level and reaches that.
    #[must_use]
    pub fn of(listener: OwnedFd, level: Level, reach: Reach) -> Calls {
        let view = View { level, root: None, tables: Vec::new(), looks: Cell::new(TABLE_LOOKS_MAX) };
        Calls { listener, reach, view }
    }

    /// Is ready to be read when there is a call.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Lets the next call go on. Gives what it tries; none if that cannot be read, or is not asked for (`is_wanted`).
    ///
    /// # Errors
    /// The system's; no call is told any more.
    pub fn pass(&mut self, is_wanted: bool) -> nix::Result<Option<Tried>> {
        let Some(call) = sys::next_call(&self.listener)? else { return Ok(None) };
        // While the call waits: its process may be gone at once when it goes on.
        let tried = if is_wanted { tried(&call) } else { None };
        if tried.is_some() {
            self.view.look(call.pid);
        }
        match sys::let_go(&self.listener, call.id) {
            Ok(()) => Ok(tried),
            // Its process is gone, and what was read may be of another one that has its number now.
            Err(Errno::ENOENT) => {
                self.view.root = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What was refused of what was tried.
    #[must_use]
    pub fn refusal(&self, tried: &Tried) -> Option<Refusal> {
        self.reach.refusal(tried, &self.view)
    }
}

/// What a program finds.
struct View {
    level: Level,
    /// Its own root, as soon as a process of it was seen; it has one where it has namespaces. All of its processes have it:
    /// none may change its own.
    root: Option<OwnedFd>,
    /// Who listens on its own loopback, from then on.
    tables: Vec<File>,
    /// How often that is still looked at.
    looks: Cell<u16>,
}

impl View {
    fn look(&mut self, process: u32) {
        if self.level == Level::Namespaces && self.root.is_none() {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            // What is not the program yet does not let itself be looked at.
            self.root = open(format!("/proc/{process}/root").as_str(), flags, Mode::empty()).ok();
            self.tables = tables(&format!("/proc/{process}/net"));
        }
    }
}

impl Facts for View {
    fn kind(&self, path: &Path) -> Kind {
        Disk.kind(path)
    }

    fn list_folder(&self, folder: &Path, most: usize) -> Vec<PathBuf> {
        Disk.list_folder(folder, most)
    }
}

impl Outlook for View {
    fn may(&self, path: &Path, wanted: Access) -> bool {
        let flags = match wanted {
            Access::Read => AccessFlags::R_OK,
            Access::Write | Access::Connect => AccessFlags::W_OK,
            Access::Execute => AccessFlags::X_OK,
        };
        access(path, flags).is_ok()
    }

    fn finds(&self, path: &Path) -> bool {
        let Some(root) = &self.root else { return true };
        // What cannot be followed to its end is there.
        !matches!(held(root, path), Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES))
    }

    fn misses(&self, port: u16) -> bool {
        let Some(left) = self.looks.get().checked_sub(1) else { return false };
        self.looks.set(left);
        let has = |all: &[File]| all.iter().any(|table| is_in(table, port));
        has(&tables("/proc/self/net"))
            && (self.level != Level::Namespaces || (!self.tables.is_empty() && !has(&self.tables)))
    }
}

/// The kernel's lists of who listens, of the network that this folder is of. They stay of that network.
fn tables(folder: &str) -> Vec<File> {
    TABLES.iter().filter_map(|table| File::open(Path::new(folder).join(table)).ok()).collect()
}

/// Whether somebody who listens at that port is in such a list by now.
fn is_in(mut table: &File, port: u16) -> bool {
    let mut text = String::new();
    let read = table.rewind().and_then(|()| table.take(TABLE_BYTES_MAX).read_to_string(&mut text));
    read.is_ok() && listens(&text, port)
}

/// What a call tries, as far as it can be read.
fn tried(call: &seccomp_notif) -> Option<Tried> {
    let process = Pid::from_raw(i32::try_from(call.pid).ok()?);
    let [first, second, third, ..] = call.data.args;
    let file = |folder: Option<u64>, path: u64, (access, creates): (Access, bool)| {
        let path = from(process, folder, text(process, path)?)?;
        Some(Tried::File { path, access, creates })
    };
    match libc::c_long::from(call.data.nr) {
        libc::SYS_openat => file(Some(first), second, opening(third)?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => file(None, first, opening(second)?),
        libc::SYS_execve => file(None, first, (Access::Execute, false)),
        libc::SYS_execveat => file(Some(first), second, (Access::Execute, false)),
        libc::SYS_connect => {
            let length = usize::try_from(third).ok()?.min(ADDRESS_BYTES_MAX);
            match address(&read(process, second, length)?)? {
                Address::Path(path) => {
                    Some(Tried::File { path: from(process, None, path)?, access: Access::Connect, creates: false })
                }
                Address::Host(host) => Some(Tried::Host(host)),
            }
        }
        _ => None,
    }
}

/// An absolute path: from the folder of a descriptor, or from where the process is.
fn from(process: Pid, folder: Option<u64>, path: PathBuf) -> Option<PathBuf> {
    if path.is_absolute() {
        return Some(around(process, &path).unwrap_or(path));
    }
    // A descriptor is the lower half of an argument.
    let descriptor = folder.map_or(libc::AT_FDCWD, |folder| folder as libc::c_int);
    let folder = match descriptor {
        libc::AT_FDCWD => format!("/proc/{process}/cwd"),
        descriptor => format!("/proc/{process}/fd/{descriptor}"),
    };
    let folder = fs::read_link(folder).ok()?;
    folder.is_absolute().then(|| folder.join(path))
}

/// Where a path leads that goes around by what `/proc` or `/dev/fd` has of the process itself: its root, where it is, or a folder that
/// it has open. None of another path, and of what is none of the machine's.
fn around(process: Pid, path: &Path) -> Option<PathBuf> {
    let path =
        path.strip_prefix("/dev/fd").map_or_else(|_| path.to_owned(), |rest| Path::new("/proc/self/fd").join(rest));
    let mut parts = path.strip_prefix("/proc").ok()?.components();
    let mut next = || parts.next()?.as_os_str().to_str().map(str::to_owned);
    let whose = next()?;
    if !ITSELF.contains(&whose.as_str()) && number(process).as_ref() != Some(&whose) {
        return None;
    }
    let mut what = next()?;
    if what == "task" {
        // Its threads share all that.
        next()?;
        what = next()?;
    }
    let link = match what.as_str() {
        "root" | "cwd" => format!("/proc/{process}/{what}"),
        "fd" => format!("/proc/{process}/fd/{}", next()?),
        _ => return None,
    };
    let rest = parts.as_path();
    // A descriptor that is opened again by itself was granted when it was opened first.
    let leads_on = !rest.as_os_str().is_empty();
    fs::read_link(link).ok().filter(|at| leads_on && at.is_absolute()).map(|at| at.join(rest))
}

/// The number of a process, as it knows itself: in the innermost namespace.
fn number(process: Pid) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NStgid:"))?;
    line.split_whitespace().last().map(str::to_owned)
}

/// The path at an address of a process; none where there is none, or no end to it.
fn text(process: Pid, at: u64) -> Option<PathBuf> {
    let mut bytes = read(process, at, PATH_BYTES_MAX)?;
    let length = bytes.iter().position(|byte| *byte == 0).filter(|length| *length > 0)?;
    bytes.truncate(length);
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

/// At most that many bytes of the memory of a process, which may end before.
fn read(process: Pid, at: u64, most: usize) -> Option<Vec<u8>> {
    let base = usize::try_from(at).ok()?;
    // What lies in one page is read, or is not.
    let here = most.min(PAGE - base % PAGE);
    let parts = [RemoteIoVec { base, len: here }, RemoteIoVec { base: base.checked_add(here)?, len: most - here }];
    let mut bytes = vec![0; most];
    let length = process_vm_readv(process, &mut [IoSliceMut::new(&mut bytes)], &parts).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use nix::unistd::getpid;

    use super::*;

    #[test]
    fn a_path_is_read_from_memory_up_to_its_end() {
        let at = |bytes: &[u8]| bytes.as_ptr() as u64;
        let mut long = vec![b'a'; 3 * PAGE];
        assert_eq!(text(getpid(), at(b"/etc/hosts\0more")), Some("/etc/hosts".into()));
        assert_eq!((text(getpid(), at(b"\0")), text(getpid(), 0), text(getpid(), u64::MAX)), (None, None, None));
        assert_eq!(text(getpid(), at(&long)), None, "it has no end");
        // The address lies somewhere in a page: both sides of its end are read.
        long[PATH_BYTES_MAX - 1] = 0;
        assert_eq!(text(getpid(), at(&long)).map(|path| path.as_os_str().len()), Some(PATH_BYTES_MAX - 1));
    }

    #[test]
    fn a_relative_path_begins_where_the_process_is_or_at_a_folder_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("it is there");
        let open = fs::File::open(&at).expect("it is a folder");
        let number = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&open)).expect("a number");
        let from = |folder, path: &str| from(getpid(), folder, path.into());
        assert_eq!(from(Some(number), "a/b"), Some(at.join("a/b")));
        // The upper half is not the descriptor's.
        assert_eq!(from(Some(number | 7 << 32), "a"), Some(at.join("a")));
        assert_eq!(from(Some(number), "/a"), Some("/a".into()));
        let here = std::env::current_dir().expect("it is somewhere").join("a");
        let cwd = u64::from(libc::AT_FDCWD.cast_unsigned());
        assert_eq!((from(None, "a"), from(Some(cwd), "a")), (Some(here.clone()), Some(here)));
        assert_eq!(from(Some(9_999), "a"), None);
    }

    #[test]
    fn a_path_that_goes_around_by_the_process_itself_is_one_of_the_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("it is there");
        let open = File::open(&at).expect("it is a folder");
        let number = std::os::fd::AsRawFd::as_raw_fd(&open);
        let here = std::env::current_dir().expect("it is somewhere");
        let from = |path: &str| from(getpid(), None, path.into()).expect("it is absolute");
        let own = getpid();
        let itself = ["self".to_owned(), "thread-self".to_owned(), own.to_string(), format!("self/task/{own}")];
        for itself in itself.map(|itself| format!("/proc/{itself}")) {
            assert_eq!(from(&format!("{itself}/root/etc/hosts")), Path::new("/etc/hosts"), "{itself}");
            assert_eq!(from(&format!("{itself}/cwd/../a")), here.join("../a"), "{itself}");
            assert_eq!(from(&format!("{itself}/fd/{number}/a")), at.join("a"), "{itself}");
        }
        assert_eq!(from(&format!("/dev/fd/{number}/a")), at.join("a"));
        // These are no files of the machine.
        let stranger = format!("/proc/{}/root/etc/hosts", i32::MAX);
        for other in ["/proc/self/status", "/proc/self/root", "/proc/self/fd/9999/a", "/dev/fd/0", stranger.as_str()] {
            assert_eq!(from(other), Path::new(other));
        }
    }

    #[test]
    fn who_listens_on_this_machine_is_missed_where_the_program_has_nobody_there() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("it listens").port();
        let view = |level, tables| View { level, root: None, tables, looks: Cell::new(2) };
        let same = view(Level::Namespaces, tables("/proc/self/net"));
        assert!(!same.misses(port), "it reaches the same one");
        let empty = tempfile::tempfile().expect("a file");
        let apart = view(Level::Namespaces, vec![empty]);
        assert_eq!([port, port, port].map(|port| apart.misses(port)), [true, true, false], "and not for ever");
        assert!(view(Level::Landlock, Vec::new()).misses(port));
        assert!(!view(Level::Namespaces, Vec::new()).misses(port), "nothing is known");
    }
}
