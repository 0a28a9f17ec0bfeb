//! Whether a node can keep what it is given: the disk of its data directory, and its store.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use althing_node::Node;
use althing_store::{Batch, Cause, Durability, StoreConfig, WriteError, free_bytes, mebibytes};

use super::finding::{Finding, counted, fine, fitting, note, wrong};

/// Whether data can be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// Why the data directory cannot be written, if so.
    pub unwritable: Option<String>,
    /// Why the store takes no writes, if so.
    pub stopped: Option<(String, Cause)>,
    /// Bytes free on the disk, and those below which nothing is taken; none where the data are in memory.
    pub free: Option<(u64, u64)>,
    /// The mode of the data directory, if others than this user may write there.
    pub loose: Option<u32>,
}

/// The mode of a directory where others than its user may write: they could put other files in the place of keys.
#[must_use]
pub fn loose_mode(dir: &Path) -> Option<u32> {
    let mode = std::fs::metadata(dir).ok()?.permissions().mode() & 0o777;
    (mode & 0o022 != 0).then_some(mode)
}

/// What is told about it.
#[must_use]
pub fn loose_note(mode: u32) -> String {
    format!("others on this machine may write to the data directory (mode {mode:o}): `chmod 700` it")
}

impl Storage {
    /// Tries it.
    pub async fn look(node: &Node) -> Storage {
        // Nothing is written, and yet refused where the store takes no writes.
        let stopped = match node.store.write(Batch::new(), Durability::Synced).await {
            Ok(()) => None,
            Err(WriteError::Full { free_bytes, reserve_bytes, .. }) => (free_bytes > reserve_bytes)
                .then(|| ("the disk has room, but this user has none of it left".to_owned(), Cause::Quota)),
            Err(WriteError::Stopped { detail, .. }) => Some((detail.clone(), Cause::of(&detail))),
            Err(error) => Some((error.to_string(), Cause::Other)),
        };
        let data = node.data();
        let free = data.and_then(|data| free_bytes(data).ok());
        let free = free.map(|free| (free, StoreConfig::default().reserve_bytes));
        let loose = data.and_then(loose_mode);
        let Some(path) = data.map(|data| data.join(".doctor")) else {
            return Storage { unwritable: None, stopped, free, loose };
        };
        let tried = tokio::task::spawn_blocking(move || {
            let written = std::fs::write(&path, [0; 4_096])
                .and_then(|()| std::fs::File::open(&path))
                .and_then(|file| file.sync_all());
            // An error means that it was not created.
            let _ = std::fs::remove_file(&path);
            written
        });
        let unwritable = match tried.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        Storage { unwritable, stopped, free, loose }
    }
}

/// The number of agents, with the verb that fits it.
fn running(agents: usize) -> String {
    format!("{} {}", counted(agents, "agent"), fitting(agents, "runs", "run"))
}

/// Judges it; where nothing is wrong, together with the number of agents that run.
pub(super) fn judge(storage: &Storage, agents: usize, findings: &mut Vec<Finding>) {
    if let Some(mode) = storage.loose {
        findings.push(wrong(
            "L2",
            loose_note(mode),
            "keys and tokens are there; whoever writes there can take this node over",
        ));
    }
    let before = findings.len();
    if let Some(why) = &storage.unwritable {
        findings.push(wrong(
            "L1",
            format!("nothing can be written to the data directory: {why}"),
            "free space on that disk, or give this user access to the directory; until then no task is accepted",
        ));
    }
    if let Some((why, cause)) = &storage.stopped {
        findings.push(wrong(
            "L1",
            format!("the store takes no writes: {why}"),
            format!("no task is accepted until then: {}", cause.remedy()),
        ));
    }
    let Some((free, reserve)) = storage.free else {
        if findings.len() == before {
            findings.push(fine("L1", running(agents)));
        }
        return;
    };
    let has = format!("the disk of the data directory has {} free", mebibytes(free));
    if free < reserve {
        findings.push(wrong(
            "L1",
            format!("{has}, and nothing is taken below {}", mebibytes(reserve)),
            "free space on that disk; until then no task is accepted, and then all goes on by itself",
        ));
    } else if findings.len() == before {
        let runs = format!("{}, and the data directory can be written", running(agents));
        findings.push(if free < 2 * reserve {
            note(
                "L1",
                format!("{runs}; {has}"),
                format!("nothing is taken below {}: free space there", mebibytes(reserve)),
            )
        } else {
            fine("L1", runs)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVE: u64 = 16 << 20;

    fn judged(storage: &Storage) -> Vec<(bool, String, String)> {
        let mut findings = Vec::new();
        judge(storage, 2, &mut findings);
        findings.into_iter().map(|finding| (finding.fine, finding.what, finding.remedy)).collect()
    }

    /// N-12
    #[test]
    fn a_disk_below_the_reserve_is_not_one_that_can_be_written() {
        let free = |bytes| Storage { free: Some((bytes, RESERVE)), ..Storage::default() };
        let all = judged(&free(RESERVE - 1));
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(!all[0].0 && all[0].1.contains("16.0 MiB") && all[0].2.contains("free space"), "{all:?}");
        let all = judged(&free(RESERVE + 1));
        assert!(all[0].0 && all[0].1.contains("can be written") && !all[0].2.is_empty(), "near it, a note: {all:?}");
        let all = judged(&free(10 * RESERVE));
        assert!(all[0].0 && all[0].2.is_empty(), "{all:?}");
    }

    /// N-44
    #[test]
    fn a_directory_that_others_may_write_to_is_wrong() {
        let folder = tempfile::tempdir().expect("a folder");
        for (mode, is_loose) in [(0o700, false), (0o755, false), (0o777, true), (0o770, true)] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).expect("its own");
            assert_eq!(loose_mode(folder.path()), is_loose.then_some(mode), "{mode:o}");
        }
        let all = judged(&Storage { loose: Some(0o777), ..Storage::default() });
        assert!(!all[0].0 && all[0].1.contains("mode 777") && all[0].1.contains("chmod 700"), "{all:?}");
    }

    #[test]
    fn a_store_that_takes_no_writes_is_wrong() {
        for (why, cause, remedy) in [
            ("Too many open files", Cause::Descriptors, "ulimit -n"),
            ("Read-only file system", Cause::ReadOnly, "mount it"),
            ("Input/output error", Cause::Device, "dmesg"),
            ("none left", Cause::Quota, "quota"),
            ("Permission denied", Cause::Access, "give this user"),
            ("Corruption", Cause::Damage, "put back a copy"),
            ("odd", Cause::Other, "check the disk"),
        ] {
            let stopped = Some((why.to_owned(), cause));
            let all = judged(&Storage { stopped, free: Some((u64::MAX, RESERVE)), ..Storage::default() });
            assert!(all.len() == 1 && !all[0].0 && all[0].1.contains(why), "{all:?}");
            assert!(all[0].2.contains(remedy), "{all:?}");
        }
    }
}
