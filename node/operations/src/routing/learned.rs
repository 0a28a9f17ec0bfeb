//! The labelled sentences that a node learned, in its store.

use std::sync::{Arc, Mutex};

use althing_discovery::Found;
use althing_node::NodeError;
use althing_protocol::digest;
use althing_routing::{Candidate, FILE_BYTES_MAX, ROWS_MAX, Router, Row, Vectors, parse};
use althing_store::{Batch, Durability, Family, Range, Store};
use althing_td::Description;

use crate::config::OperationsConfig;
use crate::routing::embeddings::Embedding;
use crate::routing::error::RoutingError;
use crate::secrets::Secrets;

/// Labelled sentences, by their digests.
pub const ROUTES: Family = Family("althing.routes");
/// Rows of one write.
const BATCH_MAX: usize = 4_096;

/// A router, and what it was made of.
struct Built {
    described: Vec<(bool, Arc<Description>)>,
    rows: Arc<Vec<Row>>,
    router: Arc<Router>,
    /// The one that learned from dense vectors too, of that length.
    dense: Option<(usize, Arc<Router>)>,
}

/// What a node knows of routing.
pub struct LearnedRoutes {
    store: Arc<dyn Store>,
    /// The labelled sentences, once they are read.
    rows: Mutex<Option<Arc<Vec<Row>>>>,
    built: Mutex<Option<Built>>,
    /// Held while rows change.
    changing: tokio::sync::Mutex<()>,
    /// Held while a model is asked.
    pub(super) asking: tokio::sync::Mutex<()>,
    /// The endpoint of embeddings, if the node has one.
    pub(super) embedding: Option<Arc<Embedding>>,
}

impl LearnedRoutes {
    /// With the model of embeddings of that configuration.
    pub(crate) fn new(store: Arc<dyn Store>, config: &OperationsConfig) -> LearnedRoutes {
        let secrets = config.node.data.as_deref().map(Secrets::of);
        let embedding = config.embeddings.clone().map(|endpoint| Embedding::new(endpoint, secrets, store.clone()));
        LearnedRoutes {
            embedding: embedding.map(Arc::new),
            store,
            rows: Mutex::default(),
            built: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// The router for these agents and rows: the last one where both are unchanged.
    pub(super) fn router(&self, agents: &[(bool, Found)], rows: Arc<Vec<Row>>) -> Arc<Router> {
        let described = described(agents);
        let mut built = self.built.lock().expect("no holder of the router panics");
        if let Some(built) = built.as_ref().filter(|built| built.is_of(&described, &rows)) {
            return built.router.clone();
        }
        let router = Arc::new(Router::new(agents.iter().map(candidate).collect(), &rows, None));
        *built = Some(Built { described, rows, router: router.clone(), dense: None });
        router
    }

    /// The router for these agents and rows that learned from dense vectors of that length, if there is one.
    pub(super) fn dense(
        &self,
        agents: &[(bool, Found)],
        rows: &Arc<Vec<Row>>,
        dimensions: usize,
    ) -> Option<Arc<Router>> {
        let built = self.built.lock().expect("no holder of the router panics");
        let built = built.as_ref().filter(|built| built.is_of(&described(agents), rows))?;
        built.dense.as_ref().filter(|(of, _)| *of == dimensions).map(|(_, router)| router.clone())
    }

    /// Learns from dense vectors too.
    pub(super) fn learn_dense(&self, agents: &[(bool, Found)], rows: &Arc<Vec<Row>>, vectors: &Vectors) -> Arc<Router> {
        let router = Arc::new(Router::new(agents.iter().map(candidate).collect(), rows, Some(vectors)));
        let mut built = self.built.lock().expect("no holder of the router panics");
        if let Some(built) = built.as_mut().filter(|built| built.is_of(&described(agents), rows)) {
            built.dense = Some((vectors.dimensions(), router.clone()));
        }
        router
    }
}

fn described(agents: &[(bool, Found)]) -> Vec<(bool, Arc<Description>)> {
    agents.iter().map(|(near, found)| (*near, found.candidate.description.clone())).collect()
}

impl Built {
    fn is_of(&self, described: &[(bool, Arc<Description>)], rows: &Arc<Vec<Row>>) -> bool {
        let mut pairs = self.described.iter().zip(described);
        Arc::ptr_eq(&self.rows, rows)
            && self.described.len() == described.len()
            && pairs.all(|(one, other)| one.0 == other.0 && Arc::ptr_eq(&one.1, &other.1))
    }
}

/// What routing reads of an agent.
pub(super) fn candidate((near, found): &(bool, Found)) -> Candidate {
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

/// Reads a file of labelled sentences, which has that name and text.
pub(super) fn read((name, text): (&str, &str)) -> Result<Vec<Row>, RoutingError> {
    let failed = |why: String| RoutingError::File { path: name.to_owned(), why };
    if text.len() > FILE_BYTES_MAX {
        return Err(failed(format!("it has more than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    parse(text.as_bytes()).map_err(|error| failed(error.to_string()))
}

/// A row is known by its sentence: whoever learns it anew, for another agent, corrects it.
fn key(row: &Row) -> Vec<u8> {
    digest(row.instruction.as_bytes())[..16].to_vec()
}

fn bytes(row: &Row) -> usize {
    row.instruction.len() + row.agent.len() + row.intent.len()
}

impl LearnedRoutes {
    /// What was learned.
    ///
    /// # Errors
    /// The store's.
    pub(super) fn rows(&self) -> Result<Arc<Vec<Row>>, NodeError> {
        let mut kept = self.rows.lock().expect("no holder of the rows panics");
        if let Some(rows) = kept.as_ref() {
            return Ok(rows.clone());
        }
        let stored = self.store.scan(ROUTES, Range::all(ROWS_MAX))?;
        // A row that cannot be read is left out: it is one example of many.
        let rows = stored.iter().filter_map(|(_, row)| serde_json::from_slice(row).ok());
        let rows: Arc<Vec<Row>> = Arc::new(rows.collect());
        *kept = Some(rows.clone());
        Ok(rows)
    }

    /// Learns the rows of a file with that name and text, but those that it keeps for tests; gives how many it has learned, and how many it knows now.
    ///
    /// # Errors
    /// See [`RoutingError`].
    pub async fn learn(&self, name: &str, text: &str) -> Result<(usize, usize), RoutingError> {
        let mut rows = read((name, text))?;
        rows.retain(|row| row.part != Some(althing_routing::Part::Test));
        let _changing = self.changing.lock().await;
        let before = self.rows()?;
        let mut all: std::collections::BTreeMap<Vec<u8>, &Row> = before.iter().map(|row| (key(row), row)).collect();
        all.extend(rows.iter().map(|row| (key(row), row)));
        if all.len() > ROWS_MAX || all.values().map(|row| bytes(row)).sum::<usize>() > FILE_BYTES_MAX {
            return Err(RoutingError::Full);
        }
        let known = all.len();
        for some in rows.chunks(BATCH_MAX) {
            let mut batch = Batch::new();
            for row in some {
                batch.put(ROUTES, key(row), serde_json::to_vec(row).map_err(NodeError::from)?);
            }
            self.store.write(batch, Durability::Synced).await.map_err(NodeError::from)?;
        }
        // Read again when it is needed next.
        *self.rows.lock().expect("no holder of the rows panics") = None;
        Ok((rows.len(), known))
    }

    /// Forgets all rows; gives how many there were.
    ///
    /// # Errors
    /// The store's.
    pub async fn forget(&self) -> Result<usize, RoutingError> {
        let _changing = self.changing.lock().await;
        let stored = self.store.scan(ROUTES, Range::all(ROWS_MAX)).map_err(NodeError::from)?;
        for some in stored.chunks(BATCH_MAX) {
            let mut batch = Batch::new();
            for (key, _) in some {
                batch.delete(ROUTES, key.clone());
            }
            self.store.write(batch, Durability::Synced).await.map_err(NodeError::from)?;
        }
        *self.rows.lock().expect("no holder of the rows panics") = None;
        Ok(stored.len())
    }
}
