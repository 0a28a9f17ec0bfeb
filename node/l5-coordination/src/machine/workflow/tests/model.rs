//! Random workflows, whose tasks end in any order and in any way, with restarts at any point.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::group::{Repeat, Test, When};
use proptest::prelude::*;

use super::*;

const RESULTS: [&str; 4] = ["good", "bad", r#"["x", "y"]"#, "[]"];

/// What happens next.
#[derive(Debug, Clone)]
enum Event {
    Complete(usize, usize),
    Fail(usize),
    Answer(usize, bool),
    Advance(u64),
    Restart,
    Resume,
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (any::<usize>(), 0..RESULTS.len()).prop_map(|(which, result)| Event::Complete(which, result)),
        2 => any::<usize>().prop_map(Event::Fail),
        3 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(which, yes)| Event::Answer(which, yes)),
        1 => (500..3_000u64).prop_map(Event::Advance),
        3 => Just(Event::Restart),
        2 => Just(Event::Resume),
    ]
}

/// A workflow of steps that can run: what a step refers to is among those that it comes after.
fn workflows() -> impl Strategy<Value = Workflow> {
    prop::collection::vec((any::<u8>(), 0..6u8, any::<prop::sample::Index>(), any::<bool>()), 1..8).prop_map(|of| {
        let mut made = Workflow { name: "some".to_owned(), steps: Vec::new() };
        for (at, (mask, kind, which, timed)) in of.into_iter().enumerate() {
            let after: Vec<String> = (0..at).filter(|on| mask >> on & 1 == 1).map(|on| format!("s{on}")).collect();
            let mut step = Step { after, ..Step::new(&format!("s{at}"), &[], task("{{input}}")) };
            step.timeout_ms = timed.then_some(5_000);
            if let (false, Action::Task(job)) = (step.after.is_empty(), &mut step.action) {
                let on = which.get(&step.after).clone();
                job.input = format!("{{{{step.{on}}}}}");
                let test = Test::Equals("good".to_owned());
                match kind {
                    0 => step.when = Some(When { step: on, test }),
                    1 => job.for_each = Some(on),
                    2 => step.repeat = Some(Repeat { from: on, until: test, rounds_max: 3 }),
                    3 => step.action = Action::Approval("{{input}}?".to_owned()),
                    _ => {}
                }
            }
            made.steps.push(step.clone());
            if made.check().is_err() {
                // It would leave a loop too early.
                made.steps.pop();
                made.steps.push(Step { after: Vec::new(), ..Step::new(&step.id, &[], task("")) });
            }
        }
        made
    })
}

/// What was seen of the tasks of a run.
#[derive(Default)]
struct Seen {
    /// The task of each step, item, round and resumption.
    tasks: BTreeMap<(usize, usize, u32, u32), WorkId>,
    /// The task that completed an item of a step in a round.
    completed: BTreeMap<(usize, usize, u32), WorkId>,
    ids: BTreeSet<WorkId>,
}

impl Seen {
    /// No task is submitted again after it completed; none that was not seen is submitted; and none before its time.
    fn look(&mut self, group: &Group) {
        let run = run(group);
        let parents = run.workflow.parents();
        for (at, step) in run.steps.iter().enumerate() {
            if matches!(step.state, StepState::Working | StepState::Asking) {
                let early = (0..64).find(|on| parents[at] >> on & 1 == 1 && !run.steps[*on].is_over());
                assert_eq!(early, None, "the step {at} runs before another one is over");
            }
            for (number, item) in step.items.iter().enumerate() {
                if self.ids.insert(item.task) {
                    let again = self.tasks.insert((at, number, step.round, run.resumed), item.task);
                    assert_eq!(again, None, "an item is submitted once");
                }
                let place = (at, number, step.round);
                let done = self.completed.get(&place);
                assert!(done.is_none_or(|done| *done == item.task), "{place:?} completed, and is done again");
                if item.state == ItemState::Completed {
                    self.completed.insert(place, item.task);
                }
            }
        }
        assert!(group.work.tasks().iter().all(|task| self.ids.contains(&task.id())), "no other task is submitted");
        assert_eq!(run.state == RunState::Running, run.ended.is_none());
        let active = |state| matches!(state, StepState::Working | StepState::Asking);
        assert_eq!(run.state == RunState::Running, run.steps.iter().any(|step| active(step.state)), "each run ends");
    }
}

fn happen(group: &mut Group, event: &Event) {
    let tasks: Vec<WorkId> = run(group).open().map(|(.., task)| task).collect();
    let asking: Vec<(String, u32)> = {
        let run = run(group);
        let steps = run.steps.iter().zip(&run.workflow.steps).filter(|(step, _)| step.state == StepState::Asking);
        steps.map(|(step, of)| (of.id.clone(), step.round)).collect()
    };
    match event {
        Event::Complete(which, result) if !tasks.is_empty() => {
            complete_task(group, tasks[which % tasks.len()], RESULTS[*result]);
        }
        Event::Fail(which) if !tasks.is_empty() => fail_task(group, tasks[which % tasks.len()], false),
        Event::Answer(which, yes) if !asking.is_empty() => {
            let (step, round) = &asking[which % asking.len()];
            assert_eq!(group.execute(member(1), &approve(step, *round, *yes)), Ok(None));
        }
        Event::Advance(ms) => group.advance(group.now_ms + ms),
        Event::Restart => restart(group),
        Event::Resume => {
            let expected = run(group).state == RunState::Failed;
            assert_eq!(group.execute(owner(), &Command::ResumeRun(RUN)).is_ok(), expected);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    /// P-127, P-128, P-131, P-133
    #[test]
    fn no_completed_step_is_repeated_whatever_happens_and_each_run_ends(
        workflow in workflows(),
        events in prop::collection::vec(events(), 0..60),
    ) {
        let mut group = begun(workflow, "in");
        let mut seen = Seen::default();
        seen.look(&group);
        for event in &events {
            happen(&mut group, event);
            seen.look(&group);
        }
        // Whatever is open ends at last, and so does the run.
        for _ in 0..400 {
            if run(&group).state != RunState::Running {
                break;
            }
            happen(&mut group, &Event::Complete(0, 0));
            happen(&mut group, &Event::Answer(0, true));
            seen.look(&group);
        }
        prop_assert_ne!(run(&group).state, RunState::Running);
    }

    /// P-133
    #[test]
    fn a_run_that_failed_completes_when_all_that_is_left_succeeds(
        events in prop::collection::vec(events(), 0..40),
    ) {
        let repeat = Some(Repeat { from: "b".to_owned(), until: Test::Equals("good".to_owned()), rounds_max: 2 });
        let steps = [
            Step::new("a", &[], task("")),
            Step::new("b", &["a"], task("{{step.c}}")),
            Step { repeat, ..Step::new("c", &["b"], task("")) },
            Step::new("d", &["a"], Action::Approval("?".to_owned())),
            Step::new("e", &["c", "d"], task("")),
        ];
        let mut group = begun(workflow(steps), "");
        let mut seen = Seen::default();
        for event in &events {
            happen(&mut group, event);
            seen.look(&group);
        }
        for _ in 0..100 {
            happen(&mut group, &Event::Resume);
            happen(&mut group, &Event::Complete(0, 0));
            happen(&mut group, &Event::Answer(0, true));
            seen.look(&group);
        }
        prop_assert_eq!(run(&group).state, RunState::Completed);
    }
}
