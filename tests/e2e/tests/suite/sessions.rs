//! A node ends while its agent is at work, at any sync: the task goes on, no final call is made twice, and each of which nobody
//! knows what became is told.

use std::collections::BTreeSet;
use std::path::Path;

use althing_e2e::disk::Disk;
use althing_e2e::python::python;
use althing_e2e::sessions::{BY_HAND, End, SOON, STEPS, Station, Teller, words};
use althing_e2e::{Node, Running, binary, free_port, http, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const AT_ONCE: &str = include_str!("../../python/at_once.py");
const FOLLOWING: &str = include_str!("../../python/following.py");
/// What the agent says when both of its calls were made.
const BOTH: &str = "heard [step 1] [step 2]";
/// A turn makes fewer syncs than this.
const SYNCS_MAX: u32 = 100;
/// How often a node is started while a call is in doubt.
const RESTARTS: usize = 20;

/// Ends a node at each sync of a turn, a node and a turn for each, until a turn ends first; `judge` is given what each task came
/// to on the node that was started after. Gives whether that can be done here.
fn at_each_sync(file: impl Fn(&Station) -> String, mut judge: impl FnMut(&Station, &Teller, &Node, End)) -> bool {
    let Some(station) = Station::with_strace() else { return false };
    for nth in 1..SYNCS_MAX {
        let teller = Teller::new(&format!("run-{nth}"), &file(&station));
        let was_ended = teller.ended_at(nth);
        let node = teller.machine.up_alone(&[]);
        let task = teller.is_told(&node);
        let end = teller.end(&node, &task);
        judge(&station, &teller, &node, end);
        if !was_ended {
            // The task is on disk before its agent is asked, and again when it ends.
            assert!(nth > 2, "a turn made {} syncs", nth - 1);
            println!("a turn made {} syncs", nth - 1);
            return true;
        }
    }
    panic!("a turn made {SYNCS_MAX} syncs");
}

/// Ends a node at each sync of a turn whose calls are final: none is made twice, and each that has no result is told. The agent says
/// `by_hand` where it is told a result that is not the tool's.
fn counts_final_calls(file: impl Fn(&Station) -> String, by_hand: &str) {
    let mut doubts = 0;
    let was_tried = at_each_sync(file, |station, teller, node, end| {
        let before = station.counts(&teller.run);
        assert!(before.iter().all(|count| *count <= 1), "{}: {before:?}", teller.run);
        let doubtful = match end {
            End::Completed(task) => {
                assert_eq!((before, words(&task).as_str()), ([1; STEPS], BOTH));
                return;
            }
            End::Doubt(task) => task,
        };
        assert_eq!(words(&doubtful), "", "nothing is answered yet");
        doubts += 1;
        let (_, step) = teller.doubt();
        let step = step.to_string();
        if doubts % 2 == 0 {
            let again = teller.settle(node, &["--again", &step]);
            let after = station.counts(&teller.run);
            assert_eq!(words(&again), BOTH);
            // Once more is what was asked for; without that it would be none.
            assert!(after.iter().all(|count| (1..=2).contains(count)), "{before:?} {after:?}");
            assert!(after.iter().sum::<usize>() <= STEPS + 1, "{before:?} {after:?}");
            return;
        }
        let file = teller.result(BY_HAND);
        let done = teller.settle(node, &["--done", &step, file.to_str().expect("a plain path")]);
        let after = station.counts(&teller.run);
        assert!(words(&done).matches(by_hand).count() == 1 && words(&done).matches("[step ").count() == 1);
        assert!(after.iter().all(|count| *count <= 1), "{before:?} {after:?}");
    });
    // Whose node ended at the sync before a call knows not whether it was made; what the node syncs beside it comes between.
    assert!(!was_tried || doubts > 0, "{doubts}");
}

#[test]
fn a_node_that_ends_at_any_sync_makes_no_final_call_twice_and_tells_of_each_that_has_no_result() {
    counts_final_calls(|station| station.file(None), BY_HAND);
}

#[test]
fn a_node_that_ends_at_any_sync_makes_no_final_call_of_a_component_twice_and_tells_of_each_that_has_no_result() {
    counts_final_calls(|station| station.component(None), "[told]");
}

#[test]
fn repeatable_calls_are_made_again_and_the_task_goes_on_by_itself() {
    let file = |station: &Station| station.file(Some("repeatable"));
    at_each_sync(file, |station, teller, _, end| {
        let End::Completed(task) = end else { panic!("{}: {end:?}", teller.run) };
        assert_eq!(words(&task), BOTH, "what was said before is replaced");
        let counts = station.counts(&teller.run);
        assert!(counts.iter().all(|count| (1..=2).contains(count)), "{}: {counts:?}", teller.run);
    });
}

#[test]
fn keyed_calls_are_made_again_under_their_key_and_take_effect_once() {
    let file = |station: &Station| station.file(Some("keyed"));
    at_each_sync(file, |station, teller, _, end| {
        let End::Completed(task) = end else { panic!("{}: {end:?}", teller.run) };
        assert_eq!(words(&task), BOTH);
        let calls = station.calls(&teller.run);
        assert_eq!(effects(&calls), [1; STEPS], "{calls:?}");
    });
}

/// How often each step took effect. All of a step have one key, which no other step has.
fn effects(calls: &[Value]) -> [usize; STEPS] {
    let of_step = |at: usize| calls.iter().filter(move |call| call["step"] == at + 1);
    let keys = |at: usize| of_step(at).map(|call| call["key"].to_string()).collect::<BTreeSet<String>>();
    let all: BTreeSet<String> = (0..STEPS).flat_map(keys).collect();
    assert!(all.len() == STEPS && (0..STEPS).all(|at| keys(at).len() == 1), "{calls:?}");
    assert!(!all.contains("null"), "{calls:?}");
    std::array::from_fn(|at| of_step(at).filter(|call| call["effect"] == true).count())
}

/// An agent whose node ended while its first call was made, which was carried out.
fn cut_off(station: &Station, run: &str, effect: Option<&str>) -> Teller {
    station.hold("hold-tool");
    let teller = Teller::of(run);
    let node = teller.begin(station, effect);
    teller.is_told(&node);
    until(SOON, "the call is made", || !station.calls(run).is_empty());
    node.running.kill();
    station.release("hold-tool");
    teller
}

#[test]
fn nodes_that_end_at_any_sync_of_their_start_resume_all_the_same() {
    let Some(station) = Station::with_strace() else { return };
    for effect in [None, Some("keyed")] {
        let run = effect.unwrap_or("final");
        let teller = cut_off(&station, run, effect);
        // Until it is ready, then until its agent is here and goes on.
        let in_starting = (1..SYNCS_MAX).take_while(|nth| teller.ends_in_starting(*nth)).count();
        assert!(in_starting > 0 && in_starting + 1 < SYNCS_MAX as usize, "{in_starting}");
        let mut came_to = None;
        for nth in 1..SYNCS_MAX {
            let mut node = teller.machine.up_alone(&[]);
            let _tracer = teller.ends(&node, nth);
            let mut task = None;
            until(SOON, "the node ends at a sync, or the task does", || {
                task = task.take().or_else(|| teller.send(&node));
                came_to = task.as_ref().and_then(|task| teller.end_of(&node, task));
                node.running.ended() || came_to.is_some()
            });
            if came_to.is_some() && !node.running.ended() {
                break;
            }
        }
        match (effect, came_to.expect("a node lived")) {
            (None, End::Doubt(_)) => assert_eq!(station.counts(run), [1, 0]),
            (Some(_), End::Completed(task)) => {
                assert_eq!((effects(&station.calls(run)), words(&task).as_str()), ([1; STEPS], BOTH));
            }
            (_, other) => panic!("{effect:?}: {other:?}"),
        }
    }
}

#[test]
fn a_call_in_doubt_is_told_everywhere_and_never_repeated_however_often_the_node_starts() {
    let station = Station::new();
    let teller = cut_off(&station, "doubtful", None);
    for _ in 0..RESTARTS {
        let node = teller.machine.up_alone(&[]);
        let task = teller.is_told(&node);
        let End::Doubt(_) = teller.end(&node, &task) else { panic!("it was completed") };
        node.running.kill();
        assert_eq!(station.counts("doubtful"), [1, 0]);
    }
    let node = teller.machine.up_alone(&[]);
    until(SOON, "the agent is here", || teller.machine.finds("teller"));
    let (task, step) = teller.doubt();
    let machine = &teller.machine;
    assert_eq!(machine.json(&["status"])["layers"]["l4Session"], json!({ "sessions": 1, "inDoubt": 1, "stopped": 0 }));
    let doctor = machine.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.stdout.contains("WRONG L4") && doctor.stdout.contains(&task), "{doctor:?}");
    let listed = machine.run(&["session", "list"]);
    assert!(listed.code == 0 && listed.stdout.contains("count/add") && listed.stdout.contains(&task), "{listed:?}");

    // What is not in doubt is not settled.
    let (number, other) = (step.to_string(), (step + 1).to_string());
    for (command, code) in [
        (&["session", "resume", "no-such-task", "--again", &number][..], 4),
        (&["session", "resume", &task, "--again", &other], 5),
        (&["session", "resume", "no-such-task", "--from", &number], 4),
        (&["session", "resume", &task, "--from", &number], 5),
        (&["session", "resume", &task, "--from", &number, "--failed", &number], 2),
        (&["session", "resume", &task], 2),
        (&["session", "resume", &task, "--done", &number, "no-such-file"], 2),
        (&["session", "resume", &task, "--again", &number, "--failed", &number], 2),
    ] {
        let refused = machine.run(command);
        assert!(refused.code == code && !refused.stderr.is_empty(), "{command:?}: {refused:?}");
    }
    assert_eq!(station.counts("doubtful"), [1, 0], "nothing of that made a call");

    let failed = teller.settle(&node, &["--failed", &number]);
    assert!(words(&failed).ends_with(" [step 2]") && !words(&failed).contains("[step 1]"), "{failed}");
    assert_eq!(station.counts("doubtful"), [1, 1]);
    let twice = machine.run(&["session", "resume", &task, "--again", &number]);
    assert_eq!(twice.code, 4, "its journal ended with it: {twice:?}");
}

#[test]
fn a_full_disk_ends_a_turn_before_its_call_or_leaves_the_call_in_doubt() {
    let station = Station::new();
    for (run, held) in [("before", "hold-model"), ("after", "hold-tool")] {
        let teller = Teller::of(run);
        let data = teller.machine.data();
        let Some(disk) = Disk::mount(&data) else { return };
        let node = teller.begin(&station, None);
        station.hold(held);
        teller.is_told(&node);
        let is_there = || if run == "before" { station.was_asked(run) } else { !station.calls(run).is_empty() };
        until(SOON, "it waits", is_there);
        let fill = disk.fill();
        station.release(held);
        let refused = teller.machine.run(&["call", "teller", "other 1"]);
        assert!(refused.code == 1 && refused.stderr.contains("is full"), "{refused:?}");
        let full = station.counts(run);
        assert_eq!(full, if run == "before" { [0, 0] } else { [1, 0] }, "{run}: what cannot be written is not done");
        assert_eq!(station.counts("other"), [0, 0]);
        node.running.kill();

        std::fs::remove_file(&fill).expect("there is room again");
        let node = teller.machine.up_alone(&[]);
        let task = teller.is_told(&node);
        let done = match teller.end(&node, &task) {
            End::Completed(task) => task,
            End::Doubt(_) => {
                let (_, step) = teller.doubt();
                let file = teller.result("step 1");
                let (step, file) = (step.to_string(), file.to_string_lossy().into_owned());
                let (again, done) = (["--again", step.as_str()], ["--done", step.as_str(), file.as_str()]);
                teller.settle(&node, if full[0] == 0 { &again } else { &done })
            }
        };
        assert_eq!((station.counts(run), words(&done).as_str()), ([1; STEPS], BOTH), "{run}");
    }
}

#[test]
fn a_turn_whose_journal_is_sealed_goes_on_and_its_tape_shows_its_steps_and_nothing_of_what_was_said() {
    let station = Station::new();
    let teller = Teller::of("taped");
    let machine = &teller.machine;
    let mut file: Value = serde_json::from_str(&station.file(Some("keyed"))).expect("JSON");
    let contract = &mut file["contract"];
    contract["record"] = "tape".into();
    contract["security"] = json!({ "secrets": ["KEY"] });
    contract["memory"] = json!({ "encryption_secret": "KEY" });
    machine.write("secret", "correct-horse");
    let node = machine.up_alone(&[]);
    let line = format!("{} --data {} secret set KEY < secret", binary().display(), machine.data().display());
    let kept = Running::start(machine.command(Path::new("/bin/sh")).args(["-c", &line])).end(SOON);
    assert_eq!(kept.code, 0, "{kept:?}");
    machine.add("teller", &file.to_string());
    station.hold("hold-tool");
    let task = teller.is_told(&node);
    until(SOON, "the call is made", || !station.calls("taped").is_empty());
    let show = ["session", "show", task.as_str(), "--steps"];
    let live = machine.json(&show);
    assert_eq!((live["turns"].as_array().map(Vec::len), &live["turns"][0]["endedMs"]), (Some(1), &Value::Null));
    node.running.kill();
    station.release("hold-tool");
    let node = machine.up_alone(&[]);
    assert_eq!(teller.is_told(&node), task, "it goes on");
    let End::Completed(done) = teller.end(&node, &task) else { panic!("it is in doubt") };
    assert_eq!(words(&done), BOTH);
    assert_eq!(effects(&station.calls("taped")), [1; STEPS]);

    let shown = machine.json(&show);
    let rows = shown["turns"][0]["rows"].as_array().expect("rows").clone();
    let calls = |kind: &str| rows.iter().filter(|row| row["kind"] == kind && row["name"] == "count/add").count();
    assert_eq!((calls("intent"), calls("result")), (STEPS, STEPS), "{shown}");
    assert!(shown["turns"][0]["endedMs"].is_u64() && !shown.to_string().contains("step 1"), "{shown}");
    let people = machine.run(&show);
    assert!(people.code == 0 && people.stdout.contains("count/add") && !people.stdout.contains("step 1"), "{people:?}");
    until(SOON, "it is over", || machine.json(&["session", "list"])["sessions"] == json!([]));
    node.running.kill();
    let _node = machine.up_alone(&[]);
    until(SOON, "the agent is here", || machine.finds("teller"));
    assert_eq!(machine.json(&show), shown, "it is there when the node starts again");
    let none = machine.run(&["session", "show", "no-such-task"]);
    assert!(none.code == 4 && none.stderr.contains("no-such-task"), "{none:?}");
}

#[test]
fn a_program_that_is_given_its_message_again_makes_no_keyed_call_twice() {
    let Some(python) = python() else { return };
    let station = Station::new();
    station.hold("hold-tool");
    let teller = Teller::of("repeated");
    teller.machine.write("at_once.py", AT_ONCE);
    let node = teller.begin_with(&station.program(&[python, Path::new("at_once.py")], Some("keyed")));
    let task = teller.is_told(&node);
    until(SOON, "both calls are made", || station.counts("repeated") == [1; STEPS]);
    node.running.kill();
    station.release("hold-tool");
    let node = teller.machine.up_alone(&[]);
    assert_eq!(teller.is_told(&node), task, "it goes on");
    let End::Completed(task) = teller.end(&node, &task) else { panic!("it is in doubt") };
    assert_eq!(task["status"]["message"]["parts"][0]["text"], BOTH);
    let calls = station.calls("repeated");
    assert_eq!((effects(&calls), calls.len()), ([1; STEPS], 2 * STEPS), "{calls:?}");
}

#[test]
fn a_stock_client_subscribes_again_at_the_gateway_of_a_node_that_was_killed_and_sees_the_same_task_end() {
    let Some(python) = python() else { return };
    let (station, port) = (Station::new(), free_port());
    let gateway = format!("127.0.0.1:{port}");
    station.hold("hold-tool");
    let teller = Teller::new("followed", &station.file(Some("repeatable")));
    let flags = ["--no-lan", "--gateway", &gateway, "--listen", "/ip4/127.0.0.1/tcp/0"];
    let node = teller.machine.up(&flags);
    until(SOON, "the agent is here", || teller.machine.finds("teller"));
    teller.machine.write("following.py", FOLLOWING);
    let mut client = teller.machine.command(python);
    client.args(["following.py", &node.gateway(), "teller", &format!("followed {STEPS}")]);
    let client = Running::start(&mut client);
    until(SOON, "the call is made", || !station.calls("followed").is_empty());
    node.running.kill();
    let _node = teller.machine.up(&flags);
    station.release("hold-tool");
    let outcome = client.end(SOON);
    assert!(outcome.code == 0 && outcome.stdout.ends_with("FOLLOWED OK\n"), "{outcome:?}");
    assert!(outcome.stdout.contains("lost") && outcome.stdout.contains(BOTH), "{outcome:?}");
}

/// Whoever calls at the node that is stopped is told so, and which task goes on: nobody says that the agent failed.
#[test]
fn a_caller_whose_node_is_stopped_is_told_so_and_which_task_goes_on() {
    let station = Station::new();
    let teller = Teller::of("called");
    let mut node = teller.begin(&station, Some("repeatable"));
    station.hold("hold-tool");
    let mut call = teller.machine.command(&binary());
    call.arg("--data").arg(teller.machine.data()).args(["call", "teller", &format!("called {STEPS}")]);
    let caller = Running::start(&mut call);
    until(SOON, "the call is made", || !station.calls("called").is_empty());
    node.running.signal(Signal::SIGTERM);
    let outcome = caller.end(SOON);
    assert_eq!(outcome.code, 6, "{outcome:?}");
    for words in ["its node is being stopped", "the task goes on once it is up again", "`althing call AGENT --task "] {
        assert!(outcome.stderr.contains(words), "{words}: {outcome:?}");
    }
    assert!(!outcome.stderr.contains("failed"), "{outcome:?}");
    until(SOON, "the node is stopped", || node.running.ended());
}

/// A node that is stopped while an agent of it waits for one on another node: that one goes on, and is asked for nothing twice.
#[test]
fn a_turn_that_waits_for_an_agent_elsewhere_is_given_its_answer_after_its_node_was_stopped() {
    let station = Station::new();
    let teller = Teller::of("stopped");
    let serving = teller.begin(&station, None);
    let here = teller.machine.of_same_owner();
    let peer = serving.address("/ip4/127.0.0.1");
    let mut node = here.up_alone(&["--peer", &peer]);
    here.add("asker", &station.asker("teller"));
    until(SOON, "the other one is found", || here.finds("teller"));
    station.hold("hold-tool");
    let message = json!({
        "messageId": "m-asker",
        "role": "ROLE_USER",
        "parts": [{ "text": format!("teller stopped {STEPS}") }],
    });
    let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let id = http::ask(&node.gateway(), "asker", "SendMessage", &params)["task"]["id"].clone();
    until(SOON, "the other one works", || !station.calls("stopped").is_empty());
    node.running.signal(Signal::SIGTERM);
    until(SOON, "the node is stopped", || node.running.ended());
    drop(node);

    let node = here.up_alone(&["--peer", &peer]);
    until(SOON, "the agent is here, and finds the other one", || here.finds("asker") && here.finds("teller"));
    station.release("hold-tool");
    let mut task = Value::Null;
    until(SOON, "the turn goes on to its end", || {
        let shown = http::ask_while_up(&node.gateway(), "asker", "GetTask", &json!({ "id": id }));
        task = shown.unwrap_or_default();
        task["status"]["state"] == "TASK_STATE_COMPLETED"
    });
    let heard = words(&task);
    assert!(heard.contains(BOTH) && heard.starts_with("heard ["), "{task}");
    assert_eq!(station.counts("stopped"), [1; STEPS], "it did once what it was asked for");
}
