//! What the steps of a run read and return, to the byte: all members must find the same.

use althing_protocol::group::{Reference, Repeat, Test};

use super::super::{RUN_RESULTS_MAX, RUNS_BYTES_MAX};
use super::*;

/// A workflow of a list and a step with a task for each of its items.
fn list() -> Workflow {
    let mut each = job("{{item}}");
    each.for_each = Some("plan".to_owned());
    workflow([Step::new("plan", &[], task("")), Step::new("write", &["plan"], Action::Task(Box::new(each)))])
}

fn items(step: &str, group: &Group) -> Vec<String> {
    run(group).step(step).expect("a step").items.iter().map(|item| item.task.to_string()).collect()
}

/// P-128: the ids were computed by another program.
#[test]
fn the_id_of_a_task_follows_from_the_run_the_step_the_item_the_round_and_the_resumptions() {
    let mut group = begun(list(), "");
    assert_eq!(items("plan", &group), ["f821b053c74a51f8d4bb1b2b3249db73"]);
    complete(&mut group, "plan", "[1, 2, 3]");
    assert_eq!(items("write", &group)[2], "53da74b5fcc9f4b9974d3b079acab632");
    complete(&mut group, "write", "");
    let (second, third) = (open(&group, "write"), items("write", &group)[2].parse().expect("an id"));
    fail_task(&mut group, second, false);
    complete_task(&mut group, third, "");
    assert_eq!(group.execute(owner(), &Command::ResumeRun(RUN)), Ok(None));
    assert_eq!(open(&group, "write").to_string(), "802607d57176ba5131ab1a494e414d86");
    let repeat = Some(Repeat { from: "one".to_owned(), until: Test::Equals("good".to_owned()), rounds_max: 2 });
    let mut looped = begun(workflow([Step { repeat, ..Step::new("one", &[], task("")) }]), "");
    complete(&mut looped, "one", "bad");
    assert_eq!(items("one", &looped), ["cfae8ea5b4f5c321502ec9d2bc313cc8"]);
}

/// P-128
#[test]
fn a_task_of_a_step_is_submitted_as_the_step_says() {
    let mut urgent = job("x");
    (urgent.attempts_max, urgent.lease_ms) = (3, 5_000);
    let step = Step { timeout_ms: Some(7_000), ..Step::new("one", &[], Action::Task(Box::new(urgent.clone()))) };
    let group = begun(workflow([step]), "");
    let task = group.work.tasks().get(&open(&group, "one")).expect("it is submitted");
    assert_eq!((task.author, task.number, task.submitted_ms), (member(1), 1, 1_000));
    let said = &task.submit;
    assert_eq!((said.deadline_ms, said.attempts_max, said.lease_ms), (Some(8_000), 3, 5_000));
    assert_eq!((&said.needs, said.priority), (&urgent.needs, urgent.priority));
    assert!(said.key.is_none() && said.dependencies.is_empty() && said.resources.is_empty());
}

/// P-128
#[test]
fn an_item_whose_task_is_refused_fails() {
    let mut group = group();
    let run = run_of(workflow([Step::new("one", &[], task(""))]), "");
    let taken = "f821b053c74a51f8d4bb1b2b3249db73".parse().expect("an id");
    let submit = althing_protocol::group::Submit {
        task: taken,
        key: None,
        needs: job("").needs,
        input: Content::Inline(Vec::new().into()),
        priority: althing_protocol::group::Priority::Normal,
        deadline_ms: None,
        attempts_max: 1,
        lease_ms: 1_000,
        dependencies: Vec::new(),
        resources: Vec::new(),
        label: None,
        channel: None,
    };
    assert!(group.execute(member(2), &Command::Submit(Box::new(submit))).is_ok());
    assert_eq!(group.execute(member(1), &run), Ok(Some(1)));
    assert_eq!(states(&group), [StepState::Failed]);
    // Resumed, it is another task.
    assert_eq!(group.execute(member(1), &Command::ResumeRun(RUN)), Ok(None));
    complete(&mut group, "one", "done");
    assert_eq!(super::run(&group).state, RunState::Completed);
}

/// P-124
#[test]
fn what_was_filled_in_is_not_read_again() {
    let steps = [Step::new("one", &[], task("{{input}}")), Step::new("two", &["one"], task("{{ step.one\t}}}}"))];
    let mut group = begun(workflow(steps), "{{step.two}}");
    assert_eq!(inputs(&group, "one"), ["{{step.two}}"]);
    complete(&mut group, "one", "{{input}}");
    assert_eq!(inputs(&group, "two"), ["{{input}}}}"]);
}

/// P-128
#[test]
fn items_are_texts_or_json_as_it_is_written() {
    let mut group = begun(list(), "");
    let written = "\u{a0}[\"\\u00e9\\n\", { \"a\" : [1.50] } ,-0 , 1e99,null,\"\\ud800\"]\n";
    complete(&mut group, "plan", written);
    assert_eq!(inputs(&group, "write"), ["é\n", "{ \"a\" : [1.50] }", "-0", "1e99", "null", "\"\\ud800\""]);
    for wrong in ["", "{}", "[1,]", "[01]", "[\"\t\"]", "[1] 2"] {
        let mut group = begun(list(), "");
        complete(&mut group, "plan", wrong);
        assert_eq!(states(&group), [StepState::Completed, StepState::Failed], "{wrong}");
        assert_eq!(group.work.tasks().len(), 1, "no task is submitted");
    }
}

/// P-129
#[test]
fn a_list_of_results_is_written_in_one_way_only() {
    let mut group = begun(list(), "");
    complete(&mut group, "plan", "[1, 2]");
    complete(&mut group, "write", "a\"\\\u{8}\t\n\u{c}\r/");
    complete(&mut group, "write", "\u{1}\u{1f}\u{7f}é\u{2028}");
    let written = "[\"a\\\"\\\\\\b\\t\\n\\f\\r/\",\"\\u0001\\u001f\u{7f}é\u{2028}\"]";
    assert_eq!(run(&group).result(), Some(written));
}

/// P-129
#[test]
fn a_result_that_is_no_text_is_mended_and_one_by_reference_fails() {
    let mut group = begun(workflow([Step::new("one", &[], task(""))]), "");
    let first = open(&group, "one");
    // The first three bytes of a character of four, a byte that begins none, and a surrogate.
    let bytes = b"\xef\xbb\xbfa\xf0\x9f\x98b\xffc\xed\xa0\x80".to_vec();
    complete_with(&mut group, first, Content::Inline(bytes.into()));
    let mended = "\u{feff}a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}\u{fffd}";
    assert_eq!(run(&group).result(), Some(mended));
    let mut group = begun(workflow([Step::new("one", &[], task(""))]), "");
    let task = open(&group, "one");
    let reference = Reference { digest: [1; 32], bytes: 1, media_type: "text/plain".to_owned(), holder: node(2) };
    complete_with(&mut group, task, Content::Reference(reference));
    assert_eq!(states(&group), [StepState::Failed]);
}

/// P-126, P-129
#[test]
fn the_results_of_a_run_have_room_up_to_the_last_byte() {
    let ids: Vec<String> = (0..10).map(|at| format!("s{at}")).collect();
    let begun = || begun(workflow(ids.iter().map(|id| Step::new(id, &[], task("")))), "");
    for (more, state) in [(0, StepState::Completed), (1, StepState::Failed)] {
        let mut group = begun();
        for id in &ids[..9] {
            complete(&mut group, id, &"x".repeat(57_000));
        }
        // Each step has an item, which counts 64.
        let rest = RUN_RESULTS_MAX - 9 * 57_000 - 10 * 64;
        assert_eq!(run(&group).results_bytes(), RUN_RESULTS_MAX - rest);
        complete(&mut group, "s9", &"x".repeat(rest + more));
        assert_eq!(run(&group).step("s9").map(|step| step.state), Some(state));
    }
}

/// P-126, P-129
#[test]
fn all_runs_have_room_up_to_the_last_byte() {
    let asked = || {
        let ask = Step::new("ask", &[], Action::Approval("?".to_owned()));
        workflow([Step::new("one", &[], task("")), Step::new("two", &[], task("")), ask])
    };
    for (more, state) in [(0, StepState::Completed), (1, StepState::Failed)] {
        let mut group = group();
        let id = |number: u8| WorkId::from_bytes([number; 16]);
        let count = (1..=255).find(|number| {
            let input = "x".repeat(60 << 10);
            let run = RunWorkflow { run: id(*number), workflow: asked(), input };
            group.execute(member(1), &Command::RunWorkflow(Box::new(run))).is_err()
        });
        let count = count.expect("a bound is reached");
        let tasks: Vec<WorkId> = (1..count)
            .flat_map(|number| {
                let run = group.flows.runs().get(&id(number)).expect("it runs");
                run.open().map(|(.., task)| task).collect::<Vec<_>>()
            })
            .collect();
        let mut tasks = tasks.into_iter();
        while group.flows.runs().bytes() + (60 << 10) <= RUNS_BYTES_MAX {
            complete_task(&mut group, tasks.next().expect("there are enough"), &"x".repeat(60 << 10));
        }
        let (last, rest) = (tasks.next().expect("another one"), RUNS_BYTES_MAX - group.flows.runs().bytes());
        let of = group.flows.runs().of_task(&last).expect("its run").id;
        complete_task(&mut group, last, &"x".repeat(rest + more));
        let run = group.flows.runs().get(&of).expect("it is there");
        assert_eq!(run.steps.iter().any(|step| step.state == StepState::Failed), state == StepState::Failed);
        assert!(group.flows.runs().bytes() <= RUNS_BYTES_MAX);
    }
}
