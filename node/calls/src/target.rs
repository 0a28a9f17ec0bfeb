//! From the name or id of an agent to the agent: the only place that asks L3 what a name means.

use std::sync::{Arc, OnceLock};

use althing_call::{Asker, Callee, OperationError, Purpose, Target};
use althing_discovery::{Among, Discovery, FindError, TrustRelation};
use althing_protocol::{AgentId, PublicKey, PublisherId};

use crate::hosting::Hosting;

/// Trusted publishers among whose agents a name is looked up in the table.
const NEAR_MAX: usize = 8;

/// What is known here of agents that their publishers revoked; each answer is a sentence that says why.
pub trait TakenBack: Send + Sync {
    /// Why that version must not be called, if so.
    fn version(&self, agent: &AgentId, version: &str) -> Option<String>;

    /// Why this node stopped an agent that was added here, if its release was revoked.
    fn stopped(&self, agent: &AgentId) -> Option<String>;

    /// Which version of an agent was revoked, if any was: others may be good.
    fn any(&self, agent: &AgentId) -> Option<String>;
}

/// Finds agents for whoever asks for them.
pub(crate) struct Finder {
    discovery: Discovery,
    hosting: Hosting,
    owner: PublisherId,
    /// What publishers took back.
    taken_back: OnceLock<Arc<dyn TakenBack>>,
}

impl Finder {
    /// One that finds what these layers know.
    pub fn new(discovery: Discovery, hosting: Hosting, owner: PublisherId) -> Finder {
        Finder { discovery, hosting, owner, taken_back: OnceLock::new() }
    }

    /// From now on refuses what was taken back. The first one stays.
    pub fn refuse(&self, taken_back: Arc<dyn TakenBack>) {
        // A second one would be a fault of the composition: the first decides.
        let _ = self.taken_back.set(taken_back);
    }

    /// The agent of this node's owner that has that name.
    pub fn own_agent(&self, name: &str) -> Option<AgentId> {
        AgentId::new(self.owner, name).ok()
    }

    /// The agent that is meant, if `asker` may have it for that purpose. Who may not is told so only of an agent that was
    /// found: of a name that none has, everybody is told the same.
    ///
    /// # Errors
    /// Those of [`Finder::agent`], and then `CALLER_NOT_ALLOWED`.
    pub async fn target(&self, asker: &Asker, callee: &Callee, purpose: Purpose) -> Result<Target, OperationError> {
        let agent = match (callee, purpose) {
            (Callee::Named(text, among), Purpose::Wait) => {
                let known = self.discovery.resolve(text, *among, |publisher| self.hosting.relation(publisher));
                known.map_err(|error| OperationError::agent_unknown(error.to_string()))?
            }
            _ => self.agent(callee).await?,
        };
        let target = Target { relation: self.hosting.relation(agent.publisher()), agent };
        asker.check(&target, callee, purpose)?;
        Ok(target)
    }

    /// The agent that is meant, whoever asks: for the walk, whose callers went by [`Finder::target`] or are bound by
    /// nothing.
    ///
    /// # Errors
    /// `AGENT_UNKNOWN`, also if the name is ambiguous; `AGENT_REVOKED` if it is one of this node's that was stopped for
    /// that.
    pub async fn agent(&self, callee: &Callee) -> Result<AgentId, OperationError> {
        match callee {
            Callee::Id(agent) => Ok(agent.clone()),
            Callee::Named(text, among) => self.named(text, *among).await,
        }
    }

    /// Resolves an identifier or a name to an agent. A name that no known agent of a trusted publisher has is looked up in
    /// the table for this node's owner and the publishers it trusts, never for untrusted ones, who can choose any name. A
    /// known agent of an untrusted publisher is resolved only if `among` allows it.
    async fn named(&self, text: &str, among: Among) -> Result<AgentId, OperationError> {
        let relation = |publisher| self.hosting.relation(publisher);
        let discovery = &self.discovery;
        let resolved = discovery.resolve(text, among, relation);
        let near = |id: &AgentId| relation(id.publisher()) != TrustRelation::Stranger;
        let settled = text.starts_with("urn:")
            || matches!(&resolved, Err(FindError::Ambiguous { .. }))
            || resolved.as_ref().is_ok_and(near);
        if !settled {
            let publishers = self.hosting.trusted_publishers().into_iter().take(NEAR_MAX);
            let ids = publishers.filter_map(|publisher| AgentId::new(publisher, text).ok());
            let looking = ids.map(|id| async move {
                let hosts = discovery.search_hosts(&id).await;
                (!hosts.is_empty()).then_some(id)
            });
            // The owner's own agent comes first.
            if let Some(id) = futures::future::join_all(looking).await.into_iter().flatten().next() {
                return Ok(id);
            }
        }
        resolved.map_err(|error: FindError| {
            let near = self.hosting.trusted_publishers().into_iter().take(NEAR_MAX);
            let meant = self.own_agent(text).into_iter();
            let meant = meant.chain(near.filter_map(|publisher| AgentId::new(publisher, text).ok()));
            self.unknown(meant, error.to_string())
        })
    }

    /// Nobody hosts any of these agents: the first that this node stopped because it was revoked is refused as such; of the
    /// others it is said too whether a version was revoked, since that is why hosts stop.
    pub fn unknown(&self, meant: impl Iterator<Item = AgentId>, why: String) -> OperationError {
        let Some(taken_back) = self.taken_back.get() else { return OperationError::agent_unknown(why) };
        let meant: Vec<AgentId> = meant.collect();
        if let Some(stopped) = meant.iter().find_map(|agent| taken_back.stopped(agent)) {
            return OperationError::revoked(stopped);
        }
        match meant.iter().find_map(|agent| taken_back.any(agent)) {
            Some(revoked) => OperationError::agent_unknown(format!("{why}; {revoked}")),
            None => OperationError::agent_unknown(why),
        }
    }

    /// The hosts whose version of an agent may be called; an error if there are only others.
    pub fn permitted(&self, agent: &AgentId, hosts: Vec<PublicKey>) -> Result<Vec<PublicKey>, OperationError> {
        let Some(taken_back) = self.taken_back.get() else { return Ok(hosts) };
        let mut permitted = Vec::with_capacity(hosts.len());
        let mut revoked = None;
        for host in hosts {
            let known = self.discovery.described_by(host, agent);
            let version = known.as_ref().and_then(|known| known.description.version());
            match version.and_then(|version| taken_back.version(agent, version)) {
                None => permitted.push(host),
                Some(why) => revoked = Some(why),
            }
        }
        match revoked {
            Some(why) if permitted.is_empty() => Err(OperationError::revoked(why)),
            _ => Ok(permitted),
        }
    }
}
