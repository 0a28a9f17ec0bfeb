//! The gateway's named tokens: a file of the data folder, which `althing token` writes and a running node reads again as soon as
//! it changes. It holds digests: a token is shown once, when it is made.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use althing_gateway::{Scope, User, Users, is_user_name};
use althing_protocol::digest;
use althing_store::keyfile::{self, KeyFileError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The file, in the data folder.
const FILE: &str = "gateway-tokens.json";
/// Tokens at one time.
const TOKENS_MAX: usize = 128;
/// Agents that one token names.
const AGENTS_MAX: usize = 16;
/// Bytes of an agent's name or id.
const AGENT_BYTES_MAX: usize = 256;
/// What a token begins with, so that scanners of leaked secrets know it.
const PREFIX: &str = "althing_";

/// A token, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// SHA-256 of the token, base64url.
    digest: String,
    /// What its holder may do.
    pub scopes: Vec<String>,
    /// The agents that the holder may call; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

/// Tokens by the names of their holders.
type All = BTreeMap<String, Kept>;

/// What tells one version of the file from another: it is replaced, never written in place.
type Stamp = (u64, u64, i64, i64);

/// A version of the file, and its users by the digests of their tokens.
type Read = (Stamp, Arc<BTreeMap<String, User>>);

/// The tokens of a data folder.
pub struct Tokens {
    path: PathBuf,
    /// What was read last: the users by the digests of their tokens.
    read: Mutex<Option<Read>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Those of that data folder.
    pub fn of(data: &Path) -> Tokens {
        Tokens { path: data.join(FILE), read: Mutex::default() }
    }

    /// All, by name.
    ///
    /// # Errors
    /// When the file cannot be read, or others may read it.
    pub fn all(&self) -> Result<All, Failure> {
        let bytes = match keyfile::read_secret(&self.path) {
            Ok(bytes) => bytes,
            Err(KeyFileError::Missing { .. }) => return Ok(All::new()),
            Err(error) => return Err(Failure::failed(error.to_string())),
        };
        serde_json::from_slice(&bytes).map_err(|error| {
            let path = self.path.display();
            Failure::failed(format!("{path} has no tokens: {error}; bring it back from a copy, or move it away and make the tokens anew: without it the gateway is open to everybody on this machine"))
        })
    }

    /// Makes a token of 32 random bytes, and gives it: it is kept nowhere.
    ///
    /// # Errors
    /// When the name is taken or none, a scope or an agent is none, or the file cannot be written.
    pub fn add(&self, name: &str, scopes: &[Scope], agents: &[String], random: [u8; 32]) -> Result<String, Failure> {
        if !is_user_name(name) || name.contains('@') {
            return Err(Failure::usage("a name is 1 to 64 of a-z, 0-9, dot, _ and -"));
        }
        if agents.len() > AGENTS_MAX || agents.iter().any(|agent| agent.is_empty() || agent.len() > AGENT_BYTES_MAX) {
            return Err(Failure::usage(format!(
                "a token names at most {AGENTS_MAX} agents of {AGENT_BYTES_MAX} bytes each"
            )));
        }
        let _lock = self.lock()?;
        let mut all = self.all()?;
        if all.contains_key(name) {
            return Err(Failure::usage(format!(
                "there is a token of {name} already; remove it first: althing token remove {name}"
            )));
        }
        if all.len() >= TOKENS_MAX {
            return Err(Failure::usage(format!("there are {TOKENS_MAX} tokens, which is the most; remove one")));
        }
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let scopes = scopes.iter().map(Scope::to_string).collect();
        all.insert(name.to_owned(), Kept { digest: digest_of(&token), scopes, agents: agents.to_vec() });
        self.write(&all)?;
        Ok(token)
    }

    /// Takes a token back: from now on it opens nothing. Returns how many there are still. After the last one the gateway
    /// stays closed, until [`Tokens::open`].
    ///
    /// # Errors
    /// When there is none of that name, or the file cannot be written.
    pub fn remove(&self, name: &str) -> Result<usize, Failure> {
        let _lock = self.lock()?;
        let mut all = self.all()?;
        if all.remove(name).is_none() {
            let named: Vec<&str> = all.keys().map(String::as_str).collect();
            let there = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
            return Err(Failure::usage(format!("there is no token of {name:?}; there are: {there}")));
        }
        self.write(&all)?;
        Ok(all.len())
    }

    /// Opens a gateway without a token of its own to everybody on this machine, as it was before the first token.
    ///
    /// # Errors
    /// When there are tokens, or the file cannot be read or removed.
    pub fn open(&self) -> Result<(), Failure> {
        let _lock = self.lock()?;
        let all = self.all()?;
        if !all.is_empty() {
            let names = all.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Failure::usage(format!(
                "there are tokens still, which would open nothing that is not open: {names}; remove them first: \
                 althing token remove NAME"
            )));
        }
        keyfile::remove_secret(&self.path).map_err(|error| Failure::failed(error.to_string()))
    }

    /// Held by whoever changes the file: what two commands write at one time is not lost.
    fn lock(&self) -> Result<std::fs::File, Failure> {
        keyfile::lock_secret(&self.path).map_err(|error| Failure::failed(error.to_string()))
    }

    fn write(&self, all: &All) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(all).map_err(|error| Failure::failed(error.to_string()))?;
        keyfile::replace_secret(&self.path, &text).map_err(|error| Failure::failed(error.to_string()))
    }

    /// The users, read again if the file has changed. A file that cannot be read admits nobody.
    fn users(&self) -> Arc<BTreeMap<String, User>> {
        let stamp = std::fs::metadata(&self.path)
            .map_or((0, 0, 0, 0), |facts| (facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()));
        let mut read = self.read.lock().expect("no holder of the tokens panics");
        if let Some((known, users)) = &*read
            && *known == stamp
        {
            return users.clone();
        }
        let all = self.all().unwrap_or_else(|failure| {
            tracing::error!(
                failure = failure.message,
                "the gateway's tokens cannot be read: nobody is admitted by one"
            );
            All::new()
        });
        let users = Arc::new(all.into_iter().map(|(name, kept)| user(name, kept)).collect::<BTreeMap<_, _>>());
        *read = Some((stamp, users.clone()));
        users
    }
}

/// A user by the digest of the token. A scope that is unknown, of a newer version, gives nothing.
fn user(name: String, kept: Kept) -> (String, User) {
    let scopes = kept.scopes.iter().filter_map(|scope| scope.parse().ok()).collect();
    (kept.digest, User { name, scopes, agents: kept.agents.into_iter().collect() })
}

fn digest_of(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(token.as_bytes()))
}

impl Users for Tokens {
    /// The file is there, be it that its last token was removed, or that it cannot be read: neither is a reason to admit
    /// everybody.
    fn is_used(&self) -> bool {
        !matches!(std::fs::symlink_metadata(&self.path), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
    }

    fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<User>> {
        // Digests are compared, so that the time taken reveals nothing of a token.
        Box::pin(std::future::ready(self.users().get(&digest_of(token)).cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tokens: &Tokens, token: &str) -> Option<User> {
        futures::executor::block_on(tokens.of_token(token))
    }

    #[test]
    fn a_token_is_admitted_until_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (tokens, node) = (Tokens::of(folder.path()), Tokens::of(folder.path()));
        assert!(!node.is_used());
        let alice = tokens.add("alice", &[Scope::Read, Scope::Call], &["echo".to_owned()], [1; 32]).expect("a token");
        let bob = tokens.add("bob", &[Scope::Admin], &[], [2; 32]).expect("a token");
        assert!(node.is_used() && alice != bob && alice.starts_with(PREFIX) && alice.len() > 40);
        let user = found(&node, &alice).expect("she is known");
        assert_eq!((user.name.as_str(), user.may(Scope::Call), user.may(Scope::Admin)), ("alice", true, false));
        assert!(user.agents.iter().eq(["echo"]), "{:?}", user.agents);
        for wrong in ["", "alice", &alice[..alice.len() - 1], &format!("{alice}x"), &alice.to_uppercase()] {
            assert_eq!(found(&node, wrong), None, "{wrong}");
        }
        assert!(tokens.open().expect_err("there are tokens").message.contains("alice, bob"));
        assert_eq!(tokens.remove("alice").expect("she was there"), 1);
        assert_eq!((found(&node, &alice), found(&node, &bob).map(|user| user.name)), (None, Some("bob".to_owned())));
        assert_eq!(tokens.remove("bob").expect("he was there"), 0);
        assert!(node.is_used() && Tokens::of(folder.path()).is_used(), "who takes back the last token opens nothing");
        tokens.open().expect("nothing else opens it");
        tokens.open().expect("it is open already");
        assert!(!node.is_used());
    }

    #[test]
    fn what_is_changed_at_one_time_is_all_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (Tokens::of(folder.path()), Tokens::of(folder.path()));
        let lock = first.lock().expect("nobody holds it");
        std::thread::scope(|threads| {
            let adding = threads.spawn(|| second.add("second", &[Scope::Read], &[], [8; 32]));
            // As a command does that began before it.
            let mut all = first.all().expect("none");
            all.insert("first".to_owned(), Kept { digest: String::new(), scopes: Vec::new(), agents: Vec::new() });
            first.write(&all).expect("it is written");
            drop(lock);
            adding.join().expect("no panic").expect("a token");
        });
        assert_eq!(first.all().expect("both").into_keys().collect::<Vec<_>>(), ["first", "second"]);
        std::thread::scope(|threads| {
            for index in 0..8_u8 {
                let tokens = Tokens::of(folder.path());
                threads
                    .spawn(move || tokens.add(&format!("n{index}"), &[Scope::Read], &[], [index; 32]).expect("added"));
            }
        });
        assert_eq!(first.all().expect("all").len(), 10);
    }

    #[test]
    fn the_file_holds_no_token_and_is_the_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = Tokens::of(folder.path());
        let token = tokens.add("alice", &[Scope::Read], &[], [3; 32]).expect("a token");
        let kept = std::fs::read_to_string(&tokens.path).expect("a file");
        assert!(!kept.contains(&token) && !kept.contains(&token[PREFIX.len()..]), "{kept}");
        let mode = std::fs::metadata(&tokens.path).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o600);
        let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
        std::fs::set_permissions(&tokens.path, open).expect("it is ours");
        assert!(tokens.all().expect_err("others may read it").message.contains("chmod 600"));
        let node = Tokens::of(folder.path());
        assert!(node.is_used() && found(&node, &token).is_none(), "nobody is admitted, with or without a token");
    }

    #[test]
    fn what_is_no_name_or_there_already_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = Tokens::of(folder.path());
        for name in ["", "Alice", "a b", "a/b", "a@b", "ä", &"x".repeat(65)] {
            assert!(tokens.add(name, &[Scope::Read], &[], [4; 32]).is_err(), "{name}");
        }
        tokens.add("a", &[Scope::Read], &[], [5; 32]).expect("a token");
        assert!(tokens.add("a", &[Scope::Read], &[], [6; 32]).expect_err("taken").message.contains("token remove a"));
        assert!(tokens.remove("b").expect_err("none").message.contains("there are: a"));
        assert!(tokens.add("b", &[Scope::Read], &vec!["x".to_owned(); AGENTS_MAX + 1], [7; 32]).is_err());
    }
}
