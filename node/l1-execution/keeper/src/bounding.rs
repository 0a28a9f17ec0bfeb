//! What holds a program to its limits: control groups where the machine has some in which this account may make one; else
//! the limits of processes, and the scheduler's classes.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid, getpid, getppid};

use crate::descendants::family;
use crate::failure::Failure;
use crate::job::{Bound, Bounds, Level, Limits};
use crate::machine::groups::{
    Controller, Hierarchy, Home, NODE, hierarchies, home, is_exempt, keeper_of, killed_for_memory, name, settings,
};
use crate::pause::pause;

/// Before a group is removed again whose processes are about to end.
const EMPTY_PAUSE_MS: u16 = 5;
/// How often what may be over in a moment is tried.
const TRIES: usize = 20;
/// Groups that are looked at for those of keepers that were killed.
const GROUPS_MAX: usize = 4_096;
/// Where a session's share of the processors is (sched(7)): without groups, a class counts within a session alone.
const SESSION: &str = "/proc/self/autogroup";
/// The lowest share.
const NICE_MAX: &str = "19";
/// Whoever writes this to a list of processes or threads is put into it, whatever its number is elsewhere.
const ITSELF: &[u8] = b"0";

/// What bounds one program.
pub(crate) struct Bounding {
    groups: Vec<Group>,
    why: String,
}

/// A control group of the program, which goes with this value.
struct Group {
    folder: PathBuf,
    controllers: BTreeSet<Controller>,
    /// The list of its threads, where a process of one thread puts itself into it (version 1); else this keeper does, for which the kernel
    /// stops whatever begins or ends on the machine until it is done (milliseconds).
    threads: Option<File>,
}

impl Bounding {
    /// Makes the groups of this keeper's program.
    pub fn new(limits: &Limits) -> Bounding {
        let found = hierarchies(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
        let (mut groups, mut obstacles) = (Vec::new(), Vec::new());
        for hierarchy in found {
            match places(&hierarchy) {
                Ok((at, controllers)) if !controllers.is_empty() => {
                    let is_second = matches!(hierarchy, Hierarchy::Two { .. });
                    match Group::make(&at, controllers, is_second, limits) {
                        Ok(group) => groups.push(group),
                        Err(error) => {
                            obstacles.push(format!("no control group can be made in {}: {error}", at.display()))
                        }
                    }
                }
                Ok(_) => {}
                Err(why) => obstacles.push(why),
            }
        }
        let mut bounding = Bounding { groups, why: obstacles.join("; ") };
        if bounding.why.is_empty() {
            bounding.why = "this machine has no control groups for it".to_owned();
        }
        if limits.idle && !bounding.has(Controller::Processor) {
            // An error means that sessions have no shares.
            let _ = put(Path::new(SESSION), NICE_MAX);
        }
        bounding
    }

    /// Puts this process, which is the program's first one and has one thread, into the groups that it can enter itself: whatever
    /// its files are by now.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn enter(&self) -> Result<(), Failure> {
        let mut threads = self.groups.iter().filter_map(|group| group.threads.as_ref());
        threads.try_for_each(|mut threads| threads.write_all(ITSELF)).map_err(|why| unplaced(&why))
    }

    /// Whether there are others, into which this keeper puts that process.
    pub fn is_by_keeper(&self) -> bool {
        self.groups.iter().any(|group| group.threads.is_none())
    }

    /// Puts the program's first process into those.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn place(&self, first: Pid) -> Result<(), Failure> {
        let mut others = self.groups.iter().filter(|group| group.threads.is_none());
        let placed = |group: &Group| put(&group.folder.join("cgroup.procs"), &first.to_string());
        others.try_for_each(placed).map_err(|why| unplaced(&why))
    }

    /// Goes on without groups.
    pub fn give_up(&mut self, failure: &Failure) {
        self.groups.clear();
        self.why = failure.to_string();
    }

    /// How a program of a level is held to its limits.
    pub fn bounds(&self, limits: &Limits, level: Level) -> Bounds {
        let counted = match level {
            Level::Namespaces => !is_exempt(geteuid().is_root(), &text("/proc/self/uid_map")),
            // With those of the same agent's other programs.
            Level::Account => true,
            Level::Landlock | Level::None => false,
        };
        let bound = |is_asked: bool, controller, otherwise| match (is_asked, self.has(controller)) {
            (false, _) => Bound::Unasked,
            (true, true) => Bound::Group,
            (true, false) => otherwise,
        };
        let limited = |is_limited| if is_limited { Bound::Limits } else { Bound::Nothing };
        let processor = bound(true, Controller::Processor, limited(limits.idle));
        let memory = bound(limits.memory_kib > 0, Controller::Memory, Bound::Limits);
        // Elsewhere the account's other processes would count.
        let processes = bound(limits.processes > 0, Controller::Processes, limited(counted));
        let by_groups =
            [processor, memory, processes].iter().all(|bound| matches!(bound, Bound::Unasked | Bound::Group));
        Bounds { processor, memory, processes, why: if by_groups { String::new() } else { self.why.clone() } }
    }

    /// Whether a process in the groups was killed for the memory that all of them took.
    pub fn ran_out(&self) -> bool {
        self.groups.iter().any(|group| killed_for_memory(&text(group.folder.join("memory.events"))) > 0)
    }

    /// Kills what is in the groups; whether anything was.
    pub fn kill(&self) -> bool {
        let found = self.groups.iter().filter(|group| group.kill());
        found.count() > 0
    }

    fn has(&self, controller: Controller) -> bool {
        self.groups.iter().any(|group| group.controllers.contains(&controller))
    }
}

impl Group {
    /// A group below `at`, without those of keepers that are gone.
    fn make(at: &Path, controllers: BTreeSet<Controller>, is_second: bool, limits: &Limits) -> io::Result<Group> {
        remove_left(at);
        let folder = at.join(name(getpid().as_raw()));
        fs::create_dir(&folder)?;
        let threads = (!is_second).then(|| OpenOptions::new().write(true).open(folder.join("tasks")).ok()).flatten();
        let mut group = Group { folder, controllers, threads };
        for setting in settings(is_second, limits) {
            if !group.controllers.contains(&setting.controller) {
                continue;
            }
            match put(&group.folder.join(setting.file), &setting.value) {
                // It is told as not bounded, or bounded by limits.
                Err(_) if setting.is_needed => {
                    group.controllers.remove(&setting.controller);
                }
                _ => {}
            }
        }
        Ok(group)
    }

    fn kill(&self) -> bool {
        let processes = members(&self.folder);
        // Version 2, Linux 5.14 and later: also what is started meanwhile.
        if !processes.is_empty() && put(&self.folder.join("cgroup.kill"), "1").is_err() {
            // What this process cannot see has no id.
            for pid in processes.iter().filter(|pid| **pid > 0) {
                // An error means that it ended meanwhile.
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
        }
        !processes.is_empty()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            match fs::remove_dir(&self.folder) {
                // What ended is still counted for a moment.
                Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => pause(EMPTY_PAUSE_MS),
                _ => return,
            }
        }
    }
}

/// Where a group can be made in a hierarchy, and what it bounds there.
///
/// # Errors
/// Why none can be, as a person reads it.
fn places(hierarchy: &Hierarchy) -> Result<(PathBuf, BTreeSet<Controller>), String> {
    let own = match hierarchy {
        Hierarchy::One { own, controllers } => return Ok((own.clone(), controllers.clone())),
        Hierarchy::Two { own } => own,
    };
    if listed(&own.join("cgroup.controllers")).is_empty() && !own.ends_with(NODE) {
        return Ok((own.clone(), BTreeSet::new()));
    }
    let node = family(getppid());
    let is_the_nodes = || members(own).iter().all(|pid| node.contains(pid));
    let Some(Home { at, moved }) = home(own, !own.join("cgroup.type").exists(), is_the_nodes()) else {
        return Err(format!("other processes share the node's control group, {}", own.display()));
    };
    let failed = |error: io::Error| format!("no control group can be made in {}: {error}", at.display());
    if let Some(to) = moved {
        move_all(&at, &to).map_err(failed)?;
    }
    let control = at.join("cgroup.subtree_control");
    let mut refused = None;
    for controller in listed(&at.join("cgroup.controllers")).difference(&listed(&control)) {
        refused = put(&control, &format!("+{}", controller.name())).err().or(refused);
    }
    let controllers = listed(&control);
    match refused.filter(|_| controllers.is_empty()) {
        Some(error) => Err(failed(error)),
        None => Ok((at, controllers)),
    }
}

/// Moves the processes of a group into one below it, until none is left.
fn move_all(from: &Path, to: &Path) -> io::Result<()> {
    match fs::create_dir(to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for _ in 0..TRIES {
        let left = members(from);
        if left.is_empty() {
            break;
        }
        for pid in left {
            match put(&to.join("cgroup.procs"), &pid.to_string()) {
                // It ended meanwhile.
                Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => {}
                moved => moved?,
            }
        }
    }
    Ok(())
}

/// Removes the groups of keepers that are gone, with what of their programs lives on there: who left its parent's session is not
/// killed with the keeper.
fn remove_left(at: &Path) {
    for entry in fs::read_dir(at).into_iter().flatten().flatten().take(GROUPS_MAX) {
        let Some(keeper) = keeper_of(&entry.file_name().to_string_lossy()) else { continue };
        let keeper = Pid::from_raw(keeper);
        // Of this id, it is that of an earlier keeper.
        if keeper == getpid() || kill(keeper, None::<Signal>) == Err(Errno::ESRCH) {
            let left = Group { folder: entry.path(), controllers: BTreeSet::new(), threads: None };
            // The keeper of what this process cannot see (0) may live where it cannot see it either.
            if !members(&left.folder).contains(&0) {
                left.kill();
            }
        }
    }
}

fn unplaced(why: &io::Error) -> Failure {
    Failure::of("put it into its control group", why)
}

/// The processes of a group.
fn members(group: &Path) -> Vec<i32> {
    text(group.join("cgroup.procs")).lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// The controllers that a file lists.
fn listed(file: &Path) -> BTreeSet<Controller> {
    Controller::named(text(file).split_whitespace())
}

/// What is in a file of the kernel; nothing where it is not there.
fn text(file: impl AsRef<Path>) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// Writes to a file of the kernel, at once.
fn put(file: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a group of version 2.
    fn group(at: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(at).expect("a folder");
        for (file, value) in files {
            fs::write(at.join(file), value).expect("a file");
        }
    }

    #[test]
    fn a_group_of_the_second_version_is_made_where_nobody_else_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("scope");
        let (all, none) = ("cpuset cpu io memory pids\n", "");
        // No process has the greatest id that there is.
        let stranger = i32::MAX.to_string();
        let files = [("cgroup.controllers", all), ("cgroup.subtree_control", none), ("cgroup.type", "domain\n")];
        group(&own, &files);
        group(&own, &[("cgroup.procs", stranger.as_str())]);
        let found = places(&Hierarchy::Two { own: own.clone() }).expect_err("another process is there");
        assert_eq!(found, format!("other processes share the node's control group, {}", own.display()));
        // As systemd makes it: the node has a group of its own, beside which programs have theirs.
        group(&own, &[("cgroup.subtree_control", "cpu pids\n"), ("cgroup.procs", none)]);
        let (node, wanted) = (own.join("althing-node"), BTreeSet::from([Controller::Processor, Controller::Processes]));
        group(
            &node,
            &[("cgroup.controllers", "cpu pids\n"), ("cgroup.procs", stranger.as_str()), ("cgroup.type", "domain\n")],
        );
        fs::write(own.join("cgroup.controllers"), "cpu pids\n").expect("a file");
        assert_eq!(places(&Hierarchy::Two { own: node }), Ok((own, wanted)));
    }

    #[test]
    fn a_hierarchy_without_controllers_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        group(folder.path(), &[("cgroup.controllers", "\n"), ("cgroup.procs", "1\n")]);
        let own = folder.path().to_owned();
        assert_eq!(places(&Hierarchy::Two { own: own.clone() }), Ok((own, BTreeSet::new())));
    }

    #[test]
    fn groups_of_keepers_that_are_gone_are_removed_and_others_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        // No process has the greatest id that there is.
        let (gone, other) = (folder.path().join(name(i32::MAX)), folder.path().join("althing-node"));
        let (mine, theirs) = (folder.path().join(name(getpid().as_raw())), folder.path().join(name(1)));
        for group in [&gone, &other, &mine, &theirs] {
            fs::create_dir(group).expect("a folder");
        }
        remove_left(folder.path());
        assert_eq!([&gone, &other, &mine, &theirs].map(|group| group.exists()), [false, true, false, true]);
    }

    #[test]
    fn what_is_bounded_depends_on_the_groups_the_level_and_the_job() {
        let limits = Limits { memory_kib: 1, processes: 1, ..Limits::default() };
        let without = Bounding { groups: Vec::new(), why: "none".to_owned() };
        let found = without.bounds(&limits, Level::Landlock);
        assert_eq!((found.processor, found.memory, found.processes), (Bound::Nothing, Bound::Limits, Bound::Nothing));
        // Its account has no other processes.
        assert_eq!(without.bounds(&limits, Level::Account).processes, Bound::Limits);
        let found = without.bounds(&Limits { idle: true, ..Limits::default() }, Level::Namespaces);
        assert_eq!((found.processor, found.memory, found.processes), (Bound::Limits, Bound::Unasked, Bound::Unasked));
        let folder = tempfile::tempdir().expect("a folder");
        let group = Group { folder: folder.path().join("made"), controllers: Controller::ALL.into(), threads: None };
        let with = Bounding { groups: vec![group], why: String::new() };
        let found = with.bounds(&limits, Level::None);
        assert_eq!([found.processor, found.memory, found.processes], [Bound::Group; 3]);
    }
}
