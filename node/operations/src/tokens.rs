//! The named tokens of a node's gateway: a file of its data folder, which is read again as soon as it changes. It holds digests: a
//! token is shown once, when it is made.

use std::collections::BTreeMap;
use std::fs::{File, metadata, symlink_metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use althing_calls::is_user_name;
use althing_failure::{KeyStep, Kind, Remedy};
use althing_protocol::digest;
use althing_store::keyfile::{self, KeyFileError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

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

/// A token, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// SHA-256 of the token, base64url.
    pub digest: String,
    /// What its holder may do: `read`, `call`, `admin`.
    pub scopes: Vec<String>,
    /// The agents that the holder may call; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

/// Tokens by the names of their holders.
pub type TokenEntries = BTreeMap<String, TokenEntry>;

/// Why tokens cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name of a holder is none.
    #[error("a name is 1 to 64 of a-z, 0-9, dot, _ and -")]
    Name,
    /// The agents that it would be for.
    #[error("a token names at most {AGENTS_MAX} agents of {AGENT_BYTES_MAX} bytes each")]
    Agents,
    /// The holder has one.
    #[error("there is a token of {0} already")]
    Exists(String),
    /// There are as many as there can be.
    #[error("there are {TOKENS_MAX} tokens, which is the most; remove one")]
    TooMany,
    /// The holder has none.
    #[error("there is no token of {name:?}; there are: {}", listed(.there))]
    None {
        /// Whose it would be.
        name: String,
        /// Who has one.
        there: Vec<String>,
    },
    /// The gateway is not opened to everybody while somebody has a token.
    #[error("there are tokens still, which would open nothing that is not open: {}", listed(.0))]
    Left(Vec<String>),
    /// The node has no folder of its own.
    #[error("this node keeps no data, so it has no tokens")]
    NoFolder,
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The file holds something else.
    #[error(
        "{} has no tokens: {source}; bring it back from a copy, or move it away and make the tokens anew: without it the gateway \
         is open to everybody on this machine",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// It cannot be written as JSON.
    #[error("the tokens cannot be written: {0}")]
    Json(serde_json::Error),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl TokenError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            TokenError::Name | TokenError::Agents => Kind::Invalid,
            TokenError::None { .. } => Kind::NotFound,
            TokenError::Exists(_) | TokenError::TooMany | TokenError::Left(_) => Kind::Conflict,
            TokenError::NoFolder | TokenError::File(_) | TokenError::Damaged { .. } | TokenError::Json(_) => {
                Kind::Failed
            }
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            TokenError::Exists(name) => Some(KeyStep::RemoveToken(name.clone()).into()),
            TokenError::Left(_) => Some(KeyStep::RemoveTokens.into()),
            _ => None,
        }
    }
}

/// What tells one version of the file from another. It is replaced, never written in place; but its mode, which decides whether
/// it is read, may change alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenStamp {
    inode: u64,
    bytes: u64,
    /// Two changes of it may have one time: a kernel's clock ticks every few milliseconds.
    mode: u32,
    /// Seconds and nanoseconds, as the next.
    written: (i64, i64),
    /// When anything of it was changed, also its mode.
    changed: (i64, i64),
}

/// The tokens of a data folder.
#[derive(Debug)]
pub struct TokenFile(PathBuf);

impl TokenFile {
    /// Those of that data folder.
    #[must_use]
    pub fn of(data: &Path) -> TokenFile {
        TokenFile(data.join(FILE))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Which version of the file is there; none where it is not.
    #[must_use]
    pub fn stamp(&self) -> Option<TokenStamp> {
        // A link that leads nowhere is there still: the gateway is not open.
        let facts = metadata(&self.0).or_else(|_| symlink_metadata(&self.0)).ok()?;
        Some(TokenStamp {
            inode: facts.ino(),
            bytes: facts.size(),
            mode: facts.mode(),
            written: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }

    /// All, by name.
    ///
    /// # Errors
    /// When the file cannot be read, or others may read it.
    pub fn all(&self) -> Result<TokenEntries, TokenError> {
        let bytes = match keyfile::read_secret(&self.0) {
            Ok(bytes) => bytes,
            Err(KeyFileError::Missing { .. }) => return Ok(TokenEntries::new()),
            Err(error) => return Err(error.into()),
        };
        serde_json::from_slice(&bytes).map_err(|source| TokenError::Damaged { path: self.0.clone(), source })
    }

    /// Makes a token of 32 random bytes, and gives it: it is kept nowhere.
    ///
    /// # Errors
    /// When the name is taken or none, an agent is none, or the file cannot be written.
    pub fn add(
        &self,
        name: &str,
        scopes: Vec<String>,
        agents: &[String],
        random: [u8; 32],
    ) -> Result<String, TokenError> {
        // An @ is of users whom others name.
        if !is_user_name(name) || name.contains('@') {
            return Err(TokenError::Name);
        }
        if agents.len() > AGENTS_MAX || agents.iter().any(|agent| agent.is_empty() || agent.len() > AGENT_BYTES_MAX) {
            return Err(TokenError::Agents);
        }
        let _lock = self.lock()?;
        let mut all = self.all()?;
        if all.contains_key(name) {
            return Err(TokenError::Exists(name.to_owned()));
        }
        if all.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let entry = TokenEntry { digest: token_digest(&token), scopes, agents: agents.to_vec() };
        all.insert(name.to_owned(), entry);
        self.write(&all)?;
        Ok(token)
    }

    /// Takes a token back: from now on it opens nothing. Returns how many there are still. After the last one the gateway
    /// stays closed, until [`TokenFile::open`].
    ///
    /// # Errors
    /// When there is none of that name, or the file cannot be written.
    pub fn remove(&self, name: &str) -> Result<usize, TokenError> {
        let _lock = self.lock()?;
        let mut all = self.all()?;
        if all.remove(name).is_none() {
            return Err(TokenError::None { name: name.to_owned(), there: all.into_keys().collect() });
        }
        self.write(&all)?;
        Ok(all.len())
    }

    /// Opens a gateway without a token of its own to everybody on this machine, as it was before the first token.
    ///
    /// # Errors
    /// When there are tokens, or the file cannot be read or removed.
    pub fn open(&self) -> Result<(), TokenError> {
        let _lock = self.lock()?;
        let all = self.all()?;
        if !all.is_empty() {
            return Err(TokenError::Left(all.into_keys().collect()));
        }
        Ok(keyfile::remove_secret(&self.0)?)
    }

    /// Held by whoever changes the file: what two of them write at one time is not lost.
    fn lock(&self) -> Result<File, TokenError> {
        Ok(keyfile::lock_secret(&self.0)?)
    }

    fn write(&self, all: &TokenEntries) -> Result<(), TokenError> {
        let text = serde_json::to_vec_pretty(all).map_err(TokenError::Json)?;
        Ok(keyfile::replace_secret(&self.0, &text)?)
    }
}

/// SHA-256 of a token, base64url.
#[must_use]
pub fn token_digest(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> Vec<String> {
        vec!["read".to_owned()]
    }

    #[test]
    fn what_is_changed_at_one_time_is_all_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (TokenFile::of(folder.path()), TokenFile::of(folder.path()));
        let lock = first.lock().expect("nobody holds it");
        std::thread::scope(|threads| {
            let adding = threads.spawn(|| second.add("second", read(), &[], [8; 32]));
            // As a command does that began before it.
            let mut all = first.all().expect("none");
            all.insert(
                "first".to_owned(),
                TokenEntry { digest: String::new(), scopes: Vec::new(), agents: Vec::new() },
            );
            first.write(&all).expect("it is written");
            drop(lock);
            adding.join().expect("no panic").expect("a token");
        });
        assert_eq!(first.all().expect("both").into_keys().collect::<Vec<_>>(), ["first", "second"]);
        std::thread::scope(|threads| {
            for index in 0..8_u8 {
                let tokens = TokenFile::of(folder.path());
                threads.spawn(move || tokens.add(&format!("n{index}"), read(), &[], [index; 32]).expect("added"));
            }
        });
        assert_eq!(first.all().expect("all").len(), 10);
    }

    #[test]
    fn what_is_no_name_or_there_already_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = TokenFile::of(folder.path());
        for name in ["", "Alice", "a b", "a/b", "a@b", "ä", &"x".repeat(65)] {
            assert!(matches!(tokens.add(name, read(), &[], [4; 32]), Err(TokenError::Name)), "{name}");
        }
        tokens.add("a", read(), &[], [5; 32]).expect("a token");
        let taken = tokens.add("a", read(), &[], [6; 32]).expect_err("taken");
        assert_eq!((taken.kind(), taken.remedy()), (Kind::Conflict, Some(KeyStep::RemoveToken("a".to_owned()).into())));
        let none = tokens.remove("b").expect_err("none");
        assert!(none.kind() == Kind::NotFound && none.to_string().ends_with("there are: a"), "{none}");
        let many = vec!["x".to_owned(); AGENTS_MAX + 1];
        assert!(matches!(tokens.add("b", read(), &many, [7; 32]), Err(TokenError::Agents)));
        let left = tokens.open().expect_err("there is one");
        assert!(left.kind() == Kind::Conflict && left.to_string().ends_with(": a"), "{left}");
    }
}
