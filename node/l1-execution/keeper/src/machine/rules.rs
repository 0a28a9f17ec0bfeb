//! What Landlock lets a program do, by what it is granted.
//!
//! **Input**: the grants, and what is at their paths. **Output**: rules: a path, and what may be done with it and all
//! below it.
//!
//! **Invariants**
//! - Landlock can only grant. So a folder with something hidden in it is granted as what else lies in it, and the
//!   folder itself is not: it cannot be listed, and nothing new can be made in it.
//! - What is to be read within something that may be written can be written too, where the program has no root of its
//!   own.
//! - The number of rules is bounded.
//!
//! **Never knows**: what the kernel's Landlock can do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::facts::{Facts, Kind, destination, placed, spread};
use super::grants::Grants;

/// The most rules of one program.
pub const RULES_MAX: usize = 4_096;
/// The devices that every program has; they lead to nobody.
pub const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What may be done with a path and all below it; the later, the more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// List folders.
    List,
    /// Also read and execute.
    Read,
    /// Also write, make, remove and connect.
    Write,
}

/// Over the limit of rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is granted and holds what the program does not reach (the node's own, or a socket in what it only reads); what else lies \
     beside that takes more than {} rules: grant the folders in it that the program needs instead (sandbox.read, \
     sandbox.write)",
    .folder.display(),
    RULES_MAX
)]
pub struct TooMany {
    /// The folder that was granted.
    pub folder: PathBuf,
}

/// The rules of a program in a root of its own: nothing that is hidden is there, and what is private is its own.
#[must_use]
pub fn within(grants: &Grants, facts: &impl Facts) -> BTreeMap<PathBuf, Access> {
    let mut rules = own();
    // Every folder of its root was made for it, or is granted.
    allow(&mut rules, PathBuf::from("/"), Access::List);
    allow(&mut rules, PathBuf::from("/dev/shm"), Access::Write);
    for (paths, access) in
        [(&grants.read, Access::Read), (&grants.write, Access::Write), (&grants.private, Access::Write)]
    {
        let roots = spread(paths, facts, RULES_MAX);
        for (at, kind) in paths.iter().chain(&roots).filter_map(|path| placed(path, facts)) {
            if matches!(kind, Kind::Folder | Kind::File) {
                allow(&mut rules, at, access);
            }
        }
    }
    rules
}

/// The rules of a program among the machine's files. What is private is not granted: it would be everybody's.
///
/// # Errors
/// Something is hidden among too many files.
pub fn beside(grants: &Grants, facts: &impl Facts) -> Result<BTreeMap<PathBuf, Access>, TooMany> {
    // What is not there yet is hidden when it comes.
    let hidden: Vec<PathBuf> = grants.hidden.iter().map(|path| destination(path, facts)).collect();
    let mut rules = own();
    for (paths, access) in [(&grants.read, Access::Read), (&grants.write, Access::Write)] {
        let roots = spread(paths, facts, RULES_MAX);
        for (at, kind) in paths.iter().chain(&roots).filter_map(|path| placed(path, facts)) {
            if matches!(kind, Kind::Folder | Kind::File) {
                descend(&mut rules, &at, access, &hidden, facts)?;
            }
        }
    }
    Ok(rules)
}

/// What every program has. What it could see of others in `/proc`, Landlock refuses as it refuses to trace them.
fn own() -> BTreeMap<PathBuf, Access> {
    let devices = DEVICES.iter().map(|device| (PathBuf::from(device), Access::Write));
    devices.chain([(PathBuf::from("/proc"), Access::Read)]).collect()
}

fn allow(rules: &mut BTreeMap<PathBuf, Access>, at: PathBuf, access: Access) {
    let rule = rules.entry(at).or_insert(access);
    *rule = access.max(*rule);
}

/// Allows a path, or of a folder with something hidden in it, what lies beside that.
fn descend(
    rules: &mut BTreeMap<PathBuf, Access>,
    granted: &Path,
    access: Access,
    hidden: &[PathBuf],
    facts: &impl Facts,
) -> Result<(), TooMany> {
    let mut open = vec![granted.to_owned()];
    while let Some(at) = open.pop() {
        if hidden.contains(&at) {
            continue;
        }
        if hidden.iter().any(|hidden| hidden.starts_with(&at)) {
            let inside = facts.list_folder(&at, RULES_MAX + 1);
            // What a link leads to is granted by its own path.
            open.extend(inside.into_iter().filter(|path| !matches!(facts.kind(path), Kind::Link(_))));
        } else {
            allow(rules, at, access);
        }
        if rules.len() + open.len() > RULES_MAX {
            return Err(TooMany { folder: granted.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::facts::world::World;
    use super::*;

    fn grants(read: &[&str], write: &[&str], private: &[&str], hidden: &[&str]) -> Grants {
        let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect();
        let [read, write, private, hidden] = [read, write, private, hidden].map(paths);
        Grants { read, write, private, hidden, sockets: Vec::new(), withheld: Vec::new() }
    }

    /// The rules without those that every program has.
    fn shown(mut rules: BTreeMap<PathBuf, Access>) -> Vec<(String, Access)> {
        for (at, access) in own() {
            assert_eq!(rules.remove(&at), Some(access), "{}", at.display());
        }
        rules.into_iter().map(|(at, access)| (at.display().to_string(), access)).collect()
    }

    fn rule(at: &str, access: Access) -> (String, Access) {
        (at.to_owned(), access)
    }

    #[test]
    fn beside_what_is_hidden_each_child_is_granted() {
        let texts =
            ["/home/a/.keys/owner", "/home/a/src/x", "/home/a/notes", "/home/a/link -> .keys", "/home/b/", "/tmp/"];
        let world = World::of(&texts);
        let granted = grants(&["/home", "/none"], &["/home/a/src", "/home/a/.keys/own"], &["/tmp"], &["/home/a/link"]);
        let rules = shown(beside(&granted, &world).expect("few"));
        let expected =
            [rule("/home/a/notes", Access::Read), rule("/home/a/src", Access::Write), rule("/home/b", Access::Read)];
        assert_eq!(rules, expected);
    }

    #[test]
    fn what_lies_within_what_is_hidden_is_granted_by_its_own_path() {
        let world = World::of(&["/data/run/agent-1/a.sock", "/data/node.key"]);
        let granted = grants(&["/data"], &["/data/run/agent-1"], &[], &["/data"]);
        assert_eq!(shown(beside(&granted, &world).expect("few")), [rule("/data/run/agent-1", Access::Write)]);
    }

    #[test]
    fn what_is_hidden_before_it_is_there_is_not_granted_when_it_comes() {
        let world = World::of(&["/home/a/notes", "/home/a/apps -> software", "/home/a/software/x"]);
        let granted = grants(&["/home/a"], &[], &[], &["/home/a/apps/key"]);
        let expected = [rule("/home/a/notes", Access::Read), rule("/home/a/software/x", Access::Read)];
        assert_eq!(shown(beside(&granted, &world).expect("few")), expected);
    }

    #[test]
    fn the_root_is_granted_without_what_is_hidden() {
        let world = World::of(&["/usr/", "/proc/1/", "/keys/", "/bin -> usr/bin"]);
        let rules = shown(beside(&grants(&["/"], &[], &[], &["/keys"]), &world).expect("few"));
        assert_eq!(rules, [rule("/usr", Access::Read)]);
    }

    #[test]
    fn too_many_beside_what_is_hidden_are_refused_with_what_to_do() {
        let mut world = World::of(&["/home/.keys/"]);
        let put =
            |world: &mut World, number: usize| world.put(&Path::new("/home").join(number.to_string()), Kind::File);
        let room = RULES_MAX - own().len();
        (1..room).for_each(|number| put(&mut world, number));
        let granted = grants(&["/home"], &[], &[], &["/home/.keys"]);
        assert!(beside(&granted, &world).is_ok());
        (room..room + 2).for_each(|number| put(&mut world, number));
        let refused = beside(&granted, &world).expect_err("too many");
        assert_eq!(refused.folder, Path::new("/home"));
        assert!(refused.to_string().contains("4096 rules: grant the folders"), "{refused}");
        assert!(beside(&grants(&["/home"], &[], &[], &[]), &world).is_ok(), "one rule is enough");
    }

    #[test]
    fn in_a_root_of_its_own_a_program_lists_everything_and_writes_what_is_private() {
        let world = World::of(&["/usr/", "/bin -> usr/bin", "/tmp/", "/home/a/"]);
        let rules = shown(within(&grants(&["/usr", "/bin", "/tmp"], &["/home/a"], &["/tmp"], &["/home/a/x"]), &world));
        let expected = [
            rule("/", Access::List),
            rule("/dev/shm", Access::Write),
            rule("/home/a", Access::Write),
            rule("/tmp", Access::Write),
            rule("/usr", Access::Read),
        ];
        assert_eq!(rules, expected);
    }
}
