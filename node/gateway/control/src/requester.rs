//! Who asks: whoever the listener that took the connection says. No request says it of itself, and no handler assumes it.

use althing_api::Kind;
use althing_calls::Principal;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::error::ApiError;

/// On whose behalf a request is carried out, from the extensions of the request, where its listener puts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester(pub Principal);

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

    #[tokio::test]
    async fn who_asks_is_whom_the_listener_names() {
        for principal in [Principal::Local, Principal::Token, Principal::User("maria".to_owned())] {
            assert_eq!(asked(Some(principal.clone())).await, Ok(Requester(principal)));
        }
        let nobody = Problem::from(asked(None).await.expect_err("nobody is named"));
        assert_eq!(nobody.kind, Kind::Refused, "{}", nobody.message);
    }
}
