//! P-122 to P-124: commands about workflows, runs and schedules of a group, by hand and as vectors.

use althing_protocol::group::{
    Action, Approve, Command, Fire, Job, Missed, RunWorkflow, Schedule, Step, Test, WorkId, Workflow,
};
use serde_json::{Value, json};

use crate::group_tasks::{command_by_hand, id, labelled, needs, numbers, priority, texts};
use crate::groups::{batch_by_hand, batch_case};
use crate::support::*;
use crate::vector_cases::Case;

// -- by hand

type Members = Vec<(u64, Vec<u8>)>;

/// The members with another value of one, which may be a new one.
fn with(mut members: Members, member: u64, value: Vec<u8>) -> Members {
    members.retain(|(number, _)| *number != member);
    members.push((member, value));
    members.sort_by_key(|(number, _)| *number);
    members
}

fn job(template: &str) -> Members {
    vec![(0, labelled(&[])), (1, tstr(template)), (2, uint(1)), (3, uint(1)), (4, uint(10_000))]
}

fn work(job: &[(u64, Vec<u8>)]) -> Vec<u8> {
    array(&[uint(0), array(&[map(job)])])
}

fn asking(template: &str) -> Vec<u8> {
    array(&[uint(1), array(&[tstr(template)])])
}

fn test(kind: u64, text: &str) -> Vec<u8> {
    array(&[uint(kind), array(&[tstr(text)])])
}

fn when(step: &str, text: &str) -> Vec<u8> {
    map(&[(0, tstr(step)), (1, test(0, text))])
}

fn repeat(from: &str, rounds: u64) -> Vec<u8> {
    map(&[(0, tstr(from)), (1, test(1, "good")), (2, uint(rounds))])
}

fn acting(step: &str, after: &[&str], action: Vec<u8>) -> Members {
    let after: Vec<String> = after.iter().map(|id| (*id).to_owned()).collect();
    vec![(0, tstr(step)), (1, texts(&after)), (3, action)]
}

/// A step that is one task.
fn step(id: &str, after: &[&str], template: &str) -> Members {
    acting(id, after, work(&job(template)))
}

fn workflow(steps: &[Members]) -> Vec<u8> {
    named("some", steps)
}

fn named(name: &str, steps: &[Members]) -> Vec<u8> {
    let steps: Vec<Vec<u8>> = steps.iter().map(|step| map(step)).collect();
    map(&[(0, tstr(name)), (1, array(&steps))])
}

fn running(workflow: Vec<u8>) -> Vec<u8> {
    command_by_hand(24, &[map(&[(0, id(1)), (1, workflow), (2, tstr("in"))])])
}

fn run_of(steps: &[Members]) -> Vec<u8> {
    running(workflow(steps))
}

fn approving(step: &str, round: u64, note: &str) -> Vec<u8> {
    let members = [(0, id(1)), (1, tstr(step)), (2, uint(round)), (3, vec![0xf5]), (4, tstr(note))];
    command_by_hand(25, &[map(&members)])
}

fn schedule() -> Members {
    vec![
        (0, tstr("nightly")),
        (1, tstr("0 3 * * 1-5")),
        (2, tstr("Europe/Berlin")),
        (3, uint(0)),
        (4, workflow(&[step("one", &[], "")])),
        (5, tstr("in")),
    ]
}

fn scheduling(members: &[(u64, Vec<u8>)]) -> Vec<u8> {
    command_by_hand(28, &[map(members)])
}

fn fire() -> Members {
    vec![(0, tstr("nightly")), (1, uint(NOW_MS)), (2, uint(NOW_MS - HOUR_MS))]
}

fn firing(members: &[(u64, Vec<u8>)]) -> Vec<u8> {
    command_by_hand(30, &[map(members)])
}

/// A workflow with everything that a step can state.
fn full() -> Vec<Members> {
    let needs = [
        (0, array(&[uint(1), array(&[tstr("writer")])])),
        (1, texts(&["eu".to_owned()])),
        (2, uint(512)),
        (3, uint(2)),
        (4, uint(1_024)),
        (5, uint(1)),
        (6, uint(2)),
    ];
    let each = [
        (0, map(&needs)),
        (1, tstr("write {{ item }} of {{input}}, not {{step.check}}")),
        (2, uint(3)),
        (3, uint(2)),
        (4, uint(30_000)),
        (5, tstr("plan")),
    ];
    let write = with(acting("write", &["plan"], work(&each)), 4, uint(60_000));
    let check = with(step("check", &["write"], "{{step.write}} for {{\tstep.plan }}"), 5, repeat("write", 3));
    let ask = with(acting("ask_them", &["check"], asking("send {{step.write}}?")), 2, when("check", "good"));
    vec![step("plan", &[], "plan {{input}}"), write, check, ask]
}

/// So many steps of the weight 44, and after the first one others with a condition and labels.
fn weighing(labels: usize) -> Vec<u8> {
    let of = |at: usize| {
        let id = format!("s{at}");
        if at == 0 {
            return step(&id, &[], "");
        }
        let labels = numbers(labels.saturating_sub((at - 1) * 16).min(16));
        let job = with(job(""), 0, labelled(&labels));
        with(acting(&id, &["s0"], work(&job)), 2, when("s0", "x"))
    };
    run_of(&(0..64).map(of).collect::<Vec<_>>())
}

/// 256 commands, of which so many have the weight 12, and the others 16.
fn commands(light: usize) -> Vec<Vec<u8>> {
    [vec![command_by_hand(19, &[id(1)]); light], vec![approving("ask", 0, ""); 256 - light]].concat()
}

// -- vectors

pub fn vectors() -> [Vec<Case>; 6] {
    [good(), at_the_bounds(), bad_bounds(), bad_graphs(), bad_templates(), bad_commands()]
}

fn accepted(name: &str, command: Vec<u8>) -> Case {
    batch_case(name, &batch_by_hand(&[command]), None)
}

fn refused(name: &str, command: Vec<u8>) -> Case {
    batch_case(name, &batch_by_hand(&[command]), Some("ObjectError::Shape"))
}

fn good() -> Vec<Case> {
    let rejection = [(0, id(1)), (1, tstr("ask")), (2, uint(0)), (3, vec![0xf4]), (4, tstr("too long"))];
    let own = with(step("draft", &[], "{{step.draft}} again"), 5, repeat("draft", 2));
    vec![
        accepted("running a workflow of one step", run_of(&[step("one", &[], "{{input}}")])),
        accepted("running a workflow that states everything", run_of(&full())),
        accepted("running a workflow with a loop of one step, which reads its own result", run_of(&[own])),
        accepted("approving a step", approving("ask", 1, "yes")),
        accepted("rejecting a step", command_by_hand(25, &[map(&rejection)])),
        accepted("canceling a run", command_by_hand(26, &[id(1)])),
        accepted("resuming a run", command_by_hand(27, &[id(1)])),
        accepted("a schedule that skips missed times", scheduling(&schedule())),
        accepted("a schedule that runs once for missed times", scheduling(&with(schedule(), 3, uint(1)))),
        accepted("ending a schedule", command_by_hand(29, &[tstr("nightly")])),
        accepted("firing a schedule", firing(&fire())),
    ]
}

fn at_the_bounds() -> Vec<Case> {
    let one = |change: &dyn Fn(Members) -> Members| run_of(&[change(step("one", &[], ""))]);
    let many = |count: usize| {
        let ids = numbers(count);
        let before: Vec<Members> = ids.iter().map(|id| step(id, &[], "")).collect();
        let after: Vec<&str> = ids.iter().map(String::as_str).collect();
        run_of(&[before, vec![step("last", &after, "")]].concat())
    };
    let when = with(step("two", &["one"], ""), 2, when("one", &"x".repeat(128)));
    // The name has 4 bytes, the id 3.
    let long = run_of(&[step("one", &[], &"x".repeat(65_529))]);
    let input = map(&[(0, id(1)), (1, workflow(&[step("one", &[], "")])), (2, tstr(&"x".repeat(65_536)))]);
    vec![
        accepted("a workflow's name of 63 hyphens", running(named(&"-".repeat(63), &[step("one", &[], "")]))),
        accepted("a step's id of 63 underscores", run_of(&[step(&"_".repeat(63), &[], "")])),
        accepted("64 steps", run_of(&numbers(64).iter().map(|id| step(id, &[], "")).collect::<Vec<_>>())),
        accepted("a step after 16 others", many(16)),
        accepted("a time-out of 1,000 ms", one(&|step| with(step, 4, uint(1_000)))),
        accepted("a time-out of 30 days", one(&|step| with(step, 4, uint(2_592_000_000)))),
        accepted("16 rounds", one(&|step| with(step, 5, repeat("one", 16)))),
        accepted("a test with a text of 128 bytes", run_of(&[step("one", &[], ""), when])),
        accepted("texts of a workflow of 65,536 bytes", long),
        accepted("an input of a run of 65,536 bytes", command_by_hand(24, &[input])),
        accepted("a note of 512 bytes", approving("ask", 0, &"n".repeat(512))),
        accepted("a workflow of the weight 4,032", weighing(515)),
        batch_case("commands of the weight 4,064", &batch_by_hand(&commands(8)), None),
    ]
}

fn bad_bounds() -> Vec<Case> {
    // P-122
    let one = |change: &dyn Fn(Members) -> Members| run_of(&[change(step("one", &[], ""))]);
    let of_job = |member: u64, value: Vec<u8>| run_of(&[acting("one", &[], work(&with(job(""), member, value)))]);
    let name = |name: &str| running(named(name, &[step("one", &[], "")]));
    let tested = |test: Vec<u8>| {
        let condition = map(&[(0, tstr("one")), (1, test)]);
        run_of(&[step("one", &[], ""), with(step("two", &["one"], ""), 2, condition)])
    };
    let ids = numbers(17);
    let many: Vec<Members> = ids.iter().map(|id| step(id, &[], "")).collect();
    let after: Vec<&str> = ids.iter().map(String::as_str).collect();
    let input = map(&[(0, id(1)), (1, workflow(&[step("one", &[], "")])), (2, tstr(&"x".repeat(65_537)))]);
    vec![
        refused("a workflow without a name", name("")),
        refused("a workflow's name of 64 characters", name(&"a".repeat(64))),
        refused("a workflow's name with an underscore", name("a_b")),
        refused("a workflow's name with a capital", name("Some")),
        refused("a workflow without steps", run_of(&[])),
        refused("65 steps", run_of(&numbers(65).iter().map(|id| step(id, &[], "")).collect::<Vec<_>>())),
        refused("a step without an id", run_of(&[step("", &[], "")])),
        refused("a step's id of 64 characters", run_of(&[step(&"a".repeat(64), &[], "")])),
        refused("a step's id with a dot", run_of(&[step("a.b", &[], "")])),
        refused("a step after 17 others", run_of(&[many, vec![step("last", &after, "")]].concat())),
        refused("a time-out of 999 ms", one(&|step| with(step, 4, uint(999)))),
        refused("a time-out of more than 30 days", one(&|step| with(step, 4, uint(2_592_000_001)))),
        refused("no rounds", one(&|step| with(step, 5, repeat("one", 0)))),
        refused("17 rounds", one(&|step| with(step, 5, repeat("one", 17)))),
        refused("a test without a text", tested(test(0, ""))),
        refused("a test with a text of 129 bytes", tested(test(1, &"x".repeat(129)))),
        refused("a test of another kind", tested(test(2, "x"))),
        refused("a step that needs a label twice", of_job(0, labelled(&["a".to_owned(), "a".to_owned()]))),
        refused("a step of a priority that does not exist", of_job(2, uint(4))),
        refused("a step without attempts", of_job(3, uint(0))),
        refused("a step of 17 attempts", of_job(3, uint(17))),
        refused("a step with a lease of 999 ms", of_job(4, uint(999))),
        refused("a step with a lease of 600,001 ms", of_job(4, uint(600_001))),
        refused("texts of a workflow of 65,537 bytes", run_of(&[step("one", &[], &"x".repeat(65_530))])),
        refused("an input of a run of 65,537 bytes", command_by_hand(24, &[input])),
        refused("a workflow of the weight 4,033", weighing(516)),
        batch_case("commands of the weight 4,068", &batch_by_hand(&commands(7)), Some("ObjectError::Shape")),
    ]
}

fn bad_graphs() -> Vec<Case> {
    // P-123
    let (one, two) = (step("one", &[], ""), step("two", &["one"], ""));
    let looped = |last: Members| {
        run_of(&[one.clone(), two.clone(), with(step("three", &["two"], ""), 5, repeat("one", 2)), last])
    };
    let each = |of: &str| acting("two", &[], work(&with(job("{{item}}"), 5, tstr(of))));
    vec![
        refused("a step's id twice", run_of(&[one.clone(), step("one", &[], "")])),
        refused("a step after one that stands behind it", run_of(&[two.clone(), one.clone()])),
        refused("two steps after each other", run_of(&[step("one", &["two"], ""), two.clone()])),
        refused("a step after itself", run_of(&[step("one", &["one"], "")])),
        refused("a step after one that is not there", run_of(std::slice::from_ref(&two))),
        refused("a step twice in after", run_of(&[one.clone(), step("two", &["one", "one"], "")])),
        refused(
            "a condition on a step that does not come before",
            run_of(&[one.clone(), with(step("two", &[], ""), 2, when("one", "x"))]),
        ),
        refused("a condition on a step that is not there", run_of(&[with(one.clone(), 2, when("none", "x"))])),
        refused("items of a step that does not come before", run_of(&[one.clone(), each("one")])),
        refused("items of a step that is not there", run_of(&[one.clone(), each("none")])),
        refused(
            "a loop from a step that does not come before",
            run_of(&[one.clone(), with(step("two", &[], ""), 5, repeat("one", 2))]),
        ),
        refused("a loop from a step that is not there", run_of(&[with(one.clone(), 5, repeat("none", 2))])),
        refused(
            "a loop that ends with an approval",
            run_of(&[one.clone(), with(acting("two", &["one"], asking("?")), 5, repeat("one", 2))]),
        ),
        refused("a step in two loops", looped(with(step("four", &["three"], ""), 5, repeat("two", 2)))),
        refused("a step that leaves a loop before its end", looped(step("four", &["two"], ""))),
    ]
}

fn bad_templates() -> Vec<Case> {
    // P-124
    let of =
        |name: &str, template: &str| refused(name, run_of(&[step("one", &[], ""), step("two", &["one"], template)]));
    vec![
        of("a placeholder that does not end", "{{input"),
        of("a placeholder that does not exist", "{{inputs}}"),
        of("a placeholder of a step without its id", "{{step}}"),
        of("a placeholder with white space before the id", "{{step. one}}"),
        of("a placeholder of a step that is not there", "{{step.none}}"),
        of("a placeholder within another one", "{{ {{input}} }}"),
        of("a step that reads its own result outside a loop", "{{step.two}}"),
        of("an item without a list", "{{item}}"),
        refused("an approval with an item", run_of(&[acting("one", &[], asking("{{item}}?"))])),
        refused(
            "a step that reads the result of one that does not come before",
            run_of(&[step("one", &[], ""), step("two", &[], "{{step.one}}")]),
        ),
        refused(
            "a step that reads the result of one behind it",
            run_of(&[step("one", &[], "{{step.two}}"), step("two", &["one"], "")]),
        ),
    ]
}

fn bad_commands() -> Vec<Case> {
    let of_schedule = |member: u64, value: Vec<u8>| scheduling(&with(schedule(), member, value));
    let without = |members: Members, member: u64| -> Members {
        members.into_iter().filter(|(number, _)| *number != member).collect()
    };
    let short = map(&[(0, bstr(&[1; 15])), (1, workflow(&[step("one", &[], "")])), (2, tstr(""))]);
    let unknown = |at: &str| {
        let of = |here: &str, members: Members| if here == at { with(members, 9, uint(0)) } else { members };
        let step = of("step", acting("one", &[], work(&of("job", job("")))));
        map(&of("workflow", vec![(0, tstr("some")), (1, array(&[map(&step)]))]))
    };
    vec![
        refused("a run whose id has 15 bytes", command_by_hand(24, &[short])),
        refused("a run without an input", command_by_hand(24, &[map(&[(0, id(1)), (1, workflow(&full()))])])),
        refused("a workflow with a member that this version does not know", running(unknown("workflow"))),
        refused("a step with a member that this version does not know", running(unknown("step"))),
        refused("a job with a member that this version does not know", running(unknown("job"))),
        refused("a step without an action", run_of(&[without(step("one", &[], ""), 3)])),
        refused("an action of another kind", run_of(&[acting("one", &[], array(&[uint(2), array(&[tstr("")])]))])),
        refused("approving a step without an id", approving("", 0, "")),
        refused("approving a step with an id of 129 bytes", approving(&"s".repeat(129), 0, "")),
        refused("approving with a note of 513 bytes", approving("ask", 0, &"n".repeat(513))),
        refused("approving in a round of more than 32 bits", approving("ask", 1 << 32, "")),
        refused("canceling a run whose id has 17 bytes", command_by_hand(26, &[bstr(&[1; 17])])),
        refused("resuming a run without its id", command_by_hand(27, &[])),
        refused("a schedule without a name", of_schedule(0, tstr(""))),
        refused("a schedule's name with a space", of_schedule(0, tstr("every night"))),
        refused("a schedule without a pattern", of_schedule(1, tstr(""))),
        refused("a pattern of 129 bytes", of_schedule(1, tstr(&"*".repeat(129)))),
        refused("a schedule without a time zone", of_schedule(2, tstr(""))),
        refused("a rule for missed times that does not exist", of_schedule(3, uint(2))),
        refused("a schedule of a workflow without steps", of_schedule(4, workflow(&[]))),
        refused("an input of a schedule of 65,537 bytes", of_schedule(5, tstr(&"x".repeat(65_537)))),
        refused("ending a schedule without a name", command_by_hand(29, &[tstr("")])),
        refused("firing a schedule whose name has a capital", firing(&with(fire(), 0, tstr("Nightly")))),
        refused("firing a schedule without saying when it was made", firing(&without(fire(), 2))),
    ]
}

// -- what reads them

fn shown_test(test: &Test) -> Value {
    match test {
        Test::Equals(text) => json!({ "equals": text }),
        Test::Contains(text) => json!({ "contains": text }),
    }
}

fn shown_step(step: &Step) -> Value {
    let action = match &step.action {
        Action::Task(job) => {
            let Job { needs: of, input, priority: urgency, attempts_max, lease_ms, for_each, verify } = job.as_ref();
            let mut shown = json!({ "needs": needs(of), "input": input, "priority": priority(*urgency),
                "attempts_max": attempts_max, "lease_ms": lease_ms, "for_each": for_each });
            if let Some(verify) = verify {
                shown["verify"] = json!(verify);
            }
            shown
        }
        Action::Approval(question) => json!({ "question": question }),
    };
    let when = step.when.as_ref().map(|when| json!({ "step": when.step, "test": shown_test(&when.test) }));
    let repeat = step.repeat.as_ref().map(
        |repeat| json!({ "from": repeat.from, "until": shown_test(&repeat.until), "rounds_max": repeat.rounds_max }),
    );
    json!({ "id": step.id, "after": step.after, "when": when, "action": action, "timeout_ms": step.timeout_ms,
        "repeat": repeat })
}

fn shown(workflow: &Workflow) -> Value {
    json!({ "name": workflow.name, "steps": workflow.steps.iter().map(shown_step).collect::<Vec<_>>() })
}

fn of_run(command: &str, run: &WorkId) -> Value {
    json!({ "command": command, "run": run.to_string() })
}

/// A command about workflows, as the vectors show it.
pub fn command(command: &Command) -> Value {
    match command {
        Command::RunWorkflow(it) => {
            let RunWorkflow { run, workflow, input } = it.as_ref();
            json!({ "command": "run-workflow", "run": run.to_string(), "workflow": shown(workflow), "input": input })
        }
        Command::Approve(Approve { run, step, round, approved, note }) => {
            json!({ "command": "approve", "run": run.to_string(), "step": step, "round": round, "approved": approved,
                "note": note })
        }
        Command::CancelRun(run) => of_run("cancel-run", run),
        Command::ResumeRun(run) => of_run("resume-run", run),
        Command::Schedule(it) => {
            let Schedule { name, cron, zone, missed, workflow, input, overlap } = it.as_ref();
            assert_eq!(*overlap, None, "the vectors have schedules whose runs begin beside each other");
            let missed = match missed {
                Missed::Skip => "skip",
                Missed::RunOnce => "run once",
            };
            json!({ "command": "schedule", "name": name, "pattern": cron, "zone": zone, "missed": missed,
                "workflow": shown(workflow), "input": input })
        }
        Command::Unschedule(name) => json!({ "command": "unschedule", "name": name }),
        Command::Fire(Fire { name, at_ms, since_ms }) => {
            json!({ "command": "fire", "name": name, "at_ms": at_ms, "since_ms": since_ms })
        }
        other => panic!("{other:?} is no command about workflows"),
    }
}
