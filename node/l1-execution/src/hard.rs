//! Messages to a hard real-time agent set its inputs, and are answered with the outputs of its next job.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use crate::agent::{AgentError, AgentState, Output, Turn};
use crate::control::{inputs, put_outputs};
use crate::finding_counts::FindingCount;
use crate::hrt::{JobRecord, OUTPUT_OUT_OF_LIMITS, Outcome, RunState, Values};
use crate::kernel::{HardAgent, Kernel};
use crate::realtime::now_ns;

/// How long to wait for a job, beyond its period and its deadline.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to check that the agent still runs.
const LOOK: Duration = Duration::from_millis(200);

/// The state of the agent, for people.
pub(crate) fn state(hard: &HardAgent) -> AgentState {
    match hard.cell.run_state() {
        (RunState::Running, _) => AgentState::Ready,
        (RunState::Degraded, why) => AgentState::Degraded { why },
        (RunState::Suspended | RunState::Broken, why) => AgentState::Suspended { why },
    }
}

/// One message, answered by one job.
pub(crate) async fn turn(kernel: &Kernel, hard: &Arc<HardAgent>, turn: &Turn, out: &Output) -> Result<(), AgentError> {
    let set = inputs(kernel.signals(), &hard.name, &hard.signals, turn)?;
    let down = |why| AgentError::Down { agent: hard.name.clone(), why };
    hard.cell.check_running().map_err(down)?;
    let mut watch = hard.cell.watch();
    for (place, value) in set {
        hard.cell.input(place, value);
    }
    let since = now_ns();
    kernel.arrive(hard);
    let jobs = async {
        loop {
            // Checked repeatedly: an agent that was stopped or suspended has no next job.
            match tokio::time::timeout(LOOK, watch.next()).await {
                Ok(Some((record, outputs))) if record.release_ns >= since => return Ok((record, outputs)),
                Ok(None) => return Err(down("it was stopped".to_owned())),
                Ok(Some(_)) | Err(_) => hard.cell.check_running().map_err(down)?,
            }
        }
    };
    let patience = PATIENCE + Duration::from_micros(hard.class.period_us.saturating_add(hard.class.deadline_us));
    match tokio::time::timeout(patience, jobs).await {
        Ok(done) => {
            let (record, outputs) = done?;
            answer(hard, &record, &outputs, out).await
        }
        Err(_) => Err(AgentError::Failed(format!("no job came within {patience:?}: too many wait already"))),
    }
}

async fn answer(hard: &HardAgent, record: &JobRecord, outputs: &Values, out: &Output) -> Result<(), AgentError> {
    match record.outcome {
        Outcome::Done => {}
        Outcome::Overrun => {
            let budget = hard.class.budget_us;
            return Err(AgentError::Failed(format!("job {} was stopped: it exceeded its {budget} µs", record.number)));
        }
        Outcome::Failed => {
            let (_, why) = hard.cell.run_state();
            return Err(AgentError::Failed(format!("job {} failed: {why}", record.number)));
        }
        Outcome::Expired => {
            return Err(AgentError::Failed(format!("job {} was not begun before its deadline", record.number)));
        }
    }
    let job = json!({
        "number": record.number,
        "responseUs": (record.end_ns - record.release_ns) / 1_000,
        "usedUs": record.used_ns / 1_000,
        "missed": record.missed,
    });
    put_outputs(&hard.signals, (outputs, record.out_of_limits), job, out).await
}

/// Counts of a hard real-time agent, for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardStatus {
    /// Jobs released.
    pub jobs: u64,
    /// Jobs that missed their deadline.
    pub missed: u64,
    /// Of those, misses that stalls of the machine account for.
    pub explained: u64,
    /// Jobs stopped at the end of their budget.
    pub overruns: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Jobs that used a fallback value for an input that was not set in time.
    pub fallbacks: u64,
    /// Jobs that put out what breaks `signals.limits`.
    pub out_of_limits: u64,
    /// The longest response time of a completed job, nanoseconds.
    pub response_max_ns: u64,
    /// The 99th percentile of response times.
    pub response_p99_ns: u64,
    /// The proved bound of response times, stalls of the machine excepted.
    pub response_bound_ns: u64,
    /// The index of its core among those for hard real-time.
    pub core: usize,
}

/// What was found of the jobs of a hard real-time agent, which are no turns of a task.
pub(crate) fn finding(hard: &HardAgent) -> Option<FindingCount> {
    let count = hard.cell.counters.out_of_limits.load(Ordering::Relaxed);
    (count > 0).then(|| FindingCount { finding: OUTPUT_OUT_OF_LIMITS, count, task: String::new() })
}

pub(crate) fn status(kernel: &Kernel, hard: &HardAgent) -> HardStatus {
    let counters = &hard.cell.counters;
    let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let bound = kernel
        .promises
        .guarantee(&hard.name)
        .map_or(hard.admitted.response_bound_ns, |guarantee| guarantee.response_bound_ns);
    // Before the misses: what is explained meanwhile is not taken from misses that are not counted yet.
    let explained = read(&counters.explained);
    HardStatus {
        jobs: read(&counters.jobs),
        missed: read(&counters.missed),
        explained,
        overruns: read(&counters.overruns),
        failures: read(&counters.failures),
        fallbacks: read(&counters.fallbacks),
        out_of_limits: read(&counters.out_of_limits),
        response_max_ns: counters.response.max(),
        response_p99_ns: counters.response.quantile(990),
        response_bound_ns: bound,
        core: hard.admitted.core,
    }
}
