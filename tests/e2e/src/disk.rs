//! A disk that can be filled.

use std::path::Path;
use std::process::Command;

/// Size of a [`Disk`], MiB.
const DISK_MIB: usize = 96;

/// A small disk of its own, mounted where a machine's node keeps its data.
pub struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    /// Mounts 96 MiB; none where that may not be done.
    pub fn mount(at: &'a Path) -> Option<Disk<'a>> {
        std::fs::create_dir_all(at).expect("a folder");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={DISK_MIB}m"), "tmpfs"]).arg(at).output();
        let mounted = mounted.expect("mount can be run");
        if mounted.status.success() {
            return Some(Disk(at));
        }
        let why = String::from_utf8_lossy(&mounted.stderr);
        althing_testing::skip(
            &format!("no disk of its own may be mounted: {}", why.trim()),
            althing_testing::remedy::ROOT,
        );
        None
    }

    /// Fills it until nothing more fits; the file to remove.
    pub fn fill(&self) -> std::path::PathBuf {
        let fill = self.0.join("fill");
        let filled = std::fs::write(&fill, vec![0; DISK_MIB << 20]);
        assert!(filled.is_err(), "the disk is larger than it should be");
        fill
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        // What cannot be taken away now goes when nobody uses it any more.
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}
