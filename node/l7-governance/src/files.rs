//! The files that an owner writes: policies and people.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use althing_store::replace_file;

use crate::error::ChangeError;

/// The policies, in the folder of governance.
pub(crate) const POLICY_FILE: &str = "policy.cedar";
/// The people, in the same.
pub(crate) const PEOPLE_FILE: &str = "people.yaml";

/// What is at a place.
pub(crate) enum FileState {
    /// Nothing.
    Absent,
    /// A text of at most so many bytes as were asked for, and one: the reader refuses it then.
    Text(String),
    /// Something that cannot be read, and why.
    Unreadable(String),
}

/// Reads a file of the folder, and no more of it than `bytes_max` and one byte.
pub(crate) fn read(folder: Option<&Path>, name: &str, bytes_max: usize) -> FileState {
    let Some(folder) = folder else { return FileState::Absent };
    let path = folder.join(name);
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return missing(&path),
        Err(error) => return FileState::Unreadable(error.to_string()),
    };
    let mut bytes = Vec::new();
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    match file.take(most).read_to_end(&mut bytes) {
        Ok(_) => {
            String::from_utf8(bytes).map_or_else(|_| FileState::Unreadable("it is no text".to_owned()), FileState::Text)
        }
        Err(error) => FileState::Unreadable(error.to_string()),
    }
}

/// What it means that a file cannot be opened since it is not there: a link to nothing is no absence, since somebody put it there.
fn missing(path: &Path) -> FileState {
    match std::fs::symlink_metadata(path) {
        Ok(_) => FileState::Unreadable("it is a link to what is not there".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => FileState::Absent,
        Err(error) => FileState::Unreadable(error.to_string()),
    }
}

/// Writes a file of the folder in the place of what is there; nothing where there is no folder.
pub(crate) async fn write(folder: Option<PathBuf>, name: &'static str, text: String) -> Result<(), ChangeError> {
    changed(folder, name, move |path| replace_file(path, text.as_bytes())).await
}

/// Removes a file of the folder, so that it stays away after a power cut; one that is not there is no error.
pub(crate) async fn remove(folder: Option<PathBuf>, name: &'static str) -> Result<(), ChangeError> {
    changed(folder, name, |path| match std::fs::remove_file(path) {
        Ok(()) => path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    })
    .await
}

async fn changed(
    folder: Option<PathBuf>,
    name: &'static str,
    change: impl FnOnce(&Path) -> std::io::Result<()> + Send + 'static,
) -> Result<(), ChangeError> {
    let Some(path) = folder.map(|folder| folder.join(name)) else { return Ok(()) };
    let shown = path.display().to_string();
    let failed = move |reason: String| ChangeError::File { path: shown, reason };
    match tokio::task::spawn_blocking(move || change(&path)).await {
        Ok(done) => done.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed("the node is being stopped".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_no_absence() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let state = || read(Some(folder.path()), POLICY_FILE, 16);
        assert!(matches!(state(), FileState::Absent));
        std::os::unix::fs::symlink("nowhere", folder.path().join(POLICY_FILE)).expect("a link");
        let FileState::Unreadable(why) = state() else { panic!("it is there") };
        assert!(why.contains("link"), "{why}");
        std::fs::write(folder.path().join("nowhere"), "permit").expect("it is written");
        assert!(matches!(state(), FileState::Text(text) if text == "permit"));
    }
}
