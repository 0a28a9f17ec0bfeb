//! Where else what is the node's own shows: the file system that holds it may be mounted more than once.
//!
//! **Input**: the mounts of this process (proc_pid_mountinfo(5)), and the node's own paths. **Output**: the paths by which other
//! mounts of the same file system show them, and why there may be more.
//!
//! **Invariants**
//! - What cannot be read of a line leaves that line out, and no other.
//! - The paths are bounded in number.
//!
//! **Never knows**: copies. A snapshot or a backup that is a folder of its own is one, unless it is mounted as the data are.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::{Files, Kind, MountsGap, PATHS_MAX};

/// The most paths that are added: room is left for what a program is granted.
const OTHERS_MAX: usize = PATHS_MAX / 4;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    /// The device of the file system, as the kernel numbers it: all parts of one file system have the same one.
    device: Vec<u8>,
    /// Which folder of the file system it shows.
    root: PathBuf,
    /// Where.
    at: PathBuf,
}

/// Where else the node's own is found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtherPaths {
    /// The paths, other than it is named; in order, as many as are hidden.
    pub paths: Vec<PathBuf>,
    /// Why there may be more; none where these are all.
    pub gap: Option<MountsGap>,
}

/// By which paths, other than they are named, something of the node's own is found on this machine. `own` are absolute paths without
/// links.
pub fn elsewhere(files: &dyn Files, mounts: &[u8], own: &[PathBuf]) -> OtherPaths {
    let all: Vec<Mount> = mounts.split(|byte| *byte == b'\n').filter_map(mount).collect();
    let (mut found, mut gap) = (BTreeSet::new(), None);
    for path in own {
        // Of two at one path the later lies over the other.
        let around = all.iter().filter(|mount| path.starts_with(&mount.at));
        let Some(around) = around.max_by_key(|mount| mount.at.components().count()) else {
            gap.get_or_insert_with(|| MountsGap::Rootless(path.clone()));
            continue;
        };
        let Ok(below) = path.strip_prefix(&around.at) else { continue };
        let inside = around.root.join(below);
        for other in all.iter().filter(|other| other.device == around.device) {
            let shown = if let Ok(rest) = inside.strip_prefix(&other.root) {
                other.at.join(rest)
            } else if other.root.starts_with(&inside) {
                other.at.clone()
            } else if below.as_os_str().is_empty() {
                // A mount at just that path: nothing says which of the others shows the same, and they are not the node's own.
                continue;
            } else {
                // Another subvolume, which may be a snapshot of this one.
                other.at.join(below)
            };
            // A path that ends in nothing has a slash at its end, which makes it no other path.
            let shown: PathBuf = shown.components().collect();
            // What the node's own lies in is no other copy of it.
            if !own.iter().any(|own| own.starts_with(&shown)) && files.kind(&shown) != Kind::Missing {
                found.insert(shown);
            }
        }
    }
    // What is the node's own is hidden already, with all below it.
    found.retain(|shown| !own.iter().any(|own| shown.starts_with(own)));
    if found.len() > OTHERS_MAX {
        gap = Some(MountsGap::TooMany { found: found.len(), most: OTHERS_MAX });
    }
    OtherPaths { paths: found.into_iter().take(OTHERS_MAX).collect(), gap }
}

/// A line: `36 35 98:0 /root /at options …`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let (device, root, at) = (fields.next()?, path(fields.next()?), path(fields.next()?));
    (root.is_absolute() && at.is_absolute()).then(|| Mount { device: device.to_vec(), root, at })
}

/// A path, in which the kernel writes spaces, tabs, line breaks and backslashes as `\` and three octal digits.
fn path(text: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((first, after)) = rest.split_first() {
        let octal = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let value = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use std::path::Path;

    use super::*;

    const DATA: &str = "/home/me/.local/share/althing";

    /// Where the data show with these mounts.
    fn found(mounts: &str) -> Vec<PathBuf> {
        let files = tree(&[
            ("/mnt/disk/home/me/.local/share/althing/node/node.key", ""),
            ("/mnt/home/me/.local/share/althing/node/node.key", ""),
            ("/srv/share/althing/node/node.key", ""),
            ("/srv/a b/node/node.key", ""),
            ("/srv/node/node.key", ""),
            ("/mnt/old/me/.local/share/althing/node/node.key", ""),
            ("/srv/other/file", ""),
        ]);
        let OtherPaths { paths, gap } = elsewhere(&files, mounts.as_bytes(), &[PathBuf::from(DATA)]);
        assert_eq!(gap, None, "{mounts}");
        paths
    }

    #[test]
    fn another_mount_of_the_same_file_system_shows_the_data_elsewhere() {
        const ROOT: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
        let cases: [(&str, &str, &[&str]); 9] = [
            ("one mount", "", &[]),
            (
                "the whole disk again",
                "30 22 8:1 / /mnt/disk rw - ext4 /dev/sda1 rw\n",
                &["/mnt/disk/home/me/.local/share/althing"],
            ),
            (
                "a folder above the data",
                "30 22 8:1 /home/me/.local/share /srv/share rw - ext4 /dev/sda1 rw\n",
                &["/srv/share/althing"],
            ),
            (
                "the data themselves",
                "30 22 8:1 /home/me/.local/share/althing /srv/a\\040b rw - ext4 /dev/sda1 rw\n",
                &["/srv/a b"],
            ),
            (
                "a folder of the data",
                "30 22 8:1 /home/me/.local/share/althing/node /srv/node ro - ext4 /dev/sda1 rw\n",
                &["/srv/node"],
            ),
            ("another folder", "30 22 8:1 /var/lib /srv/other rw - ext4 /dev/sda1 rw\n", &[]),
            ("another disk", "30 22 8:2 / /mnt/disk rw - ext4 /dev/sdb1 rw\n", &[]),
            ("nothing is there", "30 22 8:1 / /mnt/gone rw - ext4 /dev/sda1 rw\n", &[]),
            ("what is no line", "30 22 8:1\n\nx\n30 22 8:1 home /srv/share rw\n", &[]),
        ];
        for (what, more, expected) in cases {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(found(&format!("{ROOT}{more}")), expected, "{what}");
        }
    }

    #[test]
    fn a_subvolume_that_is_mounted_again_and_a_snapshot_of_it_are_known() {
        let home = "22 1 0:25 /@ / rw - btrfs /dev/sda1 rw,subvol=/@\n23 22 0:25 /@home /home rw - btrfs /dev/sda1 rw,subvol=/@home\n";
        assert!(found(home).is_empty());
        let again = "30 22 0:25 /@home /mnt/home rw - btrfs /dev/sda1 rw,subvol=/@home\n";
        assert_eq!(found(&format!("{home}{again}")), [Path::new("/mnt/home/me/.local/share/althing")]);
        let snapshot = "30 22 0:25 /@snapshots/7/snapshot /mnt/old ro - btrfs /dev/sda1 ro\n";
        assert_eq!(found(&format!("{home}{snapshot}")), [Path::new("/mnt/old/me/.local/share/althing")]);
    }

    #[test]
    fn what_lies_beside_data_that_are_a_mount_of_their_own_is_not_the_nodes() {
        // As an engine mounts them, or a service manager: each at its own path, of one file system.
        let data =
            format!("22 1 8:1 / / ro - ext4 /dev/sda1 ro\n23 22 8:1 /volumes/data {DATA} rw - ext4 /dev/sda1 rw\n");
        for beside in [
            "30 22 8:1 /src/agents /srv/other rw - ext4 /dev/sda1 rw\n",
            "30 22 8:1 /containers/7/hosts /srv/other/file rw - ext4 /dev/sda1 rw\n",
            "30 22 8:1 /usr /srv ro - ext4 /dev/sda1 ro\n",
        ] {
            assert!(found(&format!("{data}{beside}")).is_empty(), "{beside}");
        }
        let subvolume =
            format!("22 1 0:25 /@ / rw - btrfs /dev/sda1 rw\n23 22 0:25 /@althing {DATA} rw - btrfs /dev/sda1 rw\n");
        assert!(found(&subvolume).is_empty());
    }

    /// A machine on which each path is a folder.
    struct Folders;

    impl Files for Folders {
        fn kind(&self, _: &Path) -> Kind {
            Kind::Folder
        }

        fn target(&self, _: &Path) -> Option<PathBuf> {
            None
        }

        fn head(&self, _: &Path) -> Vec<u8> {
            Vec::new()
        }

        fn names(&self, _: &Path) -> Vec<String> {
            Vec::new()
        }

        fn entries(&self, _: &Path, _: usize) -> Vec<(PathBuf, Kind)> {
            Vec::new()
        }
    }

    #[test]
    fn that_there_may_be_more_is_said() {
        let others = |mounts: &str, own: &[PathBuf]| elsewhere(&Folders, mounts.as_bytes(), own);
        let own = [PathBuf::from(DATA)];
        // As where its root is a folder of a mount that it does not see.
        for mounts in ["", "what is no line\n", "30 22 8:1 /srv /srv rw - ext4 /dev/sda1 rw\n"] {
            let expected = OtherPaths { gap: Some(MountsGap::Rootless(DATA.into())), ..OtherPaths::default() };
            assert_eq!(others(mounts, &own), expected, "{mounts}");
            assert_eq!(others(mounts, &[]), OtherPaths::default(), "nothing is the node's own");
        }
        let line = |number: usize| format!("{} 22 8:1 / /mnt/{number:04} rw - ext4 /dev/sda1 rw\n", 30 + number);
        let mounts = |count: usize| {
            let root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n".to_owned();
            std::iter::once(root).chain((0..count).map(line)).collect::<String>()
        };
        let as_many = others(&mounts(OTHERS_MAX), &own);
        assert_eq!((as_many.paths.len(), as_many.gap), (OTHERS_MAX, None));
        let more = others(&mounts(OTHERS_MAX + 1), &own);
        let gap = MountsGap::TooMany { found: OTHERS_MAX + 1, most: OTHERS_MAX };
        assert_eq!((more.paths.len(), more.gap), (OTHERS_MAX, Some(gap)));
    }

    #[test]
    fn a_path_is_read_as_the_kernel_writes_it() {
        for (text, read) in [("/a\\040b", "/a b"), ("/a\\134040", "/a\\040"), ("/a\\", "/a\\"), ("/a\\9zz", "/a\\9zz")]
        {
            assert_eq!(path(text.as_bytes()), Path::new(read), "{text}");
        }
    }
}
