//! Each pattern of a workflow.

use althing_protocol::group::{Repeat, Test, When};

use super::*;

fn equals(text: &str) -> Test {
    Test::Equals(text.to_owned())
}

/// P-124, P-127, P-129
#[test]
fn a_chain_hands_each_result_to_the_next_step() {
    let steps = [
        Step::new("one", &[], task("do {{input}}")),
        Step::new("two", &["one"], task("then {{step.one}} of {{input}}")),
    ];
    let mut group = begun(workflow(steps), "x");
    assert_eq!(inputs(&group, "one"), ["do x"]);
    assert_eq!(states(&group), [StepState::Working, StepState::Waiting]);
    complete(&mut group, "one", "1");
    assert_eq!(inputs(&group, "two"), ["then 1 of x"]);
    restart(&mut group);
    complete(&mut group, "two", "2");
    assert_eq!((run(&group).state, run(&group).result()), (RunState::Completed, Some("2")));
    assert_eq!(group.work.tasks().len(), 2);
}

/// P-127
#[test]
fn parallel_steps_run_together_and_the_next_waits_for_all() {
    let steps = [
        Step::new("a", &[], task("")),
        Step::new("b", &[], task("")),
        Step::new("both", &["a", "b"], task("{{step.a}}+{{step.b}}")),
    ];
    let mut group = begun(workflow(steps), "");
    complete(&mut group, "b", "2");
    assert_eq!(states(&group), [StepState::Working, StepState::Completed, StepState::Waiting]);
    complete(&mut group, "a", "1");
    assert_eq!(inputs(&group, "both"), ["1+2"]);
}

/// P-127
#[test]
fn a_router_skips_what_was_not_chosen_and_all_that_follows_it_alone() {
    let when = |text: &str| Some(When { step: "route".to_owned(), test: equals(text) });
    let steps = [
        Step::new("route", &[], task("")),
        Step { when: when("bills"), ..Step::new("bills", &["route"], task("")) },
        Step { when: when("help"), ..Step::new("help", &["route"], task("")) },
        Step::new("more-help", &["help"], task("")),
        Step::new("answer", &["bills", "more-help"], task("{{step.bills}}{{step.more-help}}")),
    ];
    let mut group = begun(workflow(steps), "");
    complete(&mut group, "route", " bills\n");
    let skipped = StepState::Skipped;
    assert_eq!(states(&group), [StepState::Completed, StepState::Working, skipped, skipped, StepState::Waiting]);
    complete(&mut group, "bills", "5 euros");
    assert_eq!(inputs(&group, "answer"), ["5 euros"]);
    complete(&mut group, "answer", "pay");
    assert_eq!(run(&group).state, RunState::Completed);
}

/// P-132, P-133
#[test]
fn an_approval_waits_for_somebody_and_its_rejection_fails_the_run() {
    let steps = [
        Step::new("draft", &[], task("")),
        Step::new("ask", &["draft"], Action::Approval("send {{step.draft}}?".to_owned())),
        Step::new("send", &["ask"], task("{{step.ask}}: {{step.draft}}")),
    ];
    let mut group = begun(workflow(steps), "");
    assert_eq!(group.execute(member(2), &approve("ask", 0, true)), Err(Refusal::NotAsked("ask".to_owned())));
    complete(&mut group, "draft", "text");
    assert_eq!(run(&group).step("ask").and_then(|step| step.question.as_deref()), Some("send text?"));
    restart(&mut group);
    assert_eq!(group.execute(member(2), &approve("ask", 1, true)), Err(Refusal::NotAsked("ask".to_owned())));
    assert_eq!(group.execute(member(2), &approve("ask", 0, false)), Ok(None));
    assert_eq!(run(&group).state, RunState::Failed);
    assert_eq!(run(&group).failure().map(|(step, _)| step), Some("ask"));
    assert_eq!(group.execute(member(1), &Command::ResumeRun(RUN)), Ok(None));
    assert_eq!(states(&group), [StepState::Completed, StepState::Asking, StepState::Waiting]);
    assert_eq!(group.execute(owner(), &approve("ask", 0, true)), Ok(None));
    assert_eq!(inputs(&group, "send"), ["looks right: text"]);
    assert_eq!(group.work.tasks().len(), 2, "the draft was made once");
}

/// P-128, P-133, P-135
#[test]
fn a_step_is_attempted_as_often_as_it_says_and_ends_with_its_time() {
    let mut twice = job("");
    twice.attempts_max = 2;
    let first = Step { timeout_ms: Some(5_000), ..Step::new("one", &[], Action::Task(Box::new(twice))) };
    let ask = Step { timeout_ms: Some(3_000), ..Step::new("ask", &["one"], Action::Approval("?".to_owned())) };
    let mut group = begun(workflow([first, ask]), "");
    let task = open(&group, "one");
    fail_task(&mut group, task, true);
    assert_eq!(run(&group).state, RunState::Running, "there is another attempt");
    group.advance(6_000);
    assert_eq!((run(&group).state, run(&group).failure().map(|(step, _)| step)), (RunState::Failed, Some("one")));
    assert_eq!(group.execute(member(1), &Command::ResumeRun(RUN)), Ok(None));
    assert_ne!(open(&group, "one"), task, "the time begins again, with another task");
    complete(&mut group, "one", "done");
    assert_eq!(group.flows.next_expiry_ms(&group.work), Some(9_000));
    restart(&mut group);
    group.advance(9_000);
    assert_eq!((run(&group).state, run(&group).failure().map(|(step, _)| step)), (RunState::Failed, Some("ask")));
    assert_eq!(group.flows.next_expiry_ms(&group.work), None);
}

/// P-128, P-129, P-133
#[test]
fn one_task_is_made_for_each_item_and_after_a_failure_only_those_that_failed() {
    let mut each = job("write {{item}} of {{input}}");
    each.for_each = Some("plan".to_owned());
    let steps = [
        Step::new("plan", &[], task("")),
        Step::new("write", &["plan"], Action::Task(Box::new(each))),
        Step::new("join", &["write"], task("{{step.write}}")),
    ];
    let mut group = begun(workflow(steps), "it");
    complete(&mut group, "plan", r#" ["a", {"b": 1.50}, "c"] "#);
    assert_eq!(inputs(&group, "write"), ["write a of it", r#"write {"b": 1.50} of it"#, "write c of it"]);
    complete(&mut group, "write", "A");
    let task = open(&group, "write");
    fail_task(&mut group, task, false);
    assert_eq!(run(&group).state, RunState::Running, "another one runs yet");
    restart(&mut group);
    complete(&mut group, "write", "C");
    assert_eq!(run(&group).state, RunState::Failed);
    assert_eq!(group.execute(owner(), &Command::ResumeRun(RUN)), Ok(None));
    assert_eq!(inputs(&group, "write"), [r#"write {"b": 1.50} of it"#], "the others completed");
    complete(&mut group, "write", "\"B\"");
    assert_eq!(inputs(&group, "join"), [r#"["A","\"B\"","C"]"#]);
}

/// P-128
#[test]
fn a_list_without_items_completes_and_what_is_no_list_fails() {
    let mut each = job("{{item}}");
    each.for_each = Some("plan".to_owned());
    let steps = [Step::new("plan", &[], task("")), Step::new("write", &["plan"], Action::Task(Box::new(each)))];
    let workflow = workflow(steps);
    let mut empty = begun(workflow.clone(), "");
    complete(&mut empty, "plan", "[]");
    assert_eq!((run(&empty).state, run(&empty).result()), (RunState::Completed, Some("[]")));
    for wrong in ["a, b", &format!("[{}1]", "1,".repeat(64))] {
        let mut group = begun(workflow.clone(), "");
        complete(&mut group, "plan", wrong);
        assert_eq!(run(&group).failure().map(|(step, _)| step), Some("write"));
    }
}

/// P-130, P-133
#[test]
fn an_evaluator_repeats_a_step_with_its_own_remarks_until_it_is_content() {
    let repeat = Some(Repeat { from: "draft".to_owned(), until: equals("good"), rounds_max: 2 });
    let steps = [
        Step::new("draft", &[], task("{{step.draft}}|{{step.check}}")),
        Step { repeat, ..Step::new("check", &["draft"], task("{{step.draft}}")) },
        Step::new("send", &["check"], task("{{step.draft}}")),
    ];
    let mut group = begun(workflow(steps), "");
    complete(&mut group, "draft", "v1");
    complete(&mut group, "check", "too long");
    assert_eq!(inputs(&group, "draft"), ["v1|too long"]);
    restart(&mut group);
    complete(&mut group, "draft", "v2");
    complete(&mut group, "check", "too short");
    assert_eq!(run(&group).failure().map(|(step, _)| step), Some("check"), "two rounds passed");
    assert_eq!(group.execute(member(1), &Command::ResumeRun(RUN)), Ok(None));
    complete(&mut group, "draft", "v3");
    complete(&mut group, "check", "good");
    assert_eq!(inputs(&group, "send"), ["v3"]);
    assert_eq!(run(&group).step("draft").map(|step| step.round), Some(2));
}
