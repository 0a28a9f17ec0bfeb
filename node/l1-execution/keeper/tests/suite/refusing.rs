//! What programs are refused is told, and nothing else is.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use althing_keeper::job::{Level, Told};
use althing_keeper::machine::refusals::REFUSALS_MAX;
use althing_keeper::{Access, Lack, Refusal};
use althing_testing::{remedy, skip};

use crate::enclosing::{enclosed, folder, level, without_namespaces};
use crate::support::{Kept, kept, kept_by};

/// What a program of Python tries: a file twice, to write one, a socket, two hosts, and a program.
const TRIES: &str = "
import socket, subprocess, sys
secret, fixed, service, tool = sys.argv[1:]
def tries(what):
    try:
        what()
    except OSError:
        pass
tries(lambda: open(secret))
tries(lambda: open(secret))
tries(lambda: open(fixed).read())
tries(lambda: open(fixed, 'w'))
tries(lambda: socket.socket(socket.AF_UNIX).connect(service))
tries(lambda: socket.create_connection(('192.0.2.1', 443)))
tries(lambda: socket.create_connection(('127.0.0.1', 9)))
tries(lambda: subprocess.run([tool]))
";

/// Connects to a service of the machine, to one of its own, and where nobody listens; reads files by what `/proc` has of itself.
const GOES_AROUND: &str = "
import os, socket, sys
port, secret, hidden = sys.argv[1:]
def tries(what):
    try:
        what()
    except OSError:
        pass
own = socket.create_server(('127.0.0.1', 0))
for each in (int(port), own.getsockname()[1], 1):
    tries(lambda: socket.create_connection(('127.0.0.1', each)))
tries(lambda: open('/proc/self/root' + secret))
tries(lambda: open(f'/proc/{os.getpid()}/cwd/' + os.path.relpath(hidden)))
";

/// Whether the kernel tells of calls; if not, a word about it.
fn is_told() -> bool {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let is_told = actions.split_whitespace().any(|action| action == "user_notif");
    if !is_told {
        skip("this kernel does not tell a keeper of calls", remedy::KERNEL);
    }
    is_told
}

/// What a program was refused until it ended, and whether there was more.
fn refused(kept: &mut Kept) -> (Vec<Refusal>, usize) {
    let (mut refused, mut more) = (Vec::new(), 0);
    loop {
        match kept.told() {
            Told::Refused(refusal) => refused.push(refusal),
            Told::MoreRefused => more += 1,
            Told::Ended { .. } => return (refused, more),
            told => panic!("{told:?}"),
        }
    }
}

fn file(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, "#!/bin/sh\n").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn of(access: Access, path: &Path, lack: Lack) -> Refusal {
    Refusal { access, path: text(path), lack }
}

#[test]
fn a_program_with_a_root_of_its_own_has_its_refusals_named() {
    let (own, shown, other) = (folder(), folder(), folder());
    let [shown, other] = [shown.path(), other.path()].map(|path| path.canonicalize().expect("it is there"));
    let (secret, fixed, tool) = (file(&other, "secret"), file(&shown, "fixed"), file(&other, "tool"));
    let service = other.join("service");
    let _listener = UnixListener::bind(&service).expect("a socket");
    let paths = [&secret, &fixed, &service, &tool].map(|path| text(path));
    let mut words = vec!["/usr/bin/python3", "-c", TRIES];
    words.extend(paths.iter().map(String::as_str));
    let mut job = enclosed(&words, own.path());
    job.enclosure.as_mut().expect("it is enclosed").grants.read.push(shown.clone());
    let mut kept = kept(&job);
    if level(&mut kept, Level::Namespaces).is_none() || !is_told() {
        return;
    }
    let (mut refused, more) = refused(&mut kept);
    // What Python itself lacks is the machine's matter.
    let ours = |path: &str| [&shown, &other].iter().any(|folder| Path::new(path).starts_with(folder));
    refused.retain(|refusal| ours(&refusal.path) || refusal.path.contains(':'));
    let expected = [
        of(Access::Read, &secret, Lack::Read),
        of(Access::Write, &fixed, Lack::Write),
        of(Access::Connect, &service, Lack::Write),
        of(Access::Connect, Path::new("192.0.2.1:443"), Lack::Proxy),
        of(Access::Execute, &tool, Lack::Read),
    ];
    assert_eq!((refused.as_slice(), more), (expected.as_slice(), 0));
}

#[test]
fn a_program_that_goes_around_is_named_as_well() {
    let (own, other) = (folder(), folder());
    let other = other.path().canonicalize().expect("it is there");
    let (secret, hidden) = (file(&other, "secret"), file(&other, "hidden"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let service = listener.local_addr().expect("it listens");
    let (port, paths) = (service.port().to_string(), [&secret, &hidden].map(|path| text(path)));
    let words = ["/usr/bin/python3", "-c", GOES_AROUND, port.as_str(), paths[0].as_str(), paths[1].as_str()];
    let mut kept = kept(&enclosed(&words, own.path()));
    if level(&mut kept, Level::Namespaces).is_none() || !is_told() {
        return;
    }
    let (mut refused, _) = refused(&mut kept);
    refused.retain(|refusal| Path::new(&refusal.path).starts_with(&other) || refusal.path.contains(':'));
    let expected = [
        Refusal { access: Access::Connect, path: service.to_string(), lack: Lack::Service(service.to_string()) },
        of(Access::Read, &secret, Lack::Read),
        of(Access::Read, &hidden, Lack::Read),
    ];
    assert_eq!(refused, expected);
}

#[test]
fn a_program_among_the_machines_files_has_its_refusals_named() {
    let (own, shown, other) = (folder(), folder(), folder());
    let [shown, other] = [shown.path(), other.path()].map(|path| path.canonicalize().expect("it is there"));
    let (secret, fixed) = (file(&other, "secret"), file(&shown, "fixed"));
    let says = "cat \"$0\" \"$0\" mine; cat \"$1\"; echo w >\"$1\"; echo w >>made; :";
    fs::write(own.path().join("mine"), "").expect("a file");
    let mut job = enclosed(&["sh", "-c", says, &text(&secret), &text(&fixed)], own.path());
    job.enclosure.as_mut().expect("it is enclosed").grants.read.push(shown.clone());
    let mut kept = kept_by(&job, &mut without_namespaces());
    if level(&mut kept, Level::Landlock).is_none() || !is_told() {
        return;
    }
    let (mut refused, more) = refused(&mut kept);
    refused.retain(|refusal| [&shown, &other].iter().any(|folder| Path::new(&refusal.path).starts_with(folder)));
    let expected = [of(Access::Read, &secret, Lack::Read), of(Access::Write, &fixed, Lack::Write)];
    assert_eq!((refused.as_slice(), more), (expected.as_slice(), 0));
    assert!(own.path().join("made").exists(), "what is granted goes on");
}

#[test]
fn a_program_that_is_refused_very_much_is_told_of_in_bounds_and_runs_on() {
    let (own, other) = (folder(), folder());
    let count = REFUSALS_MAX + 10;
    for n in 0..count {
        file(other.path(), &n.to_string());
    }
    let says = format!("n=0; while [ $n -lt {count} ]; do read line <\"$0/$n\"; n=$((n + 1)); done; echo $n");
    let mut kept = kept(&enclosed(&["sh", "-c", &says, &text(other.path())], own.path()));
    if level(&mut kept, Level::Namespaces).is_none() || !is_told() {
        return;
    }
    assert_eq!(kept.line(), count.to_string());
    let (refused, more) = refused(&mut kept);
    assert_eq!((refused.len(), more), (REFUSALS_MAX, 1));
}
