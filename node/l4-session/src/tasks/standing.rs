//! Who stands behind a turn that is to go on, and who decides whether it may.

use std::collections::HashMap;
use std::sync::Arc;

use althing_call::{Decision, Principal};
use althing_communication::Caller;
use althing_protocol::{AgentRef, Label};
use futures::future::BoxFuture;
use serde_json::Value;

/// By what right a turn would go on.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The agent, in the version that would go on.
    pub agent: AgentRef,
    /// Who sent the message.
    pub caller: Caller,
    /// On whose behalf, the origin first.
    pub principals: Vec<Principal>,
    /// The label of what came with it.
    pub label: Option<Label>,
    /// The message that began the turn; none where the task does not have it any more.
    pub message: Option<a2a::Message>,
    /// What came beside the message.
    pub metadata: Option<HashMap<String, Value>>,
}

/// Decides again whether a caller may call an agent.
pub type Recheck = Arc<dyn Fn(Standing) -> BoxFuture<'static, Decision> + Send + Sync>;
