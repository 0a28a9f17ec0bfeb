//! Go with the libraries of its checksum database, as Debian packages both.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use althing_testing::{remedy, skip};

use super::Machine;
use super::python::done;

/// Where `golang-golang-x-mod-dev` puts the sources of libraries.
const SOURCES: &str = "/usr/share/gocode";
const NOTES: &str = include_str!("../go/notes.go");

/// The program `go/notes.go`, built in the folder of a machine; none, with the reason printed, where Go or its libraries are
/// missing.
pub fn notes(machine: &Machine) -> Option<PathBuf> {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let ready = READY.get_or_init(|| {
        let sources = Path::new(SOURCES).join("src/golang.org/x/mod/sumdb/tlog");
        let is_there = sources.is_dir().then_some(()).ok_or_else(|| format!("{} is not there", sources.display()));
        done(Command::new("go").arg("version")).and(is_there)
    });
    ready.as_ref().inspect_err(|why| skip(&format!("no Go with its checksum database: {why}"), remedy::GO)).ok()?;
    let source = machine.write("notes.go", NOTES);
    let program = machine.folder().join("notes");
    let mut build = machine.command(Path::new("go"));
    build.args(["build", "-o"]).arg(&program).arg(source).env("GO111MODULE", "off").env("GOPATH", SOURCES);
    build.env("GOFLAGS", "").env("GOCACHE", machine.home().join("cache/go"));
    done(&mut build).unwrap_or_else(|why| panic!("it is not built: {why}"));
    Some(program)
}
