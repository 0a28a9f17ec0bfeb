//! In which order things happen in one entry, and what a failure leaves.

use super::*;

fn asking(id: &str, timeout_ms: u64) -> Step {
    Step { timeout_ms: Some(timeout_ms), ..Step::new(id, &[], Action::Approval("?".to_owned())) }
}

/// P-131
#[test]
fn after_a_failure_nothing_begins_what_runs_goes_on_and_questions_are_withdrawn() {
    let steps = [
        Step::new("a", &[], task("")),
        Step::new("b", &[], task("")),
        Step::new("ask", &[], Action::Approval("?".to_owned())),
        Step::new("after-b", &["b"], task("")),
    ];
    let mut group = begun(workflow(steps), "");
    let failing = open(&group, "a");
    fail_task(&mut group, failing, false);
    let (failed, waiting) = (StepState::Failed, StepState::Waiting);
    assert_eq!(states(&group), [failed, StepState::Working, waiting, waiting]);
    assert_eq!(run(&group).state, RunState::Running, "a step is working yet");
    assert_eq!(group.execute(member(1), &approve("ask", 0, true)), Err(Refusal::NotAsked("ask".to_owned())));
    complete(&mut group, "b", "counts");
    assert_eq!(states(&group), [failed, StepState::Completed, waiting, waiting]);
    assert_eq!(run(&group).state, RunState::Failed);
    restart(&mut group);
    assert_eq!(group.execute(member(1), &Command::ResumeRun(RUN)), Ok(None));
    assert_eq!(states(&group), [StepState::Working, StepState::Completed, StepState::Asking, StepState::Working]);
}

/// P-135
#[test]
fn what_tasks_that_ended_bring_about_comes_before_the_end_of_questions() {
    let late = Step { timeout_ms: Some(3_000), ..Step::new("late", &[], task("")) };
    let mut group = begun(workflow([asking("ask", 3_000), late]), "");
    group.advance(4_000);
    // The task failed first, so that the question was withdrawn and did not end unanswered.
    assert_eq!(states(&group), [StepState::Waiting, StepState::Failed]);
    let mut group = begun(workflow([asking("ask", 3_000)]), "");
    group.advance(3_999);
    assert_eq!(states(&group), [StepState::Asking]);
    group.advance(4_000);
    assert_eq!(states(&group), [StepState::Failed]);
}

/// P-135
#[test]
fn questions_end_in_the_order_of_their_times() {
    let mut group = group();
    let ids = [3, 1, 2].map(|number| WorkId::from_bytes([number; 16]));
    for (run, timeout_ms) in ids.into_iter().zip([2_000, 3_000, 2_000]) {
        let workflow = workflow([asking("ask", timeout_ms)]);
        let command = RunWorkflow { run, workflow, input: String::new() };
        assert!(group.execute(member(1), &Command::RunWorkflow(Box::new(command))).is_ok());
    }
    group.advance(9_000);
    let ended = ids.map(|run| group.flows.runs().get(&run).and_then(|run| run.ended));
    assert_eq!(ended, [Some((1, 9_000)), Some((2, 9_000)), Some((0, 9_000))]);
}

/// P-134, P-135: by one entry a task of another run ends too, and that run hears it.
#[test]
fn what_follows_from_a_canceled_run_is_executed_at_once() {
    let mut group = begun(workflow([Step::new("one", &[], task("")), Step::new("two", &[], task(""))]), "");
    let other = WorkId::from_bytes([8; 16]);
    let command =
        RunWorkflow { run: other, workflow: workflow([Step::new("one", &[], task(""))]), input: String::new() };
    assert_eq!(group.execute(member(1), &Command::RunWorkflow(Box::new(command))), Ok(Some(2)));
    let (.., waits) = group.flows.runs().get(&other).and_then(|run| run.open().next()).expect("its task");
    for task in [waits, open(&group, "two")] {
        let depend = althing_protocol::group::Depend { task, on: open(&group, "one") };
        assert_eq!(group.execute(owner(), &Command::Depend(depend)), Ok(None));
    }
    assert_eq!(group.execute(owner(), &Command::CancelRun(RUN)), Ok(None));
    assert_eq!(run(&group).state, RunState::Canceled);
    assert_eq!(group.flows.runs().get(&other).map(|run| run.state), Some(RunState::Failed));
    restart(&mut group);
}

/// P-136
#[test]
fn a_run_that_was_resumed_is_forgotten_as_the_last() {
    let mut group = begun(workflow([Step::new("one", &[], task(""))]), "");
    let failing = open(&group, "one");
    fail_task(&mut group, failing, false);
    let id = |number: u32| WorkId::from_bytes(u128::from(number).to_be_bytes());
    let end = |group: &mut Group, number: u32| {
        let workflow = workflow([Step::new("one", &[], task(""))]);
        let command = RunWorkflow { run: id(number), workflow, input: String::new() };
        assert!(group.execute(member(1), &Command::RunWorkflow(Box::new(command))).is_ok());
        assert_eq!(group.execute(member(1), &Command::CancelRun(id(number))), Ok(None));
    };
    (0..255).for_each(|number| end(&mut group, number));
    assert_eq!(group.execute(member(1), &Command::ResumeRun(RUN)), Ok(None));
    complete(&mut group, "one", "done");
    (255..257).for_each(|number| end(&mut group, number));
    let is_there = |run: WorkId| group.flows.runs().get(&run).is_some();
    assert!(!is_there(id(0)) && !is_there(id(1)) && is_there(id(2)) && is_there(RUN));
}
