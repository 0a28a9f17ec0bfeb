//! What a program needs beyond what it reaches: one `sandbox:` block for its file, from all that it was refused.
//!
//! **Input**: refusals, where the program runs, and what is at the paths. **Output**: for each what would grant it, or why nothing
//! does; and all of that as one block.
//!
//! **Invariants**
//! - Never asked for: the root, a home, a folder that belongs to many or holds the node's keys or data, what opens more than
//!   itself, and to write what is the system's.
//! - What lies in a cache is asked for as that cache, and many files of one folder as that folder.
//! - What is asked for can stand in a file, and is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use althing_keeper::{Lack, Refusal};
use althing_td::{Egress, is_hidden};

use super::scope::Scope;
use super::{Files, Kind};
use crate::needs::{Advice, Needs};

/// A keeper cuts longer paths; bytes.
const PATH_BYTES_MAX: usize = 4 << 10;
/// Files of one folder that are asked for one by one.
const FILES_MAX: usize = 3;
/// Where programs look names up.
const NAME_SERVICE: &str = ":53";
/// The folder of caches in a home, each of which lies in a folder of its own.
const CACHES: &str = ".cache";
/// Caches in a home that lie elsewhere.
const CACHES_ELSEWHERE: [&str; 12] = [
    ".bun/install/cache",
    ".cargo/registry",
    ".gradle/caches",
    ".ivy2/cache",
    ".keras",
    ".local/pipx/.cache",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".pnpm-store",
    "Library/Caches/deno",
    "Library/Caches/ms-playwright",
];
/// Variables that name a cache.
const CACHE_VARIABLES: [&str; 9] = [
    "BUN_INSTALL_CACHE_DIR",
    "DENO_DIR",
    "HF_HOME",
    "NPM_CONFIG_CACHE",
    "PIP_CACHE_DIR",
    "PLAYWRIGHT_BROWSERS_PATH",
    "UV_CACHE_DIR",
    "YARN_CACHE_FOLDER",
    "npm_config_cache",
];
/// Where sockets, devices and what the kernel shows of itself lie.
const KERNELS: [&str; 5] = ["/dev", "/proc", "/sys", "/run", "/var/run"];
/// The variable that names the folder of caches.
const CACHES_VARIABLE: &str = "XDG_CACHE_HOME";
/// What in a home opens more than itself: keys, tokens, logins, what was typed, and what is run when somebody logs in.
const OPENING_AT_HOME: [&str; 30] = [
    ".aws",
    ".azure",
    ".bash_history",
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".cargo/credentials.toml",
    ".config/autostart",
    ".config/fish",
    ".config/gcloud",
    ".config/gh",
    ".config/systemd",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".mozilla",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".profile",
    ".pypirc",
    ".ssh",
    ".thunderbird",
    ".zprofile",
    ".zsh_history",
    ".zshenv",
    ".zshrc",
];
/// What in a home does so for whoever may write it: others run it.
const RUN_AT_HOME: [&str; 10] = [
    ".config/git",
    ".deno",
    ".gitconfig",
    ".local/bin",
    ".local/share/pnpm",
    ".local/share/uv",
    ".rustup",
    ".yarn",
    "Library/pnpm",
    "bin",
];
/// The same of the system.
const OPENING: [&str; 8] = [
    "/etc/gshadow",
    "/etc/shadow",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/run/containerd/containerd.sock",
    "/run/docker.sock",
];
/// What is the system's to write.
const SYSTEM: [&str; 10] =
    ["/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr", "/var/lib/dpkg"];

/// Where a program runs, as far as it decides what it may be granted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The account's home; absolute.
    home: Option<PathBuf>,
    /// The node's own; absolute.
    hidden: Vec<PathBuf>,
    /// Folders of which each folder in them is a cache; absolute.
    cache_homes: Vec<PathBuf>,
    /// Caches; absolute.
    caches: Vec<PathBuf>,
}

impl Surroundings {
    /// Of a program with this environment.
    #[must_use]
    pub fn of(home: Option<PathBuf>, hidden: &[PathBuf], environment: &BTreeMap<String, String>) -> Surroundings {
        let named = |name: &str| environment.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let own_home = named("HOME");
        let homes: Vec<&PathBuf> = home.iter().chain(&own_home).collect();
        let cache_homes = homes.iter().map(|home| home.join(CACHES)).chain(named(CACHES_VARIABLE)).collect();
        let elsewhere = homes.iter().flat_map(|home| CACHES_ELSEWHERE.iter().map(move |cache| home.join(cache)));
        let caches = elsewhere.chain(CACHE_VARIABLES.iter().filter_map(|name| named(name))).collect();
        Surroundings { home, hidden: hidden.to_owned(), cache_homes, caches }
    }
}

/// What a program would be granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// To read a path; absolute.
    Read(PathBuf),
    /// To write it too.
    Write(PathBuf),
    /// To reach a host, as a file names it.
    Reach(String),
}

/// What can be done about each refusal, and all that can be granted together.
#[must_use]
pub fn needs(refused: &[Refusal], files: &dyn Files, around: &Surroundings) -> (Vec<Advice>, Needs) {
    let judge = Judge::new(files, around);
    let found: Vec<Result<Need, String>> = refused.iter().map(|refusal| judge.need(refusal)).collect();
    let all = judge.merged(found.iter().flatten().cloned().collect());
    let advice = refused.iter().zip(found).map(|(refusal, need)| Advice {
        refusal: refusal.clone(),
        remedy: need.map(|need| judge.merged(BTreeSet::from([need]))),
    });
    (advice.collect(), all)
}

/// Whether a folder belongs to many, or holds the node's own: then a program is not granted it because its file lies there.
#[must_use]
pub fn is_common(folder: &Path, files: &dyn Files, around: &Surroundings) -> bool {
    let scope = Scope::new(files, around.home.as_slice(), &around.hidden);
    let end = scope.way(folder).end;
    scope.is_common(&end) || scope.holds_hidden(&end)
}

/// Decides what may be asked for.
struct Judge<'a> {
    scope: Scope<'a>,
    /// The home without links.
    home: Option<PathBuf>,
    cache_homes: Vec<PathBuf>,
    caches: Vec<PathBuf>,
}

impl<'a> Judge<'a> {
    fn new(files: &'a dyn Files, around: &Surroundings) -> Judge<'a> {
        let scope = Scope::new(files, around.home.as_slice(), &around.hidden);
        let ends = |paths: &[PathBuf]| paths.iter().map(|path| scope.way(path).end).collect::<Vec<_>>();
        let (cache_homes, caches) = (ends(&around.cache_homes), ends(&around.caches));
        let home = around.home.as_ref().map(|home| scope.way(home).end);
        Judge { home, cache_homes, caches, scope }
    }

    fn need(&self, refusal: &Refusal) -> Result<Need, String> {
        match &refusal.lack {
            Lack::Read => self.place(&refusal.path, false).map(Need::Read),
            Lack::Write => self.place(&refusal.path, true).map(Need::Write),
            Lack::Host(host) => match host.parse::<Egress>() {
                Ok(_) => Ok(Need::Reach(host.clone())),
                Err(_) => Err("a file cannot name it".to_owned()),
            },
            Lack::Service(service) => Err(format!(
                "a service of this machine, which the program asks at the address in a variable: \
                 sandbox: {{ egress: [{{ host: \"{service}\", variable: NAME }}] }}"
            )),
            Lack::Proxy if refusal.path.ends_with(NAME_SERVICE) => {
                Err("it looks names up by itself, and has no network for \
                 that: have it use the proxy that HTTP_PROXY and HTTPS_PROXY name, which looks them up"
                    .to_owned())
            }
            Lack::Proxy => {
                Err("it connects by itself, and has no network for that: have it use the proxy that HTTP_PROXY and \
                 HTTPS_PROXY name, and write the host: sandbox: { egress: [HOST] }"
                    .to_owned())
            }
            Lack::Answer(why) => Err(format!("it failed: {why}")),
            Lack::NodesOwn => Err("the node's own: it cannot be granted".to_owned()),
        }
    }

    /// What is asked for, for a path that was refused: its cache, or itself.
    fn place(&self, text: &str, writes: bool) -> Result<PathBuf, String> {
        let refused = |why: &str| Err(why.to_owned());
        let path = Path::new(text);
        let is_shown = |c: char| !c.is_control() && !is_hidden(c) && c != char::REPLACEMENT_CHARACTER;
        let climbs = path.components().any(|part| part == Component::ParentDir);
        if !path.is_absolute() || climbs || text.len() >= PATH_BYTES_MAX || !text.chars().all(is_shown) {
            return refused("a file cannot name it");
        }
        if self.scope.is_hidden(path) {
            return refused("the node's own: it cannot be granted");
        }
        if self.opens_more(path, writes) {
            return refused(
                "it opens more than itself, such as keys, logins or what others run, and is not offered: grant it by name where \
                 you mean it",
            );
        }
        let kind = self.scope.files.kind(path);
        // Whoever connects to a session's bus has all that its services do, and a device is the machine itself.
        if matches!(kind, Kind::Socket | Kind::Other)
            || KERNELS.iter().any(|at| path != Path::new(at) && path.starts_with(at))
        {
            return refused(
                "it is a socket, a pipe or a device, or lies among them: whoever has it has all that stands behind it for you, and it \
                 is not granted by an offer: name it under write where you mean it",
            );
        }
        if let Some(cache) = self.cache(path) {
            return Ok(cache);
        }
        match kind {
            Kind::Missing => refused("it is not there any more"),
            Kind::Folder if self.scope.holds_hidden(path) => {
                refused("it holds the node's keys or data: it cannot be granted")
            }
            Kind::Folder if self.scope.is_common(path) => {
                refused("it holds what belongs to many, and is not granted whole: use a folder in it, and grant that")
            }
            _ if writes && SYSTEM.iter().any(|at| path.starts_with(at)) => {
                refused("it is the system's, and no program's to write")
            }
            _ => Ok(path.to_owned()),
        }
    }

    fn opens_more(&self, path: &Path, writes: bool) -> bool {
        let run = if writes { RUN_AT_HOME.as_slice() } else { &[] };
        let is_at_home =
            |home: &PathBuf| OPENING_AT_HOME.iter().chain(run).any(|name| path.starts_with(home.join(name)));
        self.home.as_ref().is_some_and(is_at_home) || OPENING.iter().any(|at| path.starts_with(at))
    }

    /// The cache that a path lies in.
    fn cache(&self, path: &Path) -> Option<PathBuf> {
        let below = |home: &PathBuf| {
            let name = path.strip_prefix(home).ok()?.components().next()?;
            Some(home.join(name))
        };
        let named = self.caches.iter().filter(|cache| path.starts_with(cache)).cloned();
        let mut all = named.chain(self.cache_homes.iter().filter_map(below));
        all.find(|cache| self.scope.files.kind(cache) == Kind::Folder && !self.scope.is_wide(cache))
    }

    /// All of it: many files of one folder as that folder, nothing twice, and nothing that a wider one has.
    fn merged(&self, all: BTreeSet<Need>) -> Needs {
        let (mut read, mut write, mut hosts) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for need in all {
            match need {
                Need::Read(path) => {
                    read.insert(path);
                }
                Need::Write(path) => {
                    write.insert(path);
                }
                Need::Reach(host) => hosts.push(host),
            }
        }
        let (read, write) = (self.gathered(read), self.gathered(write));
        let wider = |all: &BTreeSet<PathBuf>, path: &Path| all.iter().any(|at| at != path && path.starts_with(at));
        let reads = read.iter().filter(|path| !wider(&read, path) && !write.iter().any(|at| path.starts_with(at)));
        let writes = write.iter().filter(|path| !wider(&write, path));
        let listed = |path: &PathBuf| self.written(path);
        Needs { read: reads.map(listed).collect(), write: writes.map(listed).collect(), hosts }
    }

    /// The paths, with a folder in place of its files where there are many.
    fn gathered(&self, mut paths: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let mut counts: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let is_file = |path: &&PathBuf| self.scope.files.kind(path) == Kind::File;
        for folder in paths.iter().filter(is_file).filter_map(|path| path.parent()) {
            *counts.entry(folder.to_owned()).or_default() += 1;
        }
        let many = counts.into_iter().filter(|(folder, count)| {
            *count > FILES_MAX && !self.scope.is_wide(folder) && !self.scope.is_dotted(folder)
        });
        paths.extend(many.map(|(folder, _)| folder));
        paths
    }

    /// A path as a file names it.
    fn written(&self, path: &Path) -> PathBuf {
        let below = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok());
        match below.filter(|below| !below.as_os_str().is_empty()) {
            Some(below) => Path::new("~").join(below),
            None => path.to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "needs_tests.rs"]
mod tests;
