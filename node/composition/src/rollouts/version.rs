//! By what a version is told from another one: its file, the code that this names, and the version of the model that it is bound to
//! where several are in its range.

use std::path::{Path, PathBuf};

use althing_execution::smooth::ModelVersion;
use althing_protocol::{Digest, digest};
use althing_store::file::read_bytes;
use althing_td::{AgentFile, RuntimeSpec};

use super::error::RolloutError;

/// Bytes of one file of code.
const CODE_BYTES_MAX: u64 = 256 << 20;

/// The digest of a version: of all that its file says but the number of the version, of its module, of each file that the
/// command of its program names, and of the version of its model that was noted of it. Reads the files: not on a thread on which
/// others wait.
pub(super) fn digest_of(file: &AgentFile, folder: &Path, model: Option<&ModelVersion>) -> Result<Digest, RolloutError> {
    let unreadable = |why: String| RolloutError::Unreadable { agent: file.name.clone(), why };
    // A version that went back does not come again under another number.
    let said = AgentFile { version: String::new(), ..file.clone() };
    let mut bytes = serde_json::to_vec(&said).map_err(|error| unreadable(error.to_string()))?;
    for path in code(file, folder) {
        let read = read_bytes(&path, CODE_BYTES_MAX);
        let read = read.map_err(|error| unreadable(format!("{}: {error}", path.display())))?;
        bytes.extend(digest(&read));
    }
    if let Some(model) = model {
        bytes.extend(digest(model.to_string().as_bytes()));
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
        let of = |file: &AgentFile| digest_of(file, folder.path(), None).expect("it can be read");
        std::fs::write(folder.path().join("shop.py"), "print(1)").expect("written");
        let first = of(&program("1.0.0", "Shop"));
        assert_eq!(of(&program("1.0.1", "Shop")), first, "a number changes nothing");
        assert_ne!(of(&program("1.0.0", "Store")), first);
        std::fs::write(folder.path().join("shop.py"), "print(2)").expect("written");
        assert_ne!(of(&program("1.0.0", "Shop")), first, "other code is another version");
    }

    #[test]
    fn another_version_of_the_model_is_another_version() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = program("1.0.0", "Shop");
        let of = |version: Option<&str>| {
            let model = version.map(|version| ModelVersion { name: "small".to_owned(), version: version.to_owned() });
            digest_of(&file, folder.path(), model.as_ref()).expect("it can be read")
        };
        assert_eq!(of(Some("1.2.0")), of(Some("1.2.0")));
        assert!(of(None) != of(Some("1.2.0")) && of(Some("1.2.0")) != of(Some("1.3.0")));
    }
}
