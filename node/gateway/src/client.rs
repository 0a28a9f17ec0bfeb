//! Who asks: the principal that calls are made for, and the account that what is kept for a client is charged to.

use std::convert::Infallible;
use std::sync::Arc;

use althing_calls::{AllowedAgents, Asker, Callee, Calls, OperationError, Principal, Purpose, Target};
use althing_edge::{Identity, Peer, Standing, User};
use althing_protocol::AgentId;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::Gateway;
use crate::response_budget::Account;

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
    /// A local one that is charged under that name.
    #[cfg(test)]
    pub fn of(name: &str, budget: &Arc<crate::response_budget::ResponseBudget>) -> Client {
        Client { identity: Identity::Local, principal: Principal::Local, account: budget.account(name), standing: None }
    }

    /// The agent that the client calls.
    ///
    /// # Errors
    /// `AGENT_UNKNOWN` or `AGENT_REVOKED`, and then `CALLER_NOT_ALLOWED`.
    pub async fn target(&self, calls: &Calls, callee: &Callee) -> Result<Target, OperationError> {
        target(&self.identity, calls, callee).await
    }
}

impl FromRequestParts<Arc<Gateway>> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, gateway: &Arc<Gateway>) -> Result<Client, Infallible> {
        let identity = parts.extensions.get::<Identity>().cloned().unwrap_or_default();
        let principal = principal(&identity);
        let from = parts.extensions.get::<Peer>().map(|peer| peer.net());
        let account = gateway.budget.account(&format!("{principal} {}", from.as_deref().unwrap_or_default()));
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

/// What bounds what a client may ask for.
pub(crate) fn asker(identity: &Identity) -> Asker {
    match identity {
        Identity::User(User { name, agents, .. }) if !agents.is_empty() => {
            Asker::User(AllowedAgents { user: name.clone(), agents: agents.clone() })
        }
        Identity::Local | Identity::Token | Identity::User(_) => Asker::Owner,
    }
}

/// The agent that whoever has that identity calls.
///
/// # Errors
/// `AGENT_UNKNOWN` or `AGENT_REVOKED`, and then `CALLER_NOT_ALLOWED`.
pub(crate) async fn target(identity: &Identity, calls: &Calls, callee: &Callee) -> Result<Target, OperationError> {
    calls.target(&asker(identity), callee, Purpose::Call).await
}

/// The agent of that id or name, to read what it says of itself: whoever passed the guard may.
///
/// # Errors
/// `AGENT_UNKNOWN` or `AGENT_REVOKED`.
pub(crate) async fn to_read(calls: &Calls, agent: &str) -> Result<AgentId, OperationError> {
    Ok(calls.target(&Asker::Owner, &Callee::near(agent), Purpose::Read).await?.agent)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_a_token_that_names_agents_binds_to_them() {
        let user = |agents: &[&str]| User {
            name: "alice".to_owned(),
            scopes: BTreeSet::new(),
            agents: agents.iter().map(|&agent| agent.to_owned()).collect(),
        };
        for free in [Identity::Local, Identity::Token, Identity::User(user(&[]))] {
            assert_eq!(asker(&free), Asker::Owner, "{free:?}");
        }
        let bound = user(&["echo"]);
        let allowed = AllowedAgents { user: "alice".to_owned(), agents: bound.agents.clone() };
        assert_eq!(asker(&Identity::User(bound)), Asker::User(allowed));
    }
}
