//! A member that fills the room of its group leaves the other owners theirs (SG-11).

use althing_protocol::group::{
    Action, Content, Job, Missed, Needs, Priority, RunWorkflow, Schedule, Step, Submit, Target, WorkId, Workflow,
};

use super::*;

/// Nearly as many bytes as a value, an input of a task and one of a run may have.
const LARGE: usize = 60 << 10;

fn needs() -> Needs {
    Needs::of(Target::Capability("billing.view".to_owned()))
}

fn id(number: u32) -> WorkId {
    WorkId::from_bytes(u128::from(number).to_be_bytes())
}

fn value(number: u32) -> Command {
    Command::Set(Set { key: format!("{number:08}"), value: vec![7; LARGE].into(), if_version: None })
}

fn task(number: u32) -> Command {
    Command::Submit(Box::new(Submit {
        task: id(number),
        key: None,
        needs: needs(),
        input: Content::Inline(vec![7; LARGE].into()),
        priority: Priority::Normal,
        deadline_ms: None,
        attempts_max: 1,
        lease_ms: 10_000,
        dependencies: Vec::new(),
        resources: Vec::new(),
        label: None,
        channel: None,
    }))
}

/// It asks somebody, who never answers.
fn workflow() -> Workflow {
    Workflow { name: "ask".to_owned(), steps: vec![Step::new("ask", &[], Action::Approval("?".to_owned()))] }
}

fn run(number: u32) -> Command {
    Command::RunWorkflow(Box::new(RunWorkflow { run: id(number), workflow: workflow(), input: String::new() }))
}

fn large_run(number: u32) -> Command {
    let input = "x".repeat(LARGE);
    Command::RunWorkflow(Box::new(RunWorkflow { run: id(number), workflow: workflow(), input }))
}

fn schedule(number: u32) -> Command {
    Command::Schedule(Box::new(Schedule {
        name: format!("s{number}"),
        cron: "0 * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: Missed::Skip,
        overlap: None,
        workflow: workflow(),
        input: String::new(),
    }))
}

/// Gives such commands until the group is full; how many.
fn fill(world: &mut World, author: Author, first: u32, make: fn(u32) -> Command) -> u32 {
    for count in 0.. {
        match world.group.execute(author, &make(first + count)) {
            Ok(_) => {}
            Err(Refusal::Full(_)) => return count,
            Err(refusal) => panic!("{refusal}"),
        }
    }
    unreachable!("a room has an end")
}

fn restored(world: &World) {
    assert_eq!(Group::restore(world.group.id(), NETWORK, &world.group.rows()).expect("its own rows"), world.group);
}

/// What makes a command of a number.
type Make = fn(u32) -> Command;

/// P-96, P-120, P-126, P-137, P-197
#[test]
fn what_one_member_fills_has_a_share_for_each_other_owner() {
    let mut world = World::new();
    world.admit(&key(2), 1);
    let (filling, other) = (Author::Node(key(2).public()), Author::Node(key(1).public()));
    let kinds: [(&str, Make); 5] =
        [("values", value), ("tasks", task), ("bytes of runs", large_run), ("runs", run), ("schedules", schedule)];
    for (at, (name, make)) in (1..).zip(kinds) {
        let first = at * 1_000_000;
        let most = fill(&mut world, filling, first, make);
        // Of three owners each has a sixth; half is for all.
        let rest = fill(&mut world, other, first + 100_000, make);
        assert!(rest > 0 && (3..=5).contains(&(most / rest)), "{name}: {most} and {rest}");
        assert_eq!(fill(&mut world, filling, first + 200_000, make), 0, "{name}: it has its part");
        let third = Author::Publisher(world.owners[1].id());
        let without = fill(&mut world, third, first + 300_000, make);
        assert!(without.abs_diff(rest) <= 4, "{name}: {without} of an owner without a member");
        assert!(fill(&mut world, other, first + 400_000, make) <= 1, "{name}: it is full, but for what was left over");
        if name == "bytes of runs" {
            // Runs are bounded in number too, where they are small.
            let runs: Vec<WorkId> = world.group.flows().runs().iter().map(|run| run.id).collect();
            let owner = Author::Publisher(world.owners[0].id());
            runs.into_iter().for_each(|run| drop(world.group.execute(owner, &Command::CancelRun(run))));
        }
    }
    restored(&world);
}

/// P-129, P-197
#[test]
fn results_of_runs_leave_the_runs_of_others_their_share() {
    let mut world = World::new();
    world.admit(&key(2), 1);
    let (filling, other) = (key(2), world.founder.clone());
    let steps: Vec<Step> =
        (0..8).map(|at| Step::new(&format!("s{at}"), &[], Action::Task(Box::new(Job::new(needs(), "x"))))).collect();
    let workflow = Workflow { name: "large".to_owned(), steps };
    let begin = |world: &mut World, node: &SecretKey, run: u32| {
        let command = RunWorkflow { run: id(run), workflow: workflow.clone(), input: String::new() };
        world.group.execute(Author::Node(node.public()), &Command::RunWorkflow(Box::new(command))).expect("room");
        let open: Vec<WorkId> =
            world.group.flows().runs().get(&id(run)).expect("it began").open().map(|(.., task)| task).collect();
        open
    };
    let complete = |world: &mut World, task: WorkId| {
        let by = Author::Node(key(1).public());
        let assign = althing_protocol::group::Assign { task, member: key(1).public(), attempt: 1 };
        let token = world.group.execute(by, &Command::Assign(assign)).expect("it is ready").expect("a token");
        let claim = althing_protocol::group::Claim { task, token };
        let result = Content::Inline(vec![b'x'; LARGE].into());
        let done = althing_protocol::group::Complete { claim, result, label: None, verified: None };
        world.group.execute(by, &Command::Complete(done)).expect("it has it");
    };
    let last = begin(&mut world, &other, 1);
    // Begun before their results take the room; one result of each is missing, so that none ends.
    let others: Vec<Vec<WorkId>> = (2..80).map(|run| begin(&mut world, &filling, run)).collect();
    for tasks in others {
        tasks.into_iter().skip(1).for_each(|task| complete(&mut world, task));
    }
    let has_failed = |world: &World, run: u32| {
        let run = world.group.flows().runs().get(&id(run)).expect("it is kept");
        run.failure().is_some()
    };
    assert!((2..80).any(|run| has_failed(&world, run)), "there is no room for all of its results");
    last.into_iter().for_each(|task| complete(&mut world, task));
    assert!(!has_failed(&world, 1), "another owner's results have their room");
    restored(&world);
}
