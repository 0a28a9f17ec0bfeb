//! What may be offered to a program for reading: an allow list. All else is shown, and granted only where its owner names it.
//!
//! **Input**: the account's home, the program's command and environment, and what is at the paths. **Output**: for a path that was
//! refused, what of the list it lies in; or why that is nothing.
//!
//! **Invariants**
//! - Offered is an entry of a known cache's data, or what the command line names; each is there, and a file or a folder.
//! - Never offered: the root, a home or what lies above it, another account's home, what is the system's, a folder that belongs to
//!   many or holds the node's own, a socket, a pipe or a device, a name that begins with a dot (but for the way to a known cache), and
//!   what bears the name of a credential or is a folder with one in it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Component, Path, PathBuf};

use super::Kind;
use super::scope::Scope;

/// Entries of a folder that are looked through for credentials; of more it is not known that there are none.
const ENTRIES_MAX: usize = 4_096;
/// The longest word of a command that is looked at as a path, bytes.
const WORD_BYTES_MAX: usize = 4_096;
/// What caches have that is only data, from the home: models, browsers, libraries that were fetched. No program writes there by an
/// offer. What `npm`, `uv` and their like fetch is not among it: they do not work where they only read it.
const DATA_AT_HOME: [&str; 10] = [
    ".cache/huggingface/datasets",
    ".cache/huggingface/hub",
    ".cache/ms-playwright",
    ".cache/puppeteer",
    ".cache/torch/hub/checkpoints",
    ".cache/whisper",
    ".keras/datasets",
    ".keras/models",
    ".m2/repository",
    "Library/Caches/ms-playwright",
];
/// The same, from the folder that a variable names.
const DATA_BY_VARIABLE: [(&str, &str); 9] = [
    ("HF_HOME", "datasets"),
    ("HF_HOME", "hub"),
    ("HF_HUB_CACHE", ""),
    ("PLAYWRIGHT_BROWSERS_PATH", ""),
    ("TORCH_HOME", "hub/checkpoints"),
    ("XDG_CACHE_HOME", "huggingface/hub"),
    ("XDG_CACHE_HOME", "ms-playwright"),
    ("XDG_CACHE_HOME", "torch/hub/checkpoints"),
    ("XDG_CACHE_HOME", "whisper"),
];
/// Where nothing is offered, whoever names it: the system's, and what the kernel shows.
const SYSTEM: [&str; 15] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/snap", "/sys",
    "/usr", "/var",
];
/// Folders of homes, and a home: of these only the account's own has anything to offer.
const HOMES: [&str; 3] = ["/Users", "/home", "/root"];
/// How files with keys, tokens and logins are named, in small letters.
const CREDENTIALS: [&str; 13] = [
    "access_token",
    "auth.json",
    "cookies",
    "cookies.sqlite",
    "key4.db",
    "login data",
    "logins.json",
    "refresh_token",
    "settings-security.xml",
    "stored_tokens",
    "token",
    "token.json",
    "tokens.json",
];
/// What stands anywhere in their names.
const CREDENTIAL_WORDS: [&str; 12] = [
    "api-key",
    "api_key",
    "apikey",
    "credential",
    "kubeconfig",
    "passwd",
    "password",
    "private-key",
    "private_key",
    "secret",
    "service-account",
    "service_account",
];
/// How their names end.
const CREDENTIAL_ENDINGS: [&str; 10] =
    [".jks", ".kdbx", ".key", ".keystore", ".ovpn", ".p12", ".p8", ".pem", ".pfx", ".ppk"];
/// How their names begin: the keys of `ssh`, and what begins with a dot.
const CREDENTIAL_BEGINNINGS: [&str; 9] =
    [".env", ".netrc", ".npmrc", ".pgpass", ".pypirc", ".token", ".vault-token", ".yarnrc", "id_"];

/// What may be offered.
pub struct Offers {
    /// The account's home, without links; none where that is the root.
    home: Option<PathBuf>,
    /// Data of known caches, without links.
    data: Vec<PathBuf>,
    /// What the command line names, without links.
    named: Vec<PathBuf>,
    /// What was found out about folders already.
    looked: RefCell<BTreeMap<PathBuf, bool>>,
}

/// The data of known caches below the account's home, and where these variables name it; absolute.
#[must_use]
pub fn data_of(home: Option<&Path>, environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let at_home = home.into_iter().flat_map(|home| DATA_AT_HOME.iter().map(move |data| home.join(data)));
    let by_variable = DATA_BY_VARIABLE.iter().filter_map(|(variable, data)| {
        let folder = environment.get(*variable).map(Path::new).filter(|path| path.is_absolute())?;
        Some(folder.join(data).components().collect::<PathBuf>())
    });
    at_home.chain(by_variable).collect()
}

/// The absolute paths that a command names after the program, and its variables: a word, or what follows its first `=`.
#[must_use]
pub fn named_by(command: &[String], environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let arguments = command.iter().skip(1).flat_map(|word| {
        let value = word.split_once('=').map(|(_, value)| value);
        [Some(word.as_str()), value].into_iter().flatten()
    });
    let words = arguments.chain(environment.values().map(String::as_str));
    let is_whole = |word: &&str| {
        let path = Path::new(word);
        let climbs = path.components().any(|part| part == Component::ParentDir);
        word.len() <= WORD_BYTES_MAX && path.is_absolute() && !climbs
    };
    words.filter(is_whole).map(|word| Path::new(word).components().collect::<PathBuf>()).collect()
}

impl Offers {
    /// With this home, and with paths as [`data_of`] and [`named_by`] give them.
    pub fn new(scope: &Scope<'_>, home: Option<&Path>, data: &[PathBuf], named: &[PathBuf]) -> Offers {
        let ends = |paths: &[PathBuf]| paths.iter().map(|path| scope.way(path).end).collect::<Vec<_>>();
        let home = home.map(|home| scope.way(home).end).filter(|home| home.parent().is_some());
        Offers { home, data: ends(data), named: ends(named), looked: RefCell::default() }
    }

    /// What is offered where reading that path, which has no links, was refused.
    ///
    /// # Errors
    /// Why nothing is.
    pub fn of(&self, scope: &Scope<'_>, path: &Path) -> Result<PathBuf, &'static str> {
        let offer = self.entry(scope, path).or_else(|| self.word(path)).ok_or(
            "not offered, since neither the command line names it nor is it data of a known cache: where you mean it, --read PATH \
             grants it, or read under sandbox in its file",
        )?;
        if scope.is_wide(&offer) {
            return Err(
                "not offered, since what belongs to many is not granted whole: --read PATH grants a path in it",
            );
        }
        match scope.files.kind(&offer) {
            Kind::File | Kind::Folder => {}
            Kind::Missing => return Err("it is not there any more"),
            Kind::Link | Kind::Socket | Kind::Other => return Err("it is no file and no folder"),
        }
        if bears_credential(path) || self.holds_credential(scope, &offer) {
            return Err(
                "not offered, since it is named as keys and logins are, or lies beside such a file, or beside too many to \
                        look through: where you mean it, --read PATH grants it",
            );
        }
        Ok(offer)
    }

    /// Whether a path lies in the data of a known cache.
    pub fn is_data(&self, path: &Path) -> bool {
        self.data.iter().any(|data| path.starts_with(data))
    }

    /// The entry of a known cache's data in which a path lies, or that data itself.
    fn entry(&self, scope: &Scope<'_>, path: &Path) -> Option<PathBuf> {
        let is_fit = |data: &Path| self.is_known(data) || (self.is_plain(data) && !scope.is_wide(data));
        let found = self.data.iter().filter(|data| path.starts_with(data) && is_fit(data));
        let data = found.max_by_key(|data| data.components().count())?;
        match path.strip_prefix(data).ok()?.components().next() {
            Some(entry) => Some(data.join(entry)).filter(|_| !is_dotted(entry)),
            None => Some(data.clone()),
        }
    }

    /// Whether that is where caches have their data by themselves. Where a variable or a link says that they have it, no more is
    /// offered than of what the command line names.
    fn is_known(&self, data: &Path) -> bool {
        self.home.as_ref().is_some_and(|home| DATA_AT_HOME.iter().any(|known| data == home.join(known)))
    }

    /// What the command line names, in which a path lies: the narrowest of it.
    fn word(&self, path: &Path) -> Option<PathBuf> {
        let around = self.named.iter().filter(|named| path.starts_with(named) && self.is_plain(named));
        around.max_by_key(|named| named.components().count()).cloned()
    }

    /// Whether a path is no home, and lies in none but the account's own, not in what is the system's, and in no folder whose name
    /// begins with a dot.
    fn is_plain(&self, path: &Path) -> bool {
        let at_home = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok());
        let is_elsewhere = SYSTEM.iter().chain(&HOMES).any(|at| path.starts_with(at));
        let below = at_home.unwrap_or(path);
        (at_home.is_some() || !is_elsewhere) && !below.as_os_str().is_empty() && !below.components().any(is_dotted)
    }

    /// Whether a folder holds what is named as a credential is, or more than is looked through; or a file is named so.
    fn holds_credential(&self, scope: &Scope<'_>, offer: &Path) -> bool {
        if scope.files.kind(offer) != Kind::Folder {
            return bears_credential(offer);
        }
        if let Some(known) = self.looked.borrow().get(offer) {
            return *known;
        }
        let (mut open, mut left, mut found) = (VecDeque::from([offer.to_owned()]), ENTRIES_MAX, false);
        while let Some(at) = open.pop_front().filter(|_| !found) {
            let entries = scope.files.entries(&at, left + 1);
            found = entries.len() > left || entries.iter().any(|(path, _)| bears_credential(path));
            left = left.saturating_sub(entries.len());
            open.extend(entries.into_iter().filter(|(_, kind)| *kind == Kind::Folder).map(|(path, _)| path));
        }
        self.looked.borrow_mut().insert(offer.to_owned(), found);
        found
    }
}

fn is_dotted(part: Component<'_>) -> bool {
    part.as_os_str().as_encoded_bytes().starts_with(b".")
}

/// Whether a part of the path is named as a credential is.
fn bears_credential(path: &Path) -> bool {
    path.components().any(|part| is_credential(&part.as_os_str().to_string_lossy()))
}

/// Whether something of that name is taken for keys, a token or a login.
fn is_credential(name: &str) -> bool {
    let name = name.to_lowercase();
    CREDENTIALS.contains(&name.as_str())
        || CREDENTIAL_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || CREDENTIAL_WORDS.iter().any(|word| name.contains(word))
        || CREDENTIAL_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
#[path = "offers_tests.rs"]
mod tests;
