//! What of agents is on record: their starts and ends, and what their owner changes of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_execution::Host;
use althing_governance::records::{self, BoundBy};
use althing_governance::{Governance, OwnerChange};
use althing_protocol::{AgentRef, Contract};
use althing_td::{AgentFile, Callers, Exposure};

use crate::error::NodeError;
use crate::identity::Identity;
use crate::publish;

/// Puts what happens to agents on record.
pub(crate) struct AgentRecords {
    governance: Governance,
    identity: Arc<Identity>,
    /// Those whose start is on record, and whose end is not.
    started: Mutex<BTreeSet<AgentRef>>,
}

impl AgentRecords {
    pub fn new(governance: Governance, identity: Arc<Identity>) -> AgentRecords {
        AgentRecords { governance, identity, started: Mutex::default() }
    }

    fn started(&self) -> MutexGuard<'_, BTreeSet<AgentRef>> {
        self.started.lock().expect("no holder of the recorded agents panics")
    }

    /// Whether an agent may start: what it does could be recorded.
    pub async fn check(&self) -> Result<(), NodeError> {
        Ok(records::check(&self.governance).await?)
    }

    /// The start of an agent is on record before anybody may call it.
    pub async fn start(&self, agent: &AgentRef, file: &AgentFile, host: &Host) -> Result<(), NodeError> {
        let binding = host.binding(agent).map(|binding| binding.hash);
        let contract = file.contract.as_ref().map(Contract::digest);
        let by = BoundBy { contract, binding: binding.as_deref().unwrap_or_default() };
        records::start(&self.governance, agent, by).await?;
        self.started().insert(agent.clone());
        Ok(())
    }

    /// Records the end of an agent, if its start is on record.
    pub async fn end(&self, agent: &AgentRef) {
        let was_recorded = self.started().remove(agent);
        if was_recorded {
            records::end(&self.governance, agent).await;
        }
    }

    /// Records the end of all agents.
    pub async fn end_all(&self) {
        let all = std::mem::take(&mut *self.started());
        for agent in all {
            records::end(&self.governance, &agent).await;
        }
    }

    /// Puts on record what the owner changes of an agent: what its file was and is, and whom it is shown to.
    pub async fn change(
        &self,
        what: &str,
        before: Option<&AgentFile>,
        after: Option<&AgentFile>,
    ) -> Result<(), NodeError> {
        let Some(file) = after.or(before) else { return Ok(()) };
        let agent = publish::agent_ref(&self.identity.owner(), file)?;
        // Where one is removed nothing is kept beside the log, so that it can be where that is full.
        let before = before.filter(|_| after.is_some());
        let text = |file: Option<&AgentFile>| file.map_or(Ok(String::new()), serde_json::to_string);
        let (old, new) = (text(before)?, text(after)?);
        let change = OwnerChange { what, agent: Some(&agent), before: &old, after: &new };
        records::change(&self.governance, change).await?;
        let (old, new) = (exposed(before), exposed(after));
        if old != new {
            let change = OwnerChange { what: "exposing", agent: Some(&agent), before: &old, after: &new };
            records::change(&self.governance, change).await?;
        }
        Ok(())
    }
}

/// Who may call an agent and whom it is shown to, and which of its tools others may call; nothing where its file says nothing of that.
fn exposed(file: Option<&AgentFile>) -> String {
    let of = |callers: &Callers, exposure: Exposure, tools: &[String]| {
        serde_json::json!({ "callers": callers, "exposure": exposure, "expose": tools }).to_string()
    };
    let unsaid = of(&Callers::default(), Exposure::default(), &[]);
    let said = file.map(|file| of(&file.callers, file.exposure, &file.expose));
    said.filter(|text| *text != unsaid).unwrap_or_default()
}
