//! A node is killed at the durable writes of a question, of its answer, of the call and of what came of it: no yes is lost or used
//! twice, no call reaches its tool without its intent on record, and no entry is missing afterwards. At night at each of them.

use std::collections::BTreeSet;

use althing_e2e::sessions::{End, SOON, STEPS, Station, Teller, words};
use althing_e2e::{Node, http, text, until};
use althing_testing::at_night;
use serde_json::{Value, json};

/// What the agent says when both of its calls were made.
const BOTH: &str = "heard [step 1] [step 2]";
/// What is said of a call in doubt.
const BY_HAND: &str = "told by hand";
/// A turn with two questions makes fewer syncs than this.
const SYNCS_MAX: u32 = 200;
/// In each run: a sync of the question, of its answer, of the call's intent, and of what came of the call.
const SOME: [(Moment, u32); 4] =
    [(Moment::Message, 2), (Moment::Question, 1), (Moment::Question, 2), (Moment::Call, 1)];

/// From when on the syncs of a node are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Nobody told its agent anything.
    Message,
    /// Somebody is asked about the first call.
    Question,
    /// The first call is at its tool.
    Call,
}

/// The questions to which somebody said yes, and was told that it counts.
#[derive(Default)]
struct Answers(BTreeSet<String>);

impl Answers {
    /// Says yes to all that is asked now.
    fn give(&mut self, teller: &Teller) {
        for id in asked_now(teller) {
            assert!(!self.0.contains(&id), "{}: a yes was lost that was told to count", teller.run);
            // A node that ends meanwhile says nothing; whether the yes counts is seen afterwards.
            if teller.machine.run(&["approve", &id, "--yes"]).code == 0 {
                self.0.insert(id);
            }
        }
    }
}

/// What is on record of the calls of a run. Entries of answers and of what came of calls have no arguments, so that they are counted
/// together.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    /// How often each step was asked about.
    asked: [usize; STEPS],
    answered: usize,
    /// How often each step was about to be made.
    intents: [usize; STEPS],
    outcomes: usize,
}

impl Record {
    fn of(teller: &Teller) -> Record {
        Record {
            asked: steps(teller, "asked"),
            answered: entries(teller, "answered").len(),
            intents: steps(teller, "intent"),
            outcomes: entries(teller, "outcome").len(),
        }
    }

    /// All entries, whatever of.
    fn total(&self) -> usize {
        self.asked.iter().chain(&self.intents).sum::<usize>() + self.answered + self.outcomes
    }
}

/// The agent, about whose calls its contract has people asked; `effect` is declared of its tool.
fn asking(station: &Station, effect: Option<&str>) -> String {
    let mut file: Value = serde_json::from_str(&station.file(effect)).expect("JSON");
    file["contract"]["security"] = json!({ "consent_for": ["count/add"] });
    file.to_string()
}

/// What a command says as JSON; nothing where the node ended.
fn said(teller: &Teller, command: &[&str]) -> Value {
    let outcome = teller.machine.run(&[&["--json"], command].concat());
    serde_json::from_str(&outcome.stdout).unwrap_or_default()
}

/// The questions that wait.
fn asked_now(teller: &Teller) -> Vec<String> {
    let list = said(teller, &["pending"]);
    list["pending"].as_array().into_iter().flatten().map(|one| text(&one["id"])).collect()
}

fn is_in_doubt(teller: &Teller) -> bool {
    let list = said(teller, &["session", "list"]);
    list["sessions"].as_array().into_iter().flatten().any(|session| session["state"] == "inDoubt")
}

/// What the task came to, if it did.
fn end_of(teller: &Teller, node: &Node, task: &str) -> Option<End> {
    let shown = http::ask_while_up(&node.gateway(), "teller", "GetTask", &json!({ "id": task }))?;
    match shown["status"]["state"].as_str().expect("a state") {
        "TASK_STATE_COMPLETED" => Some(End::Completed(shown)),
        "TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING" | "TASK_STATE_AUTH_REQUIRED" => {
            is_in_doubt(teller).then(|| End::Doubt(shown))
        }
        _ => panic!("{}: {shown}", teller.run),
    }
}

/// Tells the agent, and says yes to what is asked, until the node or the task has ended. None: the node did first.
fn work(teller: &Teller, node: &mut Node, answers: &mut Answers) -> Option<End> {
    let (mut task, mut end) = (None, None);
    until(SOON, "the node ends, or the task does", || {
        task = task.take().or_else(|| teller.send(node));
        end = task.as_deref().and_then(|task| end_of(teller, node, task));
        if end.is_none() {
            answers.give(teller);
        }
        end.is_some() || node.running.ended()
    });
    end.filter(|_| !node.running.ended())
}

/// Brings a node to a moment, and kills it at its `nth` sync from there. Whether that was before the task had ended.
fn is_killed(station: &Station, teller: &Teller, (from, nth): (Moment, u32), answers: &mut Answers) -> bool {
    let mut node = teller.begin_with(&asking(station, None));
    match from {
        Moment::Message => {}
        Moment::Question => {
            teller.is_told(&node);
            until(SOON, "somebody is asked", || !asked_now(teller).is_empty());
        }
        Moment::Call => {
            station.hold("hold-tool");
            teller.is_told(&node);
            until(SOON, "the call is made", || {
                answers.give(teller);
                !station.calls(&teller.run).is_empty()
            });
        }
    }
    let tracer = teller.ends(&node, nth);
    if from == Moment::Call {
        station.release("hold-tool");
    }
    let end = work(teller, &mut node, answers);
    drop(tracer);
    end.is_none()
}

/// Says of the call in doubt what came of it.
fn settle(teller: &Teller) {
    let (task, step) = teller.doubt();
    let (step, file) = (step.to_string(), teller.result(BY_HAND));
    let file = file.to_str().expect("a plain path");
    let resumed = teller.machine.json(&["session", "resume", &task, "--done", &step, file]);
    assert_eq!(resumed["resumed"], json!(task));
    until(SOON, "nothing is in doubt", || !is_in_doubt(teller));
}

/// The entries of the calls at a stage.
fn entries(teller: &Teller, stage: &str) -> Vec<Value> {
    let list = teller.machine.json(&["audit", "query", "--action", "count/add", "--stage", stage]);
    list["entries"].as_array().expect("a list").clone()
}

/// How many entries each step has at a stage, by the arguments that they commit to.
fn steps(teller: &Teller, stage: &str) -> [usize; STEPS] {
    let mut counts = [0; STEPS];
    for entry in entries(teller, stage) {
        let id = format!("{}.{}", entry["log"], entry["entry"]);
        let shown = teller.machine.json(&["audit", "show", &id]);
        let mut bodies = shown["bodies"].as_array().into_iter().flatten();
        let arguments = bodies.find(|body| body["role"] == "arguments").expect("they lie beside the log");
        let arguments: Value = serde_json::from_str(&text(&arguments["text"])).expect("JSON");
        let step = (1..=STEPS).find(|step| arguments["step"] == json!(step));
        counts[step.expect("one of its steps") - 1] += 1;
    }
    counts
}

/// Kills a node at its `nth` sync from a moment on, starts another one, on which the task goes on to its end, and looks at what was
/// done and at what is on record. Whether the node was killed before the task had ended.
fn judged(station: &Station, from: Moment, nth: u32) -> bool {
    let teller = Teller::of(&format!("{from:?}-{nth}"));
    let mut answers = Answers::default();
    let was_killed = is_killed(station, &teller, (from, nth), &mut answers);
    let mut node = teller.machine.up_alone(&[]);
    let mut doubts = 0;
    let done = loop {
        match work(&teller, &mut node, &mut answers) {
            Some(End::Completed(task)) => break task,
            Some(End::Doubt(_)) => settle(&teller),
            None => panic!("{}: nobody killed this node", teller.run),
        }
        doubts += 1;
        assert_eq!(doubts, 1, "{}: one call was under way when the node ended", teller.run);
    };
    let (run, counts, heard) = (&teller.run, station.counts(&teller.run), words(&done));
    if doubts == 0 {
        assert_eq!((counts, heard.as_str()), ([1; STEPS], BOTH), "{run}");
    } else {
        // Whether it reached its tool is what nobody knew.
        assert!(counts.iter().all(|count| *count <= 1) && counts.iter().sum::<usize>() + doubts >= STEPS, "{counts:?}");
        assert!(heard.contains(BY_HAND), "{run}: {heard}");
    }
    // What nobody saw the outcome of has what its owner said of it.
    let wanted = Record { asked: [1; STEPS], answered: STEPS, intents: [1; STEPS], outcomes: STEPS };
    let mut found = Record::of(&teller);
    // Entries come into the log a moment after what they are about.
    until(SOON, "all is on record", || {
        found = Record::of(&teller);
        found.total() >= wanted.total()
    });
    assert_eq!(found, wanted, "{run}: {doubts} calls were in doubt");
    assert_eq!(asked_now(&teller), Vec::<String>::new(), "{run}");
    was_killed
}

#[test]
fn no_yes_is_lost_or_used_twice_and_no_entry_is_missing_whenever_a_node_is_killed() {
    let Some(station) = Station::with_strace() else { return };
    if !at_night() {
        for (from, nth) in SOME {
            assert!(judged(&station, from, nth), "from {from:?} on it made no {nth} syncs");
        }
        return;
    }
    for from in [Moment::Message, Moment::Question, Moment::Call] {
        let syncs = (1..SYNCS_MAX).take_while(|nth| judged(&station, from, *nth)).count();
        assert!(syncs > 1 && syncs + 1 < SYNCS_MAX as usize, "from {from:?} on it made {syncs} syncs");
        println!("from {from:?} on it made {syncs} syncs");
    }
}

#[test]
fn a_call_that_may_be_made_twice_is_on_record_and_agreed_to_each_time() {
    let (station, teller, mut answers) = (Station::new(), Teller::of("repeated"), Answers::default());
    let node = teller.begin_with(&asking(&station, Some("repeatable")));
    station.hold("hold-tool");
    teller.is_told(&node);
    until(SOON, "the call is made", || {
        answers.give(&teller);
        !station.calls(&teller.run).is_empty()
    });
    node.running.kill();
    station.release("hold-tool");
    let mut node = teller.machine.up_alone(&[]);
    let Some(End::Completed(done)) = work(&teller, &mut node, &mut answers) else {
        panic!("nothing of it is in doubt")
    };
    assert_eq!((station.counts(&teller.run), words(&done).as_str()), ([2, 1], BOTH));
    // What came of the first attempt nobody saw.
    let wanted = Record { asked: [2, 1], answered: STEPS + 1, intents: [2, 1], outcomes: STEPS };
    let mut found = Record::of(&teller);
    until(SOON, "all is on record", || {
        found = Record::of(&teller);
        found.total() >= wanted.total()
    });
    assert_eq!(found, wanted);
}
