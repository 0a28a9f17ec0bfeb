//! The system calls of an agent: there is no other way out of it.

use std::sync::Arc;

use crate::cost_budget::CostBudget;
use crate::memory::Memory;
use crate::tools::Tools;

/// The system calls of one agent.
#[derive(Clone)]
pub struct SystemCalls {
    /// The tools that its contract names.
    pub tools: Arc<Tools>,
    /// Its memory, if its contract has one.
    pub memory: Option<Memory>,
    /// What it may cost.
    pub budget: Arc<CostBudget>,
}
