//! The calls of a program that name a file or a host, as the kernel tells of them (seccomp_unotify(2)).
//!
//! Each of them goes on as soon as it was read: nothing is decided here. What is read may be changed by the program before the
//! kernel reads it in turn, so it is good for names alone.

use std::ffi::OsString;
use std::fs;
use std::io::IoSliceMut;
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
use crate::machine::filter::told;
use crate::machine::grants::Grants;
use crate::machine::refusals::{Address, Outlook, Reach, Tried, address, opening};

/// The longest path that the kernel takes, bytes, with the zero at its end (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4_096;
/// The longest address that the kernel takes, bytes (`struct sockaddr_storage`).
const ADDRESS_BYTES_MAX: usize = 128;
/// Memory may end at a multiple of this, bytes.
const PAGE: usize = 4_096;

/// In the process that becomes the program, once it is locked: from now on the calls of this process, and of all that it
/// becomes and starts, are told by a descriptor. Whoever has it must let each of them go on.
///
/// # Errors
/// The system's: this kernel does not tell, or tells somebody else already.
pub fn listen() -> nix::Result<OwnedFd> {
    sys::listen(&told())
}

/// What a program reaches that has these grants and ports and is enclosed by that level, with that version of Landlock; none
/// where nothing encloses it, or an account of its own alone.
#[must_use]
pub fn reach(level: Level, version: u8, grants: &Grants, ports: &[u16]) -> Option<Reach> {
    Reach::of(level, version, grants, ports, &Disk)
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
        Calls { listener, reach, view: View { level, root: None } }
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
}

impl View {
    fn look(&mut self, process: u32) {
        if self.level == Level::Namespaces && self.root.is_none() {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            // What is not the program yet does not let itself be looked at.
            self.root = open(format!("/proc/{process}/root").as_str(), flags, Mode::empty()).ok();
        }
    }
}

impl Facts for View {
    fn kind(&self, path: &Path) -> Kind {
        Disk.kind(path)
    }

    fn inside(&self, folder: &Path, most: usize) -> Vec<PathBuf> {
        Disk.inside(folder, most)
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
        libc::SYS_openat2 => {
            // The flags are the first of what it points to.
            let flags = read(process, third, size_of::<u64>())?;
            file(Some(first), second, opening(u64::from_ne_bytes(*flags.first_chunk()?))?)
        }
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
        return Some(path);
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
}
