//! The way to agents that take work: a port.

use althing_call::{OperationError, OperationRequest, Reply};
use althing_protocol::{AgentId, AnswerAttributes, Label, PublicKey};
use futures::future::BoxFuture;

/// One call to the agent that takes work, in the name of the one that gives it away.
#[derive(Debug, Clone)]
pub struct HandoffCall {
    /// Who gives the work away.
    pub from: AgentId,
    /// Who takes it.
    pub to: AgentId,
    /// What is asked of it.
    pub request: OperationRequest,
    /// The label of what is sent.
    pub label: Option<Label>,
    /// Where the label of what is answered is added to.
    pub answer: AnswerAttributes,
}

/// The way to agents that take work, wherever they are.
pub trait HandoffWay: Send + Sync {
    /// Makes a call.
    fn call(&self, call: HandoffCall) -> BoxFuture<'static, Result<Reply, OperationError>>;

    /// Whether that node hosts the agent, by evidence that was verified.
    fn is_host<'a>(&'a self, agent: &'a AgentId, node: PublicKey) -> BoxFuture<'a, bool>;
}
