//! `find`: which agents can do what is asked, the best first, and why the others were left out.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_protocol::contract::Grade;
use althing_protocol::object::{AgentLoad, Health, Machine};
use althing_protocol::{AgentId, PublicKey, PublisherId};
use althing_td::Capability;
use semver::Version;
use serde::{Deserialize, Serialize};

use crate::error::FindError;
use crate::machine::catalogue::{Candidate, Catalogue, Learned};
use crate::machine::index::Numbers;
use crate::machine::node::Node;
use crate::machine::range::Wanted;
pub use crate::machine::rank::TrustRelation;

/// Results of one `find` at most.
pub const RESULTS_MAX: usize = 1_000;

/// Whose agents a name may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// The owner's, and those of whom it trusts.
    Near,
    /// Strangers' too, when nobody near has one of that name: whoever asks for it knows that a name is anybody's.
    Anyone,
}

/// What is looked for. Every member that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Query {
    /// A capability's id, such as `billing.view`; `billing.*` matches all that begin with `billing.`. With `@RANGE` after it,
    /// such as `billing.view@^1.2`, only versions in that range, the highest first.
    pub capability: Option<String>,
    /// What is done.
    pub action: Option<String>,
    /// What it is done to.
    pub target: Option<String>,
    /// Free text, ranked by BM25.
    pub text: Option<String>,
    /// Highest load of the node, 0 to 1.
    pub max_load: Option<f32>,
    /// The least grade of the node's machine.
    pub min_grade: Option<Grade>,
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
    /// What its machine can do, as it says.
    pub machine: Option<Machine>,
    /// What the agent does there, as the node says.
    pub load: Option<AgentLoad>,
    /// Of the turns of the agent there that were judged, those that went well, percents, as the node says.
    pub success: Option<u8>,
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
    /// Left out because the node's machine has a lower grade, or has not said one.
    pub grade: usize,
    /// Left out because of the limit.
    pub limit: usize,
    /// How the rest is ordered.
    pub order: &'static str,
    /// What was looked for beyond the nodes that are heard of.
    #[serde(skip)]
    pub sought: Option<SearchReport>,
}

/// How a look-up in the table went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchReport {
    /// Requests of the look-up.
    pub requests: u32,
    /// Those that were answered.
    pub answered: u32,
    /// How long the look-up took.
    pub lookup: Duration,
    /// Nodes that registries named.
    pub hinted: usize,
    /// Candidates that were asked.
    pub asked: usize,
    /// Those that have what is looked for, and proved it.
    pub confirmed: usize,
    /// Those that do not have it.
    pub without: usize,
    /// Those that were not reached, or did not answer in time.
    pub silent: usize,
    /// Those whose answer does not hold.
    pub refused: usize,
    /// How long it took in all.
    pub took: Duration,
}

impl Query {
    /// Do these capabilities have what is looked for, as far as capability, action and target go?
    #[must_use]
    pub fn matches(&self, capabilities: &[Capability]) -> bool {
        let capability = self.capability.as_ref().is_none_or(|wanted| Wanted::read(wanted).fits(capabilities));
        capability && self.action_target_matches(capabilities)
    }

    /// The id of the capability, and it with the range of versions that is looked for, if one is.
    fn wanted(&self) -> (Option<&str>, Option<Wanted<'_>>) {
        let wanted = self.capability.as_deref().map(Wanted::read);
        (wanted.as_ref().map(|wanted| wanted.id), wanted.filter(|wanted| wanted.range.is_some()))
    }

    /// How results are ordered.
    fn order(&self) -> &'static str {
        match (&self.text, self.wanted().1) {
            (Some(_), None) => "text score (BM25), then success measured here, then load, then id",
            (Some(_), Some(_)) => "text score (BM25), then version, then success measured here, then load, then id",
            (None, Some(_)) => "version, then success measured here, then load, then id",
            (None, None) => "success measured here, then load, then id",
        }
    }

    /// Action and target must be those of one capability.
    fn action_target_matches(&self, capabilities: &[Capability]) -> bool {
        let (action, target) = (self.action.as_deref(), self.target.as_deref());
        (action.is_none() && target.is_none()) || capabilities.iter().any(|has| has.does(action, target))
    }
}

/// A result that may still be cut off by the limit: nothing is copied for it yet.
struct Hit<'a> {
    score: Option<f32>,
    /// Of the capability, where a range of versions is looked for.
    version: Option<Version>,
    key: PublicKey,
    node: &'a Node,
    candidate: &'a Candidate,
}

impl Hit<'_> {
    /// How well the agent does there, in tenths: as far as this node measured it. What another node says of its own agents does not
    /// bring them forward, nor back; and who was not measured is tried like who never failed.
    fn tenths(&self) -> u8 {
        let success = self.node.success(&self.candidate.verified.agent).filter(|_| self.node.learned == Learned::Local);
        success.map_or(10, |percent| percent.div_ceil(10))
    }

    /// The best first: by score, then version, then success, then load, then id and node.
    fn order(&self, other: &Hit<'_>) -> std::cmp::Ordering {
        let score = |hit: &Hit<'_>| hit.score.unwrap_or(0.0);
        score(other)
            .total_cmp(&score(self))
            .then_with(|| other.version.cmp(&self.version))
            .then_with(|| other.tenths().cmp(&self.tenths()))
            .then_with(|| self.node.load_permille.cmp(&other.node.load_permille))
            .then_with(|| self.candidate.verified.agent.cmp(&other.candidate.verified.agent))
            .then_with(|| self.key.cmp(&other.key))
    }

    fn found(&self, monotonic_ms: u64) -> Found {
        Found {
            node: self.key,
            candidate: self.candidate.clone(),
            load_permille: self.node.load_permille,
            machine: self.node.machine,
            load: self.node.load(&self.candidate.verified.agent),
            success: self.node.success(&self.candidate.verified.agent),
            health: self.node.health,
            learned: self.node.learned,
            heard_ms_ago: monotonic_ms.saturating_sub(self.node.heard_ms),
            score: self.score,
        }
    }
}

/// The best of them, in order.
fn best(mut hits: Vec<Hit<'_>>, limit: usize) -> Vec<Hit<'_>> {
    if hits.len() > limit && limit > 0 {
        // Only what is shown needs to be in order.
        hits.select_nth_unstable_by(limit - 1, Hit::order);
    }
    hits.truncate(limit);
    hits.sort_unstable_by(Hit::order);
    hits
}

impl Catalogue {
    /// What `query` finds at `monotonic_ms`, the best first: by score, version (of a range), success as far as
    /// it was measured here, load, id and node.
    #[must_use]
    pub fn find(&self, query: &Query, monotonic_ms: u64) -> (Vec<Found>, Explanation) {
        let mut why = Explanation { known: self.len(), order: query.order(), ..Explanation::default() };
        let (wanted, ranged) = query.wanted();
        let with_capability = wanted.map(|id| self.index.with_capability(id));
        let with_action = query.action.as_ref().map(|action| self.index.with_action(action));
        let with_target = query.target.as_ref().map(|target| self.index.with_target(target));
        let mut hits = Vec::new();
        let mut consider = |document: u32, score: Option<f32>| {
            let lacks = |set: &Option<Numbers>| set.as_ref().is_some_and(|set| !set.contains(&document));
            let Some((key, candidate)) = self.index.document(document) else { return };
            let Some(node) = self.node(*key) else { return };
            let version = ranged.as_ref().and_then(|wanted| wanted.version(candidate.description.capabilities()));
            if lacks(&with_capability) || (ranged.is_some() && version.is_none()) {
                why.capability += 1;
            } else if lacks(&with_action)
                || lacks(&with_target)
                || !query.action_target_matches(candidate.description.capabilities())
            {
                why.action_target += 1;
            } else if query.max_load.is_some_and(|most| f32::from(node.load_permille) > most * 1_000.0) {
                why.load += 1;
            } else if query.min_grade.is_some_and(|least| node.machine.is_none_or(|machine| machine.grade > least)) {
                why.grade += 1;
            } else {
                hits.push(Hit { score, version, key: *key, node, candidate });
            }
        };
        if let Some(text) = &query.text {
            let matches = self.index.search(text);
            matches.iter().for_each(|(document, score)| consider(*document, Some(*score)));
            why.text = why.known - matches.len();
        } else if let Some(set) = &with_capability {
            set.iter().for_each(|document| consider(*document, None));
            why.capability += why.known - set.len();
        } else if let Some(set) = with_action.as_ref().or(with_target.as_ref()) {
            set.iter().for_each(|document| consider(*document, None));
            why.action_target += why.known - set.len();
        } else {
            self.index.all().for_each(|document| consider(document, None));
        }
        let limit = query.limit.unwrap_or(RESULTS_MAX).min(RESULTS_MAX);
        why.limit = hits.len().saturating_sub(limit);
        (best(hits, limit).iter().map(|hit| hit.found(monotonic_ms)).collect(), why)
    }

    /// The nodes that host `agent`: those whose description says what the newest says come first; of these this one,
    /// then the least loaded, then those where the agent has the fewest turns under way.
    #[must_use]
    pub fn hosts(&self, agent: &AgentId) -> Vec<PublicKey> {
        let description = |node: PublicKey| self.candidate(node, agent).map(|held| &held.verified.description.body);
        let hosting: Vec<_> =
            self.hosting(agent).filter_map(|(key, node)| Some((key, node, description(key)?))).collect();
        let newest = hosting.iter().max_by_key(|(_, _, shown)| shown.sequence).map(|(_, _, shown)| &shown.td);
        let mut hosts: Vec<(bool, bool, u16, u32, PublicKey)> = hosting
            .iter()
            .map(|(key, node, shown)| {
                let turns = node.load(agent).map_or(0, |load| load.turns);
                (Some(&shown.td) != newest, node.learned != Learned::Local, node.load_permille, turns, *key)
            })
            .collect();
        hosts.sort_unstable();
        hosts.into_iter().map(|(.., key)| key).collect()
    }

    /// The agents of that name that are known, whosever they are.
    #[must_use]
    pub fn namesakes(&self, name: &str) -> BTreeSet<AgentId> {
        self.index.named(name)
    }
}

/// The agent that a name means, of those that are `named` so. Of several those of the nearest publisher count, and there must be
/// one; a stranger's only where that is asked for.
///
/// # Errors
/// See [`FindError`].
pub(crate) fn resolve(
    mut named: BTreeSet<AgentId>,
    text: &str,
    among: Among,
    relation: impl Fn(PublisherId) -> TrustRelation,
) -> Result<AgentId, FindError> {
    let nearest = named.iter().map(|id| relation(id.publisher())).min();
    named.retain(|id| Some(relation(id.publisher())) == nearest);
    if among == Among::Near && nearest == Some(TrustRelation::Stranger) {
        let ids = named.iter().map(AgentId::to_string).collect();
        return Err(FindError::OnlyStrangers { name: text.to_owned(), ids });
    }
    match named.len() {
        0 => Err(FindError::Unknown(text.to_owned())),
        1 => named.pop_first().ok_or_else(|| FindError::Unknown(text.to_owned())),
        _ => {
            let ids = named.iter().map(AgentId::to_string).collect();
            Err(FindError::Ambiguous { name: text.to_owned(), ids })
        }
    }
}
