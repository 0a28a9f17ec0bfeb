//! The format file: which format the store has and who wrote it, read before anything else is opened.

use crate::{OpenError, durable::Staged};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The format this program writes. Raise it when an older program would misread the store.
const FORMAT: u32 = 2;
const NAME: &str = "FORMAT";
const MAGIC: &str = "althing-store";
/// Several times what a format file needs; a longer one is damaged.
const BYTES_MAX: u64 = 512;

/// The state in which the last opening left the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The directory is new, or the first opening was interrupted; nothing was acknowledged yet.
    Creating,
    /// The database was opened once: it must be there.
    Ready,
}

/// Reads the format of the store in `dir`, whose database lies in `database`; a new store gets its file here.
pub(crate) fn check(dir: &Path, database: &Path) -> Result<State, OpenError> {
    let path = dir.join(NAME);
    match read(&path) {
        Ok(text) => parse(&text, dir, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if database.exists() {
                return Err(OpenError::Damaged { path, detail: "the format file of an existing store is gone".into() });
            }
            mark(dir, State::Creating)?;
            Ok(State::Creating)
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(OpenError::Damaged { path, detail: "the format file holds no text".into() })
        }
        Err(source) => Err(OpenError::Io { doing: "read", path, source }),
    }
}

/// Writes the format file atomically.
pub(crate) fn mark(dir: &Path, state: State) -> Result<(), OpenError> {
    let path = dir.join(NAME);
    let word = match state {
        State::Creating => "creating",
        State::Ready => "ready",
    };
    let text = format!("{MAGIC} {FORMAT}\nwritten-by {}\nstate {word}\n", env!("CARGO_PKG_VERSION"));
    Staged::write(&path, text.as_bytes()).and_then(Staged::replace).map_err(|source| OpenError::Io {
        doing: "write",
        path,
        source,
    })
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The first two lines are the same in all formats; the rest depends on the format that they name.
fn parse(text: &str, dir: &Path, path: PathBuf) -> Result<State, OpenError> {
    let mut lines = text.split('\n');
    let mut field = |name: &str| {
        lines.next()?.strip_prefix(name)?.strip_prefix(' ').filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let header = field(MAGIC).and_then(|format| format.parse::<u32>().ok()).zip(field("written-by"));
    match header {
        Some((found, written_by)) if found > FORMAT => {
            Err(OpenError::Newer { dir: dir.to_owned(), found, known: FORMAT, written_by })
        }
        Some((found, written_by)) if (1..FORMAT).contains(&found) => {
            Err(OpenError::Older { dir: dir.to_owned(), found, known: FORMAT, written_by })
        }
        Some((FORMAT, _)) => match (field("state").as_deref(), lines.next(), lines.next()) {
            (Some("ready"), Some(""), None) => Ok(State::Ready),
            (Some("creating"), Some(""), None) => Ok(State::Creating),
            _ => Err(damaged(path, text)),
        },
        _ => Err(damaged(path, text)),
    }
}

fn damaged(path: PathBuf, text: &str) -> OpenError {
    let start: String = text.chars().take(40).collect();
    OpenError::Damaged { path, detail: format!("the format file begins with {start:?}, which no version wrote") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<State, OpenError> {
        parse(text, Path::new("store"), PathBuf::from("store/FORMAT"))
    }

    #[test]
    fn every_cut_of_a_good_file_is_damaged() {
        let good = "althing-store 2\nwritten-by 0.1.0\nstate ready\n";
        assert_eq!(parsed(good).expect("as written"), State::Ready);
        for end in 0..good.len() {
            assert!(matches!(parsed(&good[..end]), Err(OpenError::Damaged { .. })), "cut at {end}");
        }
    }

    #[test]
    fn a_newer_format_may_hold_other_lines() {
        let newer = parsed("althing-store 3\nwritten-by 0.9.3\nshape of things to come");
        assert!(matches!(newer, Err(OpenError::Newer { found: 3, known: 2, written_by, .. }) if written_by == "0.9.3"));
    }

    #[test]
    fn what_named_publishers_by_their_keys_is_refused_with_what_to_do() {
        let older = parsed("althing-store 1\nwritten-by 0.1.0\nstate ready\n").expect_err("another format");
        assert!(older.to_string().contains("move store away and start again"), "{older}");
    }

    #[test]
    fn no_program_wrote_format_zero() {
        assert!(matches!(parsed("althing-store 0\nwritten-by 0.1.0\nstate ready\n"), Err(OpenError::Damaged { .. })));
    }
}
