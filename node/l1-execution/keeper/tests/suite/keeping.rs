//! Programs are started, and end with all that they started.

use std::fs;
use std::io::{BufReader, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use althing_keeper::channel::send_job;
use althing_keeper::job::{Bounds, Descriptor, Job, Level, Order, Told};
use althing_keeper::{NAME, order};

use crate::support::{Kept, job, kept, runs};

/// A program that ignores SIGTERM, as its child does, which leaves its session; prints both ids.
const STUBBORN: &str = "trap '' TERM; setsid sleep 300 & echo $$ $!; while :; do wait; done";

fn started() -> Told {
    Told::Started { level: Level::None, why: String::new(), bounds: Bounds::default(), landlock: 0 }
}

#[test]
fn a_program_that_ignores_everything_ends_with_its_children_when_the_node_is_gone() {
    let mut kept = kept(&job(&["sh", "-c", STUBBORN]));
    assert_eq!(kept.told(), started());
    let ids = kept.line();
    assert!(ids.split(' ').all(runs), "{ids}");
    let Kept { mut keeper, channel, told, .. } = kept;
    drop((channel, told));
    keeper.wait().expect("it ends");
    assert!(!ids.split(' ').any(runs), "{ids}");
}

#[test]
fn a_program_that_ignores_everything_is_killed_with_its_children_when_its_time_is_over() {
    let mut kept = kept(&job(&["sh", "-c", STUBBORN]));
    let ids = kept.line();
    order(&kept.channel, &Order::End { grace_ms: 50 }).expect("the keeper hears it");
    assert_eq!([kept.told(), kept.told()], [started(), Told::Ended { status: 137 }]);
    assert!(!ids.split(' ').any(runs), "{ids}");
}

#[test]
fn a_program_that_is_asked_to_end_has_its_time() {
    let mut kept =
        kept(&job(&["sh", "-c", "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done"]));
    assert_eq!(kept.line(), "ready");
    order(&kept.channel, &Order::End { grace_ms: 60_000 }).expect("the keeper hears it");
    assert_eq!(kept.line(), "asked");
    assert_eq!([kept.told(), kept.told()], [started(), Told::Ended { status: 7 }]);
    assert_eq!(kept.keeper.wait().expect("it ends").code(), Some(7));
}

#[test]
fn a_killed_keeper_takes_its_program_with_it() {
    let mut kept = kept(&job(&["sh", "-c", "echo $$; exec sleep 300"]));
    let id = kept.line();
    kept.keeper.kill().expect("it is killed");
    kept.keeper.wait().expect("it ended");
    // The end of the pipe is the beginning of the end of its last holder.
    kept.output.read_to_string(&mut String::new()).expect("the end");
    while runs(&id) {
        std::thread::yield_now();
    }
}

#[test]
fn a_program_that_ends_leaves_nothing_behind() {
    let mut kept = kept(&job(&["sh", "-c", "setsid sleep 300 & echo $!"]));
    let child = kept.line();
    assert_eq!([kept.told(), kept.told()], [started(), Told::Ended { status: 0 }]);
    assert!(!runs(&child));
}

#[test]
fn a_signal_that_ends_a_program_is_told_as_shells_tell_it() {
    let mut kept = kept(&job(&["sh", "-c", "kill -SEGV $$"]));
    assert_eq!([kept.told(), kept.told()], [started(), Told::Ended { status: 139 }]);
}

#[test]
fn what_cannot_be_started_is_told_with_the_reason() {
    let failed = |job: &Job| match kept(job).told() {
        Told::Failed { step, why } => format!("{step}: {why}"),
        told => panic!("{told:?}"),
    };
    assert_eq!(failed(&job(&["no-such-program"])), "start \"no-such-program\": No such file or directory");
    assert_eq!(failed(&job(&["/etc/passwd"])), "start \"/etc/passwd\": Permission denied");
    let nowhere = Job { folder: "/no such folder".into(), ..job(&["true"]) };
    assert_eq!(failed(&nowhere), "enter /no such folder: No such file or directory");
}

#[test]
fn a_script_without_an_interpreter_is_run_as_a_shell_does() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    fs::write(&script, "echo ran $1").expect("it is written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it may be executed");
    let mut kept = kept(&Job { folder: folder.path().to_owned(), ..job(&["./script", "so"]) });
    assert_eq!(kept.line(), "ran so");
}

/// What a program says that is handed a listening socket.
fn said_with_socket(words: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("socket")).expect("a socket");
    let (channel, theirs) = UnixStream::pair().expect("a channel");
    let (read, write) = std::io::pipe().expect("a pipe");
    let mut keeper = Command::new(env!("CARGO_BIN_EXE_althing-keeper"))
        .arg0(NAME)
        .env("SECRET", "of the node")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .expect("a keeper");
    let job = Job { descriptors: vec![Descriptor::Output, Descriptor::Socket], ..job(words) };
    send_job(&channel, &job, &[write.as_fd(), listener.as_fd()]).expect("it takes the job");
    drop(write);
    let mut said = String::new();
    BufReader::new(read).read_to_string(&mut said).expect("it is read");
    keeper.wait().expect("it ends");
    said
}

#[test]
fn a_program_gets_its_descriptors_and_its_environment_and_nothing_else() {
    // The last one is that of the folder which it lists.
    assert_eq!(said_with_socket(&["ls", "/proc/self/fd"]), "0\n1\n2\n3\n4\n");
    let said = said_with_socket(&["sh", "-c", "echo $$; exec env"]);
    let (pid, variables) = said.split_once('\n').expect("its id");
    let mut variables: Vec<&str> = variables.lines().filter(|line| !line.starts_with("PWD=")).collect();
    variables.sort_unstable();
    assert_eq!(variables, [format!("LISTEN_PID={pid}").as_str(), "PATH=/usr/bin:/bin"]);
}

#[test]
fn who_is_no_node_is_told_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_althing-keeper")).stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("althing-keeper is started by a node of althing, and by nobody else: "), "{said}");
}
