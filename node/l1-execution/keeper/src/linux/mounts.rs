//! A root of a program's own, in a mount namespace of its own.
//!
//! The root is a small file system in memory. It is mounted over `/proc`, which surely is there: the account was mapped
//! through it. So it covers nothing that is needed, and the machine's root, which is then exchanged for it
//! (`pivot_root`), has its `/proc` again; and it must have, since the kernel gives a new `/proc` only to whom one is
//! visible. From the old root all that is granted is bound, by descriptors; then it is detached.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::libc::{self, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{FileStat, Mode, fstat, mkdirat};
use nix::unistd::{chdir, pivot_root, symlinkat};

use super::disk::{Disk, held};
use super::sys;
use crate::failure::Failure;
use crate::machine::grants::Grants;
use crate::machine::plan::{Step, plan};
use crate::machine::rules::DEVICES;

/// What a step that fails in containers is called, whose `/proc` is covered in part.
pub(super) const PROC: &str = "mount a /proc of its own";
/// What the root holds: empty folders and links.
const ROOT: &str = "mode=0755,size=4m,nr_inodes=65536";
/// What each private folder may hold, KiB, and how many files: it is memory. Less where the program may have less memory.
const PRIVATE_KIB: u64 = 512 << 10;
const PRIVATE_FILES: u32 = 65_536;
/// What a folder holds whose entries are bound one by one: places for them, and links.
const PARTS: &str = "mode=0755,size=1m,nr_inodes=16384";
/// The links of `/dev`.
const LINKS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// Builds the root, and enters it. Each private folder in it holds at most `memory_kib`, KiB; 0: the program's memory has no bound.
///
/// # Errors
/// What this machine does not allow.
pub(super) fn enter(grants: &Grants, memory_kib: u64) -> Result<(), Failure> {
    let steps = plan(grants, &Disk).map_err(|why| Failure::of("lay out its files", why))?;
    let nothing = None::<&str>;
    let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
    mount(nothing, "/", nothing, private, nothing).map_err(|why| Failure::by("keep mounts apart", why))?;
    let outside = root().map_err(|why| Failure::by("open /", why))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), "/proc", Some("tmpfs"), flags, Some(ROOT)).map_err(|why| Failure::by("mount a root", why))?;
    // The old root then lies over the new one: a path that begins at the root does not see it.
    let exchanged = chdir("/proc").and_then(|()| pivot_root(".", ".")).and_then(|()| chdir("/"));
    // A root that is the initramfs cannot be exchanged.
    exchanged.map_err(|why| match why {
        Errno::EINVAL => Failure::lacking("exchange the root", why),
        why => Failure::by("exchange the root", why),
    })?;
    let inside = root().map_err(|why| Failure::by("open the new root", why))?;
    let new = Root { outside, inside, private: private_options(memory_kib) };
    new.furnish()?;
    for step in &steps {
        new.take(step)?;
    }
    for step in &steps {
        if let Step::Parts { at } = step {
            new.close(at)?;
        }
    }
    umount2(".", MntFlags::MNT_DETACH).map_err(|why| Failure::by("detach the old root", why))?;
    new.close(Path::new("/"))?;
    chdir("/").map_err(|why| Failure::by("enter the new root", why))
}

fn root() -> nix::Result<OwnedFd> {
    open("/", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

/// The bounds of a private folder, as mounts have them.
fn private_options(memory_kib: u64) -> String {
    let kib = if memory_kib == 0 { PRIVATE_KIB } else { PRIVATE_KIB.min(memory_kib) };
    format!("size={kib}k,nr_inodes={PRIVATE_FILES}")
}

/// Both roots.
struct Root {
    outside: OwnedFd,
    inside: OwnedFd,
    /// The bounds of each private folder.
    private: String,
}

impl Root {
    /// What every program has: `/proc`, which cannot be written, since to the account root parts of it are the
    /// machine's; and `/dev`.
    fn furnish(&self) -> Result<(), Failure> {
        self.folder(Path::new("/proc"))?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
        mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).map_err(|why| match why {
            Errno::EPERM => {
                Failure::lacking(PROC, format!("{why} (in a container, while parts of its /proc are masked)"))
            }
            why => Failure::by(PROC, why),
        })?;
        self.folder(Path::new("/dev"))?;
        for device in DEVICES.map(Path::new) {
            self.file(device)?;
            self.bind(device, false, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)?;
        }
        for (at, to) in LINKS {
            self.link(Path::new(at), Path::new(to))?;
        }
        self.folder(Path::new("/dev/shm"))?;
        self.memory(Path::new("/dev/shm"), &format!("mode=1777,{}", self.private))
    }

    fn take(&self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::Folder { at } => self.folder(at),
            Step::File { at } => self.file(at),
            Step::Link { at, to } => self.link(at, to),
            Step::Bind { at, is_folder, writable, devices } => {
                let read_only = if *writable { 0 } else { MOUNT_ATTR_RDONLY };
                let no_devices = if *devices { 0 } else { MOUNT_ATTR_NODEV };
                self.bind(at, *is_folder, MOUNT_ATTR_NOSUID | read_only | no_devices)
            }
            Step::Parts { at } => self.memory(at, PARTS),
            Step::Private { at, mode } => self.memory(at, &format!("mode={mode:o},{}", self.private)),
        }
    }

    /// An empty folder of the root's own. It may be there: `/dev`, or the parent of several.
    fn folder(&self, at: &Path) -> Result<(), Failure> {
        self.make(at, |parent, name| mkdirat(parent, name, Mode::from_bits_truncate(0o755)))
    }

    /// An empty file, which nobody sees: something is bound over it.
    fn file(&self, at: &Path) -> Result<(), Failure> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        self.make(at, |parent, name| openat(parent, name, flags, Mode::S_IRUSR).map(drop))
    }

    fn link(&self, at: &Path, to: &Path) -> Result<(), Failure> {
        self.make(at, |parent, name| symlinkat(to, parent, name))
    }

    fn make(&self, at: &Path, made: impl FnOnce(&OwnedFd, &Path) -> nix::Result<()>) -> Result<(), Failure> {
        let name = at.file_name().map_or(Path::new("."), Path::new);
        let parent = at.parent().unwrap_or(Path::new("/"));
        match held(&self.inside, parent).and_then(|parent| made(&parent, name)) {
            Ok(()) | Err(Errno::EEXIST) => Ok(()),
            Err(why) => Err(Failure::by(format!("make {}", at.display()), why)),
        }
    }

    /// Binds what the machine has at a path, with attributes.
    fn bind(&self, at: &Path, is_folder: bool, attributes: u64) -> Result<(), Failure> {
        let step = || format!("bind {}", at.display());
        let source = match held(&self.outside, at) {
            Ok(source) => source,
            // It has gone since, or the account cannot reach it either.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => return Ok(()),
            Err(why) => return Err(Failure::by(step(), why)),
        };
        let found = fstat(&source).map_err(|why| Failure::by(step(), why))?;
        if (found.st_mode & libc::S_IFMT == libc::S_IFDIR) != is_folder {
            return Err(Failure::of(step(), "it was exchanged for something else meanwhile; start again"));
        }
        let fixed = self.is_of_devices(at, &found);
        let bound = fixed.and_then(|fixed| self.over(at, &source, attributes, fixed));
        bound.map_err(|why| Failure::by(step(), why))
    }

    /// Whether what is bound is a device below `/dev`, or a folder of the file system that has them. Its owner could change its mode
    /// for everybody, and the account root of a root node is its owner; to a device on a mount that is only read is written all the same.
    fn is_of_devices(&self, at: &Path, found: &FileStat) -> nix::Result<bool> {
        if !at.starts_with("/dev") {
            return Ok(false);
        }
        Ok(match found.st_mode & libc::S_IFMT {
            libc::S_IFCHR | libc::S_IFBLK => true,
            // What is mounted below, such as memory or queues, holds files that are made.
            libc::S_IFDIR => fstat(held(&self.outside, Path::new("/dev"))?)?.st_dev == found.st_dev,
            _ => false,
        })
    }

    /// Mounts a copy of `source`, with attributes; with `fixed` nobody changes it or makes anything in it, but for what is mounted
    /// below it.
    fn over(&self, at: &Path, source: &OwnedFd, attributes: u64, fixed: bool) -> nix::Result<()> {
        let tree = sys::tree(source)?;
        sys::restrict(&tree, attributes, true)?;
        if fixed {
            sys::restrict(&tree, MOUNT_ATTR_RDONLY, false)?;
        }
        sys::attach(&tree, held(&self.inside, at)?)
    }

    /// Mounts an empty file system in memory over a folder.
    fn memory(&self, at: &Path, options: &str) -> Result<(), Failure> {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let point = held(&self.inside, at);
        // By its descriptor: the path may lead elsewhere by now.
        let path = |point: &OwnedFd| format!("/proc/self/fd/{}", point.as_raw_fd());
        let tmpfs = Some("tmpfs");
        let mounted = point.and_then(|point| mount(tmpfs, path(&point).as_str(), tmpfs, flags, Some(options)));
        mounted.map_err(|why| Failure::by(format!("mount memory over {}", at.display()), why))
    }

    /// Lets nobody write any more to the file system that is mounted at the path.
    fn close(&self, at: &Path) -> Result<(), Failure> {
        let closed = held(&self.inside, at).and_then(|mount| sys::restrict(mount, MOUNT_ATTR_RDONLY, false));
        closed.map_err(|why| Failure::by(format!("close {}", at.display()), why))
    }
}
