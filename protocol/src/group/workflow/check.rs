//! Whether a workflow can run.

use std::collections::BTreeSet;

use super::super::template::{self, Part};
use super::super::work::{is_name, named};
use super::graph::bit;
use super::{Action, Repeat, Step, Test, When, Workflow};
use crate::limits::{
    AGENT_NAME_MAX, WORK_ATTEMPTS_MAX, WORK_LEASE_MAX_MS, WORK_LEASE_MIN_MS, WORKFLOW_AFTER_MAX, WORKFLOW_BYTES_MAX,
    WORKFLOW_ROUNDS_MAX, WORKFLOW_STEPS_MAX, WORKFLOW_TIMEOUT_MAX_MS, WORKFLOW_TIMEOUT_MIN_MS,
};
use crate::object::ObjectError;

/// Why a workflow cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", self.place())]
pub struct WorkflowError {
    /// The step, if it is about one.
    pub step: Option<String>,
    /// Which part of it, as in a workflow file: `after`.
    pub field: &'static str,
    /// What is wrong, and what to do.
    pub why: String,
}

impl WorkflowError {
    fn place(&self) -> String {
        match &self.step {
            Some(step) => format!("the step {step:?}, {}", self.field),
            None => format!("the workflow, {}", self.field),
        }
    }
}

type Checked = Result<(), WorkflowError>;

/// Whether a schedule can have that name.
pub(in super::super) fn check_schedule_name(name: &str) -> Result<(), ObjectError> {
    if is_name(name) {
        return Ok(());
    }
    Err(ObjectError::Shape("a schedule's name has 1 to 63 of the characters a-z, 0-9 and -".to_owned()))
}

/// A step that is checked, and where it is.
struct Checking<'a> {
    workflow: &'a Workflow,
    ancestors: &'a [u64],
    /// For each step those that it repeats. Found once: a template may have thousands of placeholders.
    bodies: &'a [u64],
    at: usize,
    step: &'a Step,
}

impl Workflow {
    /// Whether it can run: see the fields of its types.
    ///
    /// # Errors
    /// [`WorkflowError`]: the first thing to change.
    pub fn check(&self) -> Checked {
        let whole = |field, why: String| Err(WorkflowError { step: None, field, why });
        if !is_name(&self.name) {
            return whole("name", "a workflow's name has 1 to 63 of the characters a-z, 0-9 and -".to_owned());
        }
        if !(1..=WORKFLOW_STEPS_MAX).contains(&self.steps.len()) {
            return whole("steps", format!("a workflow has 1 to {WORKFLOW_STEPS_MAX} steps; divide it"));
        }
        let bytes = self.bytes();
        if bytes > WORKFLOW_BYTES_MAX {
            return whole("steps", format!("its texts have {bytes} bytes, the limit is {WORKFLOW_BYTES_MAX}"));
        }
        let ancestors = self.ancestors();
        let bodies = self.bodies(&ancestors);
        for (at, step) in self.steps.iter().enumerate() {
            Checking { workflow: self, ancestors: &ancestors, bodies: &bodies, at, step }.run()?;
        }
        self.check_repeats(&bodies)
    }

    /// Bytes of all its texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let test = |test: &Test| match test {
            Test::Equals(text) | Test::Contains(text) => text.len(),
        };
        let needs = |step: &Step| match &step.action {
            Action::Task(job) => job.needs.labels.iter().map(String::len).sum(),
            Action::Approval(_) => 0,
        };
        let of = |step: &Step| {
            let when = step.when.as_ref().map_or(0, |when| when.step.len() + test(&when.test));
            let repeat = step.repeat.as_ref().map_or(0, |repeat| repeat.from.len() + test(&repeat.until));
            let after: usize = step.after.iter().map(String::len).sum();
            step.id.len() + after + when + step.template().len() + repeat + needs(step)
        };
        self.name.len() + self.steps.iter().map(of).sum::<usize>()
    }

    /// No step is repeated by two others, and what comes after a repeated step comes after the last one of the round.
    fn check_repeats(&self, bodies: &[u64]) -> Checked {
        let parents = self.parents();
        let mut all = 0;
        for (last, step) in self.steps.iter().enumerate().filter(|(_, step)| step.repeat.is_some()) {
            let (body, twice) = (bodies[last], bodies[last] & all);
            if twice != 0 {
                let id = &self.steps[first_of(twice)].id;
                let why = format!("{id:?} is repeated by another step already; a step is part of one loop");
                return Err(WorkflowError { step: Some(step.id.clone()), field: "repeat", why });
            }
            all |= body;
            for (at, outside) in self.steps.iter().enumerate().filter(|(at, _)| body & bit(*at) == 0) {
                let early = parents[at] & body & !bit(last);
                if early != 0 {
                    let id = &self.steps[first_of(early)].id;
                    let why = format!("{id:?} may be repeated by {:?}; let this step come after that one", step.id);
                    return Err(WorkflowError { step: Some(outside.id.clone()), field: "after", why });
                }
            }
        }
        Ok(())
    }
}

/// The first step of a set that is not empty.
fn first_of(set: u64) -> usize {
    set.trailing_zeros() as usize
}

impl Checking<'_> {
    fn wrong(&self, field: &'static str, why: impl Into<String>) -> Checked {
        Err(WorkflowError { step: Some(self.step.id.clone()), field, why: why.into() })
    }

    fn run(&self) -> Checked {
        let step = self.step;
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if !(1..=AGENT_NAME_MAX).contains(&step.id.len()) || !step.id.chars().all(allowed) {
            return self.wrong("id", "the id of a step has 1 to 63 of the characters a-z, 0-9, - and _");
        }
        if self.workflow.place(&step.id) != Some(self.at) {
            return self.wrong("id", "another step has this id; choose another one");
        }
        let once: BTreeSet<&String> = step.after.iter().collect();
        if step.after.len() > WORKFLOW_AFTER_MAX || once.len() != step.after.len() {
            return self.wrong("after", format!("a step names at most {WORKFLOW_AFTER_MAX} others, each once"));
        }
        for id in &step.after {
            self.earlier("after", id)?;
        }
        if step.timeout_ms.is_some_and(|ms| !(WORKFLOW_TIMEOUT_MIN_MS..=WORKFLOW_TIMEOUT_MAX_MS).contains(&ms)) {
            return self.wrong("timeout", "a time-out is 1 second to 30 days");
        }
        if let Some(When { step, test }) = &self.step.when {
            self.precedes("when", step)?;
            self.test("when", test)?;
        }
        self.action()?;
        self.template()?;
        step.repeat.as_ref().map_or(Ok(()), |repeat| self.repeat(repeat))
    }

    fn action(&self) -> Checked {
        let Action::Task(job) = &self.step.action else { return Ok(()) };
        let needs = |error: ObjectError| self.wrong("needs", error.to_string());
        job.needs.check().or_else(needs)?;
        if job.verify == Some(false) {
            return self.wrong("verify", "write `verify: true`, or leave it out");
        }
        if !(1..=WORK_ATTEMPTS_MAX).contains(&job.attempts_max) {
            return self.wrong("attempts", format!("a step has 1 to {WORK_ATTEMPTS_MAX} attempts"));
        }
        if !(WORK_LEASE_MIN_MS..=WORK_LEASE_MAX_MS).contains(&job.lease_ms) {
            return self.wrong("lease", format!("a lease takes {WORK_LEASE_MIN_MS} to {WORK_LEASE_MAX_MS} ms"));
        }
        job.for_each.as_ref().map_or(Ok(()), |source| self.precedes("for_each", source))
    }

    /// Its placeholders name what there is when it runs: steps that it comes after, or of its own loop.
    fn template(&self) -> Checked {
        let field = if matches!(self.step.action, Action::Task(_)) { "input" } else { "approve" };
        let parts = match template::parts(self.step.template()) {
            Ok(parts) => parts,
            Err(error) => return self.wrong(field, error.to_string()),
        };
        for part in parts {
            match part {
                Part::Item if self.step.for_each().is_none() => {
                    return self.wrong(field, "{{item}} is there only with for_each; add it, or leave this out");
                }
                Part::Step(id) => {
                    let Some(place) = self.workflow.place(id) else { return self.unknown(field, id) };
                    let is_before = self.ancestors[self.at] & bit(place) != 0;
                    let both = bit(self.at) | bit(place);
                    if !is_before && !self.bodies.iter().any(|body| body & both == both) {
                        return self.wrong(field, format!("{id:?} has no result yet; add it to after"));
                    }
                }
                Part::Text(_) | Part::Input | Part::Item => {}
            }
        }
        Ok(())
    }

    fn repeat(&self, repeat: &Repeat) -> Checked {
        if matches!(self.step.action, Action::Approval(_)) {
            return self.wrong("repeat", "an approval repeats nothing; let a task after it decide");
        }
        if !(1..=WORKFLOW_ROUNDS_MAX).contains(&repeat.rounds_max) {
            return self.wrong("repeat", format!("there are 1 to {WORKFLOW_ROUNDS_MAX} rounds"));
        }
        self.test("repeat", &repeat.until)?;
        if repeat.from == self.step.id { Ok(()) } else { self.precedes("repeat", &repeat.from) }
    }

    fn test(&self, field: &'static str, test: &Test) -> Checked {
        match test {
            Test::Equals(text) | Test::Contains(text) if named("a text", text).is_err() => {
                self.wrong(field, "the text that a result is compared with has 1 to 128 bytes")
            }
            Test::Equals(_) | Test::Contains(_) => Ok(()),
        }
    }

    fn unknown(&self, field: &'static str, id: &str) -> Checked {
        let id: String = id.chars().take(64).collect();
        self.wrong(field, format!("there is no step {id:?}; correct the id, or add the step"))
    }

    fn earlier(&self, field: &'static str, id: &str) -> Checked {
        match self.workflow.place(id) {
            Some(place) if place < self.at => Ok(()),
            Some(_) => self.wrong(field, format!("the step {id:?} does not stand before this one")),
            None => self.unknown(field, id),
        }
    }

    /// Whether the step comes after that one.
    fn precedes(&self, field: &'static str, id: &str) -> Checked {
        match self.workflow.place(id) {
            Some(place) if place < 64 && self.ancestors[self.at] & bit(place) != 0 => Ok(()),
            Some(_) => self.wrong(field, format!("this step does not come after {id:?}; add that to after")),
            None => self.unknown(field, id),
        }
    }
}
