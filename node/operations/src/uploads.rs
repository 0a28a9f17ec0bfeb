//! Folders of files that were handed to the node: those of agents that were added from elsewhere stay as long as their agents,
//! those of what was only looked at as long as somebody looks.

use std::fs;
use std::path::{Path, PathBuf};

use althing_node::revocations::remove_folder;
use althing_node::{Node, publish, rollouts};

/// The folder of these folders, in the node's data.
const FOLDER: &str = "uploads";

/// Why files that were handed over cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The node has no folder of its own.
    #[error("this node keeps no data, so no files can be handed to it")]
    NoFolder,
    /// One of them, or its folder, cannot be written.
    #[error("cannot write {}, which was handed over: {source}", .path.display())]
    Write {
        /// The file, or the folder.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// A folder with files that were handed over. Its files are removed when it is dropped, unless something stays that needs them.
#[derive(Debug)]
pub struct UploadFolder {
    path: PathBuf,
    stays: bool,
}

impl UploadFolder {
    /// Writes files into a new folder in the node's data. `id` is a name that no other folder has; each path is a plain one below
    /// the folder.
    ///
    /// # Errors
    /// See [`UploadError`]: then nothing of it is left.
    pub fn write<'a>(
        data: Option<&Path>,
        id: &str,
        files: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<UploadFolder, UploadError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| UploadError::Write { path, source }
        };
        let path = all(data.ok_or(UploadError::NoFolder)?).join(id);
        fs::create_dir_all(&path).map_err(failed(&path))?;
        let folder = UploadFolder { path, stays: false };
        for (path, bytes) in files {
            let path = folder.path.join(path);
            let parent = path.parent().unwrap_or(&folder.path);
            fs::create_dir_all(parent).map_err(failed(parent))?;
            fs::write(&path, bytes).map_err(failed(&path))?;
        }
        Ok(folder)
    }

    /// Where it is, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves its files there, for an agent that has them from now on.
    pub fn keep(&mut self) {
        self.stays = true;
    }
}

impl Drop for UploadFolder {
    fn drop(&mut self) {
        if !self.stays {
            remove_folder(&self.path);
        }
    }
}

/// The folder of these folders, absolute: agents are started from there whatever the current folder is.
fn all(data: &Path) -> PathBuf {
    // An error means that the path is empty, or that there is no current folder.
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    data.join(FOLDER)
}

/// Removes the files of an agent that was removed, if they were handed over and no other agent has them.
pub fn forget(node: &Node, folder: &Path) {
    let Some(data) = node.data() else { return };
    let is_upload = folder.parent() == Some(all(data).as_path());
    if is_upload && owned(node).is_some_and(|folders| !folders.iter().any(|other| other == folder)) {
        remove_folder(folder);
    }
}

/// Removes what was handed over and no agent has: the node may have ended while somebody looked at it.
pub(crate) fn sweep(node: &Node) {
    let (Some(data), Some(folders)) = (node.data(), owned(node)) else { return };
    // There is no such folder before anything is handed over.
    let Ok(entries) = fs::read_dir(all(data)) else { return };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    // Each has a name that no other one has: the data may lie elsewhere now than when the agent was added.
    let is_owned = |path: &PathBuf| folders.iter().any(|folder| folder.file_name() == path.file_name());
    paths.filter(|path| !is_owned(path)).for_each(|path| remove_folder(&path));
}

/// The folders of all agents; none if that cannot be read.
fn owned(node: &Node) -> Option<Vec<PathBuf>> {
    let all = publish::all(node.store.as_ref()).ok()?;
    let others = rollouts::stored_agents(node.store.as_ref()).ok()?;
    Some(all.into_iter().chain(others).map(|added| added.folder).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(data: &Path, id: &str) -> UploadFolder {
        let files: [(&str, &[u8]); 2] = [("agent.py", b"print()"), ("data/map", &[0, 255])];
        UploadFolder::write(Some(data), id, files.into_iter()).expect("it is written")
    }

    #[test]
    fn what_is_only_looked_at_leaves_nothing() {
        let data = tempfile::tempdir().expect("a folder");
        let folder = written(data.path(), "a");
        assert_eq!(fs::read(folder.path().join("data/map")).expect("it is there"), [0, 255]);
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
        let mut stays = written(data.path(), "b");
        stays.keep();
        let path = stays.path().to_owned();
        drop(stays);
        assert_eq!(fs::read(path.join("agent.py")).expect("it stays"), b"print()");
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_and_says_why() {
        let data = tempfile::tempdir().expect("a folder");
        let files: [(&str, &[u8]); 2] = [("a", b""), ("a/b", b"")];
        let error = UploadFolder::write(Some(data.path()), "c", files.into_iter()).expect_err("a file is no folder");
        assert!(error.to_string().contains("handed over"), "{error}");
        assert!(!all(data.path()).join("c").exists());
        let none = UploadFolder::write(None, "c", files.into_iter()).expect_err("nowhere");
        assert!(matches!(none, UploadError::NoFolder));
    }
}
