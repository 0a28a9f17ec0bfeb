//! Programs are held to their limits, by a control group or by limits of processes.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use althing_keeper::NAME;
use althing_keeper::job::{Bound, Job, Level, Limits, Told};
use althing_keeper::machine::groups::{Hierarchy, hierarchies};
use althing_testing::{remedy, skip};
use nix::unistd::geteuid;

use crate::enclosing::{enclosed, folder, level};
use crate::support::{KEEPER, Kept, job, kept, kept_by, runs};

/// What processes it may have at once in these tests.
const PROCESSES: u32 = 32;
/// Starts processes until it may not, or has ten times as many as it may; says how many, and why it stopped.
const FORKS: &str = "import errno, os, signal
count, why = 0, 'nothing'
try:
    while count < 320:
        if os.fork() == 0:
            signal.pause()
        count += 1
except OSError as error:
    why = errno.errorcode[error.errno]
print(count, why, flush=True)
";

/// Says which limits it has of those that an account may have for its node, and what comes of a class of real time and of a place before
/// others.
const RANKS: &str = "import os, resource
for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE, resource.RLIMIT_CORE):
    print(*resource.getrlimit(limit))
def tries(what):
    try:
        what()
        print('done')
    except PermissionError:
        print('refused')
tries(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
tries(lambda: os.setpriority(os.PRIO_PROCESS, 0, -1))
";
/// What an account has that may have its node be a real-time process.
const RAISED: [&str; 2] = ["--rtprio=50", "--nice=30"];
/// How often it is looked whether something is so that comes at once; and whether it stays as it is.
const LOOKS: [usize; 2] = [200_000, 100];

fn bounded(job: Job, limits: Limits) -> Job {
    Job { limits, ..job }
}

fn forks(kept: &mut Kept) {
    let said = kept.line();
    let (count, why) = said.split_once(' ').unwrap_or_else(|| panic!("{said:?}"));
    let count: u32 = count.parse().unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!(why, "EAGAIN", "{said}");
    // It is one itself, as is the first of its namespaces.
    assert!((PROCESSES / 2..PROCESSES).contains(&count), "{said}");
    kept.output.read_to_string(&mut String::new()).expect("all of them are gone");
    assert_eq!(kept.outcome(), Told::Ended { status: 0 });
}

/// Is it started? Else it is said what bounds no program here.
fn starts(kept: &mut Kept) -> bool {
    let told = kept.told();
    assert!(matches!(told, Told::Started { .. }), "{told:?}");
    let missing = kept.bounds.missing().filter(|_| kept.bounds.processes == Bound::Nothing);
    if let Some(missing) = &missing {
        skip(&format!("nothing bounds of a program {missing}"), remedy::ROOT);
    }
    missing.is_none()
}

#[test]
fn a_program_that_forks_without_end_is_stopped_at_its_bound() {
    let limits = Limits { processes: PROCESSES, ..Limits::default() };
    let mut kept = kept(&bounded(job(&["/usr/bin/python3", "-c", FORKS]), limits));
    if starts(&mut kept) {
        forks(&mut kept);
    }
}

#[test]
fn where_it_has_no_control_group_a_program_in_namespaces_is_stopped_too() {
    let own = tempfile::tempdir().expect("a folder");
    let keeper = own.path().join(NAME);
    // Not by this process: what another thread starts meanwhile would have the copy open for writing.
    assert!(Command::new("cp").arg(KEEPER).arg(&keeper).status().expect("it runs").success());
    let limits = Limits { processes: PROCESSES, ..Limits::default() };
    let work = own.path().join("work");
    fs::create_dir(&work).expect("a folder");
    let job = bounded(enclosed(&["/usr/bin/python3", "-c", FORKS], &work), limits);
    // Another account, which may write no group, and which the kernel's limit holds for.
    let mut command = Command::new("setpriv");
    if geteuid().is_root() {
        for folder in [own.path().to_owned(), work.clone(), work.join("temporary")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("everybody may write");
        }
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&keeper);
    } else {
        command = Command::new(&keeper);
        command.arg0(NAME);
    }
    let mut kept = kept_by(&job, &mut command);
    if !starts(&mut kept) {
        return;
    }
    if geteuid().is_root() {
        assert_eq!(kept.bounds.processes, Bound::Limits);
        assert!(kept.bounds.why.contains("control group"), "{}", kept.bounds.why);
    }
    forks(&mut kept);
}

#[test]
fn a_program_has_as_many_open_files_as_it_may() {
    let limits = Limits { files: 64, ..Limits::default() };
    let mut kept = kept(&bounded(job(&["sh", "-c", "ulimit -Sn; ulimit -Hn"]), limits));
    assert_eq!([kept.line(), kept.line()], ["64", "64"]);
    let limits = Limits { files: u32::MAX, ..Limits::default() };
    let mut without = self::kept(&job(&["sh", "-c", "ulimit -Hn"]));
    let mut kept = self::kept(&bounded(job(&["sh", "-c", "ulimit -Hn"]), limits));
    assert_eq!(kept.line(), without.line(), "never more than the account");
}

#[test]
fn a_program_has_no_class_of_real_time_whatever_its_account_may() {
    let raised = Command::new("prlimit").args(RAISED).arg("true").status().is_ok_and(|status| status.success());
    let mut keeper = Command::new(if raised { "prlimit" } else { KEEPER });
    if raised {
        keeper.args(RAISED).arg(KEEPER);
    } else {
        keeper.arg0(NAME);
    }
    let own = folder();
    let mut kept = kept_by(&enclosed(&["/usr/bin/python3", "-c", RANKS], own.path()), &mut keeper);
    if level(&mut kept, Level::Namespaces).is_none() {
        return;
    }
    let mut said = String::new();
    kept.output.read_to_string(&mut said).expect("until the end");
    assert_eq!(said.lines().collect::<Vec<_>>(), ["0 0", "0 0", "0 0", "refused", "refused"]);
}

/// Whether a process is behind all others: in the idle class of the scheduler, or with the highest nice value (proc_pid_stat(5)).
fn is_behind(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The third field is the first here.
    fields[41 - 3] == "5" || fields[19 - 3] == "19"
}

#[test]
fn a_keeper_leaves_the_processors_to_others_where_its_program_does() {
    for (idle, looks) in [true, false].into_iter().zip(LOOKS) {
        let limits = Limits { idle, ..Limits::default() };
        let mut kept = kept(&bounded(job(&["sh", "-c", "echo ready; exec sleep 300"]), limits));
        assert!(matches!(kept.told(), Told::Started { .. }));
        assert_eq!(kept.line(), "ready");
        let keeper = kept.keeper.id();
        let is_so = (0..looks).any(|_| {
            std::thread::yield_now();
            is_behind(keeper)
        });
        assert_eq!(is_so, idle || is_behind(std::process::id()));
    }
}

#[test]
fn a_file_that_grows_without_end_ends_at_its_bound() {
    let limits = Limits { file_kib: 64, ..Limits::default() };
    let own = tempfile::tempdir().expect("a folder");
    let grows = "(trap '' XFSZ; cat /dev/zero >long 2>/dev/null); stat -c %s long; truncate -s 65537 made 2>/dev/null || echo no";
    let mut kept = kept(&bounded(Job { folder: own.path().to_owned(), ..job(&["sh", "-c", grows]) }, limits));
    assert_eq!([kept.line(), kept.line()], ["65536", "no"]);
}

#[test]
fn a_program_that_takes_more_memory_than_it_may_gets_none() {
    let limits = Limits { memory_kib: 128 << 10, ..Limits::default() };
    let takes = "try:\n    bytearray(512 << 20)\nexcept MemoryError:\n    print('no more')";
    let mut kept = kept(&bounded(job(&["/usr/bin/python3", "-c", takes]), limits));
    assert!(matches!(kept.told(), Told::Started { .. }));
    assert!(matches!(kept.bounds.memory, Bound::Group | Bound::Limits), "{:?}", kept.bounds);
    assert_eq!(kept.line(), "no more");
}

/// The groups of a keeper's program, wherever there can be some.
fn groups(keeper: u32) -> Vec<PathBuf> {
    let text = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).expect("the kernel has it");
    let folders = hierarchies(&text("cgroup"), &text("mountinfo")).into_iter().map(|hierarchy| match hierarchy {
        Hierarchy::One { own, .. } | Hierarchy::Two { own } => own,
    });
    let name = format!("althing-{keeper}");
    let near = folders.flat_map(|own| [own.join(&name), own.join("..").join(&name)]);
    near.filter(|group| group.exists()).collect()
}

#[test]
fn the_groups_of_a_program_go_with_it_and_those_of_a_killed_keeper_with_the_next() {
    let limits = Limits { processes: PROCESSES, idle: true, ..Limits::default() };
    let sleeper = bounded(job(&["sh", "-c", "echo $$; exec sleep 300"]), limits);
    let mut first = kept(&sleeper);
    first.told();
    let id = first.line();
    if ![first.bounds.processor, first.bounds.processes].contains(&Bound::Group) {
        return skip(&format!("there are no control groups: {}", first.bounds.why), remedy::ROOT);
    }
    let left = groups(first.keeper.id());
    assert!(!left.is_empty());
    for group in &left {
        let members = fs::read_to_string(group.join("cgroup.procs")).expect("it is a group");
        assert_eq!(members.trim(), id, "{}", group.display());
    }
    first.keeper.kill().expect("it is killed");
    first.keeper.wait().expect("it ended");
    while runs(&id) {
        std::thread::yield_now();
    }
    let mut second = kept(&bounded(job(&["true"]), limits));
    second.keeper.wait().expect("it ends");
    let all = [left, groups(second.keeper.id())].concat();
    assert!(all.iter().all(|group| !group.exists()), "{all:?}");
}

#[test]
fn a_program_in_namespaces_is_in_its_groups_when_it_begins() {
    let own = folder();
    let limits = Limits { processes: PROCESSES, idle: true, ..Limits::default() };
    let says = "cat /proc/self/cgroup; echo; exec sleep 300";
    let mut kept = kept(&bounded(enclosed(&["sh", "-c", says], own.path()), limits));
    if level(&mut kept, Level::Namespaces).is_none() {
        return;
    }
    if ![kept.bounds.processor, kept.bounds.processes].contains(&Bound::Group) {
        return skip(&format!("there are no control groups: {}", kept.bounds.why), remedy::ROOT);
    }
    let name = format!("/althing-{}", kept.keeper.id());
    let lines: Vec<String> = std::iter::repeat_with(|| kept.line()).take_while(|line| !line.is_empty()).collect();
    let entered = lines.iter().filter(|line| line.ends_with(&name)).count();
    assert_eq!(entered, groups(kept.keeper.id()).len(), "{lines:?}");
}

#[test]
fn what_outlives_a_killed_keeper_ends_with_the_next() {
    let limits = Limits { processes: PROCESSES, idle: true, ..Limits::default() };
    let leaves = "setsid sleep 3000 >/dev/null & echo $!; exec sleep 3000";
    let mut first = kept(&bounded(job(&["sh", "-c", leaves]), limits));
    first.told();
    let left = first.line();
    if ![first.bounds.processor, first.bounds.processes].contains(&Bound::Group) {
        return skip(&format!("there are no control groups: {}", first.bounds.why), remedy::ROOT);
    }
    let groups = groups(first.keeper.id());
    first.keeper.kill().expect("it is killed");
    first.keeper.wait().expect("it ended");
    // The end of its output: the program itself is gone. Its child lives on, until any keeper begins: another test's may.
    first.output.read_to_string(&mut String::new()).expect("the end");
    let mut second = kept(&bounded(job(&["true"]), limits));
    second.keeper.wait().expect("it ends");
    while runs(&left) {
        std::thread::yield_now();
    }
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}
