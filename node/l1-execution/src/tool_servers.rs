//! The servers of one agent's tools, found by the names of the tools.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use althing_keeper::Level;
use serde_json::Value;

use crate::agent::AgentState;
use crate::containment::Containment;
use crate::tool_server::ToolServer;

/// Those of one agent, by name.
pub(crate) struct ToolServers(BTreeMap<String, Arc<dyn ToolServer>>);

impl ToolServers {
    pub fn new(servers: BTreeMap<String, Arc<dyn ToolServer>>) -> ToolServers {
        ToolServers(servers)
    }

    /// The name and the server of a tool, and its name there.
    pub fn find<'a>(&self, tool: &'a str) -> Option<(&'a str, &Arc<dyn ToolServer>, &'a str)> {
        let (server, tool) = tool.split_once('/')?;
        Some((server, self.0.get(server)?, tool))
    }

    pub fn all(&self) -> btree_map::Iter<'_, String, Arc<dyn ToolServer>> {
        self.0.iter()
    }

    /// Whether there is one of that name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How strongly the program is enclosed that has a tool, where it is one that ran.
    pub fn level(&self, tool: &str) -> Option<Level> {
        self.find(tool).and_then(|(_, server, _)| server.level())
    }

    /// Bytes of a tool's arguments, where its server says how many.
    pub fn arguments_max(&self, tool: &str) -> Option<usize> {
        self.find(tool).and_then(|(_, server, tool)| server.arguments_max(tool))
    }

    /// Whether a call is a step of its turn's journal, if that has one.
    pub fn is_step(&self, tool: &str, arguments: &Value) -> bool {
        arguments.is_object() && self.find(tool).is_none_or(|(_, server, tool)| server.is_step(tool))
    }

    /// The agent that was called and its task, as its answer says, where the tool is another agent.
    pub fn callee_of(&self, tool: &str, answer: Option<&Value>) -> Option<(String, String)> {
        let (_, server, tool) = self.find(tool)?;
        drop(server.callee(tool)?);
        let answer = &answer?["structuredContent"];
        Some((answer["agent"].as_str()?.to_owned(), answer["task"].as_str()?.to_owned()))
    }

    /// The state of the first that is not ready.
    pub fn state(&self) -> AgentState {
        let mut states = self.0.values().map(|server| server.state());
        states.find(|state| *state != AgentState::Ready).unwrap_or(AgentState::Ready)
    }

    /// How an agent's programs are contained, as far as they run: its own (`runtime`), and those of its servers (`tools.NAME`).
    pub fn containment(&self, own: Option<Containment>) -> BTreeMap<String, Containment> {
        let one =
            |(name, server): (&String, &Arc<dyn ToolServer>)| Some((format!("tools.{name}"), server.containment()?));
        let own = own.map(|containment| ("runtime".to_owned(), containment));
        self.0.iter().filter_map(one).chain(own).collect()
    }

    /// Stops all of them at once.
    pub async fn stop(&self) {
        futures::future::join_all(self.0.values().map(|server| server.stop())).await;
    }
}
