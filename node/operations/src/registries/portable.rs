//! Whether an agent can run where its release is installed: its paths stay in the folder of its file, and what they name is in
//! the release.

use std::path::{Component, Path, PathBuf};

use althing_td::{AgentFile, RuntimeSpec, ToolServerSpec};

use super::RegistriesError;

/// An agent file, and what its release has beside it.
pub(super) struct Portable<'a> {
    /// The folder of the agent file.
    pub folder: &'a Path,
    /// The files of the release, from that folder.
    pub files: Vec<String>,
}

impl Portable<'_> {
    /// Checks all paths of the file, and the files beside it that its commands name.
    pub fn check(&self, file: &AgentFile) -> Result<(), RegistriesError> {
        match &file.runtime {
            RuntimeSpec::Wasm { module } => drop(inside("runtime.wasm.module", module)?),
            RuntimeSpec::Process { command, cwd, .. } => self.program("runtime.process", command, cwd.as_deref())?,
            RuntimeSpec::Native { config, .. } => {
                if let Some(folder) = config.get("folder").and_then(serde_json::Value::as_str) {
                    self.directory("runtime.native.config.folder", Path::new(folder))?;
                }
            }
            RuntimeSpec::Model { .. } | RuntimeSpec::Remote { .. } => {}
        }
        for (name, server) in &file.tools {
            if let ToolServerSpec::Command { command, cwd, .. } = server {
                self.program(&format!("tools.{name}"), command, cwd.as_deref())?;
            }
        }
        Ok(())
    }

    fn program(&self, field: &str, command: &[String], cwd: Option<&Path>) -> Result<(), RegistriesError> {
        let cwd = cwd.unwrap_or(Path::new("."));
        self.directory(&format!("{field}.cwd"), cwd)?;
        let field = format!("{field}.command");
        for word in command {
            // A word that names no file here is no path, as far as anybody can tell.
            let path = cwd.join(word);
            if Path::new(word).is_absolute() || !self.folder.join(&path).is_file() {
                continue;
            }
            let wanted = inside(&field, &path)?;
            if !self.files.contains(&wanted) {
                return Err(RegistriesError::NotInRelease { field, path: wanted.into() });
            }
        }
        Ok(())
    }

    /// A folder that is there where the release is installed: that of the agent file, or one with a file of the release.
    fn directory(&self, field: &str, path: &Path) -> Result<(), RegistriesError> {
        let wanted = inside(field, path)?;
        if wanted.is_empty() || self.files.iter().any(|held| Path::new(held).starts_with(&wanted)) {
            return Ok(());
        }
        Err(RegistriesError::NotInRelease { field: field.to_owned(), path: wanted.into() })
    }
}

/// A path from the folder of the agent file, without `.`.
fn inside(field: &str, path: &Path) -> Result<String, RegistriesError> {
    let mut parts = Vec::new();
    for part in path.components() {
        match (part, part.as_os_str().to_str()) {
            (Component::CurDir, _) => {}
            (Component::Normal(_), Some(part)) => parts.push(part),
            _ => {
                let path = PathBuf::from(path);
                return Err(RegistriesError::Elsewhere { field: field.to_owned(), path });
            }
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use althing_failure::RegistryStep;

    use super::*;

    fn check(runtime: &str, files: &[&str]) -> Result<(), RegistriesError> {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["agent.py", "code/main.py"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("its folder")).expect("a folder");
            std::fs::write(path, "pass").expect("a file");
        }
        let file = AgentFile::parse(&format!("name: a\ndescription: Says it.\n{runtime}\n")).expect("a good file");
        let files = files.iter().map(|name| (*name).to_owned()).collect();
        Portable { folder: folder.path(), files }.check(&file)
    }

    #[test]
    fn a_release_runs_elsewhere_or_is_none() {
        let echo = "runtime: { native: { builtin: echo } }";
        let agent = "runtime: { process: { command: [python3, ./agent.py, --port] } }";
        let code = "runtime: { process: { command: [python3, main.py], cwd: code } }";
        let docs = "runtime: { native: { builtin: knowledge, config: { folder: ./docs } } }";
        for (runtime, files) in
            [(echo, &[][..]), (agent, &["agent.py"][..]), (code, &["code/main.py"][..]), (docs, &["docs/a.md"][..])]
        {
            check(runtime, files).unwrap_or_else(|error| panic!("{runtime}: {error}"));
        }
        for (runtime, path) in [(agent, "agent.py"), (code, "code"), (docs, "docs")] {
            let refused = check(runtime, &["other"]).expect_err(runtime);
            assert_eq!(refused.remedy(), Some(RegistryStep::PublishWith(path.to_owned()).into()), "{refused}");
        }
        let tools = format!("{echo}\ntools: {{ t: {{ command: [a], cwd: a/../.. }} }}");
        for (runtime, field) in [
            (
                "runtime: { native: { builtin: knowledge, config: { folder: ../docs } } }",
                "runtime.native.config.folder",
            ),
            ("runtime: { process: { command: [a], cwd: /srv/agent } }", "runtime.process.cwd"),
            ("runtime: { wasm: { module: /srv/a.wasm } }", "runtime.wasm.module"),
            (tools.as_str(), "tools.t.cwd"),
        ] {
            let refused = check(runtime, &[]).expect_err(runtime);
            assert!(matches!(&refused, RegistriesError::Elsewhere { field: found, .. } if found == field), "{refused}");
        }
    }
}
