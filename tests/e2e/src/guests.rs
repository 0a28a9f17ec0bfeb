//! WebAssembly components, made from Python and from JavaScript by the tools that their users have. What was made is
//! kept by what it was made from.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use althing_testing::{remedy, skip};

use althing_testing::cache;

use super::python::{done, python};

const WIT: &str = include_str!("../../../node/l1-execution/wasm/wit/agent.wit");
const BUILD: &str = include_str!("../../../examples/counter-agent/build.mjs");
const PACKAGE: &str = include_str!("../js/package.json");

/// A component of the world `agent`, from a module of Python. `None`, with the reason printed, when it cannot be made.
pub fn from_python(source: &str) -> Option<PathBuf> {
    let python = python()?;
    // Not by its name: the folder was made under another one, which scripts remember.
    let script = "import sys; from componentize_py import script; sys.exit(script())";
    Some(kept("py", source, |folder| {
        std::fs::write(folder.join("app.py"), source).expect("a file");
        let mut make = Command::new(python);
        make.args(["-c", script, "-d", "wit", "-w", "agent", "componentize", "app", "-o", "made.wasm"]);
        done(make.current_dir(folder)).map(drop)
    }))
}

/// The same, from a module of JavaScript.
pub fn from_javascript(source: &str) -> Option<PathBuf> {
    if done(Command::new("npm").arg("--version")).is_err() {
        skip("there is no npm", remedy::NODE);
        return None;
    }
    Some(kept("js", source, |folder| {
        std::fs::write(folder.join("app.js"), source).expect("a file");
        let mut make = Command::new("node");
        make.arg(packages()?.join("build.mjs")).args(["wit", "app.js", "made.wasm"]);
        done(make.current_dir(folder)).map(drop)
    }))
}

/// The packages and what builds with them, installed once for their lock file.
fn packages() -> Result<PathBuf, String> {
    let home = cache()?.join("interop").join(format!("js-{}", name_of(&format!("{PACKAGE}{BUILD}"))));
    if !home.exists() {
        let making = home.with_extension(std::process::id().to_string());
        std::fs::create_dir_all(&making).map_err(|error| error.to_string())?;
        for (name, text) in [("package.json", PACKAGE), ("build.mjs", BUILD)] {
            std::fs::write(making.join(name), text).map_err(|error| error.to_string())?;
        }
        // Without a lock file: npm leaves packages out that one names, when it was written on another platform.
        done(
            Command::new("npm").args(["install", "--no-package-lock", "--no-fund", "--no-audit"]).current_dir(&making),
        )?;
        if let (Err(error), false) = (std::fs::rename(&making, &home), home.exists()) {
            return Err(error.to_string());
        }
    }
    Ok(home)
}

fn name_of(text: &str) -> String {
    althing_protocol::digest(text.as_bytes()).iter().take(8).fold(String::new(), |mut name, byte| {
        write!(name, "{byte:02x}").expect("text takes text");
        name
    })
}

fn kept(kind: &str, source: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> PathBuf {
    let name = name_of(&format!("{kind}\n{WIT}\n{BUILD}\n{PACKAGE}\n{source}"));
    let folder = cache().expect("a folder").join("interop");
    let made = folder.join(format!("{kind}-{name}.wasm"));
    if !made.exists() {
        let making = tempfile::tempdir_in(&folder).expect("a folder");
        std::fs::create_dir(making.path().join("wit")).expect("a folder");
        std::fs::write(making.path().join("wit/agent.wit"), WIT).expect("a file");
        make(making.path()).unwrap_or_else(|error| panic!("the component cannot be made: {error}"));
        std::fs::rename(making.path().join("made.wasm"), &made).expect("a file");
    }
    made
}

const GUEST: &str = include_str!("../../../node/l1-execution/guest/src/lib.rs");
const TARGET: &str = "wasm32-wasip2";

/// The example in Rust, for machines whose Rust has the target.
pub fn from_rust(source: &str) -> Option<PathBuf> {
    let installed = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let library = installed.ok().filter(|told| told.status.success()).map(|told| told.stdout).unwrap_or_default();
    let library = String::from_utf8_lossy(&library).trim().to_owned();
    if library.is_empty() || !Path::new(&library).exists() {
        skip(&format!("this Rust has no target {TARGET}"), remedy::WASM);
        return None;
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/counter-agent/rust/Cargo.toml");
    Some(kept("rust", &format!("{GUEST}\n{source}"), |folder| {
        // In a folder of its own: cargo, which runs this test, has its own locked.
        let target = cache()?.join("interop/rust-target");
        let mut building = Command::new("cargo");
        building.args(["build", "--release", "--target", TARGET, "--manifest-path"]).arg(&manifest);
        building.arg("--target-dir").arg(&target).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        done(&mut building)?;
        let built = target.join(TARGET).join("release/counter_agent.wasm");
        std::fs::copy(&built, folder.join("made.wasm")).map(drop).map_err(|error| error.to_string())
    }))
}
