//! What was agreed to of the agents that this node has, or had: by their names, and by their files, whatever these name.

use std::path::{Path, PathBuf};

use althing_protocol::{digest, hex};
use althing_store::{Batch, Durability, Family, Range, Store, WriteError};
use althing_td::{AgentFile, Rights, RightsChanges};

use crate::error::NodeError;
use crate::publish::{self, AGENTS, StoredAgent};

/// What agents might do that were added, by their names and by the digests of the paths of their files.
pub const AGREED: Family = Family("althing.agreed-programs");
/// Names and files of which that is known.
const AGREED_MAX: usize = 2_048;

/// What was noted for a name and for a file at one time: rows under their keys, and none where nothing was.
pub struct AgreementRows(Vec<(Vec<u8>, Option<Vec<u8>>)>);

/// What was agreed to, in a store.
pub(crate) struct Agreements<'a>(pub(crate) &'a dyn Store);

impl Agreements<'_> {
    /// What an agent file, read from that path without links, changes of what was agreed to for its name, and for that path; where
    /// nothing was, only programs without a sandbox.
    pub(crate) fn changes(&self, file: &AgentFile, source: Option<&PathBuf>) -> Result<RightsChanges, NodeError> {
        let keys = keys(&file.name, source.map(PathBuf::as_path));
        let before: Vec<Option<Rights>> = keys.iter().map(|key| self.agreed(key)).collect::<Result<_, _>>()?;
        Ok(Rights::of(file).changed(&before))
    }

    fn agreed(&self, key: &[u8]) -> Result<Option<Rights>, NodeError> {
        let row = self.0.read(AGREED, key)?;
        // Of what cannot be read, nothing was agreed to.
        Ok(row.map(|row| serde_json::from_slice(&row).unwrap_or_default()))
    }

    /// Writes an agent that is added; where somebody agreed to what it may do, with a note of that: both are on disk when this returns, or
    /// neither. Without the note, what its file says the next time would be compared with nothing.
    pub(crate) async fn add(&self, added: &StoredAgent, is_agreed: bool) -> Result<(), NodeError> {
        let mut batch = publish::batch(added)?;
        if is_agreed {
            self.put(&mut batch, &added.file, added.sources.first().map(PathBuf::as_path))?;
        }
        Ok(self.0.write(batch, Durability::Synced).await?)
    }

    /// Deletes an agent that its owner removes, and notes what it might do; where there is no room for the note, without it.
    pub(crate) async fn remove(&self, added: &StoredAgent) -> Result<(), NodeError> {
        let name = &added.file.name;
        let mut batch = Batch::new();
        batch.delete(AGENTS, name.as_bytes());
        self.put(&mut batch, &added.file, added.sources.first().map(PathBuf::as_path))?;
        match self.0.write(batch, Durability::Synced).await {
            Err(WriteError::Full { .. }) => {
                tracing::warn!(agent = name, "no room to note what it might do: `agent add` will not compare");
                publish::delete(self.0, name).await
            }
            written => Ok(written?),
        }
    }

    /// What is noted for that name, and for that path of its file.
    pub(crate) fn noted(&self, name: &str, source: Option<&Path>) -> Result<AgreementRows, NodeError> {
        let mut rows = Vec::new();
        for key in keys(name, source) {
            let row = self.0.read(AGREED, &key)?;
            rows.push((key, row));
        }
        Ok(AgreementRows(rows))
    }

    /// Deletes an agent that did not start when it was added: what is noted is what was before, since whoever agreed to that agent
    /// has none; where there is no room for that, it is deleted alone.
    pub(crate) async fn take_back(&self, name: &str, before: AgreementRows) -> Result<(), NodeError> {
        let AgreementRows(rows) = before;
        let mut batch = Batch::new();
        batch.delete(AGENTS, name.as_bytes());
        for (key, row) in rows {
            match row {
                Some(row) => batch.put(AGREED, key, row),
                None => batch.delete(AGREED, key),
            };
        }
        match self.0.write(batch, Durability::Synced).await {
            Err(WriteError::Full { .. }) => publish::delete(self.0, name).await,
            written => Ok(written?),
        }
    }

    /// Notes what an agent may do whose file, read from that path, its owner agreed to.
    pub(crate) fn put(&self, batch: &mut Batch, file: &AgentFile, source: Option<&Path>) -> Result<(), NodeError> {
        let row = serde_json::to_vec(&Rights::of(file))?;
        let (known, keys) = (self.0.keys(AGREED, Range::all(AGREED_MAX))?, keys(&file.name, source));
        let missing = keys.iter().filter(|key| !known.contains(key)).count();
        let over = (known.len() + missing).saturating_sub(AGREED_MAX);
        // Any other makes room: of that agent it is not known then, and nobody is asked but for a program without a sandbox.
        for key in known.iter().filter(|key| !keys.contains(key)).take(over) {
            batch.delete(AGREED, key.as_slice());
        }
        for key in &keys {
            batch.put(AGREED, key.as_slice(), row.clone());
        }
        Ok(())
    }
}

/// Under what it is noted. No name has a colon.
fn keys(name: &str, source: Option<&Path>) -> Vec<Vec<u8>> {
    let of_file = |path: &Path| format!("file:{}", hex(&digest(path.as_os_str().as_encoded_bytes()))).into_bytes();
    [Some(name.as_bytes().to_vec()), source.map(of_file)].into_iter().flatten().collect()
}
