//! How well sentences whose agents are known are routed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use althing_calls::Among;
use althing_routing::{Candidate, Evaluation, Mode, Router, evaluate, split};
use serde::Serialize;

use crate::blocking::run_blocking;
use crate::error::NodeError;
use crate::routing::learned::{self, candidate};
use crate::routing::{Callable, NodeRouter, RouteMode, RoutingError};

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
}

impl NodeRouter<'_> {
    /// Routes the sentences of a file whose agents are known, by one mode or by each that needs no model. The agents need not
    /// exist: those of whom nothing is known are known by sentences only. Nothing is kept.
    ///
    /// # Errors
    /// See [`RoutingError`].
    pub async fn evaluate(&self, path: &Path, mode: Option<RouteMode>) -> Result<EvalReport, RoutingError> {
        let modes = match mode {
            None => Mode::ALL.to_vec(),
            Some(RouteMode::Model) => {
                return Err(RoutingError::Model(
                    "a model is not evaluated: it would be asked for every row".to_owned(),
                ));
            }
            Some(mode) => vec![mode.scores()],
        };
        let rows = learned::read(path)?;
        let before = self.0.routing.rows()?;
        let Callable { agents, .. } = self.callable(Among::Near);
        let known: Vec<Candidate> = agents.iter().map(candidate).collect();
        let working = move || {
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
            let begun = tokio::time::Instant::now();
            let router = Arc::new(Router::new(candidates.collect(), &learned));
            let learning_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let now_ns = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            EvalReport {
                modes: modes.into_iter().map(|mode| evaluate(&router, mode, &tested, &now_ns)).collect(),
                agents: router.candidates().len(),
                learned_of_file,
                learned_before: before.len(),
                tested: tested.len(),
                learning_ms,
            }
        };
        Ok(run_blocking(self.0.kernel(), working).await.map_err(NodeError::from)?)
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
