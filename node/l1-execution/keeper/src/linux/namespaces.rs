//! Namespaces of a program's own: users, files, processes, names, and a network with nothing but loopback.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::unistd::{Gid, Uid, sethostname};

use super::mounts;
use super::sys;
use crate::failure::Failure;
use crate::machine::grants::Grants;

/// The namespaces that [`sys::fork`] makes for [`enter`].
pub const NAMESPACES: CloneFlags = CloneFlags::CLONE_NEWUSER
    .union(CloneFlags::CLONE_NEWNS)
    .union(CloneFlags::CLONE_NEWPID)
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS)
    .union(CloneFlags::CLONE_NEWNET);

/// The name of the host: the one that leads to its own loopback wherever there is an `/etc/hosts`, and that says
/// nothing about the machine.
const HOST: &str = "localhost";
/// How many there may be in its namespaces, in the kernel's files of `/proc/sys/user`. The kernel counts them for the whole account
/// too, which has some hundred and some thousand: without a bound here one program would take those of all others.
const SHARES: [(&str, &str); 4] = [
    ("max_inotify_instances", "64"),
    ("max_inotify_watches", "16384"),
    ("max_fanotify_groups", "0"),
    ("max_fanotify_marks", "0"),
];

/// What is no reason to leave the namespaces.
const PASSED: [io::ErrorKind; 3] =
    [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];

/// In the first process of new [`NAMESPACES`]: maps the account to itself, bounds what it takes of the account's share of the kernel,
/// names the host, brings loopback up, builds the root of its own from the grants, and enters it; the folder that it is in is then the
/// root. `account` is what the process ran as before it had them, and `memory_kib` the memory that the program may have, KiB; 0: any.
///
/// # Errors
/// What this machine does not allow; the process is then of no use any more.
pub fn enter(grants: &Grants, account: (Uid, Gid), memory_kib: u64) -> Result<(), Failure> {
    map(account)?;
    bound_shares()?;
    sethostname(HOST).map_err(|why| Failure::by("name the host", why))?;
    sys::raise_loopback().map_err(|why| Failure::by("bring up loopback", why))?;
    mounts::enter(grants, memory_kib)
}

/// Outside it is the account that it was, and inside it has no other: files are owned as before, and root is root of
/// nothing.
fn map((uid, gid): (Uid, Gid)) -> Result<(), Failure> {
    let same = |id: u32| format!("{id} {id} 1");
    // Without a privilege outside, groups are mapped only once they cannot be left any more.
    let groups = ("setgroups", "deny".to_owned());
    for (file, text) in [groups, ("uid_map", same(uid.as_raw())), ("gid_map", same(gid.as_raw()))] {
        let file = format!("/proc/self/{file}");
        fs::write(&file, text).map_err(|why| refused(&file, &why))?;
    }
    Ok(())
}

/// Bounds what is counted for the account, by its namespace of users: in it this process has every privilege still.
fn bound_shares() -> Result<(), Failure> {
    for (file, most) in SHARES {
        let file = format!("/proc/sys/user/{file}");
        match fs::write(&file, most) {
            // A kernel without the thing, or before it counted it; or a container that closes that part of /proc. A weaker level would
            // bound nothing of it either.
            Err(why) if PASSED.contains(&why.kind()) => {}
            written => written.map_err(|why| refused(&file, &why))?,
        }
    }
    Ok(())
}

fn refused(file: &str, why: &io::Error) -> Failure {
    let errno = Errno::from_raw(why.raw_os_error().unwrap_or_default());
    Failure::by(format!("write {file}"), errno)
}
