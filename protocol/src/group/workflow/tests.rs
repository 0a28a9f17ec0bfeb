use super::super::work::Target;
use super::*;

fn task(input: &str) -> Action {
    Action::Task(Box::new(Job::new(Needs::of(Target::Capability("a.b".to_owned())), input)))
}

fn workflow(steps: impl IntoIterator<Item = Step>) -> Workflow {
    Workflow { name: "some".to_owned(), steps: steps.into_iter().collect() }
}

fn repeat(from: &str) -> Option<Repeat> {
    Some(Repeat { from: from.to_owned(), until: Test::Equals("good".to_owned()), rounds_max: 3 })
}

fn looped() -> Workflow {
    let check = Step { repeat: repeat("draft"), ..Step::new("check", &["draft"], task("{{step.draft}}")) };
    workflow([
        Step::new("plan", &[], task("{{input}}")),
        Step::new("draft", &["plan"], task("{{step.plan}} {{step.check}}")),
        check,
        Step::new("send", &["check"], Action::Approval("{{step.draft}}?".to_owned())),
    ])
}

#[track_caller]
fn wrong(workflow: &Workflow, field: &str, step: Option<&str>) {
    let error = workflow.check().expect_err("it cannot run");
    assert_eq!((error.field, error.step.as_deref()), (field, step), "{error}");
}

/// P-122, P-123
#[test]
fn a_workflow_that_can_run_is_accepted_and_read_again() {
    let looped = looped();
    assert_eq!(looped.check(), Ok(()));
    assert_eq!(looped.body(2), [1, 2]);
    assert!(looped.body(1).is_empty());
    let bytes = minicbor::to_vec(&looped).expect("a vector");
    assert_eq!(minicbor::decode::<Workflow>(&bytes).expect("a workflow"), looped);
    let all = Workflow {
        name: "large".to_owned(),
        steps: (0..64).map(|at| Step::new(&format!("s{at}"), &[], task(""))).collect(),
    };
    let command = RunWorkflow { run: WorkId::from_bytes([1; 16]), workflow: all, input: String::new() };
    assert!(command.check().is_ok(), "the largest number of steps fits into a message");
}

/// P-122
#[test]
fn a_workflow_that_is_accepted_has_not_more_data_items_than_a_message_may() {
    let mut needs = Needs { labels: vec!["l".to_owned()], ..Needs::of(Target::Agent("a".to_owned())) };
    (needs.memory_mib, needs.cores, needs.disk_mib, needs.gpus) = (Some(1), Some(1), Some(1), Some(1));
    needs.class = Some(crate::contract::Latency::Dt);
    let full = |at: usize| {
        let when = Some(When { step: "s0".to_owned(), test: Test::Contains("x".to_owned()) });
        let repeat = Some(Repeat { from: format!("s{at}"), ..repeat("s").expect("one") });
        let mut job = Job::new(needs.clone(), "x");
        job.for_each = Some("s0".to_owned());
        let (action, id) = (Action::Task(Box::new(job)), format!("s{at}"));
        Step { when, repeat, timeout_ms: Some(2_000), ..Step::new(&id, &["s0"], action) }
    };
    let of = |steps: usize| {
        let steps = std::iter::once(Step::new("s0", &[], task(""))).chain((1..steps).map(full));
        RunWorkflow { run: WorkId::from_bytes([1; 16]), workflow: workflow(steps), input: String::new() }
    };
    let (most, refused) = (of(58), of(64));
    assert_eq!(most.check(), Ok(()));
    let bytes = minicbor::to_vec(&most).expect("a vector");
    assert_eq!(crate::cbor::check(&bytes, bytes.len()), Ok(()));
    assert!(refused.check().is_err());
}

/// P-122, P-123, P-124
#[test]
fn what_cannot_run_is_refused_and_the_place_is_named() {
    wrong(&Workflow { name: "A".to_owned(), ..looped() }, "name", None);
    wrong(&workflow([]), "steps", None);
    wrong(&workflow((0..65).map(|at| Step::new(&format!("s{at}"), &[], task("")))), "steps", None);
    wrong(&workflow([Step::new("a", &[], task(&"x".repeat(WORKFLOW_BYTES_MAX)))]), "steps", None);
    wrong(&workflow([Step::new("A", &[], task(""))]), "id", Some("A"));
    wrong(&workflow([Step::new("a", &[], task("")), Step::new("a", &[], task(""))]), "id", Some("a"));
    wrong(&workflow([Step::new("a", &["b"], task("")), Step::new("b", &[], task(""))]), "after", Some("a"));
    wrong(&workflow([Step::new("a", &["c"], task(""))]), "after", Some("a"));
    wrong(&workflow([Step::new("a", &[], task("{{step.b}}")), Step::new("b", &[], task(""))]), "input", Some("a"));
    wrong(&workflow([Step::new("a", &[], task("{{item}}"))]), "input", Some("a"));
    wrong(&workflow([Step::new("a", &[], Action::Approval("{{x}}".to_owned()))]), "approve", Some("a"));
    let timed = Step { timeout_ms: Some(1), ..Step::new("a", &[], task("")) };
    wrong(&workflow([timed]), "timeout", Some("a"));
    let when = When { step: "b".to_owned(), test: Test::Equals("x".to_owned()) };
    let conditional = Step { when: Some(when), ..Step::new("a", &[], task("")) };
    wrong(&workflow([Step::new("b", &[], task("")), conditional]), "when", Some("a"));
}

/// Each step is a loop of its own, and the last one reads its own result. Anyone may send a batch, so that its check must
/// not take long: with a look at all loops for each placeholder this one takes half a minute.
#[test]
fn many_placeholders_and_loops_are_checked_at_once() {
    let id = |at: usize| format!("s{at:02}");
    let of = |at: usize| {
        let after: Vec<String> = (at.saturating_sub(16)..at).map(id).collect();
        let after: Vec<&str> = after.iter().map(String::as_str).collect();
        let count = if at == 63 { 5_000 } else { 0 };
        let input = format!("{{{{step.{}}}}}", id(at)).repeat(count);
        Step { repeat: repeat(&id(at)), ..Step::new(&id(at), &after, task(&input)) }
    };
    assert_eq!(workflow((0..64).map(of)).check(), Ok(()));
}

/// P-123
#[test]
fn loops_are_apart_and_left_only_at_their_end() {
    let mut early = looped();
    early.steps[3].after = vec!["draft".to_owned()];
    wrong(&early, "after", Some("send"));
    let mut twice = looped();
    twice.steps[1].repeat = repeat("plan");
    wrong(&twice, "repeat", Some("check"));
    let mut asked = looped();
    asked.steps[3].repeat = repeat("send");
    wrong(&asked, "repeat", Some("send"));
    let mut many = looped();
    many.steps[2].repeat = many.steps[2].repeat.take().map(|repeat| Repeat { rounds_max: 17, ..repeat });
    wrong(&many, "repeat", Some("check"));
}

/// P-127
#[test]
fn a_result_is_compared_without_the_space_around_it() {
    assert!(Test::Equals("yes".to_owned()).holds(" yes\n") && !Test::Equals("yes".to_owned()).holds("yes, sir"));
    assert!(Test::Contains("yes".to_owned()).holds("yes, sir") && !Test::Contains("yes".to_owned()).holds("no"));
}
