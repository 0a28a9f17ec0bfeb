//! `find`: which agents can do what is asked, the best first, and why the others were left out.

use althing_protocol::object::Health;
use althing_protocol::{AgentId, PublicKey};
use althing_td::Capability;
use serde::{Deserialize, Serialize};

use crate::error::FindError;
use crate::machine::catalogue::{Candidate, Catalogue, Learned, Node};

/// Results of one `find` at most.
pub const RESULTS_MAX: usize = 1_000;

/// What is looked for. Every member that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Query {
    /// A capability's id, such as `billing.view`; `billing.*` matches all that begin with `billing.`.
    pub capability: Option<String>,
    /// What is done.
    pub action: Option<String>,
    /// What it is done to.
    pub target: Option<String>,
    /// Free text, ranked by BM25.
    pub text: Option<String>,
    /// Highest load of the node, 0 to 1.
    pub max_load: Option<f32>,
    /// How many results at most.
    pub limit: Option<usize>,
}

/// An agent that was found, on one node.
#[derive(Debug, Clone)]
pub struct Found {
    /// Which node.
    pub node: PublicKey,
    /// The agent, described and verified.
    pub candidate: Candidate,
    /// The node's load, thousandths.
    pub load_permille: u16,
    /// How the node is.
    pub health: Health,
    /// Where that was learned.
    pub learned: Learned,
    /// How long ago the node was heard, milliseconds.
    pub heard_ms_ago: u64,
    /// BM25 score where text was given.
    pub score: Option<f32>,
}

/// How a result came about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Agents known, counted on each node.
    pub known: usize,
    /// Left out because the text does not match.
    pub text: usize,
    /// Left out because no capability matches the id.
    pub capability: usize,
    /// Left out because no capability has action and target.
    pub action_target: usize,
    /// Left out because the node's load is higher.
    pub load: usize,
    /// Left out because of the limit.
    pub limit: usize,
    /// How the rest is ordered.
    pub order: &'static str,
}

impl Query {
    fn capability_matches(&self, capabilities: &[Capability]) -> bool {
        let Some(wanted) = &self.capability else { return true };
        capabilities.iter().any(|capability| match wanted.strip_suffix('*') {
            Some(prefix) => capability.id.starts_with(prefix),
            None => capability.id == *wanted,
        })
    }

    fn action_target_matches(&self, capabilities: &[Capability]) -> bool {
        let fits = |wanted: &Option<String>, has: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| has.as_ref().is_some_and(|has| has.eq_ignore_ascii_case(wanted)))
        };
        (self.action.is_none() && self.target.is_none())
            || capabilities.iter().any(|c| fits(&self.action, &c.action) && fits(&self.target, &c.target))
    }
}

impl Catalogue {
    /// What `query` finds at `monotonic_ms`, the best first: by score, then load, then id and node.
    #[must_use]
    pub fn find(&self, query: &Query, monotonic_ms: u64) -> (Vec<Found>, Explanation) {
        let mut why = Explanation { known: self.len(), order: "load, then id", ..Explanation::default() };
        let mut found = Vec::new();
        let mut consider = |node_key: PublicKey, node: &Node, candidate: &Candidate, score| {
            let capabilities = candidate.description.capabilities();
            if !query.capability_matches(&capabilities) {
                why.capability += 1;
            } else if !query.action_target_matches(&capabilities) {
                why.action_target += 1;
            } else if query.max_load.is_some_and(|most| f32::from(node.load_permille) > most * 1_000.0) {
                why.load += 1;
            } else {
                found.push(Found {
                    node: node_key,
                    candidate: candidate.clone(),
                    load_permille: node.load_permille,
                    health: node.health,
                    learned: node.learned,
                    heard_ms_ago: monotonic_ms.saturating_sub(node.heard_ms),
                    score,
                });
            }
        };
        if let Some(text) = &query.text {
            let hits = self.index.search(text);
            for (document, score) in &hits {
                let Some((key, agent)) = self.index.document(*document) else { continue };
                if let (Some(node), Some(candidate)) = (self.node(*key), self.candidate(*key, agent)) {
                    consider(*key, node, candidate, Some(*score));
                }
            }
            why.text = why.known - hits.len();
            why.order = "text score (BM25), then load, then id";
        } else {
            for (key, node, candidate, _) in self.entries() {
                consider(key, node, candidate, None);
            }
        }
        found.sort_by(|a, b| {
            let score = |found: &Found| found.score.unwrap_or(0.0);
            let id = |found: &Found| (found.load_permille, found.candidate.verified.agent.clone(), found.node);
            score(b).total_cmp(&score(a)).then_with(|| id(a).cmp(&id(b)))
        });
        let limit = query.limit.unwrap_or(RESULTS_MAX).min(RESULTS_MAX);
        why.limit = found.len().saturating_sub(limit);
        found.truncate(limit);
        (found, why)
    }

    /// The nodes that host `agent`, the least loaded first.
    #[must_use]
    pub fn hosts(&self, agent: &AgentId) -> Vec<PublicKey> {
        let mut hosts: Vec<(bool, u16, PublicKey)> = self
            .entries()
            .filter(|(_, _, candidate, _)| candidate.verified.agent == *agent)
            .map(|(key, node, _, _)| (node.learned != Learned::Local, node.load_permille, key))
            .collect();
        hosts.sort_unstable();
        hosts.into_iter().map(|(_, _, key)| key).collect()
    }

    /// The agent that `text` names: a whole id, or a name that only one agent has.
    ///
    /// # Errors
    /// See [`FindError`].
    pub fn resolve(&self, text: &str) -> Result<AgentId, FindError> {
        if let Ok(id) = text.parse::<AgentId>() {
            return Ok(id);
        }
        let named = self.entries().filter(|(_, _, candidate, _)| candidate.verified.agent.name() == text);
        let mut ids: Vec<AgentId> = named.map(|(_, _, candidate, _)| candidate.verified.agent.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        match ids.len() {
            0 => Err(FindError::Unknown(text.to_owned())),
            1 => Ok(ids.remove(0)),
            _ => {
                let ids = ids.iter().map(AgentId::to_string).collect();
                Err(FindError::Ambiguous { name: text.to_owned(), ids })
            }
        }
    }
}
