//! How well sentences whose agents are known are routed.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_calls::Among;
use althing_node::{NodeError, run_blocking};
use althing_routing::{Candidate, Decision, Evaluation, Mode, Router, Row, Vectors, counted, evaluate, split, texts};
use serde::Serialize;

use crate::routing::learned::{self, candidate};
use crate::routing::{Callable, Embedded, EmbeddingsError, NodeRouter, RouteMode, RoutingError};

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalReport {
    /// One for each mode.
    pub modes: Vec<Evaluation>,
    /// Agents that the sentences are for.
    pub agents: usize,
    /// Sentences of the file that were learned first.
    pub learned_of_file: usize,
    /// Sentences that had been learned before.
    pub learned_before: usize,
    /// Sentences that were tested.
    pub tested: usize,
    /// How long learning took, milliseconds.
    pub learning_ms: u64,
    /// Whether dense vectors were used too, where the node has a model of embeddings and a mode uses it; the time is that of
    /// one tested sentence, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<Embedded>,
}

/// How long an evaluation waits for a model of embeddings.
const PATIENCE: Duration = Duration::from_secs(600);

/// Sentences that a model is asked about, one after the other.
const MODEL_ROWS_MAX: usize = 2_000;

/// What an evaluation learns from and tests.
struct Set {
    candidates: Vec<Candidate>,
    learned: Vec<Row>,
    tested: Vec<Row>,
    learned_of_file: usize,
}

impl Set {
    fn new(rows: Vec<Row>, before: &[Row], known: &[Candidate]) -> Set {
        let taught: BTreeSet<&str> = before.iter().map(|row| row.agent.as_str()).collect();
        let is_known = rows.iter().all(|row| row.agent.is_empty() || taught.contains(row.agent.as_str()));
        let (mut learned, tested) = split(rows, is_known);
        let learned_of_file = learned.len();
        learned.extend(before.iter().cloned());
        let named: BTreeSet<&str> = learned.iter().chain(&tested).map(|row| row.agent.as_str()).collect();
        let candidates = named.iter().filter(|name| !name.is_empty()).map(|name| {
            let known = known.iter().find(|known| known.name == **name || known.id == **name);
            known.cloned().unwrap_or_else(|| by_name(name))
        });
        let candidates = candidates.collect();
        Set { candidates, learned, tested, learned_of_file }
    }
}

impl NodeRouter<'_> {
    /// Routes the sentences of a file with that name and text whose agents are known, by one mode or by each that needs no model. A model is asked for
    /// each sentence. The agents need not exist: those of whom nothing is known are known by sentences only. Nothing is kept,
    /// but the dense vectors of what is learned.
    ///
    /// # Errors
    /// See [`RoutingError`].
    pub async fn evaluate(
        &self,
        (name, text): (&str, &str),
        mode: Option<RouteMode>,
    ) -> Result<EvalReport, RoutingError> {
        let modes = mode.map_or_else(|| Mode::ALL.to_vec(), |mode| vec![mode.scores()]);
        let rows = learned::read((name, text))?;
        let before = self.0.routing.rows()?;
        let Callable { agents, .. } = self.callable(Among::Near);
        let known: Vec<Candidate> = agents.iter().map(candidate).collect();
        let set = Set::new(rows, &before, &known);
        if mode == Some(RouteMode::Model) {
            return self.evaluate_model(set, before.len()).await;
        }
        let dense = if modes == [Mode::Keyword] { None } else { self.dense_of(&set).await };
        let working = move || {
            let begun = tokio::time::Instant::now();
            let router = Router::new(set.candidates.clone(), &set.learned, None);
            let learning_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let now_ns = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let by = |router: &Router, mode: Mode, vectors: Option<&Vectors>| {
                evaluate(router, mode, &set.tested, vectors, &now_ns)
            };
            let mut found: Vec<Evaluation> = modes.iter().map(|mode| by(&router, *mode, None)).collect();
            let (vectors, embeddings) = dense.map_or((None, None), |(vectors, embedded)| (vectors, Some(embedded)));
            if let Some((learned, tested)) = vectors {
                let router = Router::new(set.candidates.clone(), &set.learned, Some(&learned));
                let dense = modes.iter().filter(|mode| **mode != Mode::Keyword);
                found.extend(dense.map(|mode| by(&router, *mode, Some(&tested))));
            }
            EvalReport {
                modes: found,
                agents: router.candidates().len(),
                learned_of_file: set.learned_of_file,
                learned_before: before.len(),
                tested: set.tested.len(),
                learning_ms,
                embeddings,
            }
        };
        Ok(run_blocking(self.0.kernel(), working).await.map_err(NodeError::from)?)
    }

    /// Asks a model of the node for each tested sentence, among the best of `hybrid`.
    async fn evaluate_model(&self, set: Set, learned_before: usize) -> Result<EvalReport, RoutingError> {
        if set.tested.len() > MODEL_ROWS_MAX {
            return Err(RoutingError::TooMany { tested: set.tested.len(), max: MODEL_ROWS_MAX });
        }
        let dense = self.dense_of(&set).await;
        let (vectors, embeddings) = dense.map_or((None, None), |(vectors, embedded)| (vectors, Some(embedded)));
        let learning = move || {
            let begun = tokio::time::Instant::now();
            let learned = vectors.as_ref().map(|(learned, _)| learned);
            let router = Router::new(set.candidates.clone(), &set.learned, learned);
            (router, set, vectors, u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX))
        };
        let learning = run_blocking(self.0.kernel(), learning).await;
        let (router, set, vectors, learning_ms) = learning.map_err(NodeError::from)?;
        let begun = tokio::time::Instant::now();
        let mut decided = Vec::with_capacity(set.tested.len());
        for row in &set.tested {
            let route = {
                let vector = vectors.as_ref().and_then(|(_, tested)| tested.of(&row.instruction));
                router.route(RouteMode::Model.scores(), &row.instruction, vector)
            };
            let chosen = match self.choose(&row.instruction, &router, &route).await {
                // One answer that nobody understands is one sentence that goes nowhere, and no end of the evaluation.
                Err(RoutingError::Unclear(_)) => None,
                chosen => chosen?,
            };
            decided.push(chosen.map_or(Decision::Nobody, Decision::To));
        }
        let took_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let found = counted(&router, RouteMode::Model.scores(), &set.tested, &decided, took_ns);
        Ok(EvalReport {
            modes: vec![Evaluation { dense: vectors.is_some(), by_model: true, ..found }],
            agents: router.candidates().len(),
            learned_of_file: set.learned_of_file,
            learned_before,
            tested: set.tested.len(),
            learning_ms,
            embeddings,
        })
    }

    /// The dense vectors of what is learned and of what is tested, or why there are none; nothing on a node without a model of
    /// embeddings.
    async fn dense_of(&self, set: &Set) -> Option<(Option<(Vectors, Vectors)>, Embedded)> {
        let embedding = self.0.routing.embedding.as_ref()?;
        let begun = tokio::time::Instant::now();
        let tested: BTreeSet<&str> = set.tested.iter().map(|row| row.instruction.as_str()).collect();
        let count = tested.len();
        let tested = embedding.of_tested(&tested).await;
        let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX) / (count as u64).max(1);
        let made = async {
            let tested = tested?;
            let texts = texts(set.candidates.clone(), &set.learned);
            Ok::<_, EmbeddingsError>((embedding.of_texts(texts, tested.dimensions(), PATIENCE).await?, tested))
        };
        let (made, missing) = match made.await {
            Ok(made) => (Some(made), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Some((made, Embedded { model: embedding.model().to_owned(), missing, took_us }))
    }
}

/// An agent of which nothing is known but its name.
fn by_name(name: &str) -> Candidate {
    Candidate {
        id: name.to_owned(),
        name: name.to_owned(),
        near: true,
        description: String::new(),
        examples: Vec::new(),
    }
}
