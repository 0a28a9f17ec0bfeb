//! The listings of one agent's tool servers: when a server is listed, and what its listings leave to be called.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::timeout;

use crate::call_listings::CallListings;
use crate::decisions::Decisions;
use crate::definition::Definition;
use crate::fault::Fault;
use crate::known::Known;
use crate::own_tools::is_own_tool;
use crate::patience;
use crate::relayed::Relayed;
use crate::tool_call::Permission;
use crate::tool_server::ToolServer;
use crate::tool_servers::ToolServers;

/// How long a server may take to list its tools.
const LISTING: Duration = Duration::from_secs(20);
/// How long one may take that works on other calls meanwhile.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a server lists, with the version of that, or why it lists nothing.
type Listing = Result<(Vec<Definition>, u64), Fault>;

/// What is known of the tools of one agent's servers by their listings.
pub(crate) struct ToolListings {
    known: Mutex<Known>,
    /// By server.
    for_calls: BTreeMap<String, CallListings>,
}

impl ToolListings {
    /// Those of servers of which none was listed yet.
    pub fn new(servers: &ToolServers) -> ToolListings {
        let for_calls = servers.all().map(|(name, _)| (name.clone(), CallListings::default())).collect();
        ToolListings { known: Mutex::default(), for_calls }
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder of the tools panics")
    }

    /// Whether there is a tool of that name: one that the agent is bound to, that its servers list, or that nodes have.
    pub fn has(&self, tool: &str) -> bool {
        is_own_tool(tool) || self.known().has(tool)
    }

    /// Lists all servers at once, so that one that hangs does not delay the others, and forgets the tools of those that do not answer.
    pub async fn list_all(&self, servers: &ToolServers, decisions: &Decisions) {
        let asked = servers.all().map(|(name, server)| self.list((name.as_str(), server), decisions));
        let answered = futures::future::join_all(asked).await;
        for ((server, port), answer) in servers.all().zip(answered) {
            if let Err(fault) = answer {
                // One that is late because it works has the tools that it had.
                if !(matches!(fault, Fault::Silent(_)) && port.is_busy()) {
                    self.known().silent(server);
                }
                tracing::warn!(agent = decisions.agent().name(), server, %fault, "a tool server does not answer");
            }
        }
    }

    /// Lists a server; gives the version of the listing.
    ///
    /// # Errors
    /// Why it lists nothing.
    pub async fn list(
        &self,
        (name, server): (&str, &Arc<dyn ToolServer>),
        decisions: &Decisions,
    ) -> Result<u64, Fault> {
        let listed = timeout(LISTING, server.listing()).await.unwrap_or(Err(Fault::Silent(LISTING)));
        self.take((name, server), listed, decisions)
    }

    /// Lists the server of a tool that is about to be called; none where that need not be, or there is no such server.
    pub async fn list_before_call(
        &self,
        tool: &str,
        servers: &ToolServers,
        decisions: &Decisions,
    ) -> Option<Result<u64, Fault>> {
        let (name, server, _) = servers.find(tool)?;
        // A call that waits for its caller was checked when it was made, and its server may do nothing else meanwhile.
        let goes_on = Relayed::current().and_then(|relayed| relayed.request_state);
        let goes_on = goes_on.is_some_and(|state| server.awaits(&state));
        if goes_on || (server.is_own() && self.known().fit().contains_key(tool)) {
            return None;
        }
        Some(self.list_for_call((name, server), decisions).await)
    }

    /// Lists a server for a call, after that was asked for. One that works on another call may answer after that.
    async fn list_for_call(
        &self,
        (name, server): (&str, &Arc<dyn ToolServer>),
        decisions: &Decisions,
    ) -> Result<u64, Fault> {
        let list = async {
            let listed = patience::while_busy(server.listing(), || server.is_busy(), LISTING, PATIENCE).await;
            self.take((name, server), listed.unwrap_or_else(Err), decisions)
        };
        match self.for_calls.get(name) {
            Some(listings) => listings.listed(list).await,
            None => list.await,
        }
    }

    /// Takes how a listing ended.
    fn take(
        &self,
        (name, server): (&str, &Arc<dyn ToolServer>),
        listed: Listing,
        decisions: &Decisions,
    ) -> Result<u64, Fault> {
        let (listed, listing) = listed.inspect_err(|fault| self.known().note_away(name, fault, server.is_busy()))?;
        let listed = (listed, server.left_out());
        let may = |tool: &str| decisions.lists(tool) == Permission::Allowed;
        let new = self.known().take(name, server.is_own(), listed, may);
        for (tool, unfit) in new {
            let (reason, why) = (unfit.reason(), unfit.brief());
            tracing::warn!(agent = decisions.agent().name(), tool, reason, why, "a tool is not called");
        }
        self.known().note_version(name, listing);
        Ok(listing)
    }
}
