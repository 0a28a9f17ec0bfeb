//! What the filters answer, by running their instructions as the kernel does.

use super::*;

const THIS: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
const I386: u32 = 0x4000_0003;

/// What one filter answers to a call.
fn answer(program: &[sock_filter], call: &[u8; 64]) -> u32 {
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at].clone();
        at += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            LOAD_WORD => {
                let from = k as usize;
                accumulator = u32::from_le_bytes(call[from..from + 4].try_into().expect("four bytes"));
            }
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => at += jump(accumulator == k),
            0x25 => at += jump(accumulator > k),
            JUMP_IF_AT_LEAST => at += jump(accumulator >= k),
            RETURN => return k,
            other => panic!("an instruction {other:#x}"),
        }
    }
}

/// What a call of a program that listens at nothing is answered with; `None`: it is made.
fn refusal(level: Level, architecture: u32, number: i64, arguments: &[u64]) -> Option<u32> {
    answered((level, Listener::None), architecture, number, arguments)
}

/// The same of any program.
fn answered((level, listener): (Level, Listener), architecture: u32, number: i64, arguments: &[u64]) -> Option<u32> {
    let mut call = [0; 64];
    call[..4].copy_from_slice(&u32::try_from(number).expect("a number").to_le_bytes());
    call[4..8].copy_from_slice(&architecture.to_le_bytes());
    for (place, argument) in arguments.iter().enumerate() {
        call[16 + 8 * place..24 + 8 * place].copy_from_slice(&argument.to_le_bytes());
    }
    let programs = filter(level, listener).expect("of this architecture");
    let mut answers = programs.iter().map(|program| answer(program, &call)).filter(|it| *it != libc::SECCOMP_RET_ALLOW);
    let first = answers.next()?;
    assert_eq!(answers.next(), None, "two filters refuse {number}");
    Some(first)
}

#[track_caller]
fn refuses(level: Level, errno: libc::c_int, number: i64, arguments: &[u64]) {
    let expected = libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
    assert_eq!(refusal(level, THIS, number, arguments), Some(expected), "{number} {arguments:x?}, {level:?}");
}

#[track_caller]
fn allows(level: Level, number: i64, arguments: &[u64]) {
    assert_eq!(refusal(level, THIS, number, arguments), None, "{number} {arguments:x?}, {level:?}");
}

const ENCLOSED: [Level; 3] = [Level::Account, Level::Landlock, Level::Namespaces];

fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> [u64; 3] {
    [value(family), value(kind | libc::SOCK_CLOEXEC), value(protocol)]
}

#[test]
fn what_leads_out_is_refused_whatever_its_arguments() {
    for level in ENCLOSED {
        for number in REFUSED {
            refuses(level, libc::EPERM, *number, &[]);
            refuses(level, libc::EPERM, *number, &[u64::MAX; 6]);
        }
        for number in [libc::SYS_clone3, libc::SYS_openat2] {
            refuses(level, libc::ENOSYS, number, &[]);
            refuses(level, libc::ENOSYS, number, &[0x1000, 88, 0x2000, 24]);
        }
    }
}

#[test]
fn what_programs_do_all_day_is_allowed() {
    let everyday = [
        libc::SYS_read,
        libc::SYS_openat,
        libc::SYS_execve,
        libc::SYS_exit_group,
        libc::SYS_futex,
        libc::SYS_wait4,
        libc::SYS_connect,
        libc::SYS_accept4,
        libc::SYS_memfd_create,
        libc::SYS_kill,
        libc::SYS_seccomp,
        libc::SYS_landlock_restrict_self,
    ];
    for level in ENCLOSED {
        everyday.into_iter().for_each(|number| allows(level, number, &[3, 0x1000, 4_096]));
        // A thread, a child, and a child of vfork.
        for flags in [0x003d_0f00, value(libc::SIGCHLD), value(libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD)] {
            allows(level, libc::SYS_clone, &[flags]);
        }
        allows(level, libc::SYS_unshare, &[value(libc::CLONE_FS | libc::CLONE_FILES)]);
        // TCGETS, and what is no request of terminals.
        for request in [0x5401, 0x5421] {
            allows(level, libc::SYS_ioctl, &[0, request]);
        }
    }
}

#[test]
fn namespaces_and_typing_are_refused_among_other_flags_and_with_bits_that_the_kernel_does_not_read() {
    for level in ENCLOSED {
        for flag in NAMESPACES {
            refuses(level, libc::EPERM, libc::SYS_clone, &[value(flag | libc::SIGCHLD)]);
            refuses(level, libc::EPERM, libc::SYS_unshare, &[value(flag | libc::CLONE_FS) | 1 << 40]);
        }
        refuses(level, libc::EPERM, libc::SYS_unshare, &[value(libc::CLONE_NEWTIME)]);
        for request in TYPING {
            refuses(level, libc::EPERM, libc::SYS_ioctl, &[0, request]);
            refuses(level, libc::EPERM, libc::SYS_ioctl, &[0, request | 1 << 32]);
        }
    }
}

#[test]
fn no_file_is_made_that_acts_as_the_account_for_whoever_executes_it() {
    let (made, plain) = (value(libc::O_CREAT | libc::O_WRONLY), value(libc::O_RDONLY));
    for level in ENCLOSED {
        for bit in [0o4755, 0o2755, 0o6700] {
            refuses(level, libc::EPERM, libc::SYS_fchmod, &[0, bit]);
            refuses(level, libc::EPERM, libc::SYS_fchmodat, &[0, 0, bit]);
            refuses(level, libc::EPERM, FCHMODAT2, &[0, 0, bit]);
            refuses(level, libc::EPERM, libc::SYS_mknodat, &[0, 0, bit]);
            refuses(level, libc::EPERM, libc::SYS_openat, &[0, 0, made, bit]);
            // Made without a name, which `linkat` gives it later. The kernel looks at one bit of the flag first.
            for flag in [libc::O_TMPFILE, libc::O_TMPFILE & !libc::O_DIRECTORY] {
                refuses(level, libc::EPERM, libc::SYS_openat, &[0, 0, value(flag | libc::O_RDWR), bit]);
            }
            // Without a file that is made there is no mode, whatever stands in its place.
            allows(level, libc::SYS_openat, &[0, 0, plain, bit]);
            allows(level, libc::SYS_openat, &[0, 0, value(libc::O_DIRECTORY), bit]);
            let older: &[(i64, [u64; 3])] = &[
                #[cfg(target_arch = "x86_64")]
                (libc::SYS_open, [0, made, bit]),
                #[cfg(target_arch = "x86_64")]
                (libc::SYS_open, [0, value(libc::O_TMPFILE | libc::O_RDWR), bit]),
                #[cfg(target_arch = "x86_64")]
                (libc::SYS_creat, [0, bit, 0]),
                #[cfg(target_arch = "x86_64")]
                (libc::SYS_chmod, [0, bit, 0]),
                #[cfg(target_arch = "x86_64")]
                (libc::SYS_mknod, [0, bit, 0]),
            ];
            for (number, arguments) in older {
                refuses(level, libc::EPERM, *number, arguments);
            }
        }
        for mode in [0o755, 0o1777] {
            allows(level, libc::SYS_fchmod, &[0, mode]);
            allows(level, libc::SYS_openat, &[0, 0, made, mode]);
            allows(level, libc::SYS_openat, &[0, 0, value(libc::O_TMPFILE | libc::O_RDWR), mode]);
        }
    }
    refuses(Level::Landlock, libc::EPERM, libc::SYS_prlimit64, &[1, 0]);
    allows(Level::Landlock, libc::SYS_prlimit64, &[0, 0]);
    allows(Level::Namespaces, libc::SYS_prlimit64, &[1, 0]);
}

#[test]
fn beside_landlock_a_program_schedules_itself_and_nobody_else() {
    let (pid, all) = (4_711, u64::MAX);
    for number in SCHEDULING {
        for other in [pid, all, pid | 1 << 32] {
            refuses(Level::Landlock, libc::EPERM, number, &[other, 8, 0x1000]);
        }
        // The upper half is none of the number's.
        for itself in [0, 1 << 32] {
            allows(Level::Landlock, number, &[itself, 8, 0x1000]);
        }
    }
    for (number, process) in PRIORITIES {
        allows(Level::Landlock, number, &[process, 0, 10]);
        refuses(Level::Landlock, libc::EPERM, number, &[process, pid, 10]);
        // A group of processes, and all of an account: 0 is the program's own there, which others are of too.
        for (kind, whose) in [(process + 1, 0), (process + 2, 0), (process + 1, pid), (process + 2, pid)] {
            refuses(Level::Landlock, libc::EPERM, number, &[kind, whose, 10]);
        }
    }
    for level in [Level::Account, Level::Namespaces] {
        SCHEDULING.into_iter().for_each(|number| allows(level, number, &[pid, 8, 0x1000]));
        PRIORITIES.into_iter().for_each(|(number, process)| allows(level, number, &[process, pid, 10]));
    }
}

#[test]
fn beside_landlock_nobody_listens_at_a_port_that_nobody_asked_for() {
    let listens = |level, listener| answered((level, listener), THIS, libc::SYS_listen, &[3, 128]);
    let errno = |errno: libc::c_int| Some(libc::SECCOMP_RET_ERRNO | errno.unsigned_abs());
    assert_eq!(listens(Level::Landlock, Listener::None), errno(libc::EPERM));
    assert_eq!(listens(Level::Landlock, Listener::Handed), errno(DONE), "it listens already");
    assert_eq!(listens(Level::Landlock, Listener::Own), None, "its port is told from others by nobody");
    for listener in [Listener::None, Listener::Handed, Listener::Own] {
        for level in [Level::Account, Level::Namespaces] {
            assert_eq!(listens(level, listener), None, "{level:?}, {listener:?}");
        }
    }
}

#[test]
fn among_others_a_program_has_nothing_of_system_v_by_name_or_by_number() {
    for number in SYSTEM_V {
        for arguments in [[0; 6], [7, 0x1000, 64, 0, 0, 0]] {
            refuses(Level::Account, libc::EPERM, number, &arguments);
            refuses(Level::Landlock, libc::EPERM, number, &arguments);
            // There they are its own.
            allows(Level::Namespaces, number, &arguments);
        }
    }
}

#[test]
fn sockets_are_of_the_families_that_are_enclosed() {
    for level in ENCLOSED {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
            match level {
                Level::Namespaces => allows(level, libc::SYS_socket, &socket(libc::AF_UNIX, kind, 0)),
                _ => refuses(level, libc::EAFNOSUPPORT, libc::SYS_socket, &socket(libc::AF_UNIX, kind, 0)),
            }
        }
        for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
            allows(level, libc::SYS_socketpair, &socket(libc::AF_UNIX, kind | libc::SOCK_NONBLOCK, 0));
        }
        // An end of such a pair is connected anew, to a socket of somebody else.
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            let pair = socket(libc::AF_UNIX, kind | libc::SOCK_NONBLOCK, 0);
            match level {
                Level::Namespaces => allows(level, libc::SYS_socketpair, &pair),
                _ => refuses(level, libc::EAFNOSUPPORT, libc::SYS_socketpair, &pair),
            }
        }
        for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, libc::AF_BLUETOOTH, libc::AF_UNSPEC] {
            refuses(level, libc::EAFNOSUPPORT, libc::SYS_socket, &socket(family, libc::SOCK_STREAM, 0));
            refuses(level, libc::EAFNOSUPPORT, libc::SYS_socketpair, &socket(family, libc::SOCK_STREAM, 0));
        }
        for family in [libc::AF_INET, libc::AF_INET6] {
            for protocol in [0, libc::IPPROTO_TCP] {
                allows(level, libc::SYS_socket, &socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, protocol));
            }
            for protocol in [libc::IPPROTO_SCTP, 262] {
                refuses(level, libc::EAFNOSUPPORT, libc::SYS_socket, &socket(family, libc::SOCK_STREAM, protocol));
            }
            for kind in [libc::SOCK_RAW, libc::SOCK_SEQPACKET, 10] {
                refuses(level, libc::EAFNOSUPPORT, libc::SYS_socket, &socket(family, kind, 0));
            }
        }
        let audit = socket(libc::AF_NETLINK, libc::SOCK_RAW, 9);
        refuses(level, libc::EAFNOSUPPORT, libc::SYS_socket, &audit);
    }
}

#[test]
fn without_a_network_of_its_own_a_program_has_no_udp_no_netlink_and_no_fast_open() {
    let datagram = socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
    let routes = socket(libc::AF_NETLINK, libc::SOCK_RAW, 0);
    let among_others = [Level::Account, Level::Landlock];
    for call in [datagram, routes] {
        allows(Level::Namespaces, libc::SYS_socket, &call);
        for level in among_others {
            refuses(level, libc::EAFNOSUPPORT, libc::SYS_socket, &call);
        }
    }
    for (number, place) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        let mut arguments = [0; 6];
        arguments[place] = value(libc::MSG_NOSIGNAL);
        for level in among_others {
            allows(level, number, &arguments);
        }
        arguments[place] |= value(libc::MSG_FASTOPEN);
        for level in among_others {
            refuses(level, libc::EPERM, number, &arguments);
        }
        allows(Level::Namespaces, number, &arguments);
    }
}

#[test]
fn calls_under_other_numbers_are_no_way_around() {
    for level in ENCLOSED {
        if cfg!(target_arch = "x86_64") {
            let hidden = i64::from(X32) + libc::SYS_getpid;
            refuses(level, libc::ENOSYS, hidden, &[]);
        }
        assert_eq!(refusal_of_i386(level), [libc::SECCOMP_RET_KILL_PROCESS; 3]);
    }
}

/// What the filters answer that know an architecture.
fn refusal_of_i386(level: Level) -> Vec<u32> {
    let mut call = [0; 64];
    call[4..8].copy_from_slice(&I386.to_le_bytes());
    let programs = filter(level, Listener::None).expect("of this architecture");
    programs.iter().take(3).map(|program| answer(program, &call)).collect()
}

#[test]
fn whoever_is_not_enclosed_has_no_filter() {
    assert!(filter(Level::None, Listener::None).expect("of this architecture").is_empty());
}

#[test]
fn the_kernel_tells_of_what_names_a_file_or_a_host_and_of_nothing_else() {
    let answered = |architecture: u32, number: i64| {
        let mut call = [0; 64];
        call[..4].copy_from_slice(&u32::try_from(number).expect("a number").to_le_bytes());
        call[4..8].copy_from_slice(&architecture.to_le_bytes());
        answer(&notify_filter(), &call)
    };
    for number in TOLD {
        assert_eq!(answered(THIS, *number), libc::SECCOMP_RET_USER_NOTIF, "{number}");
        assert_eq!(answered(I386, *number), libc::SECCOMP_RET_ALLOW, "{number} of another architecture");
    }
    let rest = (0..500).filter(|number| !TOLD.contains(number));
    rest.for_each(|number| assert_eq!(answered(THIS, number), libc::SECCOMP_RET_ALLOW, "{number}"));
    // The filters that refuse hold over it (seccomp(2): the least of the answers' numbers, as signed ones).
    let signed = |answer: u32| answer.cast_signed();
    assert!(signed(libc::SECCOMP_RET_ERRNO) < signed(libc::SECCOMP_RET_USER_NOTIF));
}
