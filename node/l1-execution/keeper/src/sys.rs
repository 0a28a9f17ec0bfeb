//! The system calls that no safe library has: the only unsafe code of the workspace.
#![expect(
    unsafe_code,
    reason = "fork, descriptors that arrive as numbers, and scheduling classes: no safe library has them"
)]

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use nix::sched::CloneFlags;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::Pid;

/// fork(2), with new namespaces for the child; none in the child. Only for a process with a single thread.
///
/// # Errors
/// Those of clone(2).
pub fn fork(namespaces: CloneFlags) -> nix::Result<Option<Pid>> {
    let flags = libc::c_long::from(namespaces.bits() | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with no stack of its own the child is a copy of this process, as after fork(2). The
    // process has a single thread, so no lock is held by a thread that the child lacks.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    let child = Errno::result(child)?;
    Ok((child != 0).then(|| Pid::from_raw(i32::try_from(child).unwrap_or(i32::MAX))))
}

/// Owns a descriptor that arrived as a number.
pub(crate) fn own(arrived: RawFd) -> OwnedFd {
    // SAFETY: the kernel made the descriptor for this process when it delivered the message, and nothing else has its number.
    unsafe { OwnedFd::from_raw_fd(arrived) }
}

/// Makes a descriptor the one of that number, which stays open in a program that is executed.
pub(crate) fn place(descriptor: &OwnedFd, number: RawFd) -> nix::Result<()> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: dup2 has no precondition; whatever had the number is closed, and nobody in this process owns it.
    let placed = unsafe { libc::dup2(descriptor.as_raw_fd(), number) };
    Errno::result(placed).map(drop)
}

/// Closes every descriptor from that number on when a program is executed.
pub(crate) fn close_at_exec(first: RawFd) -> nix::Result<()> {
    // SAFETY: no descriptor is closed now, so whatever owns one keeps it.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Errno::result(done).map(drop)
}

/// Lets signals do again what they do to a new program.
pub(crate) fn default_signals() {
    for which in Signal::iterator() {
        // SAFETY: no handler is installed, so nothing can be called from one. The two that cannot be set stay as they are.
        let _ = unsafe { signal(which, SigHandler::SigDfl) };
    }
}

/// Puts this process into the idle class of the scheduler, or where it may not, behind all others of its class.
pub(crate) fn run_idle() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is valid for the call, and 0 is this process.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) };
    if done != 0 {
        // SAFETY: no precondition. An error leaves it where it is: it may always become nicer.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    }
}

/// The same descriptor with a number that no program is handed, closed when one is executed.
pub(crate) fn raise(descriptor: &OwnedFd) -> nix::Result<OwnedFd> {
    use std::os::fd::AsFd as _;
    nix::fcntl::fcntl(descriptor.as_fd(), nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(FREE_FROM)).map(own)
}

/// The first number that no program is handed.
const FREE_FROM: RawFd = 16;
