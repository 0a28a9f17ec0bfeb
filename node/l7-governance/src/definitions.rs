//! The definitions of tools that agents were added with, by agent and action, in memory and in the store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use althing_store::{Batch, Durability, Store};

use crate::config::DEFINITIONS;
use crate::consents::{bad_row, rows};
use crate::error::OpenError;
use crate::machine::consent::{DefinitionState, Definitions};

pub(crate) struct ToolDefinitions {
    store: Arc<dyn Store>,
    known: Mutex<Definitions>,
}

impl ToolDefinitions {
    /// Those that the store has.
    pub fn open(store: Arc<dyn Store>) -> Result<ToolDefinitions, OpenError> {
        let mut known = Definitions::default();
        for (key, row) in rows(store.as_ref(), DEFINITIONS, &[])? {
            let name = std::str::from_utf8(&key).ok().and_then(|name| name.split_once('\n'));
            if !name.is_some_and(|(agent, action)| known.take_row(agent, action, &row)) {
                return Err(bad_row(DEFINITIONS, &key));
            }
        }
        Ok(ToolDefinitions { store, known: Mutex::new(known) })
    }

    /// How the definition of a tool stands to the one that is known. A new one is written at once: what was denied or asked about is
    /// known after a restart too.
    pub async fn see(&self, (agent, action): (&str, &str), definition: ([u8; 32], [u8; 32])) -> DefinitionState {
        let (state, row) = {
            let mut known = self.known();
            let state = known.see(agent, action, definition);
            (state, if state == DefinitionState::New { known.row(agent, action) } else { None })
        };
        let Some(row) = row else { return state };
        let mut batch = Batch::new();
        batch.put(DEFINITIONS, format!("{agent}\n{action}"), row);
        match self.store.write(batch, Durability::Buffered).await {
            Ok(()) => state,
            Err(error) => {
                tracing::error!(%error, "the definition of a tool could not be written");
                // Else it would be believed from the next call on, and be a new one after a restart.
                self.known().forget_tool(agent, action);
                DefinitionState::Unknown
            }
        }
    }

    /// Those of an agent are agreed to anew.
    pub async fn forget(&self, agent: &str) -> Result<(), OpenError> {
        let mut batch = Batch::new();
        for (key, _) in rows(self.store.as_ref(), DEFINITIONS, format!("{agent}\n").as_bytes())? {
            batch.delete(DEFINITIONS, key);
        }
        if !batch.is_empty() {
            self.store.write(batch, Durability::Synced).await?;
        }
        self.known().forget(agent);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Definitions> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
