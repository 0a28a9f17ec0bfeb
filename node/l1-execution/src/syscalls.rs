//! What an agent can ask of its node: there is no other way out.

use std::sync::Arc;

use crate::memory::Memory;
use crate::tools::Tools;

/// The system calls of one agent.
#[derive(Clone)]
pub struct SystemCalls {
    /// Tools, as far as its contract names them.
    pub tools: Arc<Tools>,
    /// What it keeps, where its contract lets it.
    pub memory: Option<Memory>,
}
