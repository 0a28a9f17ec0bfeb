//! The processes that a program started, and theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

/// Processes, by that of their parent.
type Children = BTreeMap<i32, Vec<i32>>;

/// Sends a signal to every process below this one; how many there are.
pub fn signal_all(signal: Signal) -> usize {
    let all = below(getpid().as_raw(), &processes());
    for pid in &all {
        // An error means that it ended meanwhile.
        let _ = kill(Pid::from_raw(*pid), signal);
    }
    all.len()
}

/// A process, and all that live below it.
pub fn family(root: Pid) -> BTreeSet<i32> {
    let mut all = below(root.as_raw(), &processes());
    all.insert(root.as_raw());
    all
}

/// All that live below one process.
fn below(root: i32, children: &Children) -> BTreeSet<i32> {
    let (mut found, mut next) = (BTreeSet::new(), vec![root]);
    while let Some(parent) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if found.insert(*child) {
                next.push(*child);
            }
        }
    }
    found
}

/// The processes of this machine that are no zombies.
fn processes() -> Children {
    let mut children = Children::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        if let Some((pid, parent)) = parentage(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// A process and its parent, of its line in `/proc/PID/stat`: `PID (NAME) STATE PARENT …`, where the name may hold anything
/// (proc_pid_stat(5)). None of a zombie.
fn parentage(stat: &str) -> Option<(i32, i32)> {
    let pid = stat.split_once(' ')?.0.parse().ok()?;
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    let (state, parent) = (rest.next()?, rest.next()?.parse().ok()?);
    (!matches!(state, "Z" | "X")).then_some((pid, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_holds() {
        assert_eq!(parentage("41 (a) R 7 41 41 0"), Some((41, 7)));
        assert_eq!(parentage("41 (x) Z 9 (b) S 7 41"), Some((41, 7)));
        assert_eq!(parentage("41 (a) Z 7 41 41 0"), None);
        assert_eq!(parentage(""), None);
    }

    #[test]
    fn what_is_below_is_found_at_any_depth_and_nothing_beside_it() {
        let children = Children::from([(1, vec![2, 9]), (2, vec![3, 4]), (4, vec![5]), (9, vec![10])]);
        assert_eq!(below(2, &children), BTreeSet::from([3, 4, 5]));
        assert_eq!(below(5, &children), BTreeSet::new());
    }
}
