//! Who asks: the principal that calls are made for, and the account that what is kept for a client is charged to.

use std::convert::Infallible;
use std::sync::Arc;

use althing_calls::{Among, Callee, Calls, OperationError, Principal, TrustRelation};
use althing_edge::{Identity, Peer, Standing};
use althing_protocol::AgentId;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::Gateway;
use crate::kept::Account;

/// A client that passed the guard.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// Who it is.
    identity: Identity,
    /// On whose behalf it asks.
    pub principal: Principal,
    /// What is kept for it.
    pub account: Account,
    /// How long it is who it is.
    pub standing: Option<Standing>,
}

impl Client {
    /// The agent of that id or name.
    ///
    /// # Errors
    /// When the client may not call it.
    pub async fn callee(&self, calls: &Calls, agent: String) -> Result<Callee, OperationError> {
        callee(&self.identity, calls, agent).await
    }

    /// A local one that is charged under that name.
    #[cfg(test)]
    pub fn of(name: &str, kept: &Arc<crate::kept::Kept>) -> Client {
        Client { identity: Identity::Local, principal: Principal::Local, account: kept.account(name), standing: None }
    }

    /// Whether the client may call an agent.
    ///
    /// # Errors
    /// `CALLER_NOT_ALLOWED`.
    pub fn check(&self, calls: &Calls, agent: &AgentId) -> Result<(), OperationError> {
        check(&self.identity, calls, agent)
    }
}

impl FromRequestParts<Arc<Gateway>> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, gateway: &Arc<Gateway>) -> Result<Client, Infallible> {
        let identity = parts.extensions.get::<Identity>().cloned().unwrap_or_default();
        let principal = principal(&identity);
        let from = parts.extensions.get::<Peer>().map(|peer| peer.net());
        let account = gateway.kept.account(&format!("{principal} {}", from.as_deref().unwrap_or_default()));
        let standing = parts.extensions.get::<Standing>().cloned();
        Ok(Client { identity, principal, account, standing })
    }
}

/// The principal that calls are made for (SPEC P-54).
pub(crate) fn principal(identity: &Identity) -> Principal {
    match identity {
        Identity::Local => Principal::Local,
        Identity::Token => Principal::Token,
        Identity::User(user) => Principal::User(user.name.clone()),
    }
}

/// The agent of that id or name, if that is one that may be called.
pub(crate) async fn callee(identity: &Identity, calls: &Calls, agent: String) -> Result<Callee, OperationError> {
    match identity {
        Identity::User(user) if !user.agents.is_empty() => {
            let id = calls.resolve(&agent, Among::Near).await?;
            check(identity, calls, &id)?;
            Ok(Callee::Id(id))
        }
        _ => Ok(Callee::Named(agent, Among::Near)),
    }
}

fn check(identity: &Identity, calls: &Calls, agent: &AgentId) -> Result<(), OperationError> {
    let is_own = calls.relation(agent.publisher()) == TrustRelation::Own;
    let own = is_own.then(|| agent.name());
    identity.check_agent(&agent.to_string(), own).map_err(OperationError::caller_not_allowed)
}
