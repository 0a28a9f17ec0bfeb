//! Workflows and schedules of groups, in virtual time: what completed is not repeated, and each time counts once, whoever
//! is killed.

use std::sync::Mutex;
use std::time::Duration;

use althing_conformance::groups::{EchoWorker, GroupNode, group_of, leader};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS};
use althing_coordination::machine::workflow::{Run, RunState, Scheduled};
use althing_protocol::group::{
    Action, Approve, Command, GroupId, Job, Missed, Needs, RunWorkflow, Schedule, Step, Target, WorkId, Workflow,
};
use althing_simnet::{LinkConfig, SimNet};

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

fn step(id: &str, after: &[&str], input: &str) -> Step {
    step_of("echo", id, after, input)
}

fn step_of(capability: &str, id: &str, after: &[&str], input: &str) -> Step {
    let needs = Needs::of(Target::Capability(capability.to_owned()));
    let job = Job { attempts_max: 3, lease_ms: 2_000, ..Job::new(needs, input) };
    Step::new(id, after, Action::Task(Box::new(job)))
}

fn workflow(steps: Vec<Step>) -> Workflow {
    Workflow { name: "some".to_owned(), steps }
}

async fn run(node: &GroupNode, id: GroupId, workflow: Workflow, input: &str) -> WorkId {
    let run = WorkId::from_bytes([7; 16]);
    let command = RunWorkflow { run, workflow, input: input.to_owned() };
    node.groups.command(id, Command::RunWorkflow(Box::new(command))).await.expect("it begins");
    run
}

fn seen<T>(node: &GroupNode, id: GroupId, run: WorkId, look: impl FnOnce(&Run) -> T) -> T {
    let look = |state: &althing_coordination::machine::group::Group| {
        look(state.flows().runs().get(&run).expect("it is there"))
    };
    node.groups.look(id, look).expect("the group")
}

async fn ends(node: &GroupNode, id: GroupId, run: WorkId) -> RunState {
    for _ in 0..20_000 {
        let state = seen(node, id, run, |run| run.state);
        if state != RunState::Running {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the run did not end: {:#?}", seen(node, id, run, Run::clone));
}

/// What members noted of tasks.
type Noted = Mutex<Vec<(WorkId, u64)>>;

fn count(noted: &Noted, task: WorkId) -> usize {
    noted.lock().expect("no panic").iter().filter(|(one, _)| *one == task).count()
}

/// In a group of five the leader alone can do the first step of a run of three. It is killed while the second one runs: at
/// the leader itself, or at another member. How often the task of each step was begun and ended, at whatever member, the
/// killed one included.
async fn begun_and_ended(at_the_leader: bool) -> [(usize, usize); 3] {
    let net = net();
    let (mut nodes, id) = group_of(&net, 5).await;
    let (at, _) = leader(&nodes, id).await;
    let (second, other) = ((at + 2) % 5, nodes[(at + 1) % 5].id());
    let workers: Vec<EchoWorker> = nodes.iter().map(|node| node.worker.clone()).collect();
    let begun = |task: WorkId| workers.iter().map(|worker| count(&worker.begun, task)).sum::<usize>();
    let ended = |task: WorkId| workers.iter().map(|worker| count(&worker.ended, task)).sum::<usize>();
    let can = |member: usize, what: &str| {
        workers[member].capabilities.lock().expect("no panic").push(what.to_owned());
    };
    can(at, "first");
    can(if at_the_leader { at } else { second }, "second");
    let steps = vec![
        step_of("first", "a", &[], "sleep 300"),
        step_of("second", "b", &["a"], "sleep 1000"),
        step("c", &["b"], "{{step.b}} {{input}}"),
    ];
    let run = run(&nodes[(at + 1) % 5], id, workflow(steps), "in").await;
    let task =
        |node: &GroupNode, step: usize| seen(node, id, run, |run| run.steps[step].items.first().map(|item| item.task));
    until("the second step runs", || task(&nodes[at], 1).is_some_and(|task| begun(task) > 0)).await;
    let first = task(&nodes[at], 0).expect("it completed");
    assert_eq!(count(&workers[at].ended, first), 1, "the leader did the first step");
    if at_the_leader {
        // From now on another one can do it.
        can(second, "second");
    }
    let _ = nodes.remove(at).crash(&net).await;
    let node = nodes.iter().find(|node| node.id() == other).expect("it lives");
    assert_eq!(ends(node, id, run).await, RunState::Completed);
    assert_eq!(seen(node, id, run, |run| run.result().map(str::to_owned)).as_deref(), Some("sleep 1000 in"));
    [0, 1, 2].map(|step| {
        let task = task(node, step).expect("each step has one");
        (begun(task), ended(task))
    })
}

/// What completed is not done again, wherever it was done. Only what the killed member itself was doing is begun once more,
/// when its lease is over: nobody can tell how far it came.
#[tokio::test(start_paused = true)]
async fn a_run_goes_on_when_the_leader_is_killed_and_no_completed_step_is_repeated() {
    const ONCE: (usize, usize) = (1, 1);
    assert_eq!(begun_and_ended(false).await, [ONCE, ONCE, ONCE], "another member works on meanwhile");
    assert_eq!(begun_and_ended(true).await, [ONCE, (2, 1), ONCE], "the leader was working on the second step");
}

/// All members stop and start again from disk, while a step waits for an approval.
#[tokio::test(start_paused = true)]
async fn a_question_outlives_a_crash_of_all_members() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let asks = Step::new("ask", &["a"], Action::Approval("Shall {{step.a}} be sent?".to_owned()));
    let steps = vec![step("a", &[], "{{input}}"), asks, step("b", &["ask"], "{{step.ask}}")];
    let run = run(&nodes[0], id, workflow(steps), "this").await;
    let asked = || seen(&nodes[0], id, run, |run| run.steps[1].question.is_some());
    until("the question", asked).await;
    let mut again = Vec::new();
    let mut kept = Vec::new();
    for node in nodes {
        kept.push(node.crash(&net).await);
    }
    for (key, store) in kept {
        again.push(GroupNode::start(&net, &key, &althing_conformance::groups::Owner::new(101), store).await);
    }
    leader(&again, id).await;
    again[1].groups.catch_up(id).await.expect("a leader");
    let question = seen(&again[1], id, run, |run| run.step("ask").and_then(|step| step.question.clone()));
    assert_eq!(question.as_deref(), Some("Shall this be sent?"));
    let answer = Approve { run, step: "ask".to_owned(), round: 0, approved: true, note: "yes".to_owned() };
    again[2].groups.command(id, Command::Approve(answer.clone())).await.expect("it is answered");
    assert_eq!(ends(&again[2], id, run).await, RunState::Completed);
    assert_eq!(seen(&again[2], id, run, |run| run.result().map(str::to_owned)).as_deref(), Some("yes"));
    let twice = again[0].groups.command(id, Command::Approve(answer)).await.expect_err("it was answered");
    assert!(twice.to_string().contains("ask"), "{twice}");
}

/// A schedule of each minute.
fn schedule(name: &str, missed: Missed, input: &str) -> Command {
    schedule_at("* * * * *", name, missed, input)
}

fn schedule_at(cron: &str, name: &str, missed: Missed, input: &str) -> Command {
    let (cron, zone) = (cron.to_owned(), "UTC".to_owned());
    let (name, input) = (name.to_owned(), input.to_owned());
    let workflow = workflow(vec![step("a", &[], "{{input}}")]);
    Command::Schedule(Box::new(Schedule { name, cron, zone, missed, workflow, input, overlap: None }))
}

fn scheduled(node: &GroupNode, id: GroupId, name: &str) -> Scheduled {
    let look = |state: &althing_coordination::machine::group::Group| state.flows().schedules().get(name).cloned();
    node.groups.look(id, look).expect("the group").expect("it is there")
}

/// The runs of a schedule.
fn runs_of(node: &GroupNode, id: GroupId, name: &str) -> usize {
    let of = |run: &&Run| run.schedule.as_ref().is_some_and(|(schedule, _)| schedule == name);
    node.groups.look(id, |state| state.flows().runs().iter().filter(of).count()).expect("the group")
}

const MINUTE: Duration = Duration::from_secs(60);

/// Nobody leads from one second after the fifth minute until half a minute after the eighth. The seventh minute was missed
/// by then, for it passed more than a minute ago; the eighth was not.
#[tokio::test(start_paused = true)]
async fn each_minute_counts_once_whoever_leads_and_missed_ones_by_their_rule() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 3).await;
    let minute_ms = u64::try_from(MINUTE.as_millis()).expect("a minute");
    // The full minute before the first one that counts.
    let zero_ms = net.now_ms() / minute_ms * minute_ms;
    let nth_ms = |nth: u64| zero_ms + nth * minute_ms;
    let once_an_hour = |nth: u64| format!("{} * * * *", nth_ms(nth) / minute_ms % 60);
    for (rule, missed) in [("skips", Missed::Skip), ("catches-up", Missed::RunOnce)] {
        let planned = [
            schedule(rule, missed, "x"),
            schedule_at(&once_an_hour(7), &format!("{rule}-seventh"), missed, "x"),
            schedule_at(&once_an_hour(8), &format!("{rule}-eighth"), missed, "x"),
        ];
        for schedule in planned {
            nodes[0].groups.command(id, schedule).await.expect("it is planned");
        }
    }
    assert!(net.now_ms() < nth_ms(1), "all are planned before the first minute");
    let until_ms = async |at_ms: u64| tokio::time::sleep(Duration::from_millis(at_ms - net.now_ms())).await;
    let counts = |nodes: &[GroupNode], of: &str| {
        ["skips", "catches-up"].map(|rule| runs_of(&nodes[0], id, &format!("{rule}{of}")))
    };
    until_ms(nth_ms(1) + 1_000).await;
    assert_eq!(counts(&nodes, ""), [1, 1], "the first minute");
    until_ms(nth_ms(3) + 1_000).await;
    assert_eq!(counts(&nodes, ""), [3, 3]);
    // Another one leads.
    let (at, _) = leader(&nodes, id).await;
    let (key, kept) = nodes.remove(at).crash(&net).await;
    until_ms(nth_ms(5) + 1_000).await;
    assert_eq!(counts(&nodes, ""), [5, 5], "no minute twice, none left out");
    // That one is gone too, and the last one has no majority: nobody leads.
    let (at, _) = leader(&nodes, id).await;
    let (second, disk) = nodes.remove(at).crash(&net).await;
    until_ms(nth_ms(8) + 30_000).await;
    assert!(!nodes[0].leads(id));
    assert_eq!(["", "-seventh", "-eighth"].map(|of| counts(&nodes, of)), [[5, 5], [0, 0], [0, 0]]);
    let owner = althing_conformance::groups::Owner::new(101);
    nodes.push(GroupNode::start(&net, &second, &owner, disk).await);
    nodes.push(GroupNode::start(&net, &key, &owner, kept).await);
    leader(&nodes, id).await;
    until_ms(nth_ms(8) + 45_000).await;
    assert_eq!(counts(&nodes, "-seventh"), [0, 1], "it was missed");
    assert_eq!(counts(&nodes, "-eighth"), [1, 1], "it was not");
    assert_eq!(counts(&nodes, ""), [6, 6], "the eighth, and of the minutes before it none: it is the last one");
    for (name, nth) in [("skips", 8), ("catches-up", 8), ("catches-up-seventh", 7)] {
        let known = scheduled(&nodes[0], id, name);
        assert_eq!((known.last_ms, known.failures), (Some(nth_ms(nth)), 0), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_third_run_that_fails_raises_the_alarm() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    nodes[0].groups.command(id, schedule("fails", Missed::Skip, "fail")).await.expect("it is planned");
    let state = |nodes: &[GroupNode]| {
        let known = scheduled(&nodes[1], id, "fails");
        (known.failures, known.alarm_ms)
    };
    tokio::time::sleep(Duration::from_millis(60_000 - net.now_ms() % 60_000 + 30_000) + MINUTE).await;
    assert_eq!(state(&nodes), (2, None));
    tokio::time::sleep(MINUTE).await;
    let (failures, alarm) = state(&nodes);
    assert_eq!(failures, 3);
    assert!(alarm.is_some());
    tokio::time::sleep(MINUTE).await;
    assert_eq!(state(&nodes), (4, alarm), "one alarm, not two");
}
