//! The runs and schedules of a group as rows of a snapshot.

use althing_protocol::group::WorkId;
use althing_protocol::limits::WORKFLOW_ITEMS_MAX;
use minicbor::{Decode, Encode};

use super::super::work::Work;
use super::flows::Flows;
use super::run::{ItemState, Run, RunState, StepNow, StepState};
use super::runs::{RUNS_FINISHED_MAX, RUNS_UNFINISHED_MAX};
use super::schedules::{SCHEDULES_MAX, Scheduled};

/// A part of the runs and schedules.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FlowRow {
    /// What is counted: the runs that began, and those that ended.
    #[n(0)]
    Counts(#[n(0)] u64, #[n(1)] u64),
    /// A run, without its steps.
    #[n(1)]
    Run(#[n(0)] Box<Run>),
    /// The next step of a run whose row came before.
    #[n(2)]
    Step(#[n(0)] WorkId, #[n(1)] Box<StepNow>),
    /// A schedule.
    #[n(3)]
    Schedule(#[n(0)] Box<Scheduled>),
}

/// The rows of a snapshot that were read so far.
#[derive(Debug, Default)]
pub(in super::super) struct Reading {
    flows: Flows,
    /// The run whose steps follow.
    run: Option<Run>,
}

impl Flows {
    /// The rows, of which each is below the size of a frame.
    pub(in super::super) fn rows(&self) -> impl Iterator<Item = FlowRow> {
        let counts = FlowRow::Counts(self.runs.begun, self.runs.ended);
        let runs = self.runs.iter().flat_map(|run| {
            let steps = run.steps.iter().map(|step| FlowRow::Step(run.id, Box::new(step.clone())));
            let head = Run { steps: Vec::new(), ..run.clone() };
            std::iter::once(FlowRow::Run(Box::new(head))).chain(steps)
        });
        let schedules = self.schedules.iter().map(|scheduled| FlowRow::Schedule(Box::new(scheduled.clone())));
        std::iter::once(counts).chain(runs).chain(schedules)
    }
}

impl Reading {
    /// Adds what a row says.
    pub(in super::super) fn take(&mut self, row: FlowRow) -> Result<(), String> {
        if let FlowRow::Step(id, step) = row {
            let run = self.run.as_mut().filter(|run| run.id == id && run.steps.len() < run.workflow.steps.len());
            let run = run.ok_or_else(|| format!("has a step of the run {id} that it cannot have"))?;
            if step.items.len() > WORKFLOW_ITEMS_MAX || step.round_first > step.round || step.round > u32::MAX / 2 {
                return Err(format!("has a step of the run {id} with too many tasks or rounds"));
            }
            run.steps.push(*step);
            return Ok(());
        }
        self.end_run()?;
        match row {
            FlowRow::Counts(begun, ended) if begun.max(ended) > u64::MAX / 2 => {
                return Err("counts more than a group can have".to_owned());
            }
            FlowRow::Counts(begun, ended) => (self.flows.runs.begun, self.flows.runs.ended) = (begun, ended),
            FlowRow::Run(_) if self.flows.runs.len() >= RUNS_FINISHED_MAX + RUNS_UNFINISHED_MAX => {
                return Err("is one run too many".to_owned());
            }
            FlowRow::Run(run) => {
                let wrong = |what: &str| Err(format!("has the run {}, {what}", run.id));
                if self.flows.runs.get(&run.id).is_some() {
                    return wrong("which an earlier row has");
                }
                if let Err(error) = run.workflow.check() {
                    return wrong(&format!("which cannot run: {error}"));
                }
                if (run.state == RunState::Running) != run.ended.is_none() {
                    return wrong("whose state and end contradict each other");
                }
                self.run = Some(*run);
            }
            FlowRow::Schedule(_) if self.flows.schedules.iter().count() == SCHEDULES_MAX => {
                return Err("is one schedule too many".to_owned());
            }
            FlowRow::Schedule(scheduled) => {
                let Scheduled { schedule, .. } = scheduled.as_ref();
                let wrong = |what: &str| Err(format!("has the schedule {:?}, {what}", schedule.name));
                if self.flows.schedules.get(&schedule.name).is_some() {
                    return wrong("which an earlier row has");
                }
                if let Err(error) = schedule.check() {
                    return wrong(&format!("which cannot be: {error}"));
                }
                self.flows.schedules.restore(*scheduled);
            }
            FlowRow::Step(..) => {}
        }
        Ok(())
    }

    /// All steps of a run were read.
    fn end_run(&mut self) -> Result<(), String> {
        let Some(run) = self.run.take() else { return Ok(()) };
        let wrong = |what: &str| Err(format!("has the run {}, {what}", run.id));
        if run.steps.len() != run.workflow.steps.len() {
            return wrong("whose steps are not all there");
        }
        let contradicts = |step: &StepNow| {
            let is_open = step.items.iter().any(|item| item.state == ItemState::Open);
            is_open != (step.state == StepState::Working) || (is_open && run.state != RunState::Running)
        };
        if run.steps.iter().any(contradicts) {
            return wrong("a step of which contradicts its tasks");
        }
        self.flows.runs.add(run);
        Ok(())
    }

    /// The runs and schedules, after the last row; their tasks are watched.
    pub(in super::super) fn finish(mut self, work: &mut Work) -> Result<Flows, String> {
        self.end_run()?;
        for run in self.flows.runs.iter() {
            if let Some((.., task)) = run.open().find(|(.., task)| !work.watch(*task)) {
                return Err(format!("are not all: the run {} waits for the task {task}, which is missing", run.id));
            }
        }
        Ok(self.flows)
    }
}
