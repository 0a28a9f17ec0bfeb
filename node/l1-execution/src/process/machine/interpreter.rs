//! The program itself: where it is, what interprets it, and the installation that it is part of.

use std::path::{Path, PathBuf};

use super::package::package;
use super::scope::Scope;
use super::way::Way;
use super::{ContainmentError, Kind};

/// The most programs that are looked at: scripts, and what interprets them. The kernel has a bound too.
const SCRIPTS_MAX: usize = 8;
/// Folders of programs within an installation.
const PROGRAMS: [&str; 3] = ["bin", "sbin", "shims"];
/// What an installation has beside its programs; a folder with nothing of it is somebody's collection of programs.
const MARKS: [&str; 7] = ["lib", "lib64", "libexec", "pyvenv.cfg", "conda-meta", "versions", "installs"];
/// The settings of a Python environment.
const PYTHON_ENVIRONMENT: &str = "pyvenv.cfg";
/// What starts snaps.
const SNAP: &str = "/usr/bin/snap";

/// Grants the program that an agent file names, with its interpreters and their installations.
///
/// # Errors
/// It is not there, or what interprets it is not, or it is a snap.
pub fn program(scope: &mut Scope<'_>, name: &str) -> Result<(), ContainmentError> {
    let Some(path) = found(scope, name) else {
        let looked = if name.contains('/') { scope.cwd.clone() } else { joined(&scope.search) };
        return Err(ContainmentError::NoProgram { name: name.to_owned(), looked });
    };
    let way = scope.way(&path);
    if way.end == Path::new(SNAP) && !path.ends_with("snap") {
        return Err(ContainmentError::Snap { name: name.to_owned() });
    }
    let mut open = vec![(way, true)];
    for _ in 0..SCRIPTS_MAX {
        let Some((way, stated)) = open.pop() else { return Ok(()) };
        let sure = stated && scope.own_link(&way).is_none();
        if sure {
            installations(scope, &way)
        } else {
            python_behind(scope, &way)
        }
        let by_whom = sure && !scope.is_writable(&way.end);
        let head = scope.files.head(&way.end);
        for interpreter in interpreters(&head) {
            let Some(path) = found(scope, &interpreter) else {
                return Err(ContainmentError::NoInterpreter { script: way.end, interpreter });
            };
            // A bare name is looked for in `PATH`, which the program does not write.
            open.push((scope.way(&path), by_whom || !interpreter.contains('/')));
        }
    }
    match open.pop() {
        Some((way, _)) => Err(ContainmentError::Scripts(way.end)),
        None => Ok(()),
    }
}

/// The path of a program: in a folder of `PATH`, unless it is a path itself.
fn found(scope: &Scope<'_>, name: &str) -> Option<PathBuf> {
    let is_there = |path: &PathBuf| scope.way(path).is_file();
    if name.contains('/') {
        return Some(scope.cwd.join(name)).filter(is_there);
    }
    scope.search.iter().map(|folder| folder.join(name)).find(is_there)
}

/// The folders as `PATH` has them.
fn joined(folders: &[PathBuf]) -> PathBuf {
    let texts: Vec<_> = folders.iter().map(|folder| folder.to_string_lossy()).collect();
    PathBuf::from(texts.join(":"))
}

/// Grants a program with the installation of each link on its way, and with its own.
fn installations(scope: &mut Scope<'_>, way: &Way) {
    scope.link(way);
    for at in &way.links {
        installation(scope, at);
    }
    let package = package(scope, &way.end);
    let granted = installation(scope, &way.end);
    let place = package.or_else(|| {
        let folder = way.end.parent()?;
        let alone = granted || is_programs(folder) || scope.is_wide(folder) || scope.is_dotted(folder);
        (!alone).then(|| folder.to_owned())
    });
    if place.is_some() || !granted {
        scope.read(place.unwrap_or_else(|| way.end.clone()));
    }
}

/// Grants the installation that a path without links is a program of; false where it is of none.
fn installation(scope: &mut Scope<'_>, at: &Path) -> bool {
    let Some(prefix) = prefix(at).filter(|prefix| !scope.is_wide(prefix)) else { return false };
    if !MARKS.iter().any(|mark| scope.files.kind(&prefix.join(mark)) != Kind::Missing) {
        return false;
    }
    if scope.read(prefix.to_owned()) {
        environment(scope, prefix, false);
    }
    true
}

/// The folder above a folder of programs.
fn prefix(at: &Path) -> Option<&Path> {
    at.parent().filter(|folder| is_programs(folder)).and_then(Path::parent)
}

fn is_programs(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| PROGRAMS.iter().any(|programs| name == *programs))
}

/// Grants the Python that a Python environment was made with.
fn environment(scope: &mut Scope<'_>, prefix: &Path, python_only: bool) {
    let settings = prefix.join(PYTHON_ENVIRONMENT);
    if scope.files.kind(&settings) != Kind::File {
        return;
    }
    let Some(home) = home_of(&scope.files.head(&settings)) else { return };
    let mut way = scope.way(&home);
    way.end.push("python3");
    if python_only || scope.own_link(&way).is_some() || scope.is_writable(&settings) {
        python(scope, &way);
    } else {
        scope.link(&way);
        installation(scope, &way.end);
    }
}

/// Grants a Python that the program itself may have laid a link to: an installation of Python and nothing else, because
/// the link could lead anywhere.
fn python_behind(scope: &mut Scope<'_>, way: &Way) {
    python(scope, way);
    let places: Vec<PathBuf> =
        way.links.iter().chain([&way.end]).filter_map(|at| prefix(at)).map(Path::to_owned).collect();
    for place in places {
        if scope.is_writable(&place) {
            environment(scope, &place, true);
        }
    }
}

/// Grants the installation of Python that a way ends in, if it is one.
fn python(scope: &mut Scope<'_>, way: &Way) {
    let Some(prefix) = prefix(&way.end).filter(|prefix| !scope.is_wide(prefix)) else { return };
    let libraries = scope.files.names(&prefix.join("lib"));
    if libraries.iter().any(|name| name.starts_with("python3")) {
        scope.link(way);
        scope.read(prefix.to_owned());
    }
}

/// What interprets a file that begins so: the program of its first line, and the one that `env` or a shell starts for it.
pub fn interpreters(head: &[u8]) -> Vec<String> {
    let Some(text) = head.strip_prefix(b"#!") else { return Vec::new() };
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or_default().split_ascii_whitespace();
    let Some(first) = words.next() else { return Vec::new() };
    let second = match Path::new(first).file_name().and_then(|name| name.to_str()) {
        // Options, `-S` among them, and variables come before the program.
        Some("env") => words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned),
        Some("sh") => lines.next().and_then(long),
        _ => None,
    };
    [first.to_owned()].into_iter().chain(second).collect()
}

/// The interpreter whose path is too long for a first line; installers of Python write `'''exec' "/its/path" "$0" "$@"`.
fn long(line: &str) -> Option<String> {
    let rest = line.strip_prefix("'''exec' ")?;
    let path = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split_ascii_whitespace().next()?,
    };
    // Another form finds it beside the script, in whose environment it lies.
    path.starts_with('/').then(|| path.to_owned())
}

/// The folder with the Python that an environment was made with.
fn home_of(settings: &[u8]) -> Option<PathBuf> {
    let text = String::from_utf8_lossy(settings);
    let values = text.lines().filter_map(|line| line.split_once('='));
    let home = values.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == "home")?.1;
    home.starts_with('/').then(|| PathBuf::from(home))
}
