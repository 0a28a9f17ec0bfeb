//! Who asks: whoever the listener that took the connection says. No request says it of itself, and no handler assumes it.

use std::path::{Path, PathBuf};

use althing_api::{Kind, Listener, LocalPath};
use althing_calls::Principal;
use althing_operations::Operations;
use althing_operations::governance::Actor;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::error::ApiError;

/// On whose behalf a request is carried out, from the extensions of the request, where its listener puts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester(pub Principal);

impl Requester {
    /// The path of a file of the node's machine.
    ///
    /// # Errors
    /// A refusal, where whoever asks may be anywhere.
    pub fn path<'a>(&self, path: &'a LocalPath) -> Result<&'a Path, ApiError> {
        let listener = if self.0 == Principal::Local { Listener::Local } else { Listener::Other };
        path.on(listener).ok_or_else(|| {
            let why =
                "only who asks on the node's machine, over its control socket, names files there: hand the files over";
            ApiError::new(Kind::Refused, why)
        })
    }

    /// The same, of several.
    pub fn paths(&self, paths: &[LocalPath]) -> Result<Vec<PathBuf>, ApiError> {
        paths.iter().map(|path| self.path(path).map(Path::to_owned)).collect()
    }

    /// Whether whoever asks may be shown a secret.
    ///
    /// # Errors
    /// A refusal, where whoever asks may be anywhere.
    pub fn check_secrets(&self) -> Result<(), ApiError> {
        if self.0 == Principal::Local {
            return Ok(());
        }
        let why = "what shows a secret is asked on the node's machine, over its control socket";
        Err(ApiError::new(Kind::Refused, why))
    }
}

impl Requester {
    /// Whether the owner asks, on the node's machine: who else may change keys, tokens and what is open is nobody.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_owner(&self) -> Result<(), ApiError> {
        if self.0 == Principal::Local {
            return Ok(());
        }
        let why = "only the owner may do this, on the node's machine, over its control socket";
        Err(ApiError::new(Kind::Refused, why))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Requester {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Requester, ApiError> {
        let principal = parts.extensions.get::<Principal>().cloned().map(Requester);
        principal.ok_or_else(|| {
            let why = "whoever took this connection does not say for whom it is: ask over the control socket";
            ApiError::new(Kind::Refused, why)
        })
    }
}

/// Who changes something: the owner, over the socket of the node's machine; else whoever a user or a token is.
///
/// # Errors
/// A refusal: whoever asks is nobody in the file of people.
pub fn actor(node: &Operations, principal: &Principal) -> Result<Actor, ApiError> {
    let user = match principal {
        Principal::Local => return Ok(Actor::Owner),
        Principal::User(name) => name.clone(),
        // Nobody is known by a token that everybody may have.
        _ => {
            let why = "whoever asks by a token without a name is nobody in the file of people: use a token of your own";
            return Err(ApiError::new(Kind::Refused, why));
        }
    };
    let people = node.governance.people();
    let name = people.person_of(&user).map(str::to_owned);
    let name = name.ok_or_else(|| {
        ApiError::new(Kind::Refused, format!("{user:?} is nobody in the file of people: its owner names them there"))
    })?;
    Ok(Actor::Person { name, signed: None })
}

#[cfg(test)]
mod tests {
    use althing_api::Problem;
    use axum::http::Request;

    use super::*;

    async fn asked(said: Option<Principal>) -> Result<Requester, ApiError> {
        // What a request says of itself counts for nothing.
        let mut request =
            Request::get("/call?principal=local").header("principal", "local").body(()).expect("a request");
        if let Some(principal) = said {
            request.extensions_mut().insert(principal);
        }
        let (mut parts, ()) = request.into_parts();
        Requester::from_request_parts(&mut parts, &()).await
    }

    #[test]
    fn files_of_the_machine_are_named_by_who_asks_there() {
        let path = LocalPath::new("/srv/agent.yaml");
        assert_eq!(Requester(Principal::Local).path(&path), Ok(Path::new("/srv/agent.yaml")));
        for other in [Principal::Token, Principal::User("maria".to_owned())] {
            let refused = Requester(other).paths(std::slice::from_ref(&path)).expect_err("it may be anywhere");
            assert_eq!(Problem::from(refused).kind, Kind::Refused);
        }
        assert_eq!(Requester(Principal::Local).check_secrets(), Ok(()));
        let hidden = Requester(Principal::Token).check_secrets().expect_err("it may be anywhere");
        assert_eq!(Problem::from(hidden).kind, Kind::Refused);
    }

    #[tokio::test]
    async fn who_asks_is_whom_the_listener_names() {
        for principal in [Principal::Local, Principal::Token, Principal::User("maria".to_owned())] {
            assert_eq!(asked(Some(principal.clone())).await, Ok(Requester(principal)));
        }
        let nobody = Problem::from(asked(None).await.expect_err("nobody is named"));
        assert_eq!(nobody.kind, Kind::Refused, "{}", nobody.message);
    }
}
