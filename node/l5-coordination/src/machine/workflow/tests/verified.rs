//! What is known of results that gates judged, and of those that none did.

use super::*;

fn complete(group: &mut Group, id: &str, verified: Option<bool>) {
    let task = open(group, id);
    let (claim, result) = (claim(group, task), Content::Inline(b"[1, 2]".to_vec().into()));
    let complete = Complete { claim, result, label: None, verified };
    assert_eq!(group.execute(member(2), &Command::Complete(complete)), Ok(None));
}

fn verifying(id: &str, after: &[&str]) -> Step {
    Step::new(id, after, Action::Task(Box::new(Job { verify: Some(true), ..job("go on") })))
}

#[test]
fn a_step_that_must_be_verified_fails_with_a_result_that_is_not() {
    let mut group = begun(workflow([verifying("one", &[]), Step::new("two", &["one"], task("{{step.one}}"))]), "go");
    complete(&mut group, "one", None);
    assert_eq!(states(&group), [StepState::Failed, StepState::Waiting]);
    let (_, why) = run(&group).failure().expect("it failed");
    assert!(why.contains("not verified"), "{why}");
    assert_eq!(group.execute(member(1), &Command::ResumeRun(RUN)), Ok(None));
    complete(&mut group, "one", Some(true));
    assert_eq!(states(&group), [StepState::Completed, StepState::Working]);
}

#[test]
fn a_step_is_told_which_results_that_it_reads_are_not_verified() {
    let steps = [
        Step::new("good", &[], task("go on")),
        Step::new("bad", &["good"], task("go on")),
        Step::new("ask", &["bad"], Action::Approval("Go on?".to_owned())),
        Step::new("all", &["ask"], task("{{step.good}} {{step.bad}} {{step.ask}}")),
        Step::new("some", &["all"], task("{{step.good}} {{input}}")),
    ];
    let mut group = begun(workflow(steps), "go");
    let told = |group: &Group, id: &str| run(group).unverified(&open(group, id), &group.work);
    assert!(told(&group, "good").is_empty(), "it reads none");
    complete(&mut group, "good", Some(true));
    complete(&mut group, "bad", None);
    let yes = Approve { run: RUN, step: "ask".to_owned(), round: 0, approved: true, note: "yes".to_owned() };
    assert_eq!(group.execute(owner(), &Command::Approve(yes)), Ok(None));
    assert_eq!(told(&group, "all"), ["bad"]);
    complete(&mut group, "all", None);
    assert!(told(&group, "some").is_empty(), "of what it does not read nothing is said");
}
