//! Messages to a hard real-time agent: they set its inputs, and are answered with what its next job makes of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use crate::agent::{AgentError, Output, Turn};
use crate::control::{inputs, put_outputs};
use crate::hrt::{JobRecord, Outcome, Values};
use crate::kernel::{Hard, Kernel};
use crate::realtime::now_ns;

/// How long a job is waited for, beyond its period and its deadline.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at whether there will be one.
const LOOK: Duration = Duration::from_millis(200);

/// One message, answered by one job.
pub(crate) async fn turn(kernel: &Kernel, hard: &Arc<Hard>, turn: &Turn, out: &Output) -> Result<(), AgentError> {
    let set = inputs(kernel.signals(), &hard.name, &hard.signals, turn)?;
    let down = |why| AgentError::Down { agent: hard.name.clone(), why };
    hard.cell.goes_on().map_err(down)?;
    let mut watch = hard.cell.watch();
    for (place, value) in set {
        hard.cell.input(place, value);
    }
    let since = now_ns();
    kernel.arrive(hard);
    let jobs = async {
        loop {
            // Looked at again and again: an agent that was stopped or suspended has no next job.
            match tokio::time::timeout(LOOK, watch.next()).await {
                Ok(Some((record, outputs))) if record.release_ns >= since => return Ok((record, outputs)),
                Ok(None) => return Err(down("it was stopped".to_owned())),
                Ok(Some(_)) | Err(_) => hard.cell.goes_on().map_err(down)?,
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

async fn answer(hard: &Hard, record: &JobRecord, outputs: &Values, out: &Output) -> Result<(), AgentError> {
    match record.outcome {
        Outcome::Done => {}
        Outcome::Overrun => {
            let budget = hard.class.budget_us;
            return Err(AgentError::Failed(format!("job {} was stopped: it used up its {budget} µs", record.number)));
        }
        Outcome::Failed => {
            let (_, why) = hard.cell.standing();
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
    put_outputs(&hard.signals, outputs, job, out).await
}

/// Counts of a hard real-time agent, for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardStatus {
    /// Jobs released.
    pub jobs: u64,
    /// Jobs that missed their deadline.
    pub missed: u64,
    /// Of those, by the machine's own stalls.
    pub explained: u64,
    /// Jobs stopped at the end of their budget.
    pub overruns: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Jobs that had something stand in for an input that nobody set in time.
    pub fallbacks: u64,
    /// The longest response of a job that was done, nanoseconds.
    pub response_max_ns: u64,
    /// 99 of 100 did not take longer.
    pub response_p99_ns: u64,
    /// What none takes longer than, but for the machine's own stalls.
    pub response_bound_ns: u64,
    /// Which of the cores for hard real-time.
    pub core: usize,
}

pub(crate) fn status(kernel: &Kernel, hard: &Hard) -> HardStatus {
    let tally = &hard.cell.tally;
    let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let bound = kernel.promise(&hard.name).map_or(hard.admitted.response_bound_ns, |promise| promise.response_bound_ns);
    HardStatus {
        jobs: read(&tally.jobs),
        missed: read(&tally.missed),
        explained: read(&tally.explained),
        overruns: read(&tally.overruns),
        failures: read(&tally.failures),
        fallbacks: read(&tally.fallbacks),
        response_max_ns: tally.response.max(),
        response_p99_ns: tally.response.quantile(990),
        response_bound_ns: bound,
        core: hard.admitted.core,
    }
}
