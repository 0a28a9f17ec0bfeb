//! Runs one turn of an agent on the runtime of its class.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::*;
use crate::context::{self, CALL_CONTEXT, CallContext};
use crate::journal::TurnRights;
use crate::kernel::TurnRuntimes;
use crate::kernel::slots::run_on_slots;
use crate::output_gates::{GatedTurn, judged};
use crate::turn_context::{call_context, turn_span};
use crate::{steps, tool_agent};

/// Counts a turn for as long as it lasts.
struct TurnCount(Arc<RunningAgent>);

impl TurnCount {
    /// Of a turn that begins here, or of one that `goes_on`, which is counted already among all.
    fn new(running: &Arc<RunningAgent>, goes_on: bool) -> TurnCount {
        running.turns.fetch_add(1, Ordering::Relaxed);
        running.total.fetch_add(u64::from(!goes_on), Ordering::Relaxed);
        TurnCount(running.clone())
    }
}

impl Drop for TurnCount {
    fn drop(&mut self) {
        self.0.turns.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An agent of that name runs no more.
fn down(name: &str) -> AgentError {
    AgentError::Down { agent: name.to_owned(), why: "it was removed from this node".to_owned() }
}

impl Host {
    /// Runs one turn of an agent to its end, in the class of its contract.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn turn<'a>(&self, agent: impl Into<AgentKey<'a>>, turn: Turn, out: Output) -> Result<(), AgentError> {
        let key: AgentKey<'_> = agent.into();
        let agent = self.find(key).ok_or_else(|| down(key.name()))?;
        let goes_on = turn.parameters.rights.journal.as_ref().is_some_and(|journal| journal.goes_on());
        let _count = TurnCount::new(&agent, goes_on);
        // Refused before the turn begins, and not when it made room for others.
        if !goes_on {
            agent.calls.budget.check().map_err(|exhausted| AgentError::Exhausted(exhausted.to_string()))?;
        }
        let (out, first) = out.timed();
        let run = turn.parameters.run.clone();
        run.begin(&agent.binding.hash);
        let gates = (self.ports.output_gates)(&agent.gated(&turn));
        let ended = if gates.is_empty() {
            self.run(&agent, turn, out).await
        } else {
            let context = agent.call_context(&turn, turn.parameters.rights.clone());
            let again = |turn: Turn, out: Output| self.run(&agent, turn, out);
            let judged = judged(turn, out.gated(gates), || agent.may_repeat(), &agent.findings, again);
            CALL_CONTEXT.scope(context, Box::pin(judged)).await
        };
        if !goes_on {
            agent.note_first(first.after());
        }
        if let (Runtime::Hard(hard), Some(scheduling)) = (&agent.runtime, &self.scheduling) {
            run.set_proof(scheduling.kernel.promises.proof(&hard.name));
        }
        ended
    }

    /// What runs an agent's turns; none for hard real-time control loops.
    #[must_use]
    pub fn agent<'a>(&self, agent: impl Into<AgentKey<'a>>) -> Option<Arc<dyn Agent>> {
        self.find(agent.into())?.agent()
    }

    async fn run(&self, agent: &Arc<RunningAgent>, turn: Turn, out: Output) -> Result<(), AgentError> {
        let name = agent.calls.tools.decisions().agent().name();
        let span = turn_span(agent.contract.observability, name, &agent.binding);
        let (rights, guard) = steps::guarded(&turn.parameters.rights);
        let call_context = agent.call_context(&turn, rights);
        let working = async {
            context::record(&tracing::Span::current(), "gen_ai.input.messages", || turn.text());
            self.run_as(agent, turn, out).await
        };
        let working = CALL_CONTEXT.scope(call_context, working).instrument(span);
        let Some(guard) = guard else { return working.await };
        guard.run(Box::pin(working)).await
    }

    async fn run_as(&self, agent: &Arc<RunningAgent>, turn: Turn, out: Output) -> Result<(), AgentError> {
        let down = || down(agent.calls.tools.decisions().agent().name());
        if let Some(exposing) = agent.exposing.as_ref().filter(|_| tool_agent::is_relayed(&turn)) {
            return match &self.scheduling {
                Some(scheduling) => scheduled(scheduling, agent, exposing.clone(), turn, out).await,
                None => exposing.turn(turn, out).await,
            };
        }
        match (&agent.runtime, &self.scheduling) {
            (Runtime::Hard(hard), Some(scheduling)) => hard_turn(scheduling, hard, &turn, &out).await,
            (Runtime::Wasm(_) | Runtime::Hard(_), None) => Err(down()),
            (runtime, scheduling) => match (runtime.agent().ok_or_else(down)?, scheduling) {
                (inner, Some(scheduling)) => scheduled(scheduling, agent, inner, turn, out).await,
                (inner, None) => inner.turn(turn, out).await,
            },
        }
    }
}

/// A turn of a hard real-time agent. Boxed, as it is far larger than the rest: each task of a turn would be moved with room for
/// it.
fn hard_turn<'a>(
    scheduling: &'a Scheduling,
    hard: &'a Arc<HardAgent>,
    turn: &'a Turn,
    out: &'a Output,
) -> BoxFuture<'a, Result<(), AgentError>> {
    crate::hard::turn(&scheduling.kernel, hard, turn, out).boxed()
}

impl RunningAgent {
    /// Its latency class, and its turns that run or wait.
    pub(super) fn class_and_turns(&self) -> (Latency, u64) {
        (self.contract.class.latency(), self.turns.load(Ordering::Relaxed))
    }

    /// Whether it can do nothing outside its turns: only system calls lead out of it, and its contract permits none.
    pub(super) fn is_confined(&self) -> bool {
        let (enclosed, contract) = (self.runtime.is_enclosed(), &self.contract);
        enclosed && self.exposing.is_none() && contract.capabilities.is_empty() && contract.memory.is_none()
    }

    /// What runs its turns; none for hard real-time control loops.
    pub(crate) fn agent(&self) -> Option<Arc<dyn Agent>> {
        self.runtime.agent()
    }

    /// The context of a turn of it that has these rights.
    pub(crate) fn call_context(&self, turn: &Turn, rights: TurnRights) -> CallContext {
        call_context(&self.binding.hash, &self.contract, turn, rights)
    }

    /// A turn of it, for the gates of its outputs.
    pub(crate) fn gated<'a>(&'a self, turn: &'a Turn) -> GatedTurn<'a> {
        GatedTurn {
            agent: self.calls.tools.decisions().agent(),
            contract: &self.contract,
            memory: self.calls.memory.as_ref(),
            task: &turn.task_id,
            number: turn.history.len() + 1,
            artifacts: &turn.artifacts,
            notes: matches!(self.runtime, Runtime::Model(_) | Runtime::Wasm(_)),
            own_failures: self.words_failures(),
            tools: &self.calls.tools,
            within: turn.parameters.within,
            verdicts: turn.parameters.verdicts.as_ref(),
            findings: &self.findings,
            run: &turn.parameters.run,
            is_hard: matches!(self.runtime, Runtime::Hard(_)),
            is_model: self.is_model(),
        }
    }

    /// Whether a model makes its answers.
    pub(crate) fn is_model(&self) -> bool {
        matches!(self.runtime, Runtime::Model(_))
    }

    /// Whether what is said of its failures may be its own words: code names its functions, which stand in what is said of a trap.
    pub(crate) fn words_failures(&self) -> bool {
        !self.is_model()
    }

    /// Whether a turn of it may run once more: one that makes its tasks itself would make another one.
    fn may_repeat(&self) -> bool {
        self.calls.budget.check().is_ok() && self.runtime.agent().is_some_and(|inner| !inner.may_reply())
    }

    /// Records the time until a turn's first output, if it had one.
    fn note_first(&self, first: Option<Duration>) {
        let Some(after) = first else { return };
        self.first.add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        if let Class::Srt(srt) = &self.contract.class
            && after > Duration::from_millis(srt.ttft_ms)
        {
            self.late.fetch_add(1, Ordering::Relaxed);
            // A default target is counted, but not warned about.
            if self.aim_is_stated {
                tracing::warn!(after_ms = after.as_millis(), aim_ms = srt.ttft_ms, "a first output came late");
            }
        }
    }
}

/// Refuses a soft real-time turn at once if the queue for a processor would make its first output late: the caller can use
/// another node.
fn refused(runtimes: &TurnRuntimes, srt: &Srt) -> Option<AgentError> {
    let expected = Duration::from_nanos(runtimes.slots.expected_wait_ns(srt.priority));
    let aim = Duration::from_millis(srt.ttft_ms);
    (expected > aim).then(|| AgentError::crowded(expected, aim))
}

/// Runs a turn on the runtime of its contract's class. A soft real-time turn that uses a processor (WebAssembly) runs on
/// slots, by priority; the processor time of a delay-tolerant turn is charged to its agent.
async fn scheduled(
    scheduling: &Scheduling,
    running: &RunningAgent,
    agent: Arc<dyn Agent>,
    turn: Turn,
    out: Output,
) -> Result<(), AgentError> {
    let runtimes = &scheduling.kernel.runtimes;
    let work = async move { agent.turn(turn, out).await }.instrument(tracing::Span::current());
    let work = CALL_CONTEXT.scope(context::current(), work);
    let working = AbortOnDropHandle::new(match (&running.runtime, &running.contract.class) {
        (Runtime::Wasm(_), Class::Srt(srt)) => {
            if let Some(refused) = refused(runtimes, srt) {
                return Err(refused);
            }
            let (slots, priority, server) = (runtimes.slots.clone(), srt.priority, running.server.clone());
            runtimes.soft().spawn(async move {
                let ran = run_on_slots(&slots, priority, &server, work).await;
                ran.unwrap_or_else(|full| Err(AgentError::Busy(format!("this node is crowded: {full}"))))
            })
        }
        (_, Class::Dt(_)) => {
            let budget = running.calls.budget.clone();
            runtimes.idle().spawn(async move { budget.run(work).await })
        }
        _ => runtimes.soft().spawn(work),
    });
    match working.await {
        Ok(ended) => ended,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(AgentError::Cancelled),
    }
}
