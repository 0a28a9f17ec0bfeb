//! The tools that an agent was bound to, and how they stand with their servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_protocol::{Label, binding};
use althing_td::Effect;
use tokio::runtime::Handle;

use crate::agent::AgentState;
use crate::definition::{Definition, Pins};
use crate::tools::Tools;

/// A tool that an agent was bound to.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundTool {
    /// `server/tool`.
    pub name: String,
    /// The definition that it was bound to.
    pub definition: Definition,
    /// Why it is not called at present; nothing of the tool's text.
    pub suspended: Option<String>,
}

/// The tools of an agent that runs.
pub struct BoundTools {
    pub(crate) tools: Arc<Tools>,
    /// Where turns run, and connections to servers live; none in simulations.
    pub(crate) turns: Option<Handle>,
}

impl BoundTools {
    /// The definitions that are pinned.
    #[must_use]
    pub fn pins(&self) -> Option<Pins> {
        self.tools.pins()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<BoundTool> {
        bound(&self.tools)
    }

    /// What a tool (`server/tool`) does outside if it is called once more, as the node or else the agent's file says it.
    #[must_use]
    pub fn effect_of(&self, tool: &str) -> Effect {
        self.tools.effect_of(tool)
    }

    /// The label of what a person tells in place of what a tool (`server/tool`) answers, in a turn that was given data of the label
    /// `given`: as what the tool answers. Of one of which the owner says nothing, and of one of the node's own, nobody vouches for it.
    #[must_use]
    pub fn told_label(&self, tool: &str, given: Option<Label>) -> Label {
        let is_own = self.tools.servers().find(tool).is_some_and(|(_, server, _)| server.is_own());
        self.tools.profiles().told_label(tool, is_own, given)
    }

    /// Lists the servers whose tools may have changed since they were listed last; with `all` every one.
    pub async fn relist(&self, all: bool) {
        let tools = self.tools.clone();
        let listing = async move { relist(&tools, all).await };
        match &self.turns {
            // A connection that is made anew lives where turns do.
            Some(turns) => drop(turns.spawn(listing).await),
            None => listing.await,
        }
    }
}

impl Tools {
    /// The tools of the last listing, allowed or not. Of a server that is watched, and that cannot list now, those that are
    /// pinned: it may answer later.
    #[must_use]
    pub fn definitions(&self) -> Vec<binding::Tool> {
        let tool = |(name, tool): (&String, &Definition)| binding::Tool { name: name.clone(), definition: tool.hash() };
        let is_away =
            |name: &str| self.servers().find(name).is_some_and(|(_, server, _)| server.state() != AgentState::Ready);
        let known = self.known();
        let away = known.pins().into_iter().flatten().filter(|(name, _)| is_away(name));
        // Of a server that could not list just now both are known.
        let all: BTreeMap<&String, &Definition> = away.chain(known.fit()).collect();
        all.into_iter().map(tool).collect()
    }

    /// The definitions to pin of these tools: those of servers that are not the node's own.
    #[must_use]
    pub fn pinnable(&self, bound: &[binding::Tool]) -> Pins {
        let foreign = |name: &str| self.servers().find(name).is_some_and(|(_, server, _)| !server.is_own());
        let foreign = bound.iter().map(|tool| tool.name.as_str()).filter(|name| foreign(name));
        self.known().pinnable(foreign)
    }

    /// The servers that did not answer when they were asked last, and why: for the owner of the node.
    #[must_use]
    pub fn away(&self) -> BTreeMap<String, String> {
        self.known().away().clone()
    }

    /// The state of the first server that is not ready.
    #[must_use]
    pub fn state(&self) -> AgentState {
        self.servers().state()
    }
}

/// The tools that the agent was bound to, as the last listings of their servers had them. A server that does not answer
/// suspends none: calls say what is wrong.
pub(crate) fn bound(tools: &Tools) -> Vec<BoundTool> {
    let known = tools.known();
    let bound = known.bound().filter(|(name, ..)| tools.may(name));
    bound
        .map(|(name, definition, suspended)| BoundTool {
            name: name.clone(),
            definition: definition.clone(),
            suspended,
        })
        .collect()
}

/// Lists the servers whose tools may have changed since they were listed last; with `all` every one.
async fn relist(tools: &Tools, all: bool) {
    let (mut names, mut asked) = (Vec::new(), Vec::new());
    for (name, server) in tools.servers().all() {
        let moved = tools.known().version(name) != Some(server.version());
        if !server.is_own() && (all || moved) {
            names.push(name);
            asked.push(tools.list(name, server));
        }
    }
    let answered = futures::future::join_all(asked).await;
    for (server, answer) in names.into_iter().zip(answered) {
        if let Err(fault) = answer {
            tracing::debug!(agent = tools.decisions().agent().name(), server, %fault, "a tool server does not answer");
        }
    }
}
