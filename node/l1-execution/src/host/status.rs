//! Reads the status of agents.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;
use crate::containment::Containment;

/// Between two looks whether an agent answers.
const LOOK: Duration = Duration::from_millis(20);

impl RunningAgent {
    /// How its programs are contained: its own, and those of its tools.
    fn containment(&self) -> BTreeMap<String, Containment> {
        let own = if let Runtime::Process(process) = &self.runtime { process.containment() } else { None };
        self.calls.tools.servers().containment(own)
    }

    pub(super) fn status(&self, scheduling: Option<&Scheduling>) -> AgentStatus {
        let AgentRef { id, version } = &self.calls.tools.agent;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (runtime, state, pid) = self.runtime.status();
        let mut findings = self.findings.list();
        if let Runtime::Hard(hard) = &self.runtime {
            findings.extend(crate::hard::finding(hard));
        }
        let hard = match (&self.runtime, scheduling) {
            (Runtime::Hard(hard), Some(scheduling)) => Some(crate::hard::status(&scheduling.kernel, hard)),
            _ => None,
        };
        AgentStatus {
            name: id.name().to_owned(),
            version: version.clone(),
            class: self.contract.class.name(),
            runtime,
            state,
            pid,
            containment: self.containment(),
            turns: TurnStatus {
                running: read(&self.turns),
                total: read(&self.total),
                first_p50_ns: self.first.quantile(500),
                first_p99_ns: self.first.quantile(990),
                late: read(&self.late),
            },
            hard,
            gives_tasks: crate::groups::gives_tasks(&self.contract),
            unfit: self.calls.tools.unfit(),
            unauthorised: match &self.runtime {
                Runtime::Model(agent) => agent.unauthorised(),
                _ => Vec::new(),
            },
            findings,
        }
    }
}

/// How the programs of an agent of this host are contained, as [`AgentStatus::containment`]; nothing of one that does not run.
#[must_use]
pub fn containment_of<'a>(host: &Host, agent: impl Into<AgentKey<'a>>) -> BTreeMap<String, Containment> {
    host.find(agent.into()).map(|agent| agent.containment()).unwrap_or_default()
}

/// Waits until it is known how the own program of an agent of this host is contained, or that it did not start, but for no longer
/// than that.
pub async fn enclosed<'a>(host: &Host, agent: impl Into<AgentKey<'a>>, most: Duration) {
    let running = host.find(agent.into());
    let Some(Runtime::Process(process)) = running.as_ref().map(|agent| &agent.runtime) else { return };
    // An error means that it takes longer.
    let _ = timeout(most, process.enclosed()).await;
}

/// Waits until the program or the server of an agent of this host has answered, or is known not to, but for no longer than that; not
/// at all where it has neither.
pub async fn answered<'a>(host: &Host, agent: impl Into<AgentKey<'a>>, most: Duration) {
    let agent: AgentKey<'_> = agent.into();
    let is_starting = || host.find(agent).is_some_and(|agent| agent.status(None).state == AgentState::Starting);
    let waiting = async {
        while is_starting() {
            sleep(LOOK).await;
        }
    };
    // An error means that it takes longer.
    let _ = timeout(most, waiting).await;
}

/// On what terms an agent of this host takes work of other agents; nothing of one that does not run.
#[must_use]
pub fn work_terms<'a>(host: &Host, agent: impl Into<AgentKey<'a>>) -> Option<WorkTerms> {
    host.find(agent.into()).map(|agent| agent.work.with_tools(&agent.calls.tools))
}
