//! The port of a server of tools.

use althing_keeper::Level;
use althing_protocol::Label;
use althing_td::Effect;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::agent::AgentState;
use crate::containment::Containment;
use crate::definition::Definition;
use crate::fault::Fault;

/// A server of tools.
pub trait ToolServer: Send + Sync + 'static {
    /// Whether its tools are the node's own code, which does not change while the node runs: these are not pinned.
    fn is_own(&self) -> bool {
        false
    }

    /// What one of its tools does outside if it is called once more, where the node itself knows that. None: the owner says it.
    fn effect(&self, _tool: &str) -> Option<Effect> {
        None
    }

    /// The label of what one of its tools answers, where the node itself knows that. None: the owner says it.
    fn label(&self, _tool: &str) -> Option<Label> {
        None
    }

    /// Finds out which agent a call of the tool reaches now, by its id, where the tool only names one. None where it reaches
    /// nothing else than this server.
    fn callee<'a>(&'a self, _tool: &'a str) -> Option<BoxFuture<'a, Option<String>>> {
        None
    }

    /// Finds out what a call of the tool does if it is made once more, where that depends on whom the tool reaches now.
    fn callee_effect<'a>(&'a self, _tool: &'a str) -> Option<BoxFuture<'a, Effect>> {
        None
    }

    /// Whether a call of the tool is a step of its turn, which the journal of the turn has a row of.
    fn is_step(&self, _tool: &str) -> bool {
        true
    }

    /// Bytes of the arguments of a call of the tool, as JSON, where they may have more than those of others.
    fn arguments_max(&self, _tool: &str) -> Option<usize> {
        None
    }

    /// Is told of a result that a resumed turn had from its tool before the node ended.
    fn replayed(&self, _tool: &str, _result: &Value) {}

    /// Its current tools.
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>>;

    /// Its current tools, and a version that changes as soon as they may have changed.
    fn listing(&self) -> BoxFuture<'_, Result<(Vec<Definition>, u64), Fault>> {
        Box::pin(async { Ok((self.tools().await?, 0)) })
    }

    /// What was left out of its last listing, by name, each with the reason; a name that is none of a tool's stands for the
    /// listing itself.
    fn left_out(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Whether calls run on it, so that it may list its tools late: many servers do one thing at a time.
    fn is_busy(&self) -> bool {
        false
    }

    /// Whether a call waits there for what its caller was asked for, in that state.
    fn awaits(&self, _state: &str) -> bool {
        false
    }

    /// The present version of its tools: another one than that of the last listing means that they may have changed since.
    fn version(&self) -> u64 {
        0
    }

    /// Calls one; gives MCP's `CallToolResult`. If the call is [`Relayed`](crate::relayed::Relayed), it may be an `InputRequiredResult`, or the `error`
    /// with which the server answered.
    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>>;

    /// Calls one if the version of the listing is still current, else fails with [`Fault::Stale`].
    fn call_listed<'a>(
        &'a self,
        tool: &'a str,
        arguments: Value,
        _listing: u64,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        self.call(tool, arguments)
    }

    /// Its state, where it is watched.
    fn state(&self) -> AgentState {
        AgentState::Ready
    }

    /// How its program is contained, if it is one that runs.
    fn containment(&self) -> Option<Containment> {
        None
    }

    /// How strongly its program is enclosed, or was when it ran last, if it is one: asked before each call.
    fn level(&self) -> Option<Level> {
        None
    }

    /// Ends the connection, and the program behind it.
    fn stop(&self) -> BoxFuture<'_, ()>;
}
