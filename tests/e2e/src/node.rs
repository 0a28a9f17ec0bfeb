//! Node.js with the packages of npm that interoperability tests use.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use althing_testing::{remedy, skip};

use althing_testing::cache;

use super::python::done;

/// Packages that are installed together.
struct Pinned {
    package: &'static str,
    lock: &'static str,
}

/// Those that run on every Node.js that is maintained.
const INTEROP: Pinned = Pinned {
    package: include_str!("../js/interop/package.json"),
    lock: include_str!("../js/interop/package-lock.json"),
};
/// MCP's own tools, which need Node.js 22, with it.
const MCP: Pinned =
    Pinned { package: include_str!("../js/mcp/package.json"), lock: include_str!("../js/mcp/package-lock.json") };

/// A server of tools that runs on every Node.js that is maintained, as whoever starts it by `npx` names it.
pub const NPX_SERVER: &str = "@modelcontextprotocol/server-everything@2026.8.31";

/// promptfoo, which needs Node.js 22, with it: 2 GiB, for the night alone.
const PROMPTFOO: Pinned = Pinned {
    package: include_str!("../js/promptfoo/package.json"),
    lock: include_str!("../js/promptfoo/package-lock.json"),
};

/// The folder of the packages, for `NODE_PATH`; kept, and made once for its lock file. `None`, with the reason printed
/// for each test, when it cannot be had.
pub fn packages() -> Option<&'static Path> {
    static PACKAGES: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    had(PACKAGES.get_or_init(|| install(&INTEROP))).map(PathBuf::as_path)
}

/// Node.js 22 and the folder of MCP's tools; as [`packages`].
pub fn mcp_tools() -> Option<(&'static Path, &'static Path)> {
    static TOOLS: OnceLock<Result<(PathBuf, PathBuf), String>> = OnceLock::new();
    let tools = TOOLS.get_or_init(|| with_node(&MCP));
    had(tools).map(|(program, packages)| (program.as_path(), packages.as_path()))
}

/// Node.js 22 and the folder of promptfoo; as [`packages`].
pub fn promptfoo() -> Option<(&'static Path, &'static Path)> {
    static TOOLS: OnceLock<Result<(PathBuf, PathBuf), String>> = OnceLock::new();
    let tools = TOOLS.get_or_init(|| with_node(&PROMPTFOO));
    had(tools).map(|(program, packages)| (program.as_path(), packages.as_path()))
}

/// A cache of npm as `npx` leaves it that has started [`NPX_SERVER`] once; as [`packages`].
pub fn npx_cache() -> Option<&'static Path> {
    static CACHE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    had(CACHE.get_or_init(cached_by_npx)).map(PathBuf::as_path)
}

fn cached_by_npx() -> Result<PathBuf, String> {
    let version = done(Command::new("npx").arg("--version"))?;
    let digest = althing_protocol::digest(format!("{version}\n{NPX_SERVER}").as_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let kept = cache()?.join("interop").join(format!("npx-{name}"));
    if !kept.exists() {
        // Under another name until it is whole, as above.
        let making = kept.with_extension(std::process::id().to_string());
        std::fs::create_dir_all(&making).map_err(|error| error.to_string())?;
        let mut npx = Command::new("npx");
        npx.args(["-y", NPX_SERVER]).env("npm_config_cache", &making).env("npm_config_fetch_retries", "1");
        // It serves its standard input, which is over at once.
        done(npx.stdin(Stdio::null()))?;
        if let (Err(error), false) = (std::fs::rename(&making, &kept), kept.exists()) {
            return Err(error.to_string());
        }
    }
    Ok(kept)
}

/// Packages, and the Node.js among them.
fn with_node(pinned: &Pinned) -> Result<(PathBuf, PathBuf), String> {
    let packages = install(pinned)?;
    // npm installs the one of this machine.
    let mut programs = ["x64", "arm64"].map(|of| packages.join(format!("node-linux-{of}/bin/node"))).into_iter();
    let program = programs.find(|program| program.exists()).ok_or("npm has no Node.js 22 for this machine")?;
    Ok((program, packages))
}

fn had<T>(made: &Result<T, String>) -> Option<&T> {
    made.as_ref().inspect_err(|reason| skip(&format!("no packages of npm: {reason}"), remedy::NODE)).ok()
}

fn install(pinned: &Pinned) -> Result<PathBuf, String> {
    let version = done(Command::new("node").arg("--version"))?;
    let digest = althing_protocol::digest(format!("{version}\n{}\n{}", pinned.package, pinned.lock).as_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let kept = cache()?.join("interop").join(format!("npm-{name}"));
    if !kept.exists() {
        // Under another name until it is whole: who finds the folder finds everything in it.
        let making = kept.with_extension(std::process::id().to_string());
        std::fs::create_dir_all(&making).map_err(|error| error.to_string())?;
        for (name, text) in [("package.json", pinned.package), ("package-lock.json", pinned.lock)] {
            std::fs::write(making.join(name), text).map_err(|error| error.to_string())?;
        }
        done(Command::new("npm").args(["ci", "--no-fund", "--no-audit", "--ignore-scripts"]).current_dir(&making))?;
        if let (Err(error), false) = (std::fs::rename(&making, &kept), kept.exists()) {
            return Err(error.to_string());
        }
    }
    Ok(kept.join("node_modules"))
}
