//! Routing: which agent that may be called a sentence is for. `althing-routing` decides; here are the candidates, what was
//! learned, and the model that is asked.

mod agent;
mod channel;
mod embeddings;
mod error;
mod eval;
mod learned;
mod model;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_calls::{Among, Asker, Purpose};
use althing_discovery::{Found, Query, TrustRelation};
use althing_node::{NodeError, run_blocking};
use althing_protocol::object::Health;
use althing_routing::{Candidate, Decision, Mode, Route, Router, Row, Vectors, texts};
use serde::{Deserialize, Serialize};

use crate::operations::Operations;

pub use agent::RouterAgent;
pub use channel::Resolved;
pub use embeddings::EmbeddingsError;
pub(crate) use embeddings::VECTORS;
pub use error::{ChannelNeed, RoutingError};
pub use eval::EvalReport;
pub use learned::LearnedRoutes;
pub(crate) use learned::ROUTES;

/// How long a route waits until a model of embeddings has read what agents say.
const PATIENCE: Duration = Duration::from_secs(5);
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

impl From<Mode> for RouteMode {
    fn from(mode: Mode) -> RouteMode {
        match mode {
            Mode::Keyword => RouteMode::Keyword,
            Mode::Vector => RouteMode::Vector,
            Mode::Hybrid => RouteMode::Hybrid,
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
    /// Whether dense vectors were used, where the node has a model of embeddings and the mode uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<Embedded>,
}

/// Whether dense vectors were used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Embedded {
    /// The model.
    pub model: String,
    /// Why the classifier decided without them; none if they were used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// How long the model took for the sentence, microseconds.
    pub took_us: u64,
}

/// What routes by dense vectors.
enum Learned {
    /// A router that has learned.
    Now(Arc<Router>),
    /// What it is yet to learn from.
    From(Vectors),
}

/// Agents that may be called.
struct Callable {
    /// Whether its publisher is near, and what it says.
    agents: Vec<(bool, Found)>,
    left_out: usize,
}

/// Routes sentences for a node.
pub struct NodeRouter<'a>(pub &'a Operations);

impl NodeRouter<'_> {
    /// Whom a sentence is for, of the agents that this node may call; strangers' too if `among` allows it.
    ///
    /// # Errors
    /// See [`RoutingError`].
    pub async fn route(&self, sentence: &str, mode: RouteMode, among: Among) -> Result<Routed, RoutingError> {
        let Callable { agents, left_out } = self.callable(among);
        let rows = self.0.routing.rows()?;
        let learned = rows.len();
        let routing = self.0.routing.clone();
        let dense = if mode == RouteMode::Keyword { None } else { self.dense(sentence, &agents, &rows).await };
        let (vectors, embeddings) = dense.map_or((None, None), |(vectors, embedded)| (vectors, Some(embedded)));
        // Learning anew takes up to seconds.
        let working = {
            let (agents, sentence) = (agents.clone(), sentence.to_owned());
            move || {
                let (router, vector) = match vectors {
                    Some((Learned::Now(router), vector)) => (router, Some(vector)),
                    Some((Learned::From(vectors), vector)) => {
                        // What `learn_dense` adds to.
                        routing.router(&agents, rows.clone());
                        (routing.learn_dense(&agents, &rows, &vectors), Some(vector))
                    }
                    None => (routing.router(&agents, rows), None),
                };
                let begun = tokio::time::Instant::now();
                let route = router.route(mode.scores(), &sentence, vector.as_ref());
                (router, route, begun.elapsed())
            }
        };
        let (router, route, took) = run_blocking(self.0.kernel(), working).await.map_err(NodeError::from)?;
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
            embeddings,
        })
    }

    /// The dense vector of a sentence and what routes by it, or why there is none; nothing on a node without a model of
    /// embeddings.
    async fn dense(
        &self,
        sentence: &str,
        agents: &[(bool, Found)],
        rows: &Arc<Vec<Row>>,
    ) -> Option<(Option<(Learned, Arc<[i8]>)>, Embedded)> {
        let routing = &self.0.routing;
        let embedding = routing.embedding.as_ref()?;
        let begun = tokio::time::Instant::now();
        let vector = embedding.of_sentence(sentence).await;
        let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let made = async {
            let vector = vector?;
            if let Some(router) = routing.dense(agents, rows, vector.len()) {
                return Ok((Learned::Now(router), vector));
            }
            let texts = texts(agents.iter().map(learned::candidate).collect(), rows);
            let vectors = embedding.of_texts(texts, vector.len(), PATIENCE).await?;
            Ok::<_, EmbeddingsError>((Learned::From(vectors), vector))
        };
        let (made, missing) = match made.await {
            Ok(made) => (Some(made), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Some((made, Embedded { model: embedding.model().to_owned(), missing, took_us }))
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
        let (found, _) = self.0.discovery.find(&Query::default());
        let (mut seen, mut agents, mut left_out) = (BTreeSet::new(), Vec::new(), 0);
        for found in found {
            let agent = found.candidate.verified.agent.clone();
            if agent::routes(&found.candidate.description)
                || found.health == Health::Leaving
                || !seen.insert(agent.clone())
                || !self.0.calls.allows(&Asker::Owner, &agent, Purpose::Call)
            {
                continue;
            }
            let near = self.0.calls.relation(agent.publisher()) != TrustRelation::Stranger;
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
