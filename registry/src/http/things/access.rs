//! Who asks.

use axum::http::{HeaderMap, StatusCode, header};

use super::super::problem::Problem;
use crate::machine::things::Writer;
use crate::service::Registry;
use crate::tokens::AccessError;

const TOKEN_BYTES_MAX: usize = 256;

/// The bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, token) = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))?;
    Some(token.trim()).filter(|token| !token.is_empty() && token.len() <= TOKEN_BYTES_MAX)
}

/// Who writes.
pub fn writer(registry: &Registry, headers: &HeaderMap) -> Result<Writer, Problem> {
    registry.access()?.writer(bearer(headers)).map_err(refused)
}

/// Refuses those who may not read.
pub fn reader(registry: &Registry, headers: &HeaderMap) -> Result<(), Problem> {
    match registry.access() {
        Ok(access) => access.reader(bearer(headers)).map_err(refused),
        // Without a directory of Things there are agents only, which everybody may read.
        Err(_) => Ok(()),
    }
}

/// Refuses whoever shows no token, or one that opens nothing here.
pub fn refused(error: AccessError) -> Problem {
    let (status, challenge) = match &error {
        AccessError::Required(_) => (StatusCode::UNAUTHORIZED, "Bearer".to_owned()),
        AccessError::Unknown => (StatusCode::UNAUTHORIZED, "Bearer error=\"invalid_token\"".to_owned()),
        AccessError::Lacks(scope) => {
            let scope = scope.name();
            (StatusCode::FORBIDDEN, format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\""))
        }
    };
    Problem::new(status, error).challenge(&challenge)
}
