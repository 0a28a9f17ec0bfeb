//! Routing: which agent that may be called a sentence is for. `althing-routing` decides; here are the candidates, what was
//! learned, and the model that is asked.

mod agent;
mod eval;
mod learned;
mod model;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use althing_calls::Among;
use althing_discovery::{Found, Query, TrustRelation};
use althing_protocol::object::Health;
use althing_routing::{Candidate, Decision, Mode, Route, Router, Row};
use althing_store::Store;
use althing_td::Description;
use serde::{Deserialize, Serialize};

use crate::blocking::run_blocking;
use crate::error::{Kind, NodeError};
use crate::node::Node;

pub use agent::RouterAgent;
pub use eval::EvalReport;
pub(crate) use learned::ROUTES;

/// Candidates that an explanation shows.
const SHOWN_MAX: usize = 8;

/// How a sentence is routed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteMode {
    /// By the words that agents share with it.
    Keyword,
    /// By the classifier.
    Vector,
    /// By both.
    #[default]
    Hybrid,
    /// By a model, which chooses among the best of `hybrid`.
    Model,
}

impl RouteMode {
    /// The scores that it stands on.
    fn scores(self) -> Mode {
        match self {
            RouteMode::Keyword => Mode::Keyword,
            RouteMode::Vector => Mode::Vector,
            RouteMode::Hybrid | RouteMode::Model => Mode::Hybrid,
        }
    }
}

/// Why a sentence is not routed.
#[derive(Debug, thiserror::Error)]
pub enum RoutingError {
    /// What was learned cannot be read or written, or the model not be started.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A file of rows.
    #[error("{path}: {why}")]
    File {
        /// Its path.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// More was learned than a node keeps.
    #[error(
        "a node keeps at most {} labelled sentences of {} MiB in all: `althing route forget` makes room",
        althing_routing::ROWS_MAX,
        althing_routing::FILE_BYTES_MAX >> 20
    )]
    Full,
    /// The model did not answer.
    #[error("the model did not choose: {0}; `--mode hybrid` needs none")]
    Model(String),
}

impl RoutingError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            RoutingError::Node(error) => error.kind(),
            RoutingError::File { .. } => Kind::Invalid,
            RoutingError::Full => Kind::Refused,
            RoutingError::Model(_) => Kind::Failed,
        }
    }
}

/// A candidate, as an explanation shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The agent's identifier.
    pub agent: String,
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Whether its publisher is a stranger.
    pub stranger: bool,
    /// The share of the sentence that its words explain, 0 to 1.
    pub keyword: f32,
    /// How sure the classifier is, 0 to 1.
    pub vector: f32,
    /// The score that decides.
    pub score: f32,
}

/// Whom a sentence is for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Routed {
    /// The agent, or the two that are close; empty for none.
    pub chosen: Vec<Choice>,
    /// The best candidates.
    pub best: Vec<Choice>,
    /// The mode.
    pub mode: RouteMode,
    /// The least score of a sentence that is for an agent.
    pub threshold: f32,
    /// Agents among which was chosen.
    pub considered: usize,
    /// Agents of strangers that were left out.
    pub left_out: usize,
    /// Labelled sentences that were learned.
    pub learned: usize,
    /// How long the decision took, without learning anew, microseconds.
    pub took_us: u64,
}

/// Agents that may be called.
struct Callable {
    /// Whether its publisher is near, and what it says.
    agents: Vec<(bool, Found)>,
    left_out: usize,
}

/// A router, and what it was made of.
struct Built {
    described: Vec<(bool, Arc<Description>)>,
    rows: Arc<Vec<Row>>,
    router: Arc<Router>,
}

/// What a node knows of routing.
pub struct Routing {
    store: Arc<dyn Store>,
    /// The labelled sentences, once they are read.
    rows: Mutex<Option<Arc<Vec<Row>>>>,
    built: Mutex<Option<Built>>,
    /// Held while rows change.
    changing: tokio::sync::Mutex<()>,
    /// Held while a model is asked.
    asking: tokio::sync::Mutex<()>,
}

impl Routing {
    pub(crate) fn new(store: Arc<dyn Store>) -> Routing {
        Routing {
            store,
            rows: Mutex::default(),
            built: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// The router for these agents and rows: the last one where both are unchanged.
    fn router(&self, agents: &[(bool, Found)], rows: Arc<Vec<Row>>) -> Arc<Router> {
        let described: Vec<(bool, Arc<Description>)> =
            agents.iter().map(|(near, found)| (*near, found.candidate.description.clone())).collect();
        let same = |built: &Built| {
            let pairs = || built.described.iter().zip(&described);
            Arc::ptr_eq(&built.rows, &rows)
                && built.described.len() == described.len()
                && pairs().all(|(one, other)| one.0 == other.0 && Arc::ptr_eq(&one.1, &other.1))
        };
        let mut built = self.built.lock().expect("no holder of the router panics");
        if let Some(built) = built.as_ref().filter(|built| same(built)) {
            return built.router.clone();
        }
        let router = Arc::new(Router::new(agents.iter().map(candidate).collect(), &rows));
        *built = Some(Built { described, rows, router: router.clone() });
        router
    }
}

/// What routing reads of an agent.
fn candidate((near, found): &(bool, Found)) -> Candidate {
    let (agent, description) = (&found.candidate.verified.agent, &found.candidate.description);
    let mut lines = vec![description.title().to_owned()];
    lines.extend(description.description().map(str::to_owned));
    for capability in description.capabilities() {
        let words = [capability.action.as_deref(), capability.target.as_deref()].into_iter().flatten();
        lines.push(words.chain([capability.name.as_str()]).collect::<Vec<_>>().join(" "));
        lines.push(capability.description.clone());
        lines.push(capability.tags.join(" "));
    }
    let examples = description.capabilities().iter().flat_map(|capability| capability.examples.clone());
    Candidate {
        id: agent.to_string(),
        name: agent.name().to_owned(),
        near: *near,
        description: lines.join("\n"),
        examples: examples.collect(),
    }
}

impl Node {
    /// Whom a sentence is for, of the agents that this node may call; strangers' too if `among` allows it.
    ///
    /// # Errors
    /// See [`RoutingError`].
    pub async fn route(&self, sentence: &str, mode: RouteMode, among: Among) -> Result<Routed, RoutingError> {
        let Callable { agents, left_out } = self.callable(among);
        let rows = self.routing.rows()?;
        let learned = rows.len();
        let routing = self.routing.clone();
        // Learning anew takes up to seconds.
        let working = {
            let (agents, sentence) = (agents.clone(), sentence.to_owned());
            move || {
                let router = routing.router(&agents, rows);
                let begun = tokio::time::Instant::now();
                let route = router.route(mode.scores(), &sentence);
                (router, route, begun.elapsed())
            }
        };
        let (router, route, took) = run_blocking(self.kernel.as_ref(), working).await.map_err(NodeError::from)?;
        let titles = |id: &str| {
            let found = agents.iter().find(|(_, found)| found.candidate.verified.agent.to_string() == id);
            found.map(|(_, found)| found.candidate.description.title().to_owned()).unwrap_or_default()
        };
        let choice = |place: usize| {
            let candidate = &router.candidates()[place];
            let scored = route.scored.iter().find(|scored| scored.candidate == place);
            let (keyword, vector, score) = scored.map_or((0.0, 0.0, 0.0), |s| (s.keyword, s.vector, s.score));
            let (agent, name) = (candidate.id.clone(), candidate.name.clone());
            Choice { title: titles(&agent), agent, name, stranger: !candidate.near, keyword, vector, score }
        };
        let begun = tokio::time::Instant::now();
        let chosen = match (mode, route.decision) {
            (RouteMode::Model, _) => self.choose(sentence, &router, &route).await?.into_iter().collect(),
            (_, Decision::To(place)) => vec![place],
            (_, Decision::Close(first, second)) => vec![first, second],
            (_, Decision::Nobody) => Vec::new(),
        };
        let took = if mode == RouteMode::Model { took + begun.elapsed() } else { took };
        Ok(Routed {
            chosen: chosen.into_iter().map(choice).collect(),
            best: route.scored.iter().take(SHOWN_MAX).map(|scored| choice(scored.candidate)).collect(),
            mode,
            threshold: route.threshold,
            considered: router.candidates().len(),
            left_out,
            learned,
            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        })
    }

    /// The candidate that a model chooses among the best.
    async fn choose(&self, sentence: &str, router: &Router, route: &Route) -> Result<Option<usize>, RoutingError> {
        let best: Vec<usize> =
            route.scored.iter().take(althing_routing::MODEL_CANDIDATES_MAX).map(|scored| scored.candidate).collect();
        if best.is_empty() {
            return Ok(None);
        }
        let shown: Vec<&Candidate> = best.iter().map(|place| &router.candidates()[*place]).collect();
        Ok(self.ask_model(sentence, &shown).await?.map(|place| best[place]))
    }

    /// The agents that this node may call, each once: those of its owner and of whom it trusts, strangers' if `among` allows
    /// it; no routers, and none of nodes that are leaving. Whether another owner's node lets it is known only once it is asked.
    fn callable(&self, among: Among) -> Callable {
        let (found, _) = self.discovery.find(&Query::default());
        let (mut seen, mut agents, mut left_out) = (BTreeSet::new(), Vec::new(), 0);
        for found in found {
            let agent = found.candidate.verified.agent.clone();
            if agent::routes(&found.candidate.description)
                || found.health == Health::Leaving
                || !seen.insert(agent.clone())
            {
                continue;
            }
            let near = self.calls.relation(agent.publisher()) != TrustRelation::Stranger;
            if !near && among == Among::Near {
                left_out += 1;
            } else {
                agents.push((near, found));
            }
        }
        agents.sort_by(|(_, one), (_, other)| one.candidate.verified.agent.cmp(&other.candidate.verified.agent));
        Callable { agents, left_out }
    }
}
