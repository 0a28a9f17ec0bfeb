//! Tables of grants with their steps, and what holds for any grants.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use proptest::prelude::*;

use super::super::facts::world::World;
use super::*;

fn paths(texts: &[&str]) -> Vec<PathBuf> {
    texts.iter().map(PathBuf::from).collect()
}

fn grants(read: &[&str], write: &[&str], private: &[&str], hidden: &[&str]) -> Grants {
    let [read, write, private, hidden] = [read, write, private, hidden].map(paths);
    Grants { read, write, private, hidden, sockets: Vec::new(), withheld: Vec::new() }
}

/// The steps as one line each: what a person would draw.
fn drawn(steps: &[Step]) -> Vec<String> {
    let line = |step: &Step| match step {
        Step::Folder { at } => format!("folder {}", at.display()),
        Step::File { at } => format!("file {}", at.display()),
        Step::Link { at, to } => format!("link {} {}", at.display(), to.display()),
        Step::Bind { at, is_folder, writable, devices } => {
            let what = if *is_folder { "" } else { " file" };
            let how = if *writable { "write" } else { "read" };
            format!("{how}{what}{} {}", if *devices { " devices" } else { "" }, at.display())
        }
        Step::Private { at, mode } => format!("private {mode:o} {}", at.display()),
        Step::Parts { at } => format!("parts {}", at.display()),
    };
    steps.iter().map(line).collect()
}

#[test]
fn what_is_granted_is_bound_below_folders_that_are_made() {
    let world = World::of(&["/usr/lib/", "/bin -> usr/bin", "/etc/hosts", "/home/a/agent/", "/dev/dri/", "/tmp/"]);
    let grants = grants(
        &["/usr", "/usr/lib", "/bin/sh", "/bin", "/etc/hosts", "/usr", "/nix/store", "/dev/dri", "/proc/1"],
        &["/home/a/agent", "/home/a/agent"],
        &["/tmp", "/home/a", "/dev/shm"],
        &["/home/a/.local/share/althing"],
    );
    let steps = [
        "link /bin usr/bin",
        "folder /dev",
        "folder /dev/dri",
        "read devices /dev/dri",
        "folder /dev/shm",
        "private 1777 /dev/shm",
        "folder /etc",
        "file /etc/hosts",
        "read file /etc/hosts",
        "folder /home",
        "folder /home/a",
        "private 700 /home/a",
        "folder /home/a/agent",
        "write /home/a/agent",
        "folder /tmp",
        "private 1777 /tmp",
        "folder /usr",
        "read /usr",
    ];
    assert_eq!(drawn(&plan(&grants, &world).expect("few")), steps);
}

#[test]
fn grants_within_grants() {
    let world = World::of(&["/a/b/c/d/", "/a/b/file", "/a/link -> b", "/a/b/to -> file"]);
    type Case<'a> = (&'a str, Grants, &'a [&'a str]);
    let cases: [Case<'_>; 20] = [
        (
            "a file to be read deep in write: no folder above it is renamed",
            grants(&["/a/b/file"], &["/a"], &[], &[]),
            &["folder /a", "write /a", "write /a/b", "read file /a/b/file"],
        ),
        (
            "a folder to be read deeper in write, which is granted twice",
            grants(&["/a/b/c/d"], &["/a", "/a/b/c"], &[], &[]),
            &["folder /a", "write /a", "write /a/b", "write /a/b/c", "read /a/b/c/d"],
        ),
        (
            "write in read in write",
            grants(&["/a/b"], &["/a", "/a/b/c"], &[], &[]),
            &["folder /a", "write /a", "read /a/b", "write /a/b/c"],
        ),
        (
            "read in write, beside what is hidden",
            grants(&["/a/b/c/d"], &["/a"], &[], &["/a/b/file"]),
            &[
                "folder /a",
                "parts /a",
                "folder /a/b",
                "folder /a/b/c",
                "write /a/b/c",
                "read /a/b/c/d",
                "link /a/b/to file",
                "link /a/link b",
            ],
        ),
        ("read in write", grants(&["/a/b"], &["/a"], &[], &[]), &["folder /a", "write /a", "read /a/b"]),
        ("write in read", grants(&["/a"], &["/a/b"], &[], &[]), &["folder /a", "read /a", "write /a/b"]),
        ("private in read", grants(&["/a"], &[], &["/a/b"], &[]), &["folder /a", "read /a", "private 700 /a/b"]),
        (
            "no private file, none where it could not be made",
            grants(&["/a"], &[], &["/a/b/file", "/a/new"], &[]),
            &["folder /a", "read /a"],
        ),
        (
            "write in private",
            grants(&[], &["/a/b/c"], &["/a"], &[]),
            &["folder /a", "private 700 /a", "folder /a/b", "folder /a/b/c", "write /a/b/c"],
        ),
        (
            "private in private, where a home is",
            grants(&[], &["/a/b/c"], &["/a", "/a/b"], &[]),
            &["folder /a", "private 700 /a", "folder /a/b", "folder /a/b/c", "write /a/b/c"],
        ),
        (
            "private in private, which is not there",
            grants(&[], &[], &["/a", "/a/x/y"], &[]),
            &["folder /a", "private 700 /a", "folder /a/x", "folder /a/x/y"],
        ),
        ("both", grants(&["/a"], &["/a"], &["/a"], &[]), &["folder /a", "write /a"]),
        (
            "hidden in read",
            grants(&["/a"], &[], &[], &["/a/b", "/a/b/c", "/a/b/file"]),
            &["folder /a", "parts /a", "link /a/link b"],
        ),
        (
            "a hidden file",
            grants(&[], &["/a"], &[], &["/a/b/file"]),
            &[
                "folder /a",
                "parts /a",
                "folder /a/b",
                "folder /a/b/c",
                "write /a/b/c",
                "link /a/b/to file",
                "link /a/link b",
            ],
        ),
        (
            "hidden behind links",
            grants(&[], &["/a"], &[], &["/a/link/to"]),
            &[
                "folder /a",
                "parts /a",
                "folder /a/b",
                "folder /a/b/c",
                "write /a/b/c",
                "link /a/b/to file",
                "link /a/link b",
            ],
        ),
        (
            "hidden before it is there",
            grants(&["/a"], &[], &[], &["/a/link/new"]),
            &[
                "folder /a",
                "parts /a",
                "folder /a/b",
                "folder /a/b/c",
                "read /a/b/c",
                "file /a/b/file",
                "read file /a/b/file",
                "link /a/b/to file",
                "link /a/link b",
            ],
        ),
        (
            "the program's own within what is hidden",
            grants(&["/a"], &["/a/b/c/d"], &["/a/b/c"], &["/a/b"]),
            &[
                "folder /a",
                "parts /a",
                "folder /a/b",
                "folder /a/b/c",
                "private 700 /a/b/c",
                "folder /a/b/c/d",
                "write /a/b/c/d",
                "link /a/link b",
            ],
        ),
        (
            "granted within what holds something hidden",
            grants(&["/a"], &["/a/b"], &[], &["/a/b/file"]),
            &[
                "folder /a",
                "parts /a",
                "folder /a/b",
                "folder /a/b/c",
                "write /a/b/c",
                "link /a/b/to file",
                "link /a/link b",
            ],
        ),
        ("hidden, and granted just there", grants(&["/a/b"], &["/a/b"], &[], &["/a/b"]), &[]),
        ("nothing to hide", grants(&[], &[], &["/a"], &["/a/b"]), &["folder /a", "private 700 /a"]),
    ];
    for (what, grants, steps) in cases {
        assert_eq!(drawn(&plan(&grants, &world).expect("few")), steps, "{what}");
    }
}

#[test]
fn the_root_is_granted_as_what_lies_in_it() {
    let world = World::of(&["/bin -> usr/bin", "/usr/", "/proc/1/", "/dev/sda", "/tmp/", "/keys/"]);
    let grants = grants(&["/"], &[], &["/tmp"], &["/keys"]);
    let steps = ["link /bin usr/bin", "folder /tmp", "private 1777 /tmp", "folder /usr", "read /usr"];
    assert_eq!(drawn(&plan(&grants, &world).expect("few")), steps);
}

#[test]
fn a_socket_in_what_may_be_read_is_kept_apart_and_one_that_may_be_written_is_bound() {
    let world = World::of(&["/srv/app/app.sock", "/srv/app/own.sock", "/srv/app/static/a"]);
    let sockets = paths(&["/srv/app/app.sock", "/srv/app/own.sock"]);
    let grants = Grants { sockets, ..grants(&["/srv/app"], &["/srv/app/own.sock"], &[], &[]) };
    let steps = [
        "folder /srv",
        "folder /srv/app",
        "parts /srv/app",
        "file /srv/app/own.sock",
        "write file /srv/app/own.sock",
        "folder /srv/app/static",
        "read /srv/app/static",
    ];
    assert_eq!(drawn(&plan(&grants, &world).expect("few")), steps);
}

#[test]
fn a_withheld_folder_is_not_there_and_one_that_was_granted_is_empty() {
    let world = World::of(&["/srv/app/big/a", "/srv/app/small/a", "/srv/all/a", "/srv/all/own/a"]);
    let withheld = paths(&["/srv/app/big", "/srv/all"]);
    let grants = Grants { withheld, ..grants(&["/srv/app", "/srv/all"], &["/srv/all/own"], &[], &[]) };
    let steps = [
        "folder /srv",
        "folder /srv/all",
        "private 700 /srv/all",
        "folder /srv/all/own",
        "write /srv/all/own",
        "folder /srv/app",
        "parts /srv/app",
        "folder /srv/app/small",
        "read /srv/app/small",
    ];
    assert_eq!(drawn(&plan(&grants, &world).expect("few")), steps);
}

#[test]
fn too_many_beside_what_is_hidden_are_refused_with_what_to_do() {
    let mut world = World::of(&["/home/.keys/"]);
    (0..=RULES_MAX).for_each(|number| world.put(&Path::new("/home").join(number.to_string()), Kind::File));
    let refused = plan(&grants(&["/home"], &[], &[], &["/home/.keys"]), &world).expect_err("too many");
    assert_eq!(refused.folder, Path::new("/home"));
    assert!(plan(&grants(&["/home"], &[], &[], &[]), &world).is_ok(), "one mount is enough");
}

#[test]
fn any_name_is_a_name() {
    let names: [&[u8]; 4] = [b"a b", b"a\nb", b"\xff\xfe", b"-rf"];
    for name in names {
        let at = Path::new("/home").join(OsStr::from_bytes(name));
        let mut world = World::default();
        world.put(&at, Kind::Folder);
        let steps = plan(&Grants { write: vec![at.clone()], ..Grants::default() }, &world).expect("few");
        let bind = Step::Bind { at: at.clone(), is_folder: true, writable: true, devices: false };
        assert_eq!(steps, [Step::Folder { at: "/home".into() }, Step::Folder { at }, bind]);
    }
    let none = Grants { private: vec![PathBuf::from("/a\0b")], ..Grants::default() };
    assert_eq!(plan(&none, &World::default()), Ok(Vec::new()));
}

/// Paths of at most four parts of three names: they meet often.
fn path() -> impl Strategy<Value = PathBuf> {
    proptest::collection::vec(0u8..3, 1..5).prop_map(|parts| {
        let names = parts.iter().map(|part| ["a", "a-", "b"][usize::from(*part)]);
        Path::new("/").join(names.collect::<PathBuf>())
    })
}

fn some_paths() -> impl Strategy<Value = Vec<PathBuf>> {
    proptest::collection::vec(path(), 0..4)
}

/// What the program finds of a path of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Read,
    Write,
}

/// By the rule as a person would say it: the innermost grant, and of those at one path the strictest of the plan.
fn expected(grants: &Grants, path: &Path) -> Found {
    let lists = [&grants.private, &grants.read, &grants.write, &grants.hidden];
    let holds = lists.iter().enumerate().flat_map(|(strength, list)| list.iter().map(move |at| (at, strength)));
    let within = holds.filter(|(at, _)| path.starts_with(at));
    match within.max_by_key(|(at, strength)| (at.components().count(), *strength)) {
        Some((_, 1)) => Found::Read,
        Some((_, 2)) => Found::Write,
        _ => Found::Nothing,
    }
}

/// By the steps: what was mounted last over the path.
fn built(steps: &[Step], path: &Path) -> Found {
    let mut found = Found::Nothing;
    for step in steps {
        match step {
            Step::Bind { at, writable, .. } if path.starts_with(at) => {
                found = if *writable { Found::Write } else { Found::Read };
            }
            Step::Private { at, .. } | Step::Parts { at } if path.starts_with(at) => found = Found::Nothing,
            _ => {}
        }
    }
    found
}

proptest! {
    /// Whatever is granted: each path is found as the innermost grant says, and each step finds its ground.
    #[test]
    fn the_innermost_grant_holds(
        there in proptest::collection::vec(path(), 0..12),
        read in some_paths(), write in some_paths(), private in some_paths(), hidden in some_paths(),
    ) {
        let mut world = World::default();
        there.iter().for_each(|path| world.put(path, Kind::Folder));
        let grants = Grants { read, write, private, hidden, sockets: Vec::new(), withheld: Vec::new() };
        let steps = plan(&grants, &world).expect("few");
        // A folder around something hidden is there in parts: what lies in it is asked.
        let is_whole = |path: &&PathBuf| !grants.hidden.iter().any(|at| at != *path && at.starts_with(path));
        for path in world.0.keys().filter(is_whole) {
            prop_assert_eq!(built(&steps, path), expected(&grants, path), "{} by {:?}", path.display(), steps);
        }
        let mut ours = BTreeSet::from([PathBuf::from("/")]);
        let mut mounts: Vec<(PathBuf, bool)> = Vec::new();
        for step in &steps {
            let (Step::Folder { at } | Step::File { at } | Step::Link { at, .. } | Step::Bind { at, .. }
                | Step::Private { at, .. } | Step::Parts { at }) = step;
            let around = mounts.iter().rev().find(|(mount, _)| at.starts_with(mount));
            let bound = around.is_some_and(|(_, bound)| *bound);
            match step {
                Step::Folder { .. } | Step::File { .. } | Step::Link { .. } => {
                    prop_assert!(!bound, "{} is made in a folder of the machine", at.display());
                    prop_assert!(ours.contains(at.parent().expect("not the root")), "{} has no parent", at.display());
                    ours.insert(at.clone());
                }
                Step::Bind { .. } | Step::Private { .. } | Step::Parts { .. } => {
                    let there = if bound { world.0.contains_key(at) } else { ours.contains(at) };
                    prop_assert!(there, "{} is mounted over nothing", at.display());
                    let binds = matches!(step, Step::Bind { .. });
                    let uncovered = grants.hidden.iter().find(|hidden| binds && hidden.starts_with(at));
                    prop_assert!(uncovered.is_none(), "{:?} lies in what is bound: {}", uncovered, at.display());
                    ours.retain(|path| !path.starts_with(at));
                    if !binds {
                        ours.insert(at.clone());
                    }
                    mounts.push((at.clone(), binds));
                }
            }
        }
    }
}
