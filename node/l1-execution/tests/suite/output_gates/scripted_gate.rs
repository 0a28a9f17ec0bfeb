//! The gate for tests: of those in `src/agent/gate.rs` and of those of whole turns.

use a2a::TaskState;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{AgentError, Hold, Made, OutputGate};

/// Keeps, passes or drops all outputs that it has a word for; lets all others pass. Signs what it releases.
pub struct Scripted {
    /// Kinds of outputs that it keeps: `artifact`, `progress`, `status`, `state`, `begun`, `reply`.
    pub keeps: &'static [&'static str],
    /// Kinds of outputs that it drops.
    pub drops: &'static [&'static str],
    /// What an agent remembers last of what it released, and what its failures begin with.
    pub sign: String,
}

fn kind(made: &Made) -> &'static str {
    match made {
        Made::Artifact { .. } => "artifact",
        Made::Status(TaskState::Working, _) => "progress",
        Made::Status(..) => "status",
        Made::Remember(_) => "state",
        Made::Begun { .. } => "begun",
        Made::Reply(_) => "reply",
        Made::Annotated(made, _) => kind(made),
    }
}

impl OutputGate for Scripted {
    fn hold(&self, made: Made) -> Hold {
        match kind(&made) {
            word if self.drops.contains(&word) => Hold::Drop,
            word if self.keeps.contains(&word) => Hold::Keep(made),
            _ => Hold::Pass(made),
        }
    }

    fn release(&self, held: Vec<Made>) -> BoxFuture<'_, Result<Vec<Made>, AgentError>> {
        let signed: Vec<Made> = held.into_iter().chain([Made::Remember(self.sign.clone())]).collect();
        std::future::ready(Ok(signed)).boxed()
    }

    fn failure(&self, error: AgentError) -> AgentError {
        AgentError::Failed(format!("{}: {error}", self.sign))
    }
}
