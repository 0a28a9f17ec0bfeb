//! The agent of simulated sessions: it makes the steps of the plan by the journal of its turn, as the runtimes do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2a::{Artifact, Part};
use althing_execution::agent::{Agent, Made};
use althing_execution::journal::{Checkpoint, Effect, Journal, NextStep, Step, StepOutcome};
use althing_execution::notes::{Note, NoteKind};
use althing_execution::tools::CallKind;
use althing_execution::{AgentError, Output, Turn};
use althing_protocol::{Digest, Label};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::evidence::Event;
use super::plan::{Deed, StepPlan};
use super::world::Surroundings;

pub(super) struct Worker(pub Arc<Surroundings>);

impl Agent for Worker {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        async move {
            let said = TurnRun::begin(&self.0, &turn)?.make_steps().await?;
            let artifact = Artifact {
                artifact_id: "answer".to_owned(),
                name: None,
                description: None,
                parts: vec![Part::data(json!({ "said": said }))],
                metadata: None,
                extensions: None,
            };
            out.put(Made::Artifact { artifact, append: false, last: true }).await
        }
        .boxed()
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

/// A turn that runs.
struct TurnRun<'a> {
    world: &'a Surroundings,
    turn: &'a Turn,
    /// Its number in the plan.
    number: usize,
    journal: Arc<dyn Journal>,
    /// The next step.
    next: usize,
    /// The numbers of the steps that were made, each with what was heard.
    said: Vec<(usize, Value)>,
    label: Option<Label>,
    /// The keys of the first calls of each kind.
    first: BTreeMap<(&'static str, u64), Digest>,
}

impl<'a> TurnRun<'a> {
    fn begin(world: &'a Surroundings, turn: &'a Turn) -> Result<TurnRun<'a>, AgentError> {
        let failed = |why: &str| AgentError::Failed(why.to_owned());
        let number = turn.text().parse().map_err(|_| failed("its message is no number"))?;
        let journal = turn.parameters.rights.journal.clone().ok_or_else(|| failed("it has no journal"))?;
        let (said, first) = (Vec::new(), BTreeMap::new());
        Ok(TurnRun { world, turn, number, journal, next: 0, said, label: None, first })
    }

    /// Makes all steps; gives what was heard.
    async fn make_steps(mut self) -> Result<Vec<(usize, Value)>, AgentError> {
        if let Some(checkpoint) = self.journal.replay().and_then(|replay| replay.checkpoint()) {
            let broken = |_: serde_json::Error| AgentError::Failed("its checkpoint cannot be read".to_owned());
            let state: (usize, Vec<(usize, Value)>) = serde_json::from_slice(&checkpoint.state).map_err(broken)?;
            (self.next, self.said) = state;
            self.take_label(checkpoint.label);
        }
        let (from, world) = (self.next, self.world);
        let steps = world.plan.turns.get(self.number).map(|turn| turn.steps.as_slice()).unwrap_or_default();
        while let Some(step) = steps.get(self.next) {
            sleep(Duration::from_millis(step.before_ms)).await;
            if step.checkpoint && self.next > from {
                self.save().await?;
            }
            self.make(step).await?;
            self.next += 1;
        }
        Ok(self.said)
    }

    async fn save(&self) -> Result<(), AgentError> {
        let Some(replay) = self.journal.replay() else { return Ok(()) };
        let next = self.world.flaw.checkpoint_at(self.next);
        let state = json!([next, self.said]).to_string().into_bytes();
        let checkpoint = Checkpoint { state, progress: Vec::new(), label: self.label };
        replay.save(&checkpoint).await.map_err(AgentError::Journal)
    }

    async fn make(&mut self, step: &StepPlan) -> Result<(), AgentError> {
        let (name, arguments) = (name(step), json!({ "of": step.of }));
        let (kind, arguments, effect) = (CallKind::Tool, &arguments, step.effect);
        let asked = Step { kind, name, arguments, effect, callee: None, gate: None, meanwhile: None };
        let next = self.journal.step(asked).await.map_err(AgentError::Journal)?;
        match next {
            NextStep::Replayed(mut outcome) => {
                self.world.flaw.on_replay(&mut outcome);
                self.hear(&outcome);
            }
            NextStep::Denied(denied) => return Err(AgentError::Failed(denied.to_string())),
            NextStep::Ask(ask) => return Err(AgentError::Parked(ask.rest())),
            NextStep::Go(intent, permit) => {
                let first = *self.first.entry((name, step.of)).or_insert(intent.key);
                let key = self.world.flaw.key(intent.key, first);
                sleep(Duration::from_millis(step.call_ms)).await;
                let result = self.reach(step, key).await?;
                sleep(Duration::from_millis(step.call_ms)).await;
                let label = Label::of_both(self.label, step.label);
                let outcome = StepOutcome { result: Ok(result), tokens: 1, label };
                if self.world.flaw.hears_first() {
                    self.hear(&outcome);
                    sleep(Duration::from_millis(step.call_ms)).await;
                    return self.journal.done(intent, &outcome, permit.rows).await.map_err(AgentError::Journal);
                }
                self.journal.done(intent, &outcome, permit.rows).await.map_err(AgentError::Journal)?;
                self.hear(&outcome);
            }
        }
        Ok(())
    }

    /// Does what a step is for.
    async fn reach(&self, step: &StepPlan, key: Digest) -> Result<Value, AgentError> {
        let failed = AgentError::Failed;
        let notes = self.turn.parameters.notes.as_ref();
        match (step.what, notes) {
            (Deed::Call, _) => Ok(self.world.call((self.number, self.next), step, key)),
            (_, None) => Err(failed("it has no notes".to_owned())),
            (Deed::Note, Some(notes)) => {
                let note = Note { kind: NoteKind::Done, text: note_text(self.number, self.next), label: None };
                if self.world.flaw.takes_notes() {
                    notes.0.add(note, Some(key)).await.map_err(|error| failed(error.to_string()))?;
                }
                Ok(json!({ "n": 0 }))
            }
            (Deed::Notes, Some(notes)) => {
                let all = notes.0.all().map_err(|error| failed(error.to_string()))?;
                let texts: Vec<String> = all.into_iter().map(|note| note.text).collect();
                Ok(json!({ "n": texts }))
            }
        }
    }

    fn hear(&mut self, outcome: &StepOutcome) {
        let heard = outcome.result.as_ref().map(|result| result["n"].clone()).map_err(Clone::clone);
        self.said.push((self.next, heard.clone().unwrap_or_default()));
        self.take_label(outcome.label);
        self.world.note(Event::Hearing { turn: self.number, step: self.next, heard });
    }

    fn take_label(&mut self, label: Option<Label>) {
        self.label = Label::of_both(self.label, label);
        self.turn.parameters.answer.add_label(label);
    }
}

/// What a note says that is made in that step.
pub(super) fn note_text(turn: usize, step: usize) -> String {
    format!("turn {turn} did step {step}")
}

fn name(step: &StepPlan) -> &'static str {
    match (step.what, step.effect) {
        (Deed::Note, _) => "session/note",
        (Deed::Notes, _) => "session/notes",
        (Deed::Call, Effect::None) => "world/look",
        (Deed::Call, Effect::Repeatable) => "world/search",
        (Deed::Call, Effect::Keyed) => "world/order",
        (Deed::Call, Effect::Final) => "world/pay",
    }
}
