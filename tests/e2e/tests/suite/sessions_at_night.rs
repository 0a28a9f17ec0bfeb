//! At night: a node ends at each sync of what takes long to try at all of them: the turns of a component and of a program, both ends
//! of a handoff, and the member of a group that works on a task of it; with each thing that may be declared of the tool.

use std::collections::BTreeSet;
use std::path::Path;

use althing_e2e::python::python;
use althing_e2e::sessions::{End, SOON, STEPS, Station, Teller, words};
use althing_e2e::{COMMAND_MAX, Machine, Node, Running, cast, free_port, http, until};
use althing_testing::at_night;
use serde_json::{Value, json};

const AT_ONCE: &str = include_str!("../../python/at_once.py");
/// What the agent says when both of its calls were made.
const BOTH: &str = "heard [step 1] [step 2]";
/// None of these makes as many.
const SYNCS_MAX: u32 = 200;
/// Longer than a restart takes, seconds.
const LEASE: &str = "120";
/// What may be called again is called again.
const AGAIN: [Option<&str>; 2] = [Some("repeatable"), Some("keyed")];
/// The same, and that nothing is declared: then each call counts.
const EFFECTS: [Option<&str>; 3] = [None, Some("repeatable"), Some("keyed")];

/// One run: what is declared of the tool, and at which sync a node ends.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    effect: Option<&'static str>,
    nth: u32,
}

/// What came of a run.
struct Outcome {
    /// Whether the node was ended before the work was over.
    was_ended: bool,
    /// How many calls were in doubt.
    doubts: usize,
}

impl Attempt {
    fn name(self, what: &str) -> String {
        format!("{what}-{}-{}", self.effect.unwrap_or("final"), self.nth)
    }

    /// Whether calls in doubt are to be made again, in every second run; else somebody says that they were carried out.
    fn is_again(self) -> bool {
        self.nth.is_multiple_of(2)
    }

    /// Waits for the end of a task, and says of calls in doubt what became of them. Gives how many there were.
    fn end(self, teller: &Teller, node: &Node, task: &str) -> (Value, usize) {
        match (teller.end(node, task), self.effect) {
            (End::Completed(task), _) => (task, 0),
            (End::Doubt(told), None) => {
                let doubts = teller.settle_all(self.is_again());
                assert!(doubts > 0, "{}: it is told, and not listed: {told}", teller.run);
                (teller.completed(node, task), doubts)
            }
            (End::Doubt(task), Some(effect)) => panic!("{}: a call that is {effect} is in doubt: {task}", teller.run),
        }
    }

    /// Checks how often each call of a run was made that came to its end, where so many were in doubt.
    fn check(self, station: &Station, run: &str, doubts: usize) {
        let counts = station.counts(run);
        let all: usize = counts.iter().sum();
        let are_within = |least: usize, most: usize| counts.iter().all(|count| (least..=most).contains(count));
        let is_right = match self.effect {
            Some("keyed") => effects(station, run) == [1; STEPS],
            // The node ended once.
            Some(_) => are_within(1, 2),
            None if self.is_again() => are_within(1, 2) && all <= STEPS + doubts,
            // Each that is missing was told.
            None => are_within(0, 1) && all + doubts >= STEPS,
        };
        assert!(is_right, "{run}: {counts:?} with {doubts} in doubt: {:?}", station.calls(run));
    }

    /// Whether the agent says what it heard of each call, from its tool or from whoever wrote a result by hand.
    fn is_whole(self, says: &str, doubts: usize) -> bool {
        let by_hand = if self.is_again() { 0 } else { doubts };
        says.starts_with("heard ") && says.matches("[step ").count() + by_hand == STEPS
    }
}

/// Tries each sync with each of these, until a run ends before its node does. Gives how many calls were in doubt in all.
fn at_each_sync(what: &str, effects: &[Option<&'static str>], mut run: impl FnMut(Attempt) -> Outcome) -> usize {
    let mut doubts = 0;
    for effect in effects.iter().copied() {
        let mut is_ended = |nth: u32| {
            let outcome = run(Attempt { effect, nth });
            doubts += outcome.doubts;
            outcome.was_ended
        };
        let syncs = (1..SYNCS_MAX).take_while(|nth| is_ended(*nth)).count();
        let declared = effect.unwrap_or("final");
        assert!(syncs > 0 && syncs + 1 < SYNCS_MAX as usize, "{what} made {syncs} syncs: {declared}");
        println!("{what} made {syncs} syncs: {declared}");
    }
    doubts
}

/// How often each step took effect; each has a key of its own, however often it was called.
fn effects(station: &Station, run: &str) -> [usize; STEPS] {
    let calls = station.calls(run);
    let keys: BTreeSet<String> = calls.iter().map(|call| call["key"].to_string()).collect();
    assert!(keys.len() <= STEPS && !keys.contains("null"), "{run}: {calls:?}");
    std::array::from_fn(|at| calls.iter().filter(|call| call["step"] == at + 1 && call["effect"] == true).count())
}

#[test]
fn a_component_whose_node_ends_at_any_sync_makes_its_calls_as_is_declared_of_its_tool() {
    if !at_night() {
        return;
    }
    let Some(station) = Station::with_strace() else { return };
    // With nothing declared it is tried for each change.
    at_each_sync("a component's turn", &AGAIN, |attempt| {
        let run = attempt.name("component");
        let teller = Teller::new(&run, &station.component(attempt.effect));
        let was_ended = teller.ended_at(attempt.nth);
        let node = teller.machine.up_alone(&[]);
        let task = teller.is_told(&node);
        let (task, doubts) = attempt.end(&teller, &node, &task);
        assert_eq!(words(&task), BOTH, "{run}");
        attempt.check(&station, &run, doubts);
        Outcome { was_ended, doubts }
    });
}

#[test]
fn a_program_whose_node_ends_at_any_sync_makes_its_calls_as_is_declared_of_its_tool() {
    if !at_night() {
        return;
    }
    let (Some(python), Some(station)) = (python(), Station::with_strace()) else { return };
    let doubts = at_each_sync("a program's turn", &EFFECTS, |attempt| {
        let run = attempt.name("program");
        let teller = Teller::of(&run);
        teller.machine.write("at_once.py", AT_ONCE);
        let file = station.program(&[python, Path::new("at_once.py")], attempt.effect);
        teller.begin_with(&file).running.kill();
        let was_ended = teller.ended_at(attempt.nth);
        let node = teller.machine.up_alone(&[]);
        let task = teller.is_told(&node);
        let (task, doubts) = attempt.end(&teller, &node, &task);
        let says = task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
        assert!(attempt.is_whole(says, doubts), "{run}, with {doubts} in doubt: {task}");
        attempt.check(&station, &run, doubts);
        Outcome { was_ended, doubts }
    });
    assert!(doubts > 0, "a node that ends at the sync before a call knows not whether it was made");
}

/// Two nodes of one owner, which find each other at the same addresses whenever they start.
struct Pair {
    teller: Teller,
    far: Machine,
    /// The flags of the node of the agent, and of the one that is given the work.
    flags: [Vec<String>; 2],
}

impl Pair {
    fn of(run: &str) -> Pair {
        let teller = Teller::of(run);
        let ports = [free_port(), free_port()];
        // The first start makes the owner's keys.
        teller.machine.up_alone(&[]).running.kill();
        let far = teller.machine.of_same_owner();
        let flags = [0, 1].map(|at: usize| {
            let [listen, peer] = [ports[at], ports[1 - at]].map(|port| format!("/ip4/127.0.0.1/tcp/{port}"));
            let all = ["--no-lan", "--gateway", "127.0.0.1:0", "--listen", &listen, "--peer", &peer];
            all.map(str::to_owned).to_vec()
        });
        Pair { teller, far, flags }
    }

    fn up(machine: &Machine, flags: &[String]) -> Node {
        machine.up(&flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn up_here(&self) -> Node {
        Pair::up(&self.teller.machine, &self.flags[0])
    }

    fn up_far(&self) -> Node {
        Pair::up(&self.far, &self.flags[1])
    }

    /// How many tasks the agent that is given the work has.
    fn tasks_far(node: &Node) -> usize {
        let list = http::ask(&node.gateway(), "far", "ListTasks", &json!({}));
        list["tasks"].as_array().map_or(0, Vec::len)
    }
}

/// The state of the task, where its node says it.
fn state(node: &Node, task: &str) -> Option<String> {
    let told = http::ask_while_up(&node.gateway(), "teller", "GetTask", &json!({ "id": task }))?;
    told["status"]["state"].as_str().map(str::to_owned)
}

/// One of the two ends is ended at a sync, from when the handoff is asked for.
fn handed_over(station: &Station, attempt: Attempt, is_sender: bool) -> Outcome {
    let run = attempt.name(if is_sender { "sender" } else { "recipient" });
    let pair = Pair::of(&run);
    let (mut here, mut far) = (pair.up_here(), pair.up_far());
    pair.teller.machine.add("teller", &station.file(attempt.effect));
    pair.far.add("far", &cast::echo("far", "own"));
    until(SOON, "they find each other", || pair.teller.machine.finds("far"));
    station.hold("hold-tool");
    let task = pair.teller.is_told(&here);
    until(SOON, "the call is made", || !station.calls(&run).is_empty());
    // A call that counts is waited for before the work is given away: then it is the model that is waited for meanwhile.
    let counts_each = attempt.effect.is_none();
    if counts_each {
        station.hold("hold-model");
    }
    let tracer = pair.teller.ends(if is_sender { &here } else { &far }, attempt.nth);
    let asking = Running::start(&mut pair.teller.machine.althing(&["--json", "handoff", &task, "far"]));
    if counts_each {
        station.release("hold-tool");
    }
    // It may end before it says anything, and is not asked a second time.
    let asked = asking.end(COMMAND_MAX);
    station.release(if counts_each { "hold-model" } else { "hold-tool" });
    let said: Value = serde_json::from_str(&asked.stdout).unwrap_or_default();
    until(SOON, "a node ends at a sync, or the task does", || {
        // In this order: what ended the node may have ended the task before.
        let is_over = state(&here, &task).is_some_and(|state| state != "TASK_STATE_WORKING");
        is_over || if is_sender { here.running.ended() } else { far.running.ended() }
    });
    drop(tracer);
    // It may be ending at this moment.
    let traced = if is_sender { &mut here } else { &mut far };
    let (agent, list) = (if is_sender { "teller" } else { "far" }, json!({}));
    until(SOON, "the node has ended, or answers", || {
        traced.running.ended() || http::ask_while_up(&traced.gateway(), agent, "ListTasks", &list).is_some()
    });
    let was_ended = traced.running.ended();
    if is_sender && was_ended {
        drop(here);
        here = pair.up_here();
    } else if was_ended {
        drop(far);
        far = pair.up_far();
    }
    until(SOON, "the task is over, or waits for its owner", || {
        state(&here, &task).is_some_and(|state| state != "TASK_STATE_WORKING") || pair.teller.doubts().is_some()
    });
    if !is_sender && state(&here, &task).is_some_and(|state| state == "TASK_STATE_FAILED") {
        // It ended in the middle of the work, which is its own, and which it cannot go on with.
        assert_eq!((was_ended, Pair::tasks_far(&far)), (true, 1), "{run}: {asked:?}");
        return Outcome { was_ended, doubts: 0 };
    }
    let (done, doubts) = attempt.end(&pair.teller, &here, &task);
    assert!(doubts == 0 || is_sender, "{run}: a call is in doubt whose node did not end: {done}");
    // Who waits for somebody to say what became of a call has the work.
    let (is_own, given) = (doubts > 0 || words(&done) == BOTH, Pair::tasks_far(&far));
    assert_eq!(given, usize::from(!is_own), "{run}: the work has one owner: {asked:?} {done}");
    assert!(said["state"] != "given" || !is_own, "{run}: it was told that the work was given: {done}");
    if is_own {
        assert!(attempt.is_whole(&words(&done), doubts), "{run}, with {doubts} in doubt: {done}");
        attempt.check(station, &run, doubts);
    } else {
        let most = if attempt.effect == Some("repeatable") { 2 } else { 1 };
        let counts = if attempt.effect == Some("keyed") { effects(station, &run) } else { station.counts(&run) };
        assert!(counts.iter().all(|count| *count <= most), "{run}: {counts:?}");
    }
    Outcome { was_ended, doubts }
}

#[test]
fn a_handoff_has_one_owner_at_whichever_sync_one_of_its_ends_ends() {
    if !at_night() {
        return;
    }
    let Some(station) = Station::with_strace() else { return };
    at_each_sync("the end that hands work over", &EFFECTS, |attempt| handed_over(&station, attempt, true));
    at_each_sync("the end that is given work", &EFFECTS, |attempt| handed_over(&station, attempt, false));
}

/// Gives the group the task of a run, once however often it is said; none if the node did not take it.
fn submitted(machine: &Machine, run: &str) -> Option<String> {
    let input = format!("{run} {STEPS}");
    let command =
        ["--json", "task", "submit", "team", "--agent", "teller", "--key", run, "--lease", LEASE, input.as_str()];
    let said = machine.run(&command);
    let task: Value = serde_json::from_str(&said.stdout).ok()?;
    task["task"].as_str().map(str::to_owned)
}

/// Whether the group has the result of a task.
fn is_done(machine: &Machine, task: &str) -> bool {
    let shown = machine.run(&["--json", "task", "show", "team", task]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
    assert!(shown["state"] != "failed", "{shown}");
    shown["state"] == "completed"
}

/// The node of a group's worker is ended at a sync, from when its group exists.
fn worked_on(station: &Station, attempt: Attempt) -> Outcome {
    let run = attempt.name("group");
    let teller = Teller::of(&run);
    let machine = &teller.machine;
    let mut node = teller.begin(station, attempt.effect);
    machine.json(&["group", "create", "team"]);
    let tracer = teller.ends(&node, attempt.nth);
    let mut task = None;
    until(SOON, "the node ends at a sync, or the task does", || {
        task = task.take().or_else(|| submitted(machine, &run));
        let is_over = task.as_ref().is_some_and(|task| is_done(machine, task));
        node.running.ended() || is_over
    });
    let was_ended = node.running.ended();
    drop((tracer, node));
    let _node = machine.up_alone(&[]);
    until(SOON, "the task is taken", || {
        task = task.take().or_else(|| submitted(machine, &run));
        task.is_some()
    });
    let task = task.expect("it was waited for");
    let mut doubts = 0;
    until(SOON * 3, "the task goes on to its end", || {
        if attempt.effect.is_none() && doubts == 0 {
            doubts = teller.settle_all(attempt.is_again());
        }
        is_done(machine, &task)
    });
    attempt.check(station, &run, doubts);
    Outcome { was_ended, doubts }
}

#[test]
fn the_worker_of_a_group_that_ends_at_any_sync_goes_on_and_makes_its_calls_as_is_declared_of_its_tool() {
    if !at_night() {
        return;
    }
    let Some(station) = Station::with_strace() else { return };
    let doubts = at_each_sync("a group's worker", &EFFECTS, |attempt| worked_on(&station, attempt));
    assert!(doubts > 0, "a node that ends at the sync before a call knows not whether it was made");
}
