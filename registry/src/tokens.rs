//! Who may write Things, and read them where the directory is closed: tokens with names and scopes in a file of the data
//! folder. `althing-registry token` writes it, and a running registry reads it again as soon as it changes. It holds digests: a
//! token is shown once, when it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use althing_protocol::{PublisherId, digest};
use althing_store::keyfile::{self, KeyFileError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::machine::things::Writer;
use crate::stamp::{Stamp, stamp};

/// The file, in the data folder.
const FILE: &str = "tokens.json";
/// Tokens at one time.
const TOKENS_MAX: usize = 1_024;
const NAME_BYTES_MAX: usize = 64;
/// What a token begins with, so that scanners of leaked secrets know it.
const PREFIX: &str = "althing_registry_";

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenScope {
    /// Read the directory where it is closed.
    Read,
    /// Register Things, and change one's own; and read.
    Write,
    /// Change the Things of others too; and read.
    Admin,
    /// Stage the releases of a publisher, for approval.
    StageReleases,
    /// Read the releases that a publisher may read.
    ReadReleases,
}

impl TokenScope {
    /// All of them.
    pub const ALL: [TokenScope; 5] =
        [TokenScope::Read, TokenScope::Write, TokenScope::Admin, TokenScope::StageReleases, TokenScope::ReadReleases];

    /// Whether it is of one publisher.
    #[must_use]
    pub fn is_of_publisher(self) -> bool {
        matches!(self, TokenScope::StageReleases | TokenScope::ReadReleases)
    }

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TokenScope::Read => "things:read",
            TokenScope::Write => "things:write",
            TokenScope::Admin => "things:admin",
            TokenScope::StageReleases => "releases:stage",
            TokenScope::ReadReleases => "releases:read",
        }
    }
}

impl FromStr for TokenScope {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<TokenScope, TokenError> {
        let known = TokenScope::ALL.into_iter().find(|scope| scope.name() == text);
        known.ok_or_else(|| TokenError::Scope(text.chars().take(64).collect()))
    }
}

/// Why a token is not made or removed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A word that is no scope.
    #[error(
        "there is no scope {0:?}; there are things:read, things:write, things:admin, releases:stage and releases:read"
    )]
    Scope(String),
    /// A word that is no name.
    #[error("a name is 1 to {NAME_BYTES_MAX} of a-z, 0-9, dot, _ and -")]
    Name,
    /// The name is taken.
    #[error("there is a token of {0} already; remove it first: althing-registry token remove {0}")]
    Taken(String),
    /// There is no such token.
    #[error("there is no token of {name:?}; there are: {there}")]
    None {
        /// The name.
        name: String,
        /// The names that there are.
        there: String,
    },
    /// A scope of releases is of one publisher.
    #[error(
        "a token with the scope releases:stage or releases:read is a publisher's, and has no other scope: --publisher URN"
    )]
    Publisher,
    /// There are too many.
    #[error("there are {TOKENS_MAX} tokens, which is the most; remove one")]
    TooMany,
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The file has something else in it.
    #[error("{path} has no tokens: {reason}; bring it back from a copy, or remove it and make the tokens anew")]
    Broken {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
}

/// A token, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptToken {
    /// SHA-256 of the token, base64url.
    digest: String,
    /// What its holder may do.
    pub scopes: Vec<String>,
    /// Whose releases it stages or reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
}

/// Tokens by the names of their holders.
pub type AllTokens = BTreeMap<String, KeptToken>;

/// The holder of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    name: String,
    scopes: BTreeSet<TokenScope>,
    publisher: Option<PublisherId>,
}

/// A version of the file, and its holders by the digests of their tokens.
type Read = (Stamp, Arc<BTreeMap<String, Holder>>);

/// The tokens of a data folder.
pub struct Tokens {
    path: PathBuf,
    read: Mutex<Option<Read>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Those of that data folder.
    #[must_use]
    pub fn of(data: &Path) -> Tokens {
        Tokens { path: data.join(FILE), read: Mutex::default() }
    }

    /// All, by name.
    ///
    /// # Errors
    /// [`TokenError`]: the file cannot be read, or others may read it.
    pub fn all(&self) -> Result<AllTokens, TokenError> {
        let bytes = match keyfile::read_secret(&self.path) {
            Ok(bytes) => bytes,
            Err(KeyFileError::Missing { .. }) => return Ok(AllTokens::new()),
            Err(error) => return Err(error.into()),
        };
        serde_json::from_slice(&bytes).map_err(|error| self.broken(&error))
    }

    /// Makes a token of 32 random bytes, and gives it: it is kept nowhere.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn add(&self, name: &str, scopes: &[TokenScope], random: [u8; 32]) -> Result<String, TokenError> {
        self.add_of(name, scopes, None, random)
    }

    /// The same, of a publisher: the token stages its releases, or reads them.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn add_of(
        &self,
        name: &str,
        scopes: &[TokenScope],
        publisher: Option<PublisherId>,
        random: [u8; 32],
    ) -> Result<String, TokenError> {
        let of_publisher = scopes.iter().filter(|scope| scope.is_of_publisher()).count();
        if (of_publisher > 0) != publisher.is_some() || (of_publisher > 0 && scopes.len() > 1) {
            return Err(TokenError::Publisher);
        }
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(allowed) {
            return Err(TokenError::Name);
        }
        let _lock = keyfile::lock_secret(&self.path)?;
        let mut all = self.all()?;
        if all.contains_key(name) {
            return Err(TokenError::Taken(name.to_owned()));
        }
        if all.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let scopes: BTreeSet<TokenScope> = scopes.iter().copied().collect();
        let scopes = scopes.into_iter().map(|scope| scope.name().to_owned()).collect();
        all.insert(
            name.to_owned(),
            KeptToken { digest: digest_of(&token), scopes, publisher: publisher.map(|of| of.to_string()) },
        );
        self.write(&all)?;
        Ok(token)
    }

    /// Takes a token back: from now on it opens nothing.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn remove(&self, name: &str) -> Result<(), TokenError> {
        let _lock = keyfile::lock_secret(&self.path)?;
        let mut all = self.all()?;
        if all.remove(name).is_none() {
            let named: Vec<&str> = all.keys().map(String::as_str).collect();
            let there = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
            return Err(TokenError::None { name: name.chars().take(NAME_BYTES_MAX).collect(), there });
        }
        self.write(&all)
    }

    fn write(&self, all: &AllTokens) -> Result<(), TokenError> {
        let text = serde_json::to_vec_pretty(all).map_err(|error| self.broken(&error))?;
        Ok(keyfile::replace_secret(&self.path, &text)?)
    }

    fn broken(&self, error: &serde_json::Error) -> TokenError {
        TokenError::Broken { path: self.path.display().to_string(), reason: error.to_string() }
    }

    /// The holders, read again if the file has changed. A file that cannot be read admits nobody.
    fn holders(&self) -> Arc<BTreeMap<String, Holder>> {
        let stamp = stamp(&self.path);
        let mut read = self.read.lock().expect("no holder of the tokens panics");
        if let Some((known, holders)) = &*read
            && *known == stamp
        {
            return holders.clone();
        }
        let all = self.all().unwrap_or_else(|error| {
            tracing::error!(%error, "the tokens cannot be read: nobody is admitted by one");
            AllTokens::new()
        });
        let holder = |(name, kept): (String, KeptToken)| {
            // A scope that is unknown, of a newer version, gives nothing.
            let scopes = kept.scopes.iter().filter_map(|scope| scope.parse().ok()).collect();
            let publisher = kept.publisher.and_then(|publisher| publisher.parse().ok());
            (kept.digest, Holder { name, scopes, publisher })
        };
        let holders = Arc::new(all.into_iter().map(holder).collect::<BTreeMap<_, _>>());
        *read = Some((stamp, holders.clone()));
        holders
    }
}

fn digest_of(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(token.as_bytes()))
}

/// Why somebody may not do that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Nothing was shown.
    #[error(
        "this needs a token: Authorization: Bearer …; the registry's operator makes one: \
         althing-registry token add NAME --scope {}", .0.name()
    )]
    Required(TokenScope),
    /// What was shown is no token, or none any more.
    #[error("this token is unknown here, or was taken back: ask the registry's operator for one")]
    Unknown,
    /// The token has another scope.
    #[error("this needs the scope {}, which the token lacks", .0.name())]
    Lacks(TokenScope),
}

/// Who may write Things, and read them.
#[derive(Debug)]
pub struct Access {
    /// The tokens.
    pub tokens: Tokens,
    /// Whether anybody may write, without a token.
    pub is_anyone: bool,
    /// Whether reading needs a token.
    pub is_closed: bool,
}

impl Access {
    /// Who writes.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn writer(&self, token: Option<&str>) -> Result<Writer, AccessError> {
        let Some(token) = token else {
            let anybody = Writer { name: String::new(), is_admin: false };
            return if self.is_anyone { Ok(anybody) } else { Err(AccessError::Required(TokenScope::Write)) };
        };
        let holder = self.holder(token)?;
        let is_admin = holder.scopes.contains(&TokenScope::Admin);
        if !is_admin && !holder.scopes.contains(&TokenScope::Write) {
            return Err(AccessError::Lacks(TokenScope::Write));
        }
        Ok(Writer { name: holder.name, is_admin })
    }

    /// Whether somebody may read.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn reader(&self, token: Option<&str>) -> Result<(), AccessError> {
        if !self.is_closed {
            return Ok(());
        }
        let holder = self.holder(token.ok_or(AccessError::Required(TokenScope::Read))?)?;
        // Each scope of Things includes reading them.
        if holder.scopes.iter().all(|scope| scope.is_of_publisher()) {
            Err(AccessError::Lacks(TokenScope::Read))
        } else {
            Ok(())
        }
    }

    /// Whose releases a token is for, and what for.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn publisher(&self, token: &str) -> Result<Option<(TokenScope, PublisherId)>, AccessError> {
        let holder = self.holder(token)?;
        let scope = holder.scopes.iter().copied().find(|scope| scope.is_of_publisher());
        Ok(scope.zip(holder.publisher))
    }

    /// Digests are compared, so that the time taken reveals nothing of a token.
    fn holder(&self, token: &str) -> Result<Holder, AccessError> {
        self.tokens.holders().get(&digest_of(token)).cloned().ok_or(AccessError::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn access(folder: &Path, is_anyone: bool, is_closed: bool) -> Access {
        Access { tokens: Tokens::of(folder), is_anyone, is_closed }
    }

    #[test]
    fn a_token_is_admitted_for_what_it_says_until_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (tokens, running) = (Tokens::of(folder.path()), access(folder.path(), false, true));
        let writes = tokens.add("alice", &[TokenScope::Write], [1; 32]).expect("a token");
        let reads = tokens.add("bob", &[TokenScope::Read], [2; 32]).expect("a token");
        let admin = tokens.add("carol", &[TokenScope::Admin], [3; 32]).expect("a token");
        let writer = |name: &str, is_admin| Ok(Writer { name: name.to_owned(), is_admin });
        assert_eq!(running.writer(Some(&writes)), writer("alice", false));
        assert_eq!(running.writer(Some(&reads)), Err(AccessError::Lacks(TokenScope::Write)));
        assert_eq!(running.writer(Some(&admin)), writer("carol", true));
        assert_eq!(running.writer(None), Err(AccessError::Required(TokenScope::Write)));
        for token in [&writes, &reads, &admin] {
            assert_eq!(running.reader(Some(token)), Ok(()));
            let wrong = &token[..token.len() - 1];
            assert_eq!(running.reader(Some(wrong)), Err(AccessError::Unknown));
        }
        assert_eq!(running.reader(None), Err(AccessError::Required(TokenScope::Read)));
        tokens.remove("alice").expect("she was there");
        assert_eq!(running.writer(Some(&writes)), Err(AccessError::Unknown));
        let open = access(folder.path(), true, false);
        assert_eq!(open.writer(None), writer("", false));
        assert_eq!(open.writer(Some(&writes)), Err(AccessError::Unknown), "a wrong token is not as good as none");
        assert_eq!(open.reader(None), Ok(()));
    }

    #[test]
    fn the_file_holds_no_token_and_names_are_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = Tokens::of(folder.path());
        let token = tokens.add("alice", &[TokenScope::Write], [1; 32]).expect("a token");
        let kept = std::fs::read_to_string(&tokens.path).expect("a file");
        assert!(!kept.contains(&token[PREFIX.len()..]), "{kept}");
        assert_eq!(std::fs::metadata(&tokens.path).expect("a file").mode() & 0o777, 0o600);
        for name in ["", "Alice", "a b", "ä", &"x".repeat(65)] {
            assert!(matches!(tokens.add(name, &[], [2; 32]), Err(TokenError::Name)), "{name}");
        }
        assert!(matches!(tokens.add("alice", &[], [2; 32]), Err(TokenError::Taken(_))));
        let there = tokens.remove("bob").expect_err("none").to_string();
        assert!(there.contains("there are: alice"), "{there}");
        assert!("write".parse::<TokenScope>().expect_err("none").to_string().contains("things:write"));
    }
}
