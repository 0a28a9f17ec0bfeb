//! What one program takes of what the kernel counts for the whole account keeps no other program from starting.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use althing_keeper::NAME;
use althing_keeper::job::{Job, Level, Limits, Told};
use althing_testing::{remedy, skip};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;

use crate::enclosing::{enclosed, level};
use crate::support::{KEEPER, kept_by};

/// Of this test alone: others that hand descriptors over would be refused meanwhile.
const ACCOUNT: &str = "65533";
/// How many files a program has open at once, as a node's programs do.
const FILES: u32 = 4_096;
/// Descriptors of one message.
const AT_ONCE: u64 = 253;
/// Sends itself descriptors, and takes none, until it may send no more; says how many, and why it stopped, and stays.
const SENDS: &str = "import array, errno, resource, signal, socket
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
here, there = socket.socketpair()
some = array.array('i', [0] * 253)
count, why = 0, 'nothing'
try:
    while count < 8192:
        here.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, some)])
        count += len(some)
except OSError as error:
    why = errno.errorcode[error.errno]
print(count, why, flush=True)
signal.pause()
";

#[test]
fn a_program_that_has_all_that_it_may_under_way_keeps_no_other_from_starting() {
    if !geteuid().is_root() {
        return skip("this takes an account of its own", remedy::ROOT);
    }
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    if most <= u64::from(FILES) + AT_ONCE {
        return skip(&format!("this account has at most {most} files open, as few as a program"), remedy::ROOT);
    }
    let own = tempfile::tempdir().expect("a folder");
    let (keeper, work) = (own.path().join(NAME), own.path().join("work"));
    // Not by this process: what another thread starts meanwhile would have the copy open for writing.
    assert!(Command::new("cp").arg(KEEPER).arg(&keeper).status().expect("it runs").success());
    fs::create_dir(&work).expect("a folder");
    let job = |words: &[&str]| {
        let limits = Limits { files: FILES, ..Limits::default() };
        Job { limits, ..enclosed(words, &work) }
    };
    let (greedy, next) = (job(&["/usr/bin/python3", "-c", SENDS]), job(&["true"]));
    for folder in [own.path().to_owned(), work.clone(), work.join("temporary")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("everybody may write");
    }
    let kept = |job: &Job| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", ACCOUNT, "--regid", ACCOUNT, "--clear-groups"]).arg(&keeper);
        kept_by(job, &mut command)
    };
    let mut greedy = kept(&greedy);
    if level(&mut greedy, Level::Namespaces).is_none() {
        return;
    }
    // More than a program has open files, by less than one message.
    assert_eq!(greedy.line(), "4301 ETOOMANYREFS");
    let mut next = kept(&next);
    assert!(level(&mut next, Level::Namespaces).is_some());
    assert_eq!(next.outcome(), Told::Ended { status: 0 });
}
