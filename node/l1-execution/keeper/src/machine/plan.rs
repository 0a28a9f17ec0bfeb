//! How the root of a program's own is built from what it is granted.
//!
//! **Input**: the grants, and what is at their paths. **Output**: steps, in their order.
//!
//! **Invariants**
//! - What is most specific holds: each path is as the innermost grant says that it lies in. At the same path hidden
//!   holds over write, write over read, and read over private.
//! - What a step needs comes before it: parents before what lies in them.
//! - Nothing is made but in folders of the program's own memory, never in one of the machine's.
//! - Of a folder with something in it that the program does not reach, each other entry is bound by itself, as it is at the
//!   start: nothing is mounted over what is hidden, since a mount goes with what it lies on when another takes its place.
//! - What is only read within what may be written stays where it is: each folder between the two is a mount point of its own, over
//!   itself, and as such is neither renamed nor removed.
//!
//! **Never knows**: how a step is done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::facts::{Facts, Kind, destination, placed, spread};
use super::grants::Grants;
use super::rules::{RULES_MAX, TooMany};

/// What is read of the root where the root itself is granted.
const ROOT_MAX: usize = 1_024;
/// Folders in memory that are everybody's where they are the machine's, so that programs expect it.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// An empty folder, in memory; it may be there.
    Folder {
        /// Its path.
        at: PathBuf,
    },
    /// An empty file, in memory, which something is bound over.
    File {
        /// Its path.
        at: PathBuf,
    },
    /// A symbolic link, in memory.
    Link {
        /// Its path.
        at: PathBuf,
        /// Where it leads.
        to: PathBuf,
    },
    /// What the machine has at the path, at the same path, with all below it.
    Bind {
        /// The path.
        at: PathBuf,
        /// A folder, or anything else.
        is_folder: bool,
        /// May it be written?
        writable: bool,
        /// May devices be opened? Only what is granted below `/dev`.
        devices: bool,
    },
    /// A folder in memory in place of one of the machine's, in which what lies there is bound one by one. No more is written to
    /// it once all steps are done.
    Parts {
        /// Its path.
        at: PathBuf,
    },
    /// A folder of the program's own, in memory, which lasts as long as the program.
    Private {
        /// Its path.
        at: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// What is to be at a path; of two at one path, the later holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// In place of one of the machine's folders: what lies there is bound one by one.
    Parts,
    Private,
    Read,
    Write,
    Hidden,
}

/// What is to be at which path, and what the machine has there.
pub(super) type Layout = BTreeMap<PathBuf, (Use, Kind)>;

/// The steps that build what is granted, in an empty root that has `/dev` and `/proc`.
///
/// # Errors
/// What is not reached lies among too many files.
pub fn plan(grants: &Grants, facts: &impl Facts) -> Result<Vec<Step>, TooMany> {
    let mut wanted = wanted(grants, facts)?;
    let held = held(&wanted);
    for at in &held {
        wanted.entry(at.clone()).or_insert((Use::Write, Kind::Folder));
    }
    let mut plan = Plan { held, ..Plan::default() };
    for (at, (used, kind)) in wanted {
        plan.add(at, used, kind);
    }
    Ok(plan.steps)
}

/// What is to be where, in the order of paths: what contains something comes before it.
pub(super) fn wanted(grants: &Grants, facts: &impl Facts) -> Result<Layout, TooMany> {
    let mut wanted = Layout::new();
    // What is granted with the whole root is granted less than what is named.
    for (paths, used) in [(&grants.read, Use::Read), (&grants.write, Use::Write)] {
        let found = spread(paths, facts, ROOT_MAX).into_iter().filter_map(|path| placed(&path, facts));
        wanted.extend(found.map(|(at, kind)| (at, (used, kind))));
    }
    for (paths, used) in [(&grants.private, Use::Private), (&grants.read, Use::Read), (&grants.write, Use::Write)] {
        let found = paths.iter().filter_map(|path| placed(path, facts));
        wanted.extend(found.map(|(at, kind)| (at, (used, kind))));
    }
    // What is withheld as a whole is empty: the program may start in there.
    for at in &grants.withheld {
        if let Some((used, _)) = wanted.get_mut(at)
            && *used == Use::Read
        {
            *used = Use::Private;
        }
    }
    // What is not there yet is hidden when it comes.
    let hidden: BTreeSet<PathBuf> = grants.hidden.iter().map(|path| destination(path, facts)).collect();
    wanted.extend(hidden.iter().map(|at| (at.clone(), (Use::Hidden, facts.kind(at)))));
    let others = grants.sockets.iter().chain(&grants.withheld).cloned();
    let apart: BTreeSet<PathBuf> = hidden.into_iter().chain(others).collect();
    let parted = wanted.iter().filter(|(at, (used, kind))| {
        matches!(used, Use::Read | Use::Write) && *kind == Kind::Folder && holds(&apart, at)
    });
    let parted: Vec<(PathBuf, Use)> = parted.map(|(at, (used, _))| (at.clone(), *used)).collect();
    for (folder, used) in parted {
        part(&mut wanted, folder, used, &apart, facts)?;
    }
    Ok(wanted)
}

/// The folders that may be written with another around them that may be, and that hold something which may only be read: whoever renamed
/// one could put another in its place, and what is read would be gone with it.
fn held(wanted: &Layout) -> BTreeSet<PathBuf> {
    let used = |at: &Path| at.ancestors().find_map(|around| wanted.get(around)).map(|(used, _)| *used);
    let is_written = |at: &Path| used(at) == Some(Use::Write);
    let is_mount = |at: &Path| at.parent().is_none_or(|around| !is_written(around));
    let is_read = |used: Use, kind: &Kind| used == Use::Read && matches!(kind, Kind::Folder | Kind::File);
    let read = wanted.iter().filter(|(_, (used, kind))| is_read(*used, kind));
    let above = read.flat_map(|(at, _)| at.ancestors().skip(1).take_while(|around| is_written(around)));
    above.filter(|at| !is_mount(at)).map(Path::to_owned).collect()
}

/// Whether one of these lies in a folder.
fn holds(apart: &BTreeSet<PathBuf>, folder: &Path) -> bool {
    apart.iter().any(|at| at != folder && at.starts_with(folder))
}

/// Grants, in place of a folder, what lies in it, but for what is kept apart, and for what is granted or hidden by its own path.
fn part(
    wanted: &mut Layout,
    folder: PathBuf,
    used: Use,
    apart: &BTreeSet<PathBuf>,
    facts: &impl Facts,
) -> Result<(), TooMany> {
    let mut open = vec![folder.clone()];
    while let Some(at) = open.pop() {
        for inside in facts.list_folder(&at, RULES_MAX + 1) {
            if wanted.contains_key(&inside) || apart.contains(&inside) {
                continue;
            }
            match facts.kind(&inside) {
                Kind::Missing => {}
                Kind::Folder if holds(apart, &inside) => open.push(inside),
                kind => drop(wanted.insert(inside, (used, kind))),
            }
        }
        wanted.insert(at, (Use::Parts, Kind::Folder));
        if wanted.len() + open.len() > RULES_MAX {
            return Err(TooMany { folder });
        }
    }
    Ok(())
}

/// The steps so far.
#[derive(Default)]
struct Plan {
    steps: Vec<Step>,
    /// What the next path lies in, the innermost last.
    around: Vec<(PathBuf, Use)>,
    /// Folders that were made.
    made: BTreeSet<PathBuf>,
    /// Folders that are bound although what they lie in may be written as they may.
    held: BTreeSet<PathBuf>,
}

impl Plan {
    fn add(&mut self, at: PathBuf, used: Use, kind: Kind) {
        while self.around.last().is_some_and(|(around, _)| !at.starts_with(around)) {
            self.around.pop();
        }
        let around = self.around.last().map(|(_, used)| *used);
        let bound = matches!(around, Some(Use::Read | Use::Write));
        match (used, kind) {
            (Use::Parts, _) if around == Some(Use::Parts) => {
                self.ground(&at);
                self.make(&at);
            }
            (Use::Parts, _) => {
                self.point(&at, true, bound);
                self.steps.push(Step::Parts { at: at.clone() });
                self.around.push((at, used));
            }
            // What is bound has its links; elsewhere only grants are made.
            (Use::Private | Use::Read | Use::Write, Kind::Link(to)) if !bound => {
                self.ground(&at);
                self.steps.push(Step::Link { at, to });
            }
            (Use::Read | Use::Write, kind @ (Kind::Folder | Kind::File))
                if around != Some(used) || self.held.contains(&at) =>
            {
                let is_folder = kind == Kind::Folder;
                self.point(&at, is_folder, bound);
                let devices = at.starts_with("/dev");
                self.steps.push(Step::Bind { at: at.clone(), is_folder, writable: used == Use::Write, devices });
                self.around.push((at, used));
            }
            // Within what is private there is nothing yet that it would be in place of.
            (Use::Private, Kind::Folder) if around != Some(Use::Private) => self.private(at, bound),
            (Use::Private, Kind::Missing) if matches!(around, None | Some(Use::Parts)) => self.private(at, bound),
            // A home below `/tmp`, say: programs look for it, and what is private around it is as much their own.
            (Use::Private, Kind::Folder | Kind::Missing) if around == Some(Use::Private) => {
                self.ground(&at);
                self.make(&at);
            }
            _ => {}
        }
    }

    fn private(&mut self, at: PathBuf, bound: bool) {
        self.point(&at, true, bound);
        let mode = if SHARED.iter().any(|shared| at.as_path() == Path::new(shared)) { 0o1777 } else { 0o700 };
        self.steps.push(Step::Private { at: at.clone(), mode });
        self.around.push((at, Use::Private));
    }

    /// Something to mount over; what is bound has it.
    fn point(&mut self, at: &Path, is_folder: bool, bound: bool) {
        if bound {
            return;
        }
        self.ground(at);
        let at = at.to_owned();
        self.steps.push(if is_folder { Step::Folder { at } } else { Step::File { at } });
    }

    /// The folders above a path, up to what it lies in.
    fn ground(&mut self, at: &Path) {
        let floor = self.around.last().map_or(Path::new("/"), |(around, _)| around.as_path());
        let mut above: Vec<&Path> = at.ancestors().skip(1).take_while(|folder| *folder != floor).collect();
        above.reverse();
        for folder in above {
            self.make(folder);
        }
    }

    fn make(&mut self, folder: &Path) {
        if self.made.insert(folder.to_owned()) {
            self.steps.push(Step::Folder { at: folder.to_owned() });
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
