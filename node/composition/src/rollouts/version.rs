//! By what a version is told from another one: its file, and the code that this names.

use std::path::{Path, PathBuf};

use althing_protocol::{Digest, digest};
use althing_store::file::read_bytes;
use althing_td::{AgentFile, RuntimeSpec};

use super::error::RolloutError;

/// Bytes of one file of code.
const CODE_BYTES_MAX: u64 = 256 << 20;

/// The digest of a version: of all that its file says but the number of the version, of its module, and of each file that the
/// command of its program names. Reads these: not on a thread on which others wait.
pub(super) fn digest_of(file: &AgentFile, folder: &Path) -> Result<Digest, RolloutError> {
    let unreadable = |why: String| RolloutError::Unreadable { agent: file.name.clone(), why };
    // A version that went back does not come again under another number.
    let said = AgentFile { version: String::new(), ..file.clone() };
    let mut bytes = serde_json::to_vec(&said).map_err(|error| unreadable(error.to_string()))?;
    for path in code(file, folder) {
        let read = read_bytes(&path, CODE_BYTES_MAX);
        let read = read.map_err(|error| unreadable(format!("{}: {error}", path.display())))?;
        bytes.extend(digest(&read));
    }
    Ok(digest(&bytes))
}

/// The files of code that an agent file names, as far as they are there.
fn code(file: &AgentFile, folder: &Path) -> Vec<PathBuf> {
    match &file.runtime {
        RuntimeSpec::Wasm { module } => vec![folder.join(module)],
        RuntimeSpec::Process { command, cwd, .. } => {
            let from = cwd.as_ref().map_or_else(|| folder.to_owned(), |cwd| folder.join(cwd));
            let named = command.iter().map(|word| from.join(word));
            named.filter(|path| path.is_file()).collect()
        }
        RuntimeSpec::Native { .. } | RuntimeSpec::Remote { .. } | RuntimeSpec::Model { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn program(version: &str, title: &str) -> AgentFile {
        let file = json!({
            "name": "shop",
            "title": title,
            "description": "Sells mugs",
            "version": version,
            "runtime": { "process": { "command": ["python3", "shop.py"] } },
            "contract": { "class": { "latency": "srt" } },
        });
        AgentFile::parse(&file.to_string()).expect("an agent file")
    }

    #[test]
    fn a_version_is_its_file_and_its_code_and_not_its_number() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let of = |file: &AgentFile| digest_of(file, folder.path()).expect("it can be read");
        std::fs::write(folder.path().join("shop.py"), "print(1)").expect("written");
        let first = of(&program("1.0.0", "Shop"));
        assert_eq!(of(&program("1.0.1", "Shop")), first, "a number changes nothing");
        assert_ne!(of(&program("1.0.0", "Store")), first);
        std::fs::write(folder.path().join("shop.py"), "print(2)").expect("written");
        assert_ne!(of(&program("1.0.0", "Shop")), first, "other code is another version");
    }
}
