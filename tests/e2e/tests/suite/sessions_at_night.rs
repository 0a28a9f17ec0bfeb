//! At night: a node ends at each sync of what takes long to try at all of them: the turns of a program, both ends of a handoff, and
//! the member of a group that works on a task of it.

use std::collections::BTreeSet;
use std::path::Path;

use althing_e2e::python::python;
use althing_e2e::sessions::{End, SOON, STEPS, Station, Teller, words};
use althing_e2e::{Machine, Node, cast, free_port, http, until};
use althing_testing::at_night;
use serde_json::{Value, json};

const AT_ONCE: &str = include_str!("../../python/at_once.py");
/// What the agent says when both of its calls were made.
const BOTH: &str = "heard [step 1] [step 2]";
/// None of these makes as many.
const SYNCS_MAX: u32 = 200;
/// Longer than a restart takes, seconds.
const LEASE: &str = "120";

/// Tries each sync, until `is_ended` says that the node was not ended any more at that one.
fn at_each_sync(what: &str, mut is_ended: impl FnMut(u32) -> bool) {
    let syncs = (1..SYNCS_MAX).take_while(|nth| is_ended(*nth)).count();
    assert!(syncs > 0 && syncs + 1 < SYNCS_MAX as usize, "{what} made {syncs} syncs");
    println!("{what} made {syncs} syncs");
}

/// How often each step took effect; each has a key of its own, however often it was called.
fn effects(station: &Station, run: &str) -> [usize; STEPS] {
    let calls = station.calls(run);
    let keys: BTreeSet<String> = calls.iter().map(|call| call["key"].to_string()).collect();
    assert!(keys.len() <= STEPS && !keys.contains("null"), "{run}: {calls:?}");
    std::array::from_fn(|at| calls.iter().filter(|call| call["step"] == at + 1 && call["effect"] == true).count())
}

#[test]
fn a_program_whose_node_ends_at_any_sync_makes_no_keyed_call_twice() {
    if !at_night() {
        return;
    }
    let (Some(python), Some(station)) = (python(), Station::with_strace()) else { return };
    at_each_sync("a program's turn", |nth| {
        let run = format!("program-{nth}");
        let teller = Teller::of(&run);
        teller.machine.write("at_once.py", AT_ONCE);
        teller.begin_with(&station.program(&[python, Path::new("at_once.py")])).running.kill();
        let was_ended = teller.ended_at(nth);
        let node = teller.machine.up_alone(&[]);
        let task = teller.is_told(&node);
        let End::Completed(task) = teller.end(&node, &task) else { panic!("{run}: it is in doubt") };
        assert_eq!(task["status"]["message"]["parts"][0]["text"], BOTH, "{run}");
        assert_eq!(effects(&station, &run), [1; STEPS], "{run}");
        was_ended
    });
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

/// One of the two ends is ended at its `nth` sync, from when the handoff is asked for. Whether it was.
fn handed_over(station: &Station, nth: u32, is_sender: bool) -> bool {
    let run = format!("handoff-{nth}-{is_sender}");
    let pair = Pair::of(&run);
    let (mut here, mut far) = (pair.up_here(), pair.up_far());
    pair.teller.machine.add("teller", &station.file(Some("keyed")));
    pair.far.add("far", &cast::echo("far", "own"));
    until(SOON, "they find each other", || pair.teller.machine.finds("far"));
    station.hold("hold-tool");
    let task = pair.teller.is_told(&here);
    until(SOON, "the call is made", || !station.calls(&run).is_empty());
    let tracer = pair.teller.ends(if is_sender { &here } else { &far }, nth);
    // It may end before it says anything, and is not asked a second time.
    let asked = pair.teller.machine.run(&["--json", "handoff", &task, "far"]);
    station.release("hold-tool");
    let said: Value = serde_json::from_str(&asked.stdout).unwrap_or_default();
    let ended = if is_sender { here.running.ended() } else { far.running.ended() };
    drop(tracer);
    if is_sender && ended {
        drop(here);
        here = pair.up_here();
    } else if ended {
        drop(far);
        far = pair.up_far();
    }
    let End::Completed(done) = pair.teller.end(&here, &task) else { panic!("{run}: it is in doubt") };
    let (is_own, given) = (words(&done) == BOTH, Pair::tasks_far(&far));
    assert_eq!(given, usize::from(!is_own), "{run}: the work has one owner: {asked:?} {done}");
    assert!(said["state"] != "given" || !is_own, "{run}: it was told that the work was given: {done}");
    let counts = effects(station, &run);
    assert!(counts.iter().all(|count| *count <= 1) && (!is_own || counts == [1; STEPS]), "{run}: {counts:?}");
    ended
}

#[test]
fn a_handoff_has_one_owner_at_whichever_sync_one_of_its_ends_ends() {
    if !at_night() {
        return;
    }
    let Some(station) = Station::with_strace() else { return };
    at_each_sync("the end that hands work over", |nth| handed_over(&station, nth, true));
    at_each_sync("the end that is given work", |nth| handed_over(&station, nth, false));
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

#[test]
fn the_worker_of_a_group_that_ends_at_any_sync_goes_on_and_makes_no_keyed_call_twice() {
    if !at_night() {
        return;
    }
    let Some(station) = Station::with_strace() else { return };
    at_each_sync("a group's worker", |nth| {
        let run = format!("group-{nth}");
        let teller = Teller::of(&run);
        let machine = &teller.machine;
        let mut node = teller.begin(&station, Some("keyed"));
        machine.json(&["group", "create", "team"]);
        let tracer = teller.ends(&node, nth);
        let mut task = None;
        until(SOON, "the node ends at a sync, or the task does", || {
            task = task.take().or_else(|| submitted(machine, &run));
            let is_over = task.as_ref().is_some_and(|task| is_done(machine, task));
            node.running.ended() || is_over
        });
        let ended = node.running.ended();
        drop((tracer, node));
        let _node = machine.up_alone(&[]);
        until(SOON, "the task is taken", || {
            task = task.take().or_else(|| submitted(machine, &run));
            task.is_some()
        });
        let task = task.expect("it was waited for");
        until(SOON * 3, "the task goes on to its end", || is_done(machine, &task));
        assert_eq!(effects(&station, &run), [1; STEPS], "{run}");
        ended
    });
}
