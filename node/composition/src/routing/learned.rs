//! The labelled sentences that a node learned, in its store.

use std::path::Path;
use std::sync::Arc;

use althing_protocol::digest;
use althing_routing::{FILE_BYTES_MAX, ROWS_MAX, Row, parse};
use althing_store::file::read_bytes;
use althing_store::{Batch, Durability, Family, Range};

use crate::error::NodeError;
use crate::routing::{Routing, RoutingError};

/// Labelled sentences, by their digests.
pub const ROUTES: Family = Family("althing.routes");
/// Rows of one write.
const BATCH_MAX: usize = 4_096;

/// Reads a file of labelled sentences.
pub(super) fn read(path: &Path) -> Result<Vec<Row>, RoutingError> {
    let failed = |why: String| RoutingError::File { path: path.display().to_string(), why };
    let bytes = read_bytes(path, FILE_BYTES_MAX as u64).map_err(|error| failed(error.to_string()))?;
    parse(&bytes).map_err(|error| failed(error.to_string()))
}

/// A row is known by its sentence: whoever learns it anew, for another agent, corrects it.
fn key(row: &Row) -> Vec<u8> {
    digest(row.instruction.as_bytes())[..16].to_vec()
}

fn bytes(row: &Row) -> usize {
    row.instruction.len() + row.agent.len() + row.intent.len()
}

impl Routing {
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

    /// Learns the rows of a file, but those that it keeps for tests; gives how many it has learned, and how many it knows now.
    ///
    /// # Errors
    /// See [`RoutingError`].
    pub async fn learn(&self, path: &Path) -> Result<(usize, usize), RoutingError> {
        let mut rows = read(path)?;
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
