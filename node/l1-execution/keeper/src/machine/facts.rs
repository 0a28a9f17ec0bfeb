//! What a plan asks about the machine's files, and how a path is judged by the answers.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Links that lead on from one path before it is given up, as the kernel does.
const LINKS_MAX: usize = 40;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// Anything that is neither folder nor link: a file, a socket, a device.
    File,
    /// A symbolic link, and where it leads.
    Link(PathBuf),
    /// Nothing, or nothing that this account can see.
    Missing,
}

/// The files of a machine.
pub trait Facts {
    /// What is at an absolute path; its last part is not followed where it is a link.
    fn kind(&self, path: &Path) -> Kind;

    /// The paths of what lies in a folder, in order, at most that many; none where it cannot be read.
    fn list_folder(&self, folder: &Path, most: usize) -> Vec<PathBuf>;
}

/// How far a granted path leads without following a link: the path itself with what is there, or the first link on the
/// way. What lies behind a link is granted by its own path. `None` for what is never granted: the root (its content is,
/// [`spread`]), paths that are not absolute or climb (`..`), `/dev` as a whole and all of `/proc`, of which every
/// program has its own.
pub(crate) fn placed(path: &Path, facts: &impl Facts) -> Option<(PathBuf, Kind)> {
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    let named = path.is_absolute() && path.components().all(plain) && !path.as_os_str().as_bytes().contains(&0);
    let own = path == Path::new("/") || path == Path::new("/dev") || path.starts_with("/proc");
    if own || !named {
        return None;
    }
    let (mut at, mut kind) = (PathBuf::from("/"), Kind::Folder);
    for part in path.components().skip(1) {
        at.push(part);
        kind = facts.kind(&at);
        match kind {
            Kind::Link(_) => break,
            Kind::Missing => return Some((path.components().collect(), kind)),
            Kind::Folder | Kind::File => {}
        }
    }
    Some((at, kind))
}

/// Where a path that is hidden leads in the end, each link on the way followed: hiding more than what is written does
/// no harm, and hiding a link hides nothing. `None` where there is nothing.
pub(crate) fn resolved(path: &Path, facts: &impl Facts) -> Option<(PathBuf, Kind)> {
    followed(path, facts).filter(|(_, kind)| *kind != Kind::Missing)
}

/// The same, also where there is nothing yet: what comes there later is meant too. A path whose links have no end is itself.
pub(crate) fn destination(path: &Path, facts: &impl Facts) -> PathBuf {
    followed(path, facts).map_or_else(|| path.to_owned(), |(at, _)| at)
}

/// Where a path leads, and what is there; `None` where links lead on without end.
fn followed(path: &Path, facts: &impl Facts) -> Option<(PathBuf, Kind)> {
    let parts = |path: &Path| -> Vec<OsString> {
        let named = path.components().rev().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            _ => None,
        });
        named.collect()
    };
    let (mut left, mut at, mut links, mut is_missing) = (parts(path), PathBuf::from("/"), 0, false);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        at.push(&part);
        match facts.kind(&at) {
            Kind::Missing => is_missing = true,
            Kind::Link(to) => {
                links += 1;
                if links > LINKS_MAX {
                    return None;
                }
                if to.is_absolute() {
                    at = PathBuf::from("/");
                } else {
                    at.pop();
                }
                left.extend(parts(&to));
            }
            Kind::Folder | Kind::File => {}
        }
    }
    let kind = if is_missing { Kind::Missing } else { facts.kind(&at) };
    Some((at, kind))
}

/// The paths that were granted, with what lies in the root in place of the root: a root of its own cannot be the
/// machine's.
pub(crate) fn spread(granted: &[PathBuf], facts: &impl Facts, most: usize) -> Vec<PathBuf> {
    let roots = granted.iter().filter(|path| path.as_path() == Path::new("/"));
    roots.flat_map(|root| facts.list_folder(root, most)).collect()
}

/// A machine of tests.
#[cfg(test)]
pub(crate) mod world {
    use std::collections::BTreeMap;

    use super::*;

    /// What is where; what is in no list is missing.
    #[derive(Debug, Clone, Default)]
    pub struct World(pub BTreeMap<PathBuf, Kind>);

    impl World {
        /// Each text is a path: with `/` at its end it is a folder, with ` -> ` a link. Folders above it are made.
        pub fn of(texts: &[&str]) -> World {
            let mut world = World::default();
            for text in texts {
                let (path, kind) = match text.split_once(" -> ") {
                    Some((path, to)) => (path, Kind::Link(PathBuf::from(to))),
                    None if text.ends_with('/') => (text.trim_end_matches('/'), Kind::Folder),
                    None => (*text, Kind::File),
                };
                world.put(Path::new(path), kind);
            }
            world
        }

        pub fn put(&mut self, path: &Path, kind: Kind) {
            for above in path.ancestors().skip(1) {
                self.0.entry(above.to_owned()).or_insert(Kind::Folder);
            }
            self.0.insert(path.to_owned(), kind);
        }
    }

    impl Facts for World {
        fn kind(&self, path: &Path) -> Kind {
            self.0.get(path).cloned().unwrap_or(Kind::Missing)
        }

        fn list_folder(&self, folder: &Path, most: usize) -> Vec<PathBuf> {
            self.0.keys().filter(|path| path.parent() == Some(folder)).take(most).cloned().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::world::World;
    use super::*;

    #[test]
    fn a_granted_path_ends_at_the_first_link() {
        let world = World::of(&["/usr/bin/python3", "/usr/bin/python -> python3", "/bin -> usr/bin"]);
        let placed = |path: &str| placed(Path::new(path), &world);
        let some = |path: &str, kind| Some((PathBuf::from(path), kind));
        assert_eq!(placed("/usr//bin/./python3"), some("/usr/bin/python3", Kind::File));
        assert_eq!(placed("/bin/python3"), some("/bin", Kind::Link("usr/bin".into())));
        assert_eq!(placed("/usr/bin/python"), some("/usr/bin/python", Kind::Link("python3".into())));
        assert_eq!(placed("/usr/share/x"), some("/usr/share/x", Kind::Missing));
        for never in ["/", "/dev", "/proc", "/proc/1/environ", "usr", "/usr/../root", ""] {
            assert_eq!(placed(never), None, "{never}");
        }
    }

    #[test]
    fn a_hidden_path_is_followed_to_its_end() {
        let world = World::of(&["/data/keys/", "/home/a/.keys -> ../../data/keys", "/home/b -> /home/a", "/x -> x"]);
        let resolved = |path: &str| resolved(Path::new(path), &world);
        assert_eq!(resolved("/home/b/.keys"), Some(("/data/keys".into(), Kind::Folder)));
        assert_eq!(resolved("/home/b/../a/.keys"), Some(("/data/keys".into(), Kind::Folder)));
        assert_eq!(resolved("/home/a/none"), None);
        assert_eq!(resolved("/x"), None, "it leads to itself");
        let destination = |path: &str| destination(Path::new(path), &world);
        assert_eq!(destination("/home/b/.keys"), Path::new("/data/keys"));
        assert_eq!(destination("/home/b/.keys/new"), Path::new("/data/keys/new"), "it may come");
        assert_eq!(destination("/x"), Path::new("/x"));
    }
}
