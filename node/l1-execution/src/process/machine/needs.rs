//! What a program needs beyond what it reaches: one `sandbox:` block for its file, from all that it was refused.
//!
//! **Input**: refusals, where the program runs, and what is at the paths. **Output**: for each what would grant it, or why nothing
//! does; and all of that as one block.
//!
//! **Invariants**
//! - Asked for is to read what [`Offers`] lists, and to reach hosts; nothing else.
//! - Nothing is asked for to be written: others may run what lies there.
//! - What is asked for can stand in a file, and is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use althing_keeper::{Lack, Refusal};
use althing_td::{Egress, is_hidden};

use super::offers::{Offers, data_of, named_by};
use super::scope::Scope;
use super::{Files, Kind};
use crate::needs::{Advice, Needs};

/// A keeper cuts longer paths; bytes.
const PATH_BYTES_MAX: usize = 4 << 10;
/// Where programs look names up.
const NAME_SERVICE: &str = ":53";
/// Folders in a home in which tools keep what they fetch, and run it again.
const CACHES: [&str; 9] = [
    ".bun/install/cache",
    ".cargo/registry",
    ".cache",
    ".gradle/caches",
    ".local/pipx/.cache",
    ".local/share/pnpm",
    ".npm",
    ".pnpm-store",
    "Library/Caches",
];
/// Where sockets, devices and what the kernel shows of itself lie.
const KERNELS: [&str; 5] = ["/dev", "/proc", "/sys", "/run", "/var/run"];

/// Why nothing is offered to be written.
const WRITTEN: &str = "not offered, since others may run what is written there: where you mean it, --write PATH grants it, or write \
                       under sandbox in its file";
/// The same of a cache.
const CACHED: &str = "not offered, since other programs run what lies in that cache: with namespaces it has an empty one of its own \
                      until it ends, filled from the hosts that it reaches; for one that stays, give it a folder: --write FOLDER \
                      --env npm_config_cache=FOLDER, or UV_CACHE_DIR";

/// Where a program runs, as far as it decides what it may be granted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The account's home; absolute.
    home: Option<PathBuf>,
    /// The node's own; absolute.
    hidden: Vec<PathBuf>,
    /// Data of known caches; absolute.
    data: Vec<PathBuf>,
    /// What the command line names; absolute.
    named: Vec<PathBuf>,
}

impl Surroundings {
    /// Of a program with this command and these variables.
    #[must_use]
    pub fn of(
        home: Option<PathBuf>,
        hidden: &[PathBuf],
        command: &[String],
        environment: &BTreeMap<String, String>,
    ) -> Surroundings {
        let (data, named) = (data_of(home.as_deref(), environment), named_by(command, environment));
        Surroundings { home, hidden: hidden.to_owned(), data, named }
    }
}

/// What a program would be granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// To read a path; absolute.
    Read(PathBuf),
    /// To reach a host, as a file names it.
    Reach(String),
}

/// What can be done about refusals, and all that can be granted together. Of what was refused in one cache, which is answered at
/// once, the first is told.
#[must_use]
pub fn needs(refused: &[Refusal], files: &dyn Files, around: &Surroundings) -> (Vec<Advice>, Needs) {
    let judge = Judge::new(files, around);
    let (mut advice, mut all, mut caches) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for refusal in refused {
        let need = judge.need(refusal);
        all.extend(need.iter().cloned());
        let cache = judge.cache(Path::new(&refusal.path)).filter(|_| need.is_err());
        if cache.is_none_or(|cache| caches.insert(cache)) {
            let remedy = need.map(|need| judge.merged(BTreeSet::from([need])));
            advice.push(Advice { refusal: refusal.clone(), remedy });
        }
    }
    (advice, judge.merged(all))
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
    offers: Offers,
}

impl<'a> Judge<'a> {
    fn new(files: &'a dyn Files, around: &Surroundings) -> Judge<'a> {
        let scope = Scope::new(files, around.home.as_slice(), &around.hidden);
        let home = around.home.as_ref().map(|home| scope.way(home).end);
        let offers = Offers::new(&scope, home.as_deref(), &around.data, &around.named);
        Judge { home, offers, scope }
    }

    fn need(&self, refusal: &Refusal) -> Result<Need, String> {
        match &refusal.lack {
            Lack::Read | Lack::Write => self.place(&refusal.path, refusal.lack == Lack::Write).map(Need::Read),
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

    /// What is asked for to be read, for a path that was refused.
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
        if kind == Kind::Folder && self.scope.holds_hidden(path) {
            return refused("it holds the node's keys or data: it cannot be granted");
        }
        if kind == Kind::Folder && self.scope.is_common(path) {
            return refused(
                "it holds what belongs to many, and is not granted whole: use a folder in it, and grant that",
            );
        }
        let offer = if writes { Err(WRITTEN) } else { self.offers.of(&self.scope, path) };
        offer.map_err(|why| match self.cache(path) {
            Some(_) if writes || !self.offers.is_data(path) => CACHED.to_owned(),
            _ => why.to_owned(),
        })
    }

    /// The cache of tools that a path lies in.
    fn cache(&self, path: &Path) -> Option<PathBuf> {
        let home = self.home.as_ref()?;
        let inside = |cache: &&&str| path.starts_with(home.join(cache));
        let cache = home.join(CACHES.iter().find(inside)?);
        // Each folder in the folder of caches is one.
        let name = path.strip_prefix(&cache).ok()?.components().next();
        let holds_many = cache.ends_with(".cache") || cache.ends_with("Library/Caches");
        Some(name.filter(|_| holds_many).map_or_else(|| cache.clone(), |name| cache.join(name)))
    }

    /// All of it: nothing twice, and nothing that a wider one has.
    fn merged(&self, all: BTreeSet<Need>) -> Needs {
        let (mut read, mut hosts) = (BTreeSet::new(), Vec::new());
        for need in all {
            match need {
                Need::Read(path) => {
                    read.insert(path);
                }
                Need::Reach(host) => hosts.push(host),
            }
        }
        let is_widest = |path: &&PathBuf| !read.iter().any(|at| at != *path && path.starts_with(at));
        let listed = read.iter().filter(is_widest).map(|path| self.written(path)).collect();
        Needs { read: listed, write: Vec::new(), hosts }
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
