//! Control loops: agents whose messages set input signals, and whose answers are output signals. Hard real-time ones run on an
//! executor ([`crate::hrt`]); here a job runs for each message, in the class of the contract.

use std::sync::Arc;
use std::time::Duration;

use a2a::{Artifact, Part, PartContent};
use althing_protocol::contract::Signals as Names;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::agent::{Agent, AgentError, Made, Output, Turn};
use crate::context;
use crate::finding_counts::FindingCounts;
use crate::hrt::{Fiber, Input, OUTPUT_OUT_OF_LIMITS, OutputSignal, Progress, Template, Values, read, show};
use crate::signals::{SignalError, Signals};

/// The default for the processor time of one job.
const BUDGET_DEFAULT: Duration = Duration::from_secs(60);

/// A control loop that runs on request.
pub struct Control {
    name: String,
    names: Names,
    signals: Arc<Signals>,
    inputs: Vec<Input>,
    outputs: Vec<OutputSignal>,
    template: Arc<dyn Template>,
    budget: Duration,
    findings: Arc<FindingCounts>,
    begun: tokio::time::Instant,
    /// One job at a time; none after a failure, until it is instantiated again.
    fiber: Mutex<Option<Box<dyn Fiber>>>,
}

impl Control {
    /// Joins the signals that the contract names. Jobs that break their limits are counted in `findings`.
    ///
    /// # Errors
    /// [`SignalError`].
    pub fn new(
        name: &str,
        names: &Names,
        signals: &Arc<Signals>,
        template: Arc<dyn Template>,
        budget: Option<Duration>,
        findings: Arc<FindingCounts>,
    ) -> Result<Control, SignalError> {
        let (inputs, outputs) = signals.join(name, &names.inputs, &names.outputs)?;
        Ok(Control {
            name: name.to_owned(),
            names: names.clone(),
            signals: signals.clone(),
            inputs: Input::of(names, inputs),
            outputs: OutputSignal::of(names, outputs),
            template,
            budget: budget.unwrap_or(BUDGET_DEFAULT),
            findings,
            begun: tokio::time::Instant::now(),
            fiber: Mutex::new(None),
        })
    }

    async fn job(&self, turn: &Turn, out: &Output) -> Result<(), AgentError> {
        let set = inputs(&self.signals, &self.name, &self.names, turn)?;
        let mut fiber = self.fiber.lock().await;
        // A cancelled job must not leave a fiber that could continue.
        let mut running = match fiber.take() {
            Some(running) => running,
            None => self.template.make().map_err(AgentError::Failed)?,
        };
        let now = crate::realtime::now_ns();
        set.into_iter().for_each(|(place, value)| self.inputs[place].signal.set(value, now));
        let (read, _) = read(&self.inputs, now);
        let time_us = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        running.begin(&read, time_us);
        let mut used = Duration::ZERO;
        loop {
            let since = crate::realtime::now_ns();
            let progress = running.resume();
            used += Duration::from_nanos(crate::realtime::now_ns().saturating_sub(since));
            match progress {
                Progress::Done => break,
                Progress::Failed(why) => return Err(AgentError::Failed(format!("the job failed: {why}"))),
                Progress::Interrupted if used > self.budget => {
                    let budget_ms = self.budget.as_millis();
                    return Err(AgentError::Failed(format!("the job was stopped: it exceeded its {budget_ms} ms")));
                }
                Progress::Interrupted => tokio::task::yield_now().await,
            }
        }
        let mut outputs = *running.outputs();
        let out_of_limits = show(&self.outputs, &mut outputs, crate::realtime::now_ns());
        if out_of_limits != 0 {
            self.findings.add(OUTPUT_OUT_OF_LIMITS, &turn.task_id);
        }
        *fiber = Some(running);
        let job = json!({ "usedUs": u64::try_from(used.as_micros()).unwrap_or(u64::MAX) });
        put_outputs(&self.names, (&outputs, out_of_limits), job, out).await
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.signals.leave(&self.name, &self.names.inputs, &self.names.outputs);
    }
}

impl Agent for Control {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move { self.job(&turn, &out).await })
    }
}

/// The inputs that a message sets, by index.
pub(crate) fn inputs(
    signals: &Signals,
    agent: &str,
    names: &Names,
    turn: &Turn,
) -> Result<Vec<(usize, f64)>, AgentError> {
    let shape = || {
        let wanted = "a message to it says {\"inputs\": {\"<signal>\": <number>, …}}, or is empty";
        AgentError::Rejected(wanted.to_owned())
    };
    let mut set = Vec::new();
    for part in &turn.message.parts {
        let value = match &part.content {
            PartContent::Data(value) => value.clone(),
            PartContent::Text(text) if text.trim().is_empty() => continue,
            PartContent::Text(text) => serde_json::from_str(text).map_err(|_| shape())?,
            PartContent::Raw(_) | PartContent::Url(_) => return Err(shape()),
        };
        let inputs = value.get("inputs").and_then(Value::as_object).ok_or_else(shape)?;
        for (name, value) in inputs {
            let value = value.as_f64().ok_or_else(shape)?;
            set.push((place(signals, agent, names, name)?, value));
        }
    }
    Ok(set)
}

fn place(signals: &Signals, agent: &str, names: &Names, name: &str) -> Result<usize, AgentError> {
    let place = names.inputs.iter().position(|input| input == name).ok_or_else(|| {
        let known = match names.inputs.as_slice() {
            [] => "it has none".to_owned(),
            inputs => format!("it reads {}", inputs.join(", ")),
        };
        AgentError::Rejected(format!("{name:?} is no input of {agent}: {known}"))
    })?;
    match signals.writer(name) {
        None => Ok(place),
        Some(writer) => Err(AgentError::Rejected(format!("signal {name:?} is written by agent {writer:?}"))),
    }
}

/// Emits the outputs of a job with its statistics, and with the names of those that broke their limits, whose bits are set. That some did
/// is noted of the turn that it answers.
pub(crate) async fn put_outputs(
    names: &Names,
    (values, out_of_limits): (&Values, u32),
    mut job: Value,
    out: &Output,
) -> Result<(), AgentError> {
    if out_of_limits != 0 {
        let is_set = |(place, _): &(usize, &String)| out_of_limits & (1_u32 << *place) != 0;
        let broken: Vec<&String> = names.outputs.iter().enumerate().filter(is_set).map(|(_, name)| name).collect();
        job["outOfLimits"] = json!(broken);
        context::run_notes().add_finding(OUTPUT_OUT_OF_LIMITS);
    }
    let outputs: Map<String, Value> =
        names.outputs.iter().cloned().zip(values.iter().map(|value| json!(value))).collect();
    let artifact = Artifact {
        artifact_id: "outputs".to_owned(),
        name: None,
        description: None,
        parts: vec![Part::data(json!({ "outputs": outputs, "job": job }))],
        metadata: None,
        extensions: None,
    };
    out.put(Made::Artifact { artifact, append: false, last: true }).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{CALL_CONTEXT, CallContext};
    use crate::hrt::SIGNALS_MAX;

    #[tokio::test]
    async fn that_an_output_broke_its_limits_is_noted_of_the_turn_that_it_answers() {
        let names = Names { outputs: vec!["torque".to_owned()], ..Names::default() };
        let values: Values = [0.0; SIGNALS_MAX];
        for (out_of_limits, found) in [(0, Vec::new()), (1, vec![OUTPUT_OUT_OF_LIMITS])] {
            let turn = CallContext::default();
            let run = turn.run.clone();
            let (out, _outputs) = Output::channel();
            let answering = put_outputs(&names, (&values, out_of_limits), json!({}), &out);
            CALL_CONTEXT.scope(turn, answering).await.expect("somebody listens");
            assert_eq!(run.facts().findings, found, "{out_of_limits:b}");
        }
    }
}
