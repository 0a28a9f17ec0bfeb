//! Who may use the gateway by a named token: the file of tokens, read again as soon as it changes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use althing_gateway::{User, Users};
use althing_operations::{TokenEntries, TokenEntry, TokenFile, TokenStamp, token_digest};
use futures::future::BoxFuture;

/// A version of the file, none where it is not there, and its users by the digests of their tokens.
type Read = (Option<TokenStamp>, Arc<BTreeMap<String, User>>);

/// The users of a data folder's tokens.
pub struct Tokens {
    file: TokenFile,
    /// What was read last: the users by the digests of their tokens.
    read: Mutex<Option<Read>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Those of that data folder.
    pub fn of(data: &Path) -> Tokens {
        Tokens { file: TokenFile::of(data), read: Mutex::default() }
    }

    /// The users, read again if the file has changed. A file that cannot be read admits nobody.
    fn users(&self) -> Arc<BTreeMap<String, User>> {
        let stamp = self.file.stamp();
        let mut read = self.read.lock().expect("no holder of the tokens panics");
        if let Some((known, users)) = &*read
            && *known == stamp
        {
            return users.clone();
        }
        let all = self.file.all().unwrap_or_else(|error| {
            tracing::error!(%error, "the gateway's tokens cannot be read: nobody is admitted by one");
            TokenEntries::new()
        });
        let users = Arc::new(all.into_iter().map(|(name, entry)| user(name, entry)).collect::<BTreeMap<_, _>>());
        *read = Some((stamp, users.clone()));
        users
    }
}

/// A user by the digest of the token. A scope that is unknown, of a newer version, gives nothing.
fn user(name: String, entry: TokenEntry) -> (String, User) {
    let scopes = entry.scopes.iter().filter_map(|scope| scope.parse().ok()).collect();
    (entry.digest, User { name, scopes, agents: entry.agents.into_iter().collect() })
}

impl Users for Tokens {
    /// The file is there, be it that its last token was removed, or that it cannot be read: neither is a reason to admit
    /// everybody.
    fn is_used(&self) -> bool {
        !matches!(std::fs::symlink_metadata(self.file.path()), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
    }

    fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<User>> {
        // Digests are compared, so that the time taken reveals nothing of a token.
        Box::pin(std::future::ready(self.users().get(&token_digest(token)).cloned()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use althing_gateway::Scope;

    use super::*;

    const PREFIX: &str = "althing_";

    fn found(tokens: &Tokens, token: &str) -> Option<User> {
        futures::executor::block_on(tokens.of_token(token))
    }

    fn words(scopes: &[Scope]) -> Vec<String> {
        scopes.iter().map(Scope::to_string).collect()
    }

    #[test]
    fn a_token_is_admitted_until_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (tokens, node) = (TokenFile::of(folder.path()), Tokens::of(folder.path()));
        assert!(!node.is_used());
        let scopes = words(&[Scope::Read, Scope::Call]);
        let alice = tokens.add("alice", scopes, &["echo".to_owned()], [1; 32]).expect("a token");
        let bob = tokens.add("bob", words(&[Scope::Admin]), &[], [2; 32]).expect("a token");
        assert!(node.is_used() && alice != bob && alice.starts_with(PREFIX) && alice.len() > 40);
        let user = found(&node, &alice).expect("she is known");
        assert_eq!((user.name.as_str(), user.may(Scope::Call), user.may(Scope::Admin)), ("alice", true, false));
        assert!(user.agents.iter().eq(["echo"]), "{:?}", user.agents);
        for wrong in ["", "alice", &alice[..alice.len() - 1], &format!("{alice}x"), &alice.to_uppercase()] {
            assert_eq!(found(&node, wrong), None, "{wrong}");
        }
        assert!(tokens.open().expect_err("there are tokens").to_string().contains("alice, bob"));
        assert_eq!(tokens.remove("alice").expect("she was there"), 1);
        assert_eq!((found(&node, &alice), found(&node, &bob).map(|user| user.name)), (None, Some("bob".to_owned())));
        assert_eq!(tokens.remove("bob").expect("he was there"), 0);
        assert!(node.is_used() && Tokens::of(folder.path()).is_used(), "who takes back the last token opens nothing");
        tokens.open().expect("nothing else opens it");
        tokens.open().expect("it is open already");
        assert!(!node.is_used());
    }

    #[test]
    fn the_file_holds_no_token_and_is_the_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = TokenFile::of(folder.path());
        let token = tokens.add("alice", words(&[Scope::Read]), &[], [3; 32]).expect("a token");
        let kept = std::fs::read_to_string(tokens.path()).expect("a file");
        assert!(!kept.contains(&token) && !kept.contains(&token[PREFIX.len()..]), "{kept}");
        let mode = std::fs::metadata(tokens.path()).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o600);
        let mode =
            |bits: u32| std::fs::set_permissions(tokens.path(), Permissions::from_mode(bits)).expect("it is ours");
        mode(0o644);
        assert!(tokens.all().expect_err("others may read it").to_string().contains("chmod 600"));
        let node = Tokens::of(folder.path());
        assert!(node.is_used() && found(&node, &token).is_none(), "nobody is admitted, with or without a token");
        mode(0o600);
        assert_eq!(found(&node, &token).map(|user| user.name).as_deref(), Some("alice"), "once it is mended she is");
    }
}
