//! Who may use the gateway: users with names, and what each may do.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;

/// Between two looks at a token or certificate.
pub(crate) const LOOKED_AT_EVERY: Duration = Duration::from_secs(5);

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Look for agents, and read what describes them.
    Read,
    /// Call agents, and see the tasks that come of it.
    Call,
    /// Everything, the figures of the node included.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Call, Scope::Admin];

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Call => "call",
            Scope::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that is no scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoScope(String);

impl fmt::Display for NoScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no scope {:?}; there are read, call and admin", self.0)
    }
}

impl std::error::Error for NoScope {}

impl FromStr for Scope {
    type Err = NoScope;

    fn from_str(text: &str) -> Result<Scope, NoScope> {
        let known = Scope::ALL.into_iter().find(|scope| scope.name() == text);
        known.ok_or_else(|| NoScope(text.chars().take(64).collect()))
    }
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name, which tasks belong to.
    pub name: String,
    /// What the user may do.
    pub scopes: BTreeSet<Scope>,
    /// Ids of the agents that may be called, or names of the node's own; empty: all.
    pub agents: BTreeSet<String>,
}

impl User {
    /// Whether the user may do that.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

/// Who asks. Each request that passed the guard has one among its extensions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Identity {
    /// A user of this machine, where no token is asked for.
    #[default]
    Local,
    /// The holder of the gateway's own token.
    Token,
    /// A user with a name.
    User(User),
}

impl Identity {
    /// Whether that is allowed; only users with names have limits.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        match self {
            Identity::Local | Identity::Token => true,
            Identity::User(user) => user.may(scope),
        }
    }
}

/// Finds users by what they show.
pub trait Users: fmt::Debug + Send + Sync {
    /// Whether there is any: then everybody has to show something.
    fn is_used(&self) -> bool;

    /// The user whom a bearer token belongs to; none if it is unknown here.
    fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<User>>;

    /// Where clients read how they get a token, a path of this gateway, and what they read there (RFC 9728).
    fn metadata(&self) -> Option<(&'static str, Value)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(scopes: &[Scope]) -> User {
        User { name: "alice".to_owned(), scopes: scopes.iter().copied().collect(), agents: BTreeSet::new() }
    }

    #[test]
    fn a_user_may_what_the_scopes_say() {
        let reader = user(&[Scope::Read]);
        assert_eq!(Scope::ALL.map(|scope| reader.may(scope)), [true, false, false]);
        assert_eq!(Scope::ALL.map(|scope| user(&[Scope::Admin]).may(scope)), [true; 3]);
        assert_eq!(Scope::ALL.map(|scope| user(&[]).may(scope)), [false; 3]);
        assert_eq!("call".parse(), Ok(Scope::Call));
        assert!("Call".parse::<Scope>().expect_err("no scope").to_string().contains("read, call and admin"));
    }
}
