//! What is decided without any policy but this node's own: whom its owner trusts, whom an agent's file lets call it, which
//! agents a client is bound to, and what publishers took back. It never asks anybody.

use std::sync::Arc;

use althing_call::{
    Decide, Decision, IncomingRequest, Judgement, OperationError, OutgoingRequest, Service, chain, relation,
};
use althing_communication::{CallerRule, Trust};
use althing_discovery::TrustRelation;
use althing_protocol::{AgentId, PublisherId};
use tokio::sync::watch;

/// Revocations that this node knows. Each method returns the reason, or none.
pub trait RevocationCheck: Send + Sync {
    /// Why that version must not be called, if so.
    fn version(&self, agent: &AgentId, version: &str) -> Option<String>;

    /// Why an agent must not be called in any version, since its owner stopped or revoked it, if so.
    fn order(&self, agent: &AgentId) -> Option<String>;

    /// Why this node stopped an agent that was added here, if its release was revoked.
    fn stopped(&self, agent: &AgentId) -> Option<String>;

    /// Which version of an agent was revoked, if any was: others may be good.
    fn any(&self, agent: &AgentId) -> Option<String>;
}

/// Decides by contracts alone.
pub struct ByContract {
    trust: watch::Receiver<Trust>,
    /// What publishers revoked; nothing where no revocation can be known.
    revocations: Option<Arc<dyn RevocationCheck>>,
}

impl ByContract {
    /// By whom this node trusts, as that changes, and what was taken back.
    #[must_use]
    pub fn new(trust: watch::Receiver<Trust>, revocations: Option<Arc<dyn RevocationCheck>>) -> ByContract {
        ByContract { trust, revocations }
    }

    /// Refuses an agent that its owner stopped or revoked.
    fn order(&self, agent: &AgentId) -> Result<(), OperationError> {
        let why = self.revocations.as_ref().and_then(|revocations| revocations.order(agent));
        why.map_or(Ok(()), |why| Err(OperationError::revoked(why)))
    }

    /// Refuses a version that its publisher took back; one that is not known is as good as any.
    fn version(&self, agent: &AgentId, version: Option<&str>) -> Result<(), OperationError> {
        self.order(agent)?;
        let revoked = self.revocations.as_ref().zip(version);
        let revoked = revoked.and_then(|(revocations, version)| revocations.version(agent, version));
        revoked.map_or(Ok(()), |why| Err(OperationError::revoked(why)))
    }

    /// Nobody hosts any of these agents: the first that this node stopped because it was revoked is refused as such; of the
    /// others it is said too whether a version was revoked, since that is why hosts stop.
    fn absent(&self, meant: &[AgentId], why: &str) -> OperationError {
        let Some(revocations) = &self.revocations else { return OperationError::agent_unknown(why) };
        let stopped = |agent: &AgentId| revocations.order(agent).or_else(|| revocations.stopped(agent));
        if let Some(stopped) = meant.iter().find_map(stopped) {
            return OperationError::revoked(stopped);
        }
        match meant.iter().find_map(|agent| revocations.any(agent)) {
            Some(revoked) => OperationError::agent_unknown(format!("{why}; {revoked}")),
            None => OperationError::agent_unknown(why),
        }
    }

    /// Checks who came in.
    fn incoming(&self, incoming: &IncomingRequest<'_>) -> Result<(), OperationError> {
        let IncomingRequest { service, caller, principals, label: _, content: _ } = *incoming;
        let trust = self.trust.borrow();
        let agent_of = |callers: &CallerRule| {
            let may = chain::may_call(&trust, callers, caller, principals);
            may.map_err(|refused| OperationError::caller_not_allowed(refused.to_string()))
        };
        let node = |rule: CallerRule, refused: &str| {
            trust.check(&rule, caller).map_err(|_| OperationError::caller_not_allowed(refused))
        };
        match service {
            // Who looks at a task, or cancels it, has no effect by that.
            Service::Call { agent, callers, operation } => {
                agent_of(callers)?;
                if operation.is_message() { self.order(agent) } else { Ok(()) }
            }
            Service::GroupTask { agent, callers: CallerRule::ThisNode, elsewhere: true } => {
                let why = format!("{agent} does tasks of its own node only");
                Err(OperationError::caller_not_allowed(why))
            }
            Service::GroupTask { agent, callers, .. } => agent_of(callers).and_then(|()| self.order(agent)),
            Service::Reservations => node(CallerRule::Own, "only the nodes of this node's owner may reserve here"),
            Service::Traces => node(CallerRule::Own, "only the nodes of this node's owner may ask for its traces"),
            Service::Discovery(TrustRelation::Own) => node(CallerRule::Own, "this is for its owner's nodes"),
            Service::Discovery(TrustRelation::Trusted) | Service::Exemption => {
                node(CallerRule::Trusted, "this is for whom this node trusts")
            }
            Service::Discovery(TrustRelation::Stranger) => Ok(()),
        }
    }
}

impl Decide for ByContract {
    fn decide(&self, outgoing: &OutgoingRequest<'_>) -> Judgement {
        Judgement::Now(match *outgoing {
            OutgoingRequest::Target { asker, callee, target, purpose } => {
                Decision::from(asker.may_have(target, callee, purpose))
            }
            OutgoingRequest::Message { agent, version, .. } => Decision::from(self.version(agent, version)),
            // Whether the recipient may be called was decided when it was found.
            OutgoingRequest::HandOver { .. } => Decision::Allow,
            OutgoingRequest::Absent { agents, why } => Decision::Deny(self.absent(agents, why)),
        })
    }

    fn decide_incoming(&self, incoming: &IncomingRequest<'_>) -> Judgement {
        Judgement::Now(Decision::from(self.incoming(incoming)))
    }

    fn relation(&self, publisher: PublisherId) -> TrustRelation {
        relation::of_publisher(&self.trust.borrow(), publisher)
    }

    fn near(&self) -> Vec<PublisherId> {
        let trust = self.trust.borrow();
        std::iter::once(trust.owner).chain(trust.publishers()).collect()
    }
}

#[cfg(test)]
mod tests;
