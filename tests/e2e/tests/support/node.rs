//! Node.js with the packages of npm that interoperability tests use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::python::{cache, done};

const PACKAGE: &str = include_str!("../../js/interop/package.json");
const LOCK: &str = include_str!("../../js/interop/package-lock.json");

/// The folder of the packages, for `NODE_PATH`; kept, and made once for its lock file. `None`, with the reason printed,
/// when it cannot be had.
pub fn packages() -> Option<&'static Path> {
    static PACKAGES: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = PACKAGES.get_or_init(|| match install() {
        Ok(packages) => Some(packages),
        Err(reason) => {
            althing_testing::lacking(&format!("no packages of npm: {reason}"));
            None
        }
    });
    made.as_deref()
}

fn install() -> Result<PathBuf, String> {
    let version = done(Command::new("node").arg("--version"))?;
    let digest = althing_protocol::digest(format!("{version}\n{PACKAGE}\n{LOCK}").as_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let kept = cache()?.join("interop").join(format!("npm-{name}"));
    if !kept.exists() {
        // Under another name until it is whole: who finds the folder finds everything in it.
        let making = kept.with_extension(std::process::id().to_string());
        std::fs::create_dir_all(&making).map_err(|error| error.to_string())?;
        for (name, text) in [("package.json", PACKAGE), ("package-lock.json", LOCK)] {
            std::fs::write(making.join(name), text).map_err(|error| error.to_string())?;
        }
        done(Command::new("npm").args(["ci", "--no-fund", "--no-audit", "--ignore-scripts"]).current_dir(&making))?;
        if let (Err(error), false) = (std::fs::rename(&making, &kept), kept.exists()) {
            return Err(error.to_string());
        }
    }
    Ok(kept.join("node_modules"))
}
