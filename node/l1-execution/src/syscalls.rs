//! What an agent can ask of its node: there is no other way out.

use std::sync::Arc;

use tokio::task_local;

use crate::memory::Memory;
use crate::tools::Tools;

task_local! {
    /// The hash of the manifest that the running turn was bound by; it stands on every span of the turn.
    pub(crate) static BINDING: Arc<str>;
}

/// The hash of the manifest of the turn that runs here; empty outside turns.
pub(crate) fn binding() -> Arc<str> {
    BINDING.try_with(Arc::clone).unwrap_or_default()
}

/// The system calls of one agent.
#[derive(Clone)]
pub struct SystemCalls {
    /// Tools, as far as its contract names them.
    pub tools: Arc<Tools>,
    /// What it keeps, where its contract lets it.
    pub memory: Option<Memory>,
}
