//! The system calls that nix and std have no safe function for: the only unsafe code of the workspace.

#![expect(unsafe_code, reason = "fork, and calls of the kernel that no library offers")]

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use nix::Result;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sched::CloneFlags;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::unistd::Pid;
use seccompiler::sock_filter;

/// Whoever tells of a call and whoever hears of it wait for each other in turn, so that the one that is woken begins on the processor
/// which the other one leaves: `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` of linux/seccomp.h (Linux 6.6), which libc does not name.
const SYNC_WAKE_UP: libc::c_ulong = 1;
/// The first number that no program is handed.
const FREE_FROM: RawFd = 16;

/// `fork(2)`, or with namespaces `clone(2)` like it; `None` in the child. Only for processes with one thread: in the
/// child there is no other, and what another one had locked stays locked.
///
/// # Errors
/// The system's: of namespaces, `EPERM` where the account may have none, `ENOSPC` where there are too many.
pub fn fork(namespaces: CloneFlags) -> Result<Option<Pid>> {
    let child = if namespaces.is_empty() {
        // SAFETY: the process has one thread, so the child finds all locks as that thread left them.
        libc::c_long::from(unsafe { libc::fork() })
    } else {
        let flags = libc::c_long::from(namespaces.bits() | libc::SIGCHLD);
        let none: libc::c_long = 0;
        // SAFETY: as above. Without a stack the child goes on with a copy of this one, as after fork; the places of
        // thread ids and of thread-local storage are not written, since no flag asks for it.
        unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) }
    };
    let child = Errno::result(child)?;
    let child = libc::pid_t::try_from(child).expect("the kernel's ids of processes fit");
    Ok((child != 0).then(|| Pid::from_raw(child)))
}

/// Ends this process at once, with that exit code: nothing is run that was registered for its end, which a child of
/// [`fork`] has from its parent.
pub fn leave(status: i32) -> ! {
    // SAFETY: it does not return, and nothing of the process runs after it.
    unsafe { libc::_exit(status) }
}

/// A copy of the mount that a descriptor lies in, from there down, with all mounts below; it is attached nowhere.
///
/// # Errors
/// The system's; `ENOSYS` before Linux 5.2.
pub fn tree(source: impl AsFd) -> Result<OwnedFd> {
    let of = (libc::AT_EMPTY_PATH | libc::AT_RECURSIVE).unsigned_abs();
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | of;
    // SAFETY: the path is a string that lives through the call, which returns a new descriptor.
    let tree = unsafe { libc::syscall(libc::SYS_open_tree, source.as_fd().as_raw_fd(), c"".as_ptr(), flags) };
    let tree = RawFd::try_from(Errno::result(tree)?).expect("the kernel's descriptors fit");
    // SAFETY: the descriptor is open, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(tree) })
}

/// Adds attributes (`MOUNT_ATTR_…`) to the mount whose root a descriptor is, and with `below` to all mounts below it;
/// what it has of them stays.
///
/// # Errors
/// The system's; `ENOSYS` before Linux 5.12.
pub fn restrict(mount: impl AsFd, attributes: u64, below: bool) -> Result<()> {
    let added = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = (libc::AT_EMPTY_PATH | if below { libc::AT_RECURSIVE } else { 0 }).unsigned_abs();
    // SAFETY: the kernel reads the string and as many bytes as the struct has, which both live through the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const added,
            size_of::<libc::mount_attr>(),
        )
    };
    Errno::result(answer).map(drop)
}

/// Attaches a [`tree`] over what a descriptor is.
///
/// # Errors
/// The system's; `ENOTDIR` where one is a folder and the other is not.
pub fn attach(tree: impl AsFd, over: impl AsFd) -> Result<()> {
    let (tree, over) = (tree.as_fd().as_raw_fd(), over.as_fd().as_raw_fd());
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: the paths are strings that live through the call.
    let answer = unsafe { libc::syscall(libc::SYS_move_mount, tree, c"".as_ptr(), over, c"".as_ptr(), flags) };
    Errno::result(answer).map(drop)
}

/// Brings up `lo`, with the addresses of loopback.
///
/// # Errors
/// The system's; `EPERM` in a network that is not this process's own.
pub fn raise_loopback() -> Result<()> {
    let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: all of its fields are numbers, which may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the kernel reads the struct, which lives through the call.
    let answer = unsafe { libc::syscall(libc::SYS_ioctl, any.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    Errno::result(answer).map(drop)
}

/// Takes a capability, by its number, out of those that this process and its children may ever have.
///
/// # Errors
/// `EINVAL` where the kernel has no such capability, `EPERM` where this process may not.
pub fn drop_bounding(capability: libc::c_ulong) -> Result<()> {
    let none: libc::c_ulong = 0;
    // SAFETY: it changes nothing but what this process may do.
    Errno::result(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, none, none, none) }).map(drop)
}

/// Takes all capabilities away that this process has, and those that programs which it starts would have.
///
/// # Errors
/// The system's.
pub fn drop_capabilities() -> Result<()> {
    let none: libc::c_ulong = 0;
    let all = libc::PR_CAP_AMBIENT_CLEAR_ALL;
    // SAFETY: it changes nothing but what this process may do.
    Errno::result(unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::c_ulong::from(all.unsigned_abs()), none, none, none)
    })?;
    // The third version of the interface, and this process; then, twice, which are effective, permitted and
    // inheritable.
    let (mut header, sets) = ([0x2008_0522_u32, 0], [0_u32; 6]);
    // SAFETY: the kernel reads, and of the header may write, as many bytes as these arrays have, which live through the
    // call.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()) }).map(drop)
}

/// Owns a descriptor that arrived as a number.
pub fn own(arrived: RawFd) -> OwnedFd {
    // SAFETY: the kernel made the descriptor for this process when it delivered the message, and nothing else has its number.
    unsafe { OwnedFd::from_raw_fd(arrived) }
}

/// Makes a descriptor the one of that number, which stays open in a program that is executed.
pub fn place(descriptor: &OwnedFd, number: RawFd) -> Result<()> {
    // SAFETY: dup2 has no precondition; whatever had the number is closed, and nobody in this process owns it.
    let placed = unsafe { libc::dup2(descriptor.as_raw_fd(), number) };
    Errno::result(placed).map(drop)
}

/// Closes every descriptor from that number on when a program is executed.
pub fn close_at_exec(first: RawFd) -> Result<()> {
    // SAFETY: no descriptor is closed now, so whatever owns one keeps it.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Errno::result(done).map(drop)
}

/// Lets signals do again what they do to a new program.
pub fn default_signals() {
    for which in Signal::iterator() {
        // SAFETY: no handler is installed, so nothing can be called from one. The two that cannot be set stay as they are.
        let _ = unsafe { signal(which, SigHandler::SigDfl) };
    }
}

/// Puts this process into the idle class of the scheduler, or where it may not, behind all others of its class.
pub fn run_idle() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is valid for the call, and 0 is this process.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) };
    if done != 0 {
        // SAFETY: no precondition. An error leaves it where it is: it may always become nicer.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    }
}

/// The same descriptor with a number that no program is handed, closed when one is executed.
pub fn raise(descriptor: &OwnedFd) -> Result<OwnedFd> {
    fcntl(descriptor.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(FREE_FROM)).map(own)
}

/// Closes every descriptor from that number on. Whoever owned one must neither use nor drop it afterwards.
pub fn close_from(first: RawFd) {
    // SAFETY: the caller does not return to what owned them. An error leaves them open.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
}

/// Installs a filter that has the kernel tell of calls (`SECCOMP_RET_USER_NOTIF`), for this process and whatever it becomes
/// and starts; gives what they are told by. Each waits until it is let go on, also if the process gets a signal then.
///
/// # Errors
/// `EINVAL` before Linux 5.19, `EBUSY` where there is such a filter already.
pub fn listen(filter: &[sock_filter]) -> Result<OwnedFd> {
    let len = libc::c_ushort::try_from(filter.len()).map_err(|_| Errno::E2BIG)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut().cast() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the kernel reads the struct, and as many instructions as it says, which both live through the call; the
    // library's type of instructions has the layout of the kernel's.
    let listener =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    let listener = own(RawFd::try_from(Errno::result(listener)?).expect("the kernel's descriptors fit"));
    // SAFETY: the flags come as they are, and no memory is read. An older kernel has no such request, and all is as without it.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
    Ok(listener)
}

/// Takes the next call that is told by a [`listen`]er, which is ready to be read; none if its process is gone.
///
/// # Errors
/// The system's; no call is told any more.
pub fn next_call(listener: impl AsFd) -> Result<Option<libc::seccomp_notif>> {
    // SAFETY: all of its fields are numbers, which may be zero; the kernel wants them to be.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    let listener = listener.as_fd().as_raw_fd();
    // SAFETY: the kernel writes the struct, whose size is a part of the request, and which lives through the call.
    let answer = unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
    match Errno::result(answer) {
        Ok(_) => Ok(Some(call)),
        Err(Errno::ENOENT | Errno::EINTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lets a call go on, whatever it is: the kernel judges it as it judges those that are not told.
///
/// # Errors
/// `ENOENT` if its process is gone.
pub fn let_go(listener: impl AsFd, call: u64) -> Result<()> {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).expect("it is the first bit");
    let answer = libc::seccomp_notif_resp { id: call, val: 0, error: 0, flags };
    let listener = listener.as_fd().as_raw_fd();
    // SAFETY: the kernel reads the struct, whose size is a part of the request, and which lives through the call.
    let done = unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    Errno::result(done).map(drop)
}

/// What the kernel answers to a call, of numbers alone; for tests of what is refused.
#[cfg(test)]
pub fn call(number: libc::c_long, arguments: [libc::c_long; 4]) -> Result<libc::c_long> {
    let [first, second, third, fourth] = arguments;
    // SAFETY: tests make calls that are refused, or whose addresses lead nowhere.
    Errno::result(unsafe { libc::syscall(number, first, second, third, fourth) })
}
