//! The native agent `knowledge`: answers from a folder of text files, and cites file and line.
//!
//! **Inputs**: a folder and a question. **Outputs**: the best passages (BM25), each with its citation.
//!
//! **Invariants**: every line of an answer is in the cited file at the cited lines; a changed folder is indexed again before
//! the next answer.
//!
//! **Never knows**: who asks, other agents, a language model.

mod answer;
mod folder;
mod index;

use std::path::Path;
use std::sync::{Arc, Mutex};

use althing_execution::{Agent, AgentError, Output, Turn};
use futures::future::BoxFuture;
use serde::Deserialize;

pub use folder::{FolderError, Limits};
pub use index::{Index, Passage};

/// `config` of a `knowledge` agent in its agent file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnowledgeConfig {
    /// The folder of text files.
    pub folder: std::path::PathBuf,
    /// How many passages an answer has at most.
    #[serde(default = "default_passages")]
    pub passages: usize,
}

fn default_passages() -> usize {
    4
}

/// The agent.
pub struct Knowledge {
    config: KnowledgeConfig,
    read: Arc<Read>,
}

/// The index, with the state of the folder that it was built from.
type Read = Mutex<Option<(folder::State, Arc<Index>)>>;

impl Knowledge {
    /// An agent with the `config` of its agent file; a relative folder starts at `base`. Indexes the folder once, so that
    /// errors show at once.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn build(config: &serde_json::Value, base: &Path) -> Result<Arc<dyn Agent>, String> {
        let mut config: KnowledgeConfig = serde_json::from_value(config.clone())
            .map_err(|error| format!("{error}; a knowledge agent's config has `folder` and may have `passages`"))?;
        if !(1..=20).contains(&config.passages) {
            return Err(format!("passages is {}, and may be 1 to 20", config.passages));
        }
        config.folder = base.join(&config.folder);
        let agent = Knowledge { config, read: Arc::default() };
        current(&agent.read, &agent.config.folder).map_err(|error| error.to_string())?;
        Ok(Arc::new(agent))
    }
}

/// The index of the folder in its current state.
fn current(read: &Read, path: &Path) -> Result<Arc<Index>, FolderError> {
    let state = folder::look(path, &Limits::default())?;
    let mut read = read.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((was, index)) = read.as_ref()
        && *was == state
    {
        return Ok(index.clone());
    }
    let index = Arc::new(Index::build(path, &state)?);
    *read = Some((state, index.clone()));
    Ok(index)
}

impl Agent for Knowledge {
    fn is_enclosed(&self) -> bool {
        true
    }

    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let question = turn.text();
            let (read, folder, most) = (self.read.clone(), self.config.folder.clone(), self.config.passages);
            // Reading files and the index blocks.
            let found = blocking(move || {
                let index = current(&read, &folder)?;
                Ok::<_, FolderError>((index.search(&question, most)?, folder::left_out(&index.left_out)))
            });
            let (passages, left_out) =
                found.await?.map_err(|error| AgentError::internal("its folder cannot be searched", error))?;
            answer::write(&passages, left_out.as_deref(), &out).await
        })
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, AgentError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| AgentError::internal("its folder cannot be searched", error))
}
