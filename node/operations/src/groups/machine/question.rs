//! Decides which step of a run is answered, and makes workflows of one task.

use althing_coordination::machine::workflow::{StepNow, StepState};
use althing_failure::Kind;
use althing_protocol::group::{Action, Job, Needs, Step, Target, Workflow};

/// Why no step is answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoQuestion {
    /// Several ask, and none was named; their ids.
    #[error("these steps ask: {}; name one of them", .0.join(", "))]
    Several(Vec<String>),
    /// The step that was named does not ask; the ids of those that do.
    #[error("this step does not ask; what asks: {}", .0.join(", "))]
    Other(Vec<String>),
    /// No step asks.
    #[error("this step does not ask; what asks: no step of the run asks anything now")]
    None,
}

impl NoQuestion {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            NoQuestion::Several(_) => Kind::Invalid,
            NoQuestion::Other(_) | NoQuestion::None => Kind::Refused,
        }
    }
}

/// The step of a run that is answered, and its round: the one of that id, or the only one that asks.
///
/// # Errors
/// See [`NoQuestion`].
pub fn asking(workflow: &Workflow, steps: &[StepNow], step: Option<&str>) -> Result<(String, u32), NoQuestion> {
    let asks = |(_, now): &(&Step, &StepNow)| now.state == StepState::Asking;
    let all: Vec<(&Step, &StepNow)> = workflow.steps.iter().zip(steps).filter(asks).collect();
    let ids = || all.iter().map(|(step, _)| step.id.clone()).collect::<Vec<_>>();
    let chosen = match step {
        Some(id) => all.iter().find(|(step, _)| step.id == id),
        None if all.len() < 2 => all.first(),
        None => return Err(NoQuestion::Several(ids())),
    };
    let none = || if all.is_empty() { NoQuestion::None } else { NoQuestion::Other(ids()) };
    chosen.map(|(step, now)| (step.id.clone(), now.round)).ok_or_else(none)
}

/// A workflow of one task, which hands on the input of the run.
#[must_use]
pub fn one_task(name: &str, target: Target) -> Workflow {
    let job = Job { attempts_max: 3, ..Job::new(Needs::of(target), "{{input}}") };
    Workflow { name: name.to_owned(), steps: vec![Step::new("task", &[], Action::Task(Box::new(job)))] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(states: &[(&str, StepState)]) -> (Workflow, Vec<StepNow>) {
        let step = |(id, _): &(&str, StepState)| Step::new(id, &[], Action::Approval("all right?".to_owned()));
        let steps = states.iter().map(step).collect();
        let now = |(_, state): &(&str, StepState)| StepNow { state: *state, round: 4, ..StepNow::default() };
        (Workflow { name: "review".to_owned(), steps }, states.iter().map(now).collect())
    }

    #[test]
    fn the_step_that_asks_is_answered_and_of_several_the_one_that_is_named() {
        use StepState::{Asking, Completed, Waiting};
        let (workflow, one) = run(&[("draft", Completed), ("approve", Asking), ("send", Waiting)]);
        assert_eq!(asking(&workflow, &one, None), Ok(("approve".to_owned(), 4)));
        assert_eq!(asking(&workflow, &one, Some("approve")), Ok(("approve".to_owned(), 4)));
        let other = asking(&workflow, &one, Some("send")).expect_err("it waits");
        let words = "this step does not ask; what asks: approve";
        assert_eq!((other.to_string().as_str(), other.kind()), (words, Kind::Refused));

        let (workflow, two) = run(&[("left", Asking), ("right", Asking)]);
        assert_eq!(asking(&workflow, &two, Some("right")), Ok(("right".to_owned(), 4)));
        let several = asking(&workflow, &two, None).expect_err("nobody knows which");
        let words = "these steps ask: left, right; name one of them";
        assert_eq!((several.to_string().as_str(), several.kind()), (words, Kind::Invalid));

        let (workflow, none) = run(&[("draft", Completed)]);
        for named in [None, Some("draft")] {
            assert_eq!(asking(&workflow, &none, named), Err(NoQuestion::None), "{named:?}");
        }
    }

    #[test]
    fn a_workflow_of_one_task_hands_the_input_on() {
        let workflow = one_task("tides", Target::Capability("predict".to_owned()));
        let [Step { id, action: Action::Task(job), .. }] = workflow.steps.as_slice() else { panic!("{workflow:?}") };
        assert_eq!((workflow.name.as_str(), id.as_str(), job.attempts_max), ("tides", "task", 3));
        assert_eq!((job.input.as_str(), &job.needs.target), ("{{input}}", &Target::Capability("predict".to_owned())));
    }
}
