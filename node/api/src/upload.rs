//! Files that are handed to a node: themselves, or where they lie on its machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use althing_protocol::registry::is_plain_path;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest body of a request that hands over files, in bytes: base64 of [`UPLOAD_BYTES_MAX`], and what stands around it.
pub const UPLOAD_BODY_BYTES_MAX: usize = 24 << 20;
/// The most files that are handed over at once.
pub const UPLOAD_FILES_MAX: usize = 256;
/// The longest file that is handed over, in bytes.
pub const UPLOAD_FILE_BYTES_MAX: usize = 8 << 20;
/// The most bytes of all files that are handed over at once.
pub const UPLOAD_BYTES_MAX: usize = 16 << 20;

/// From which listener a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// That of the machine itself, which only the owner of the node's files can reach.
    Local,
    /// Another one: whoever asks may be anywhere.
    Other,
}

/// A path of the machine that the node runs on, absolute. Nobody reads it without saying from which listener it came: only the
/// local one may name files of that machine, since whoever asks there may read them anyway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct LocalPath(PathBuf);

impl LocalPath {
    /// That path, which is absolute.
    pub fn new(path: impl Into<PathBuf>) -> LocalPath {
        LocalPath(path.into())
    }

    /// The path; none where the request came from another listener than the local one.
    #[must_use]
    pub fn on(&self, listener: Listener) -> Option<&Path> {
        match listener {
            Listener::Local => Some(&self.0),
            Listener::Other => None,
        }
    }
}

/// A folder that a request is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Folder {
    /// A folder of the node's machine. Only who asks on that machine, over its control socket, may name one.
    Here(LocalPath),
    /// The files of the folder, which the node writes into one of its own.
    Upload(Upload),
}

impl Folder {
    /// That folder of the node's machine.
    pub fn here(path: impl Into<PathBuf>) -> Folder {
        Folder::Here(LocalPath::new(path))
    }
}

/// Files by their paths in their folder: `folder/file`, without `.` or `..` or a leading `/`; each as base64 (RFC 4648, section 4,
/// with padding). At most 256 files, of 8 MiB each and 16 MiB in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema)]
pub struct Upload(#[schemars(with = "BTreeMap<String, String>")] BTreeMap<String, Vec<u8>>);

/// Why files cannot be handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadFault {
    /// More than are taken at once.
    TooMany,
    /// That one is too long.
    FileTooLong(String),
    /// All together are too long.
    TooLong,
    /// That is no path in a folder.
    Path(String),
    /// That path is named twice, or is a file and a folder at once.
    Twice(String),
    /// What stands for that file is no base64.
    Base64(String),
}

impl fmt::Display for UploadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UploadFault::TooMany => write!(f, "at most {UPLOAD_FILES_MAX} files are handed over at once"),
            UploadFault::FileTooLong(path) => {
                write!(f, "{path:?} has more than {} MiB, the most of one file", UPLOAD_FILE_BYTES_MAX >> 20)
            }
            UploadFault::TooLong => {
                write!(f, "the files have more than {} MiB, the most of all together", UPLOAD_BYTES_MAX >> 20)
            }
            UploadFault::Path(path) => {
                write!(f, "{path:?} is no path in a folder: write folder/file, without . or .. or a leading /")
            }
            UploadFault::Twice(path) => write!(f, "{path:?} is there twice, or is a file and a folder at once"),
            UploadFault::Base64(path) => write!(f, "{path:?} is no base64 with padding"),
        }
    }
}

impl std::error::Error for UploadFault {}

impl Upload {
    /// Adds a file.
    ///
    /// # Errors
    /// [`UploadFault`]: the file is not added.
    pub fn add(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), UploadFault> {
        self.check(path, bytes.len())?;
        self.0.insert(path.to_owned(), bytes);
        Ok(())
    }

    /// Whether a file of that path and length in bytes can be added.
    fn check(&self, path: &str, bytes: usize) -> Result<(), UploadFault> {
        if !is_plain_path(path) {
            return Err(UploadFault::Path(path.chars().take(256).collect()));
        }
        if self.0.len() == UPLOAD_FILES_MAX {
            return Err(UploadFault::TooMany);
        }
        let folder = format!("{path}/");
        let is_folder = self.0.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder));
        let above = path.match_indices('/').any(|(end, _)| self.0.contains_key(&path[..end]));
        if self.0.contains_key(path) || is_folder || above {
            return Err(UploadFault::Twice(path.to_owned()));
        }
        if bytes > UPLOAD_FILE_BYTES_MAX {
            return Err(UploadFault::FileTooLong(path.to_owned()));
        }
        let before: usize = self.0.values().map(Vec::len).sum();
        if before + bytes > UPLOAD_BYTES_MAX {
            return Err(UploadFault::TooLong);
        }
        Ok(())
    }

    /// The files by their paths, each below the folder.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// Whether a file of that path is among them.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }
}

impl Serialize for Upload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(path, bytes)| (path, STANDARD.encode(bytes))))
    }
}

impl<'de> Deserialize<'de> for Upload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Upload, D::Error> {
        deserializer.deserialize_map(UploadVisitor)
    }
}

struct UploadVisitor;

impl<'de> Visitor<'de> for UploadVisitor {
    type Value = Upload;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Upload, A::Error> {
        let mut upload = Upload::default();
        while let Some((path, text)) = members.next_entry::<String, String>()? {
            // The length says how long the file is, before anything is decoded.
            upload.check(&path, text.len() / 4 * 3 - padding(&text)).map_err(A::Error::custom)?;
            let bytes = STANDARD.decode(&text).map_err(|_| A::Error::custom(UploadFault::Base64(path.clone())))?;
            upload.0.insert(path, bytes);
        }
        Ok(upload)
    }
}

/// The bytes by which a text of base64 is shorter than its quads say.
fn padding(text: &str) -> usize {
    if text.len() < 4 { 0 } else { text.bytes().rev().take(2).filter(|byte| *byte == b'=').count() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn with(files: &[(&str, &[u8])]) -> Upload {
        let mut upload = Upload::default();
        for (path, bytes) in files {
            upload.add(path, bytes.to_vec()).expect("a good file");
        }
        upload
    }

    fn wrong(json: &str) -> String {
        serde_json::from_str::<Upload>(json).expect_err(json).to_string()
    }

    #[test]
    fn a_folder_is_named_or_handed_over() {
        assert_json(&Folder::here("/srv/echo"), r#"{"here":"/srv/echo"}"#);
        let files = with(&[("agent.py", b"print()"), ("data/a", b""), ("data/b", &[0, 255])]);
        let json = r#"{"upload":{"agent.py":"cHJpbnQoKQ==","data/a":"","data/b":"AP8="}}"#;
        assert_json(&Folder::Upload(files), json);
        for other in [r#""/srv/echo""#, r#"{"there":"/srv"}"#, r#"{"here":7}"#, r#"{"upload":["a"]}"#, "{}"] {
            assert!(serde_json::from_str::<Folder>(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_path_of_the_machine_is_read_for_its_own_listener_alone() {
        let path = LocalPath::new("/srv/echo");
        assert_eq!(path.on(Listener::Local), Some(Path::new("/srv/echo")));
        assert_eq!(path.on(Listener::Other), None);
    }

    #[test]
    fn no_file_lies_outside_of_its_folder_or_in_another_files_place() {
        for path in ["", "/etc/passwd", "../up", "a/../b", "a//b", "./a", "a/", "a\\\\b", "c:", "a\\u0000b"] {
            assert!(wrong(&format!(r#"{{"{path}":""}}"#)).contains("no path in a folder"), "{path}");
        }
        for json in [r#"{"a":"","a":""}"#, r#"{"a":"","a/b":""}"#, r#"{"a/b":"","a":""}"#, r#"{"a/b/c":"","a/b":""}"#] {
            assert!(wrong(json).contains("twice"), "{json}");
        }
        assert!(serde_json::from_str::<Upload>(r#"{"a":"","a.b":"","a-/b":"","ab":""}"#).is_ok());
    }

    #[test]
    fn files_are_bounded_one_by_one_and_in_all() {
        let most = "A".repeat(UPLOAD_FILE_BYTES_MAX / 3 * 4);
        let file = |bytes: usize| STANDARD.encode(vec![7; bytes]);
        let longest = file(UPLOAD_FILE_BYTES_MAX);
        let one = |text: &str| serde_json::from_str::<Upload>(&format!(r#"{{"a":"{text}"}}"#));
        assert!(one(&most).is_ok() && one(&longest).is_ok());
        assert!(wrong(&format!(r#"{{"a":"{}"}}"#, file(UPLOAD_FILE_BYTES_MAX + 1))).contains("8 MiB"));
        assert!(wrong(&format!(r#"{{"a":"{longest}","b":"{longest}","c":"AA=="}}"#)).contains("16 MiB"));
        let many: Vec<String> = (0..=UPLOAD_FILES_MAX).map(|at| format!(r#""{at}":"""#)).collect();
        assert!(wrong(&format!("{{{}}}", many.join(","))).contains("256 files"));
        const { assert!(UPLOAD_BYTES_MAX / 3 * 4 < UPLOAD_BODY_BYTES_MAX) };
    }

    #[test]
    fn what_is_no_base64_is_refused_by_the_name_of_its_file() {
        for text in ["A", "=", "==", "AA", "A===", "AA=A", "AAAA=", "A_-A", "ä", " AAA"] {
            assert!(wrong(&format!(r#"{{"a.py":"{text}"}}"#)).contains(r#""a.py" is no base64"#), "{text}");
        }
    }
}
