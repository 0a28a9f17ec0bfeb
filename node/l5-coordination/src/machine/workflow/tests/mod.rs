//! Tests of workflows.

use althing_protocol::group::{
    Action, Approve, Assign, Author, Charter, Claim, Command, Complete, Content, Fail, GroupId, Job, Needs, Policy,
    RunWorkflow, Step, Target, WorkId, Workflow,
};
use althing_protocol::{Label, PublicKey, PublisherId, SecretKey, cbor};

use super::super::group::Group;
use super::super::outcome::Refusal;
use super::super::work::{Work, WorkRow};
use super::rows::Reading;
use super::{FlowRow, ItemState, Run, RunState, StepState};

mod damaged;
mod labels;
mod model;
mod order;
mod patterns;
mod refusals;
mod scheduled;
mod texts;
mod verified;

const RUN: WorkId = WorkId::from_bytes([7; 16]);

fn node(seed: u8) -> PublicKey {
    SecretKey::from_seed(&[seed; 32]).public()
}

fn member(seed: u8) -> Author {
    Author::Node(node(seed))
}

fn owner() -> Author {
    Author::Publisher(PublisherId::from_digest([1; 32]))
}

/// A group of two members, at the time 1,000.
fn group() -> Group {
    let mut group = Group::new(GroupId::from_digest([3; 32]), "test");
    let owner = PublisherId::from_digest([1; 32]);
    group.charter = Some(Charter::first("team", [owner], 1, node(1), Policy::default(), 0, [0; 16]));
    group.epoch = 1;
    for seed in 1..=2 {
        group.members.join(node(seed), owner, Vec::new(), None, 5).expect("another member");
    }
    group.advance(1_000);
    group
}

fn job(input: &str) -> Job {
    Job::new(Needs::of(Target::Capability("a.b".to_owned())), input)
}

fn task(input: &str) -> Action {
    Action::Task(Box::new(job(input)))
}

fn workflow(steps: impl IntoIterator<Item = Step>) -> Workflow {
    let workflow = Workflow { name: "some".to_owned(), steps: steps.into_iter().collect() };
    assert_eq!(workflow.check(), Ok(()));
    workflow
}

fn run_of(workflow: Workflow, input: &str) -> Command {
    Command::RunWorkflow(Box::new(RunWorkflow { run: RUN, workflow, input: input.to_owned() }))
}

fn begun(workflow: Workflow, input: &str) -> Group {
    let mut group = group();
    assert_eq!(group.execute(member(1), &run_of(workflow, input)), Ok(Some(1)));
    group
}

fn run(group: &Group) -> &Run {
    group.flows.runs().get(&RUN).expect("the run")
}

fn states(group: &Group) -> Vec<StepState> {
    run(group).steps.iter().map(|step| step.state).collect()
}

/// The input of the open task of a step, in the order of its items.
fn inputs(group: &Group, step: &str) -> Vec<String> {
    let items = run(group).step(step).expect("a step").items.iter();
    let open = items.filter(|item| item.state == ItemState::Open);
    let input = |task: &WorkId| match &group.work.tasks().get(task).expect("its task").submit.input {
        Content::Inline(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Content::Reference(_) => panic!("inputs are inline"),
    };
    open.map(|item| input(&item.task)).collect()
}

/// The claim on an open task, which the second member gets.
fn claim(group: &mut Group, task: WorkId) -> Claim {
    let attempt = group.work.tasks().get(&task).expect("a task").attempt;
    let assign = Command::Assign(Assign { task, member: node(2), attempt });
    let token = group.execute(member(1), &assign).expect("it is ready").expect("a token");
    Claim { task, token }
}

fn complete_task(group: &mut Group, task: WorkId, result: &str) {
    complete_with(group, task, Content::Inline(result.as_bytes().to_vec().into()));
}

fn complete_with(group: &mut Group, task: WorkId, result: Content) {
    complete_labelled(group, task, result, None);
}

fn complete_labelled(group: &mut Group, task: WorkId, result: Content, label: Option<Label>) {
    let claim = claim(group, task);
    let complete = Complete { claim, result, label, verified: None };
    assert_eq!(group.execute(member(2), &Command::Complete(complete)), Ok(None));
}

fn fail_task(group: &mut Group, task: WorkId, retry: bool) {
    let claim = claim(group, task);
    assert_eq!(group.execute(member(2), &Command::Fail(Fail { claim, reason: "no".to_owned(), retry })), Ok(None));
}

/// The first open task of a step.
fn open(group: &Group, step: &str) -> WorkId {
    let items = &run(group).step(step).expect("a step").items;
    items.iter().find(|item| item.state == ItemState::Open).expect("an open task").task
}

fn complete(group: &mut Group, step: &str, result: &str) {
    let task = open(group, step);
    complete_task(group, task, result);
}

fn approve(step: &str, round: u32, approved: bool) -> Command {
    let note = "looks right".to_owned();
    Command::Approve(Approve { run: RUN, step: step.to_owned(), round, approved, note })
}

/// What a snapshot keeps of the work and the flows is all of them.
fn restart(group: &mut Group) {
    let mut work = Work::default();
    for row in group.work.rows() {
        let bytes = minicbor::to_vec(row).expect("a vector");
        work.take(minicbor::decode::<WorkRow>(&bytes).expect("a row")).expect("sound");
    }
    let mut reading = Reading::default();
    for row in group.flows.rows() {
        let bytes = minicbor::to_vec(row).expect("a vector");
        cbor::check(&bytes, 1 << 20).expect("it fits into a frame");
        reading.take(minicbor::decode::<FlowRow>(&bytes).expect("a row")).expect("sound");
    }
    let flows = reading.finish(&mut work).expect("all rows");
    assert_eq!((&work, &flows), (&group.work, &group.flows));
    (group.work, group.flows) = (work, flows);
}
