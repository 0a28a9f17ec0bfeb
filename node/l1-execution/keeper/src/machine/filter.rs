//! Which system calls an enclosed program may not make.
//!
//! **Input**: the level, and at what the program listens. **Output**: programs of the kernel's filter (seccomp), all of which are installed: each of
//! them can answer with one error. And one that refuses nothing: it has the kernel tell of what a program tries.
//!
//! **Invariants**
//! - What is refused is answered with an error that programs know; nothing is killed but what calls the kernel as a
//!   program of another architecture (of 32 bits), whose numbers mean something else. One call is answered as done, where it is
//!   ([`Listener::Handed`]).
//! - A number that is not in the lists is allowed: the filter takes away what leads out of an enclosure, or what few
//!   programs need and many holes of kernels were in.
//!
//! **Never knows**: which program it is for.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::job::{Level, Listener};

/// Refused with `EPERM`, as to whoever lacks a privilege.
const REFUSED: &[i64] = &[
    // -- other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_perf_event_open,
    // -- keys of the account
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // -- mounts and namespaces
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    // -- files by other ways than their paths
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // -- the kernel
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    // -- the machine
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// `fchmodat2` of Linux 6.6, under one number on all architectures.
const FCHMODAT2: i64 = 452;
/// `open_tree_attr` of Linux 6.15, which libc does not name; the number is the same on all architectures.
const OPEN_TREE_ATTR: i64 = 467;

/// Flags of `clone` and `unshare` that make namespaces: in one of its own, a program has every capability.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Bits of a file's mode that have whoever executes it act as the account, from outside of the enclosure too.
const SET_ID: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];
/// Flags of `open` and `openat` with which a file is made, and its mode looked at: with a name, or without one until `linkat` gives
/// it one (`__O_TMPFILE`, without the bit for folders that comes with it).
const MAKING: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
/// Calls that give a file its mode: where the flags are, if these must say that it is made, and where the mode is. Of folders
/// (`mkdir`) the kernel takes no such bit; the modes of sockets, queues and memory files (`bind`, `mq_open`, `memfd_create`) come
/// from `fchmod`, or make nothing that is executed; and `openat2` is [`ABSENT`].
const MODES: &[(i64, Option<u8>, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, None, 1),
    (libc::SYS_fchmod, None, 1),
    (libc::SYS_fchmodat, None, 2),
    (FCHMODAT2, None, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, None, 1),
    (libc::SYS_mknodat, None, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, None, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Some(1), 2),
    (libc::SYS_openat, Some(2), 3),
];

/// Calls that are answered with `ENOSYS`, as by a kernel that does not have them, since a filter does not see what their pointers
/// lead to: the flags of `clone3`, which make namespaces, and the mode of `openat2`, which may be that of a file as above. Whoever
/// makes these calls has to do without on kernels before 5.3 and 5.6, and makes `clone` and `openat` then: the C libraries and the
/// standard libraries of Go and Rust open files by `openat` anyway, and what prefers `openat2` goes on to it after this error.
const ABSENT: [i64; 2] = [libc::SYS_clone3, libc::SYS_openat2];

/// The answer to a call that is not made since what it asks for is so: no error.
const DONE: libc::c_int = 0;

/// Requests of `ioctl` that type for the person at the terminal (`TIOCSTI`, `TIOCLINUX`).
const TYPING: [u64; 2] = [0x5412, 0x541c];

/// The bits of a socket's type that are no flags.
const SOCKET_TYPE: u64 = 0xf;
/// Types of IPv4 and IPv6 sockets that are neither streams nor datagrams; the last is `SOCK_PACKET`.
const OTHER_TYPES: [u64; 5] =
    [value(libc::SOCK_RAW), value(libc::SOCK_RDM), value(libc::SOCK_SEQPACKET), value(libc::SOCK_DCCP), 10];

/// The calls of which the kernel tells: those that name a file or a host.
const TOLD: &[i64] = &[
    libc::SYS_openat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_connect,
];

/// Memory, queues and semaphores that System V brought: they are the machine's, and who knows a number needs no name.
const SYSTEM_V: [i64; 11] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
];
/// Calls that say which processors and what share of them another process or thread has, by its number as the first argument; 0 is
/// whoever calls. A library that sets that of a thread it has begun, by the thread's number, is refused too: a filter does not know
/// whose number it is.
const SCHEDULING: [i64; 4] =
    [libc::SYS_sched_setaffinity, libc::SYS_sched_setattr, libc::SYS_sched_setparam, libc::SYS_sched_setscheduler];
/// The same, of what the first argument says (a process, a group of them, all of an account), by its number as the second; with what
/// says there that it is a process (`PRIO_PROCESS`, `IOPRIO_WHO_PROCESS`).
const PRIORITIES: [(i64, u64); 2] = [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// The architecture, as the kernel numbers them (linux/audit.h): x86-64, or aarch64.
const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };

/// The first number of the calls of x32: the same calls under other numbers, with the architecture of x86-64.
const X32: u32 = 0x4000_0000;
// Instructions of the filter, as linux/bpf_common.h composes them.
const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// The filter of a level, for a program that listens at that; empty for [`Level::None`].
///
/// # Errors
/// The architecture is neither x86-64 nor aarch64.
pub fn filter(level: Level, listener: Listener) -> Result<Vec<BpfProgram>, BackendError> {
    if level == Level::None {
        return Ok(Vec::new());
    }
    let sockets = BTreeMap::from([(libc::SYS_socket, sockets(level)?), (libc::SYS_socketpair, pairs(level)?)]);
    let absent = ABSENT.into_iter().map(|number| (number, Vec::new())).collect();
    let mut programs = vec![
        compiled(refused(level, listener)?, libc::EPERM)?,
        compiled(sockets, libc::EAFNOSUPPORT)?,
        compiled(absent, libc::ENOSYS)?,
    ];
    if level == Level::Landlock && listener == Listener::Handed {
        // Libraries ask a socket that they are given to listen, and this one does. Another one would be given a free port.
        programs.push(compiled(BTreeMap::from([(libc::SYS_listen, Vec::new())]), DONE)?);
    }
    if cfg!(target_arch = "x86_64") {
        programs.push(without_x32());
    }
    Ok(programs)
}

fn compiled(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let target = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, answer, target)?.try_into()
}

/// What is refused as a privilege is.
fn refused(level: Level, listener: Listener) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    let has = |flag: libc::c_int| rule(vec![argument(0, MaskedEq(value(flag)), value(flag))]);
    let namespaces: Vec<SeccompRule> = NAMESPACES.into_iter().map(has).collect::<Result<_, _>>()?;
    let mut unshared = namespaces.clone();
    // In `clone` this bit belongs to the signal.
    unshared.push(has(libc::CLONE_NEWTIME)?);
    rules.insert(libc::SYS_clone, namespaces);
    rules.insert(libc::SYS_unshare, unshared);
    for (number, made, mode) in MODES {
        rules.insert(*number, set_id(*made, *mode)?);
    }
    let typing = TYPING.into_iter().map(|request| rule(vec![argument(1, Eq, request)]));
    rules.insert(libc::SYS_ioctl, typing.collect::<Result<_, _>>()?);
    if level != Level::Namespaces {
        // Landlock asks who connects, and this connects without asking.
        let flag = value(libc::MSG_FASTOPEN);
        for (number, place) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            rules.insert(number, vec![rule(vec![argument(place, MaskedEq(flag), flag)])?]);
        }
        // The limits of other processes end them, which Landlock does not know as a signal.
        rules.insert(libc::SYS_prlimit64, vec![rule(vec![argument(0, Ne, 0)])?]);
        // Of these it knows nothing.
        rules.extend(SYSTEM_V.map(|number| (number, Vec::new())));
    }
    if level == Level::Landlock {
        if listener == Listener::None {
            // It asks who binds a port, and who listens without that is given a free one, of all addresses.
            rules.insert(libc::SYS_listen, Vec::new());
        }
        // Nor of these. Where an account is the program's own, it has no other processes.
        for number in SCHEDULING {
            rules.insert(number, vec![rule(vec![argument(0, Ne, 0)])?]);
        }
        for (number, process) in PRIORITIES {
            // Its group is its keeper's, and its account the node's.
            rules.insert(number, vec![rule(vec![argument(0, Ne, process)])?, rule(vec![argument(1, Ne, 0)])?]);
        }
    }
    Ok(rules)
}

/// The rules of a call that would give a file one of [`SET_ID`], by the places of its flags, if it has any, and of its mode.
fn set_id(made: Option<u8>, mode: u8) -> Result<Vec<SeccompRule>, BackendError> {
    let has = |bit: u64| argument(mode, MaskedEq(bit), bit);
    let mut rules = Vec::new();
    for bit in SET_ID.map(u64::from) {
        match made {
            None => rules.push(rule(vec![has(bit)])?),
            Some(place) => {
                for flag in MAKING.map(value) {
                    rules.push(rule(vec![argument(place, MaskedEq(flag), flag), has(bit)])?);
                }
            }
        }
    }
    Ok(rules)
}

/// Which sockets are refused: all but TCP and UDP over IPv4 and IPv6. With files and a network of its own a program has also Unix
/// sockets, and may ask for its addresses (netlink, the protocol of routes); without, it has no UDP, of which Landlock knows
/// nothing, and could connect to every Unix socket of the account, which Landlock does not keep it from before Linux 7.1.
fn sockets(level: Level) -> Result<Vec<SeccompRule>, BackendError> {
    let of_its_own = level == Level::Namespaces;
    let mut families = vec![libc::AF_INET, libc::AF_INET6];
    if of_its_own {
        families.extend([libc::AF_NETLINK, libc::AF_UNIX]);
    }
    let mut rules = vec![rule(families.into_iter().map(|family| argument(0, Ne, value(family))).collect())?];
    rules.push(rule(vec![argument(0, Eq, value(libc::AF_NETLINK)), argument(2, Ne, 0)])?);
    let datagrams = (!of_its_own).then_some(value(libc::SOCK_DGRAM));
    for family in [libc::AF_INET, libc::AF_INET6].map(value) {
        for kind in OTHER_TYPES.into_iter().chain(datagrams) {
            rules.push(rule(vec![argument(0, Eq, family), argument(1, MaskedEq(SOCKET_TYPE), kind)])?);
        }
        // Multipath TCP, for one, is a stream that Landlock does not take for TCP.
        let protocols = [0, value(libc::IPPROTO_TCP), value(libc::IPPROTO_UDP)];
        let others = protocols.into_iter().map(|protocol| argument(2, Ne, protocol));
        rules.push(rule([argument(0, Eq, family)].into_iter().chain(others).collect())?);
    }
    Ok(rules)
}

/// Pairs are Unix sockets. Where a program makes no others, it has no pairs of datagrams either (the kernel takes raw ones for
/// those): each end can be connected anew, to every Unix socket of the account.
fn pairs(level: Level) -> Result<Vec<SeccompRule>, BackendError> {
    let mut rules = vec![rule(vec![argument(0, Ne, value(libc::AF_UNIX))])?];
    if level != Level::Namespaces {
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW].map(value) {
            rules.push(rule(vec![argument(1, MaskedEq(SOCKET_TYPE), kind)])?);
        }
    }
    Ok(rules)
}

/// All conditions at once.
fn rule(conditions: Vec<Result<SeccompCondition, BackendError>>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

/// A condition of an argument, by its place. The kernel reads 32 bits of each of those that are asked here.
fn argument(place: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(place, SeccompCmpArgLen::Dword, operator, value)
}

/// A constant of libc, none of which is negative here.
const fn value(constant: libc::c_int) -> u64 {
    constant.unsigned_abs() as u64
}

/// The filter by which the kernel tells of a program's calls: it waits for an answer to each of them, and allows the rest.
/// A filter that refuses a call holds over it: what is refused is not told.
#[must_use]
pub fn notify_filter() -> BpfProgram {
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let calls = u8::try_from(TOLD.len()).expect("they are few");
    // Where a filter finds the architecture, and the number.
    let mut program = vec![
        instruction(LOAD_WORD, 0, 0, 4),
        instruction(JUMP_IF_EQUAL, 0, calls + 1, ARCHITECTURE),
        instruction(LOAD_WORD, 0, 0, 0),
    ];
    for (left, number) in (1..=calls).rev().zip(TOLD) {
        let number = u32::try_from(*number).expect("the kernel's numbers fit");
        program.push(instruction(JUMP_IF_EQUAL, left, 0, number));
    }
    program.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF));
    program
}

/// Answers every call of x32 with `ENOSYS`, as kernels do that have none.
fn without_x32() -> BpfProgram {
    let instruction = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    vec![
        // The number is the first word of what a filter is given.
        instruction(LOAD_WORD, 0, 0),
        instruction(JUMP_IF_AT_LEAST, 1, X32),
        instruction(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        instruction(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
