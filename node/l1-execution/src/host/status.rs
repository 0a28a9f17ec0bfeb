//! Reads the status of agents.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;
use crate::containment::Containment;
use crate::kernel::CorePromise;
use crate::success_counts::{SuccessRate, SuccessRecord, TurnCounts, TurnSuccess};

/// Between two looks whether an agent answers.
const LOOK: Duration = Duration::from_millis(20);

impl RunningAgent {
    /// How its programs are contained: its own, and those of its tools.
    fn containment(&self) -> BTreeMap<String, Containment> {
        let own = if let Runtime::Process(process) = &self.runtime { process.containment() } else { None };
        self.calls.tools.servers().containment(own)
    }

    pub(super) fn status(&self, scheduling: Option<&Scheduling>) -> AgentStatus {
        let AgentRef { id, version } = self.calls.tools.decisions().agent();
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
            away: self.calls.tools.away(),
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

/// The core whose time is promised to an agent of this host, and why its deadlines are kept; nothing of one that is promised none.
#[must_use]
pub fn core_promise<'a>(host: &Host, agent: impl Into<AgentKey<'a>>) -> Option<CorePromise> {
    let running = host.find(agent.into())?;
    let (Runtime::Hard(hard), Some(scheduling)) = (&running.runtime, &host.scheduling) else { return None };
    scheduling.kernel.promises.core_promise(&hard.name)
}

/// Counts how a turn of an agent of this host went; of one that does not run any more nobody asks.
pub fn count_success<'a>(host: &Host, agent: impl Into<AgentKey<'a>>, success: TurnSuccess) {
    if let Some(running) = host.find(agent.into()) {
        running.successes.count(success);
    }
}

/// How many turns of a version of an agent of this host ended since it was started; nothing of one that does not run.
#[must_use]
pub fn turn_counts<'a>(host: &Host, agent: impl Into<AgentKey<'a>>) -> Option<TurnCounts> {
    Some(host.find(agent.into())?.successes.record().counts())
}

/// Of the turns of each agent of this host, by its name, the share that went well; only agents of which a turn ended.
#[must_use]
pub fn success_rates(host: &Host) -> BTreeMap<String, SuccessRate> {
    let mut records = BTreeMap::<String, SuccessRecord>::new();
    for (id, agent) in host.running.all() {
        let record = records.entry(id.name().to_owned()).or_default();
        *record = record.and(agent.successes.record());
    }
    records.into_iter().filter_map(|(name, record)| Some((name, record.rate()?))).collect()
}

/// The same of one of them.
#[must_use]
pub fn success_of(host: &Host, name: &str) -> Option<SuccessRate> {
    let versions = host.versions(name);
    let running = versions.iter().filter_map(|agent| host.find(agent.into()));
    running.map(|agent| agent.successes.record()).fold(SuccessRecord::default(), SuccessRecord::and).rate()
}
