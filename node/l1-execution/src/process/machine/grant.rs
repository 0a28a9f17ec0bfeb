//! What a program is granted: its folder, its interpreter, what its command and its environment name, what its file
//! grants, and what every program needs of the system.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use althing_td::OwnFolder;

use super::package::{modules, package};
use super::scope::Scope;
use super::sockets::{Exclusion, exclusion, is_of_services};
use super::way::Way;
use super::{ContainmentError, Files, Guarded, Kind, ProgramSpec, Reach, interpreter};

/// Folders of the system that every program may read.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/opt/homebrew",
    "/home/linuxbrew/.linuxbrew",
    "/run/current-system",
];
/// What of `/etc` every program may read. The folders of TLS are named in part: private keys lie beside the rest.
const SETTINGS: [&str; 36] = [
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "openssl",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "pki/tls/openssl.d",
    "protocols",
    "resolv.conf",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ssl/openssl.cnf.d",
    "static",
    "timezone",
    "zoneinfo",
    "redhat-release",
];
/// How the names of further settings in `/etc` begin, which have a version in their names.
const VERSIONED: [&str; 2] = ["python3", "java"];
/// Empty folders of every program.
const PRIVATE: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];
/// Variables that are lists of folders with code.
const LISTS: [&str; 4] = ["PYTHONPATH", "PYTHONHOME", "NODE_PATH", "LD_LIBRARY_PATH"];
/// Variables that name certificates.
const CERTIFICATES: [&str; 4] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"];
/// Where programs are looked for without a `PATH`.
const PATH_DEFAULT: &str = "/usr/bin:/bin";
/// The longest argument that is looked at as a path, bytes.
const ARGUMENT_BYTES_MAX: usize = 4_096;
/// Where arguments grant nothing.
const DEVICES: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Decides what a program may reach. `home` is the account's; `own` are the folders of its own sockets, absolute, which it may
/// write although they lie in what is hidden.
///
/// # Errors
/// The program or its interpreter is not there, or its file grants what is not there or what is the node's own.
pub fn reach(
    files: &dyn Files,
    home: Option<&Path>,
    spec: &ProgramSpec<'_>,
    guarded: &Guarded,
    own: &[PathBuf],
) -> Result<Reach, ContainmentError> {
    let own_home = spec.environment.get("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.map(Path::to_owned).or_else(|| own_home.clone());
    let mut scope = Scope::new(files, home.as_slice(), &guarded.hidden);
    // What it may write comes first: no link in there decides what else it is granted.
    own_folder(&mut scope, spec);
    for folder in own {
        let way = scope.way(folder);
        scope.link(&way);
        scope.write_own(way.end);
    }
    stated(&mut scope, spec, home.as_deref())?;
    start(&mut scope, spec)?;
    system(&mut scope);
    let path = spec.environment.get("PATH").map_or(PATH_DEFAULT, String::as_str);
    scope.search = path.split(':').map(|folder| scope.cwd.join(folder)).collect();
    let (name, arguments) = spec.command.split_first().ok_or(ContainmentError::NoCommand)?;
    interpreter::program(&mut scope, name)?;
    // What is granted by the way is what people are shown: whole paths, and what lies below where it starts.
    let is_plain = |argument: &&String| {
        let path = Path::new(argument.as_str());
        argument.len() <= ARGUMENT_BYTES_MAX
            && (path.is_absolute() || !path.components().any(|part| part == Component::ParentDir))
    };
    for argument in arguments.iter().filter(is_plain) {
        named(&mut scope, argument);
    }
    variables(&mut scope, spec);
    for folder in PRIVATE {
        scope.empty(Path::new(folder));
    }
    // Its file may give it another home, such as a folder of its own.
    for home in home.iter().chain(&own_home) {
        if !scope.is_granted(&scope.way(home).end) {
            scope.empty(home);
        }
    }
    let cwd = scope.cwd.clone();
    if cwd != Path::new("/") && !scope.is_granted(&cwd) {
        scope.empty(&cwd);
    }
    Ok(without_sockets(files, scope.done()?))
}

/// Files of agents that lie in what a program may write, and that it only reads nevertheless: it would change what its owner reads when
/// its agent is added again. What its file names to be written it writes.
pub fn fixed(files: &dyn Files, reach: &Reach, of_agents: &[PathBuf]) -> Vec<PathBuf> {
    let ways = of_agents.iter().map(|path| Way::of(files, path)).filter(Way::is_file);
    let is_written = |path: &PathBuf| {
        let around =
            |all: &[PathBuf]| all.iter().filter(|at| path.starts_with(at)).map(|at| at.components().count()).max();
        let others = [&reach.read, &reach.private, &reach.hidden].map(|all| around(all));
        !reach.stated.contains(path) && others.into_iter().all(|other| around(&reach.write) > other)
    };
    let ends: BTreeSet<PathBuf> = ways.map(|way| way.end).filter(is_written).collect();
    ends.into_iter().collect()
}

/// Notes the sockets in what it may read, but for the folders of the system, which are not searched.
fn without_sockets(files: &dyn Files, reach: Reach) -> Reach {
    let is_of_system = |path: &Path| {
        let mut all = SYSTEM.iter().chain(&DEVICES).chain(&["/etc"]);
        all.any(|system| path.starts_with(system))
    };
    // What it may write it may connect to.
    let is_apart = |path: &Path| {
        let mut others = [&reach.write, &reach.private, &reach.hidden].into_iter().flatten();
        is_of_system(path) || others.any(|other| other == path)
    };
    let is_folder = |path: &&Path| !is_of_system(path) && files.kind(path) == Kind::Folder;
    let roots: Vec<&Path> = reach.read.iter().map(PathBuf::as_path).filter(is_folder).collect();
    let Exclusion { sockets, folders: withheld } = exclusion(files, &roots, &is_apart);
    Reach { sockets, withheld, ..reach }
}

/// Grants the folder of the agent file, for writing unless that says otherwise; but not one that holds what belongs to many, or to the
/// node.
fn own_folder(scope: &mut Scope<'_>, spec: &ProgramSpec<'_>) {
    let way = scope.way(spec.folder);
    scope.link(&way);
    // Agents that were installed lie within the node's data: their folders are theirs nevertheless.
    if way.kind == Kind::Folder && !scope.is_common(&way.end) && !scope.holds_hidden(&way.end) {
        match spec.sandbox.folder {
            OwnFolder::Write => scope.write(way.end),
            OwnFolder::Read => scope.read_own(way.end),
        }
    }
}

/// Notes where it starts, and grants that for reading.
fn start(scope: &mut Scope<'_>, spec: &ProgramSpec<'_>) -> Result<(), ContainmentError> {
    let way = scope.way(spec.cwd);
    if way.kind != Kind::Folder {
        return Err(ContainmentError::NoFolder(spec.cwd.to_owned()));
    }
    scope.link(&way);
    scope.cwd.clone_from(&way.end);
    // The folder of the agent file may be the node's data itself; then it starts in an empty one.
    if way.end != scope.way(spec.folder).end && scope.is_hidden(&way.end) {
        return Err(ContainmentError::NodesOwn { key: "cwd", path: spec.cwd.to_owned() });
    }
    if !scope.is_wide(&way.end) && !scope.is_dotted(&way.end) && scope.own_link(&way).is_none() {
        scope.read(way.end);
    }
    Ok(())
}

/// Grants what the agent file names under `sandbox`.
fn stated(scope: &mut Scope<'_>, spec: &ProgramSpec<'_>, home: Option<&Path>) -> Result<(), ContainmentError> {
    for (key, paths) in [("write", &spec.sandbox.write), ("read", &spec.sandbox.read)] {
        for path in paths {
            let path = match (path.strip_prefix("~"), home) {
                (Ok(rest), Some(home)) => home.join(rest),
                _ => spec.folder.join(path),
            };
            let way = scope.way(&path);
            if way.kind == Kind::Missing {
                return Err(ContainmentError::NotThere { key, path });
            }
            // What it may write it may rename: what is hidden in there would not stay so.
            if scope.is_hidden(&way.end) || (key == "write" && scope.holds_hidden(&way.end)) {
                let key = if key == "write" { "sandbox: write" } else { "sandbox: read" };
                return Err(ContainmentError::NodesOwn { key, path });
            }
            if is_of_services(&way.end) {
                return Err(ContainmentError::Services { key, path });
            }
            if key == "read" && way.kind == Kind::Socket {
                return Err(ContainmentError::Socket(path));
            }
            if let Some(link) = scope.own_link(&way).map(Path::to_owned).filter(|_| !scope.is_writable(&way.end)) {
                return Err(ContainmentError::OwnLink { key, path, link });
            }
            scope.link(&way);
            if key == "write" {
                scope.write_stated(way.end);
            } else {
                scope.read(way.end);
            }
        }
    }
    Ok(())
}

/// Grants what every program needs of the system.
fn system(scope: &mut Scope<'_>) {
    for path in SYSTEM {
        scope.read_common(Path::new(path));
    }
    let settings = Path::new("/etc");
    for name in SETTINGS {
        scope.read_common(&settings.join(name));
    }
    let versioned = |name: &String| VERSIONED.iter().any(|start| name.starts_with(start));
    for name in scope.files.names(settings).into_iter().filter(versioned) {
        scope.read_common(&settings.join(name));
    }
}

/// Grants what an argument names, if something is there: a folder, or a file with its package or its folder.
fn named(scope: &mut Scope<'_>, argument: &str) {
    if argument.is_empty() {
        return;
    }
    let way = scope.way(&scope.cwd.join(argument));
    let device = DEVICES.iter().any(|at| way.end.starts_with(at));
    if device || scope.own_link(&way).is_some() {
        return;
    }
    match way.kind {
        Kind::File => {
            scope.link(&way);
            let place = place(scope, &way.end);
            scope.read(place);
            modules(scope, &way.end);
        }
        Kind::Folder if !scope.is_wide(&way.end) => {
            scope.link(&way);
            scope.read(way.end);
        }
        _ => {}
    }
}

/// What is granted for a file that is named: its package, its folder, or itself alone.
fn place(scope: &Scope<'_>, file: &Path) -> PathBuf {
    let folder = || file.parent().filter(|folder| !scope.is_wide(folder) && !scope.is_dotted(folder));
    package(scope, file).unwrap_or_else(|| folder().unwrap_or(file).to_owned())
}

/// Grants the folders with code, and the certificates, that its environment names.
fn variables(scope: &mut Scope<'_>, spec: &ProgramSpec<'_>) {
    let lists = LISTS.iter().filter_map(|name| spec.environment.get(*name));
    for folder in lists.flat_map(|list| list.split(':')).filter(|folder| !folder.is_empty()) {
        let way = scope.way(&scope.cwd.join(folder));
        if !scope.is_wide(&way.end) {
            scope.read_through(&scope.cwd.join(folder));
        }
    }
    for path in CERTIFICATES.iter().filter_map(|name| spec.environment.get(*name)).filter(|path| !path.is_empty()) {
        let way = scope.way(&scope.cwd.join(path));
        if way.is_file() || (way.kind == Kind::Folder && !scope.is_wide(&way.end)) {
            scope.read_through(&scope.cwd.join(path));
        }
    }
}
