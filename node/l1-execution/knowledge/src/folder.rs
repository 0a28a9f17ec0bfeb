//! Lists the text files of a folder, within limits.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use althing_store::file::FileError;

/// The limits of a folder.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Files.
    pub files: usize,
    /// Bytes of one file; larger ones are left out, and listed as such.
    pub file_bytes: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Folders within folders.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { files: 10_000, file_bytes: 8 << 20, bytes: 64 << 20, depth: 16 }
    }
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It, or something in it, cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// What.
        path: PathBuf,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// It holds no text files.
    #[error("{0} holds no text files (.md, .txt, .rst, .adoc, .org, .html, .csv, .json, .yaml, .toml, or none)")]
    Empty(PathBuf),
    /// It exceeds a limit.
    #[error("{path} holds more than {what}; give the agent a smaller folder")]
    TooMuch {
        /// The folder.
        path: PathBuf,
        /// The limit, in words.
        what: String,
    },
    /// One of its files cannot be read any more.
    #[error("cannot read {path}: {reason}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: FileError,
    },
    /// The index failed.
    #[error("the index failed: {0}")]
    Index(#[from] tantivy::TantivyError),
}

/// The files of a folder, by relative path, with size and modification time.
pub(crate) type State = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// The names of left-out files that are listed.
const NAMES_MAX: usize = 5;

/// A text that lists left-out files; none if there are none.
pub(crate) fn left_out(files: &[PathBuf]) -> Option<String> {
    let names: Vec<String> = files.iter().take(NAMES_MAX).map(|file| file.display().to_string()).collect();
    let more = if files.len() > NAMES_MAX { ", …" } else { "" };
    let count = files.len();
    (count > 0).then(|| format!("left out because they are too large or no text: {count} ({}{more})", names.join(", ")))
}

/// The extensions of text files. A file without an extension counts too (README, LICENSE).
const ENDINGS: [&str; 12] = ["md", "txt", "rst", "adoc", "org", "html", "htm", "csv", "json", "yaml", "yml", "toml"];

/// Lists the files. Hidden ones, links, other extensions, and all but regular files (reading a pipe would block) are left
/// out.
pub(crate) fn look(folder: &Path, limits: &Limits) -> Result<State, FolderError> {
    let mut state = State::new();
    let mut bytes = 0;
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((path, depth)) = open.pop() {
        let failed = |reason| FolderError::Read { path: path.clone(), reason };
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let kind = entry.file_type().map_err(failed)?;
            let hidden = name.to_string_lossy().starts_with('.');
            if hidden || kind.is_symlink() {
                continue;
            }
            if kind.is_dir() {
                let built = name == "target" || name == "node_modules";
                if depth < limits.depth && !built {
                    open.push((entry.path(), depth + 1));
                }
                continue;
            }
            if !kind.is_file() || !is_text(&entry.path()) {
                continue;
            }
            let meta = entry.metadata().map_err(failed)?;
            // A file that is too large is not read, and listed as left out.
            bytes += if meta.len() > limits.file_bytes { 0 } else { meta.len() };
            if state.len() == limits.files || bytes > limits.bytes {
                let what = format!("{} text files or {} MiB of them", limits.files, limits.bytes >> 20);
                return Err(FolderError::TooMuch { path: folder.to_owned(), what });
            }
            let path = entry.path();
            let relative = path.strip_prefix(folder).unwrap_or(&path).to_owned();
            state.insert(relative, (meta.len(), meta.modified().ok()));
        }
    }
    if state.is_empty() { Err(FolderError::Empty(folder.to_owned())) } else { Ok(state) }
}

fn is_text(path: &Path) -> bool {
    path.extension().is_none_or(|ending| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}
