//! Where a path leads: its links are followed one by one, as the kernel does.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::{Files, Kind};

/// The most links on one path, as in the kernel.
const LINKS_MAX: usize = 40;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The links on it, in order; each at a path without links.
    pub links: Vec<PathBuf>,
    /// Where it ends, without links.
    pub end: PathBuf,
    /// What is there; never a link.
    pub kind: Kind,
}

impl Way {
    /// Follows an absolute path. What is missing has an end nevertheless: where it would be.
    pub fn of(files: &dyn Files, path: &Path) -> Way {
        let (mut links, mut end, mut kind) = (Vec::new(), PathBuf::from("/"), Kind::Folder);
        let mut ahead = parts(path);
        while let Some(part) = ahead.pop() {
            if part == ".." {
                end.pop();
                kind = files.kind(&end);
                continue;
            }
            end.push(&part);
            kind = files.kind(&end);
            if kind != Kind::Link {
                continue;
            }
            let target = files.target(&end).filter(|_| links.len() < LINKS_MAX);
            let Some(target) = target else { return Way { links, end, kind: Kind::Missing } };
            links.push(end.clone());
            end.pop();
            if target.is_absolute() {
                end = PathBuf::from("/");
            }
            kind = Kind::Folder;
            ahead.extend(parts(&target));
        }
        Way { links, end, kind }
    }

    /// Whether it ends at a file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let part = |component: Component<'_>| match component {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().rev().filter_map(part).collect()
}
