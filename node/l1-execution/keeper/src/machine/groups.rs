//! Where control groups for programs can be made, and what is written to them.
//!
//! **Input**: the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`; then what is in a group. **Output**: the folders
//! of the groups that a process is in, in each hierarchy that bounds something; below which of them a group can be made;
//! and the values of its files.
//!
//! **Invariants**
//! - A group is made below the one that the node was started in: what bounds that bounds its programs.
//! - What another process is in is left as it is.
//! - A path that leads out of what this process sees of a hierarchy is no folder.
//!
//! **Never knows**: what this account may write.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::job::Limits;

/// What groups of keepers begin with; the keeper's id follows.
const PREFIX: &str = "althing-";
/// The group of a node itself, beside those of its programs.
pub const NODE: &str = "althing-node";
/// The least share of the processors, in version 1 and 2; that of others is 1,024 and 100.
const SHARES_MIN: &str = "2";
const WEIGHT_MIN: &str = "1";

/// What a control group bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// The share of the processors.
    Processor,
    /// The memory of all processes together.
    Memory,
    /// Their number, threads included.
    Processes,
}

impl Controller {
    /// All of them.
    pub const ALL: [Controller; 3] = [Controller::Processor, Controller::Memory, Controller::Processes];

    /// The kernel's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Controller::Processor => "cpu",
            Controller::Memory => "memory",
            Controller::Processes => "pids",
        }
    }

    /// Those that a list of the kernel's names has.
    #[must_use]
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<Controller> {
        names.into_iter().filter_map(|name| Controller::ALL.into_iter().find(|one| one.name() == name)).collect()
    }
}

/// A hierarchy of control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// Version 1, with what it bounds. Its memory is left alone: of a group that has no more, it ends one process and not
    /// all, and whoever runs the node in such a group may count what is in that very group.
    One {
        /// The folder of the group that the process is in.
        own: PathBuf,
        /// What it bounds.
        controllers: BTreeSet<Controller>,
    },
    /// Version 2; its folders say what it bounds.
    Two {
        /// The folder of the group that the process is in.
        own: PathBuf,
    },
}

/// The hierarchies that a process is in and that may bound something, of its `/proc/self/cgroup` and
/// `/proc/self/mountinfo` (cgroups(7), proc_pid_mountinfo(5)).
#[must_use]
pub fn hierarchies(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    let mounts: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::read).collect();
    groups.lines().filter_map(|line| hierarchy(line, &mounts)).collect()
}

/// A line of `/proc/self/cgroup`: `ID:CONTROLLERS:PATH`.
fn hierarchy(line: &str, mounts: &[Mount<'_>]) -> Option<Hierarchy> {
    let mut parts = line.splitn(3, ':');
    let (id, names, group) = (parts.next()?, parts.next()?, parts.next()?);
    let folder = |kind: &str, has: &dyn Fn(&Mount<'_>) -> bool| {
        mounts.iter().filter(|mount| mount.kind == kind && has(mount)).find_map(|mount| mount.folder(group))
    };
    if (id, names) == ("0", "") {
        return folder("cgroup2", &|_| true).map(|own| Hierarchy::Two { own });
    }
    let mut controllers = Controller::named(names.split(','));
    controllers.remove(&Controller::Memory);
    let first = controllers.first()?.name();
    let own = folder("cgroup", &|mount| mount.options.split(',').any(|option| option == first))?;
    Some(Hierarchy::One { own, controllers })
}

/// A mounted hierarchy.
struct Mount<'a> {
    /// Which group is at its top.
    root: String,
    at: String,
    kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    /// A line: `ID PARENT DEVICE ROOT POINT OPTIONS … - KIND SOURCE OPTIONS`.
    fn read(line: &str) -> Option<Mount<'_>> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3).map(plain);
        let mut after = after.split(' ');
        let (root, at) = (before.next()?, before.next()?);
        let (kind, _, options) = (after.next()?, after.next()?, after.next()?);
        Some(Mount { root, at, kind, options })
    }

    /// The folder of a group.
    fn folder(&self, group: &str) -> Option<PathBuf> {
        let below = Path::new(group).strip_prefix(&self.root).ok()?;
        let is_inside = below.components().all(|part| matches!(part, Component::Normal(_)));
        is_inside.then(|| Path::new(&self.at).components().chain(below.components()).collect())
    }
}

/// A path of `/proc/self/mountinfo`, in which what would part fields is written in octal digits.
fn plain(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (written, meant)| path.replace(written, meant))
}

/// Below which group of version 2 those of programs are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Its folder.
    pub at: PathBuf,
    /// Where all that it has is moved first: a group that has processes itself bounds none below it.
    pub moved: Option<PathBuf>,
}

/// Where programs' groups are made of a process that is in `own`: below that where it is the root of the hierarchy, or has
/// nobody but the node, with its children (`is_the_nodes`), who then has a group beside them. None where others are in it.
#[must_use]
pub fn home(own: &Path, is_root: bool, is_the_nodes: bool) -> Option<Home> {
    if !is_root && own.file_name().is_some_and(|name| name == NODE) {
        return own.parent().map(|parent| Home { at: parent.to_owned(), moved: None });
    }
    let moved = (!is_root).then(|| own.join(NODE));
    (is_root || is_the_nodes).then(|| Home { at: own.to_owned(), moved })
}

/// The name of the group of a keeper's program.
#[must_use]
pub fn name(keeper: i32) -> String {
    format!("{PREFIX}{keeper}")
}

/// Whose program's group has that name.
#[must_use]
pub fn keeper_of(name: &str) -> Option<i32> {
    let digits = name.strip_prefix(PREFIX)?;
    digits.parse().ok().filter(|keeper| *keeper > 0 && self::name(*keeper) == name)
}

/// What is written to a file of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// What it is for.
    pub controller: Controller,
    /// The file.
    pub file: &'static str,
    /// The value.
    pub value: String,
    /// Nothing is bounded without it; else it is of some kernels only.
    pub is_needed: bool,
}

/// What is written to a group, in this order. A share that is not the least stays the one that groups have.
#[must_use]
pub fn settings(is_second: bool, limits: &Limits) -> Vec<Setting> {
    let setting =
        |controller, file, value: &str, is_needed| Setting { controller, file, value: value.to_owned(), is_needed };
    let mut all = Vec::new();
    if limits.idle {
        let (file, least) = if is_second { ("cpu.weight", WEIGHT_MIN) } else { ("cpu.shares", SHARES_MIN) };
        all.push(setting(Controller::Processor, file, least, true));
        // Whoever else wants to run need not wait (Linux 5.15). A share cannot be written any more.
        all.push(setting(Controller::Processor, "cpu.idle", "1", false));
    }
    if limits.memory_kib > 0 {
        let bytes = limits.memory_kib.saturating_mul(1_024).to_string();
        all.push(setting(Controller::Memory, "memory.max", &bytes, true));
        // A program of which one process is missing is none.
        all.push(setting(Controller::Memory, "memory.oom.group", "1", false));
    }
    if limits.processes > 0 {
        all.push(setting(Controller::Processes, "pids.max", &limits.processes.to_string(), true));
    }
    all
}

/// How many processes of a group were killed for the memory that they took, of its `memory.events` (cgroups(7), version 2).
#[must_use]
pub fn killed_for_memory(events: &str) -> u64 {
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

/// Whether the kernel limits the number of no processes of an account (`RLIMIT_NPROC`): the machine's root, wherever it
/// is. `map` is `/proc/self/uid_map` (user_namespaces(7)).
#[must_use]
pub fn is_exempt(is_root: bool, map: &str) -> bool {
    let first: Vec<&str> = map.lines().next().unwrap_or_default().split_whitespace().take(2).collect();
    is_root && (first.is_empty() || first == ["0", "0"])
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
