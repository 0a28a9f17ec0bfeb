//! The tools that an agent was bound to, and how they stand with their servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_protocol::binding;
use tokio::runtime::Handle;

use crate::agent::AgentState;
use crate::containment::Containment;
use crate::definition::{Definition, Pins};
use crate::tools::{ToolServer, Tools};

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
        self.tools.bound()
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
        let is_away = |name: &str| self.server(name).is_some_and(|(_, server, _)| server.state() != AgentState::Ready);
        let known = self.known();
        let away = known.pins().into_iter().flatten().filter(|(name, _)| is_away(name));
        // Of a server that could not list just now both are known.
        let all: BTreeMap<&String, &Definition> = away.chain(known.fit()).collect();
        all.into_iter().map(tool).collect()
    }

    /// The state of the first server that is not ready.
    #[must_use]
    pub fn state(&self) -> AgentState {
        let mut states = self.servers.values().map(|server| server.state());
        states.find(|state| *state != AgentState::Ready).unwrap_or(AgentState::Ready)
    }

    /// How an agent's programs are contained, as far as they run: its own (`runtime`), and those of its servers (`tools.NAME`).
    pub(crate) fn containment(&self, own: Option<Containment>) -> BTreeMap<String, Containment> {
        let one =
            |(name, server): (&String, &Arc<dyn ToolServer>)| Some((format!("tools.{name}"), server.containment()?));
        let own = own.map(|containment| ("runtime".to_owned(), containment));
        self.servers.iter().filter_map(one).chain(own).collect()
    }

    /// The tools that the agent was bound to, as the last listings of their servers had them. A server that does not answer
    /// suspends none: calls say what is wrong.
    #[must_use]
    pub(crate) fn bound(&self) -> Vec<BoundTool> {
        let known = self.known();
        let bound = known.bound().filter(|(name, ..)| self.may(name));
        bound
            .map(|(name, definition, suspended)| BoundTool {
                name: name.clone(),
                definition: definition.clone(),
                suspended,
            })
            .collect()
    }
}

/// Lists the servers whose tools may have changed since they were listed last; with `all` every one.
async fn relist(tools: &Tools, all: bool) {
    let (mut names, mut asked) = (Vec::new(), Vec::new());
    for (name, server) in &tools.servers {
        let moved = tools.known().version(name) != Some(server.version());
        if !server.is_own() && (all || moved) {
            names.push(name);
            asked.push(tools.list(name, server));
        }
    }
    let answered = futures::future::join_all(asked).await;
    for (server, answer) in names.into_iter().zip(answered) {
        if let Err(fault) = answer {
            tracing::debug!(agent = tools.agent.name(), server, %fault, "a tool server does not answer");
        }
    }
}
