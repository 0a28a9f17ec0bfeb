//! An agent is tested by the tape of a task that it did: nothing outside is asked, what changed is found, and what is not on the
//! tape is told by its name.

use althing_e2e::http::{ask, says};
use althing_e2e::sessions::{End, SOON, STEPS, Station, Teller, words};
use althing_e2e::{Machine, Node, cast, until};
use serde_json::{Value, json};

/// What the agent says when both of its calls were made.
const BOTH: &str = "heard [step 1] [step 2]";

/// An agent that has done a task, of which a tape is kept if that is said; and the task.
fn teller(station: &Station, run: &str, is_recorded: bool) -> (Teller, Node, String) {
    let mut file: Value = serde_json::from_str(&station.file(Some("keyed"))).expect("JSON");
    if is_recorded {
        file["contract"]["record"] = "tape".into();
    }
    let teller = Teller::of(run);
    let node = teller.begin_with(&file.to_string());
    let task = teller.is_told(&node);
    let End::Completed(done) = teller.end(&node, &task) else { panic!("it is in doubt") };
    assert_eq!(words(&done), BOTH);
    until(SOON, "its journal is closed", || teller.machine.json(&["session", "list"])["sessions"] == json!([]));
    (teller, node, task)
}

/// Runs a case, and gives the exit code with what is printed.
fn tested(teller: &Teller, case: &Value, more: &[&str]) -> (i32, String) {
    let file = teller.machine.write("changed.jsonl", &format!("{case}\n"));
    let mut command = vec!["test", "teller", "--cases", file.to_str().expect("a plain path")];
    command.extend(more);
    let ended = teller.machine.run(&command);
    (ended.code, format!("{}{}", ended.stdout, ended.stderr))
}

#[test]
fn a_case_of_a_task_passes_from_its_tape_and_what_changed_is_found() {
    let station = Station::new();
    let (teller, _node, task) = teller(&station, "tape", true);
    let machine = &teller.machine;
    let file = machine.folder().join("cases.jsonl");
    let path = file.to_str().expect("a plain path");
    // From here on, whoever asked the model or the tool would wait for ever.
    station.hold("hold-model");
    station.hold("hold-tool");
    let added = machine.run(&["case", "add", &task, "--to", path]);
    assert!(added.code == 0 && added.stdout.contains("has 1 case now"), "{added:?}");
    let twice = machine.run(&["case", "add", &task, "--to", path]);
    assert!(twice.code == 2 && twice.stderr.contains("line 1 has the id"), "{twice:?}");
    let text = std::fs::read_to_string(&file).expect("it was written");
    let case: Value = serde_json::from_str(text.trim_end()).expect("one line of JSON");
    let own = &case["metadata"]["althing"];
    assert_eq!((&case["input"], &case["target"]), (&json!("tape 2"), &json!(BOTH)), "{case}");
    assert_eq!((&own["tools"]["exact"], &own["task"]), (&json!(["count/add", "count/add"]), &json!(task)), "{case}");

    let junit = machine.folder().join("report.xml");
    let command = ["test", "teller", "--cases", path, "--junit", junit.to_str().expect("a plain path")];
    let report = machine.json(&command);
    assert_eq!((&report["verdict"], &report["cases"][0]["passed"]), (&json!("pass"), &json!(1)), "{report}");
    let xml = std::fs::read_to_string(&junit).expect("it was written");
    assert!(xml.contains(r#"<testsuite name="teller" tests="1""#), "{xml}");
    let replay = machine.json(&["replay", &task]);
    assert_eq!((&replay["equal"], &replay["turns"][0]["differences"]), (&json!(true), &json!([])), "{replay}");

    let mut wrong = case.clone();
    wrong["target"] = "heard nothing".into();
    let (code, told) = tested(&teller, &wrong, &[]);
    assert!(code == 1 && told.contains("wanted \"heard nothing\""), "{code}: {told}");
    let mut fewer = case.clone();
    fewer["metadata"]["althing"]["tools"]["exact"] = json!(["count/add"]);
    let (code, told) = tested(&teller, &fewer, &[]);
    assert!(code == 1 && told.contains("called count/add, count/add, wanted (exact) count/add"), "{code}: {told}");
    let mut other = case.clone();
    other["input"] = "tape 3".into();
    let (code, told) = tested(&teller, &other, &[]);
    assert!(code == 1 && told.contains("NOT_ON_TAPE: not on the tape: models"), "{code}: {told}");
    // What a version asks otherwise is not compared by a tape: that is no pass, and no fault of the version.
    let cases = machine.write("other.jsonl", &format!("{other}\n"));
    let cases = cases.to_str().expect("a plain path");
    let compared = machine.run(&["compare", "teller", "teller", "--cases", cases]);
    assert!(compared.code == 9 && compared.stdout.contains("NOT_ON_TAPE: not on the tape: models"), "{compared:?}");
    let mut untaped = case.clone();
    untaped["metadata"]["althing"].as_object_mut().expect("members").remove("task");
    let (code, told) = tested(&teller, &untaped, &[]);
    assert!(code == 9 && told.contains("names no task whose tape"), "{code}: {told}");
    let (code, told) = tested(&teller, &json!({ "input": 7 }), &[]);
    assert!(code == 2 && told.contains("line 1, input"), "{code}: {told}");
    // What one model said is no answer of another one.
    let mut file: Value = serde_json::from_str(&station.file(Some("keyed"))).expect("JSON");
    file["runtime"]["model"]["endpoints"][0]["model"] = "other".into();
    assert_eq!(machine.run(&["agent", "remove", "teller"]).code, 0);
    machine.add("teller", &file.to_string());
    let (code, told) = tested(&teller, &case, &[]);
    assert!(code != 0 && told.contains("it has what stub answered"), "{code}: {told}");
    assert_eq!(station.counts("tape"), [1; STEPS], "nothing of that made a call");
}

#[test]
fn a_live_test_asks_the_model_and_changes_nothing_but_at_test_servers() {
    let station = Station::new();
    let (teller, _node, task) = teller(&station, "live", false);
    let machine = &teller.machine;
    let unrecorded = machine.run(&["replay", &task]);
    assert!(unrecorded.code == 4 && unrecorded.stderr.contains("record: tape"), "{unrecorded:?}");
    let added = machine.run(&["case", "add", &task]);
    assert!(added.code == 0 && added.stderr.contains("record: tape"), "{added:?}");
    let case: Value = serde_json::from_str(added.stdout.trim_end()).expect("one line of JSON");
    assert_eq!(case["metadata"]["althing"].get("task"), None, "{case}");
    let (code, told) = tested(&teller, &case, &["--live"]);
    assert!(code == 1 && told.contains("denied: this is a test, count/add"), "{code}: {told}");
    assert!(told.contains("  denied count/add") && !told.contains("  called count/add"), "{told}");
    assert_eq!(station.counts("live"), [1; STEPS], "none was made");
    let (code, told) = tested(&teller, &case, &["--live", "--test-server", "cuont"]);
    assert!(
        code == 2 && told.contains("uses no server \"cuont\"") && told.contains("tools of count"),
        "{code}: {told}"
    );
    let (code, told) = tested(&teller, &case, &["--live", "--test-server", "count"]);
    assert!(code == 0, "{told}");
    assert_eq!(station.counts("live"), [2; STEPS]);
    let (code, told) = tested(&teller, &case, &["--test-server", "count"]);
    assert!(code == 2 && told.contains("--live"), "{code}: {told}");
}

#[test]
fn a_live_test_asks_nobody_and_says_what_was_denied_for_that() {
    let (station, teller) = (Station::new(), Teller::of("asking"));
    let mut file: Value = serde_json::from_str(&station.file(Some("keyed"))).expect("JSON");
    file["contract"]["security"] = json!({ "consent_for": ["count/add"] });
    let _node = teller.begin_with(&file.to_string());
    let case = json!({ "input": format!("asking {STEPS}"), "target": BOTH });
    let (code, told) = tested(&teller, &case, &["--live", "--test-server", "count"]);
    let denied = "a call was denied: somebody must agree, and a test asks nobody";
    assert!(code == 1 && told.contains(denied), "{code}: {told}");
    assert_eq!((station.counts("asking"), &teller.machine.json(&["pending"])["pending"]), ([0; STEPS], &json!([])));
}

/// A node with an agent whose answers another one judges, always with that word; and a file of two labelled cases of it.
fn judged(word: &str) -> (Machine, Node, String) {
    let machine = Machine::new();
    machine.write("shop.py", include_str!("../../python/shop.py"));
    let node = machine.up_alone(&[]);
    machine.add("judge", &cast::program("judge", &["python3", "shop.py", word], "trusted"));
    let clerk = json!({
        "name": "clerk",
        "description": "Says it again",
        "runtime": { "native": { "builtin": "echo", "config": { "answer": "task" } } },
        "contract": {
            "class": { "latency": "srt" },
            "capabilities": ["agents/judge"],
            "verify": { "checks": [{ "by": "agents/judge" }] },
        },
    });
    machine.add("clerk", &clerk.to_string());
    let case = |said: &str, verdict: &str| {
        format!("{}\n", json!({ "input": said, "metadata": { "althing": { "verdict": verdict } } }))
    };
    let cases = machine.write("cases.jsonl", &[case("a mug", "pass"), case("a lie", "fail")].concat());
    let cases = cases.to_str().expect("a plain path").to_owned();
    (machine, node, cases)
}

#[test]
fn a_judge_is_measured_by_cases_that_say_what_is_right() {
    let (machine, _node, cases) = judged(r#"{"passed": true}"#);
    let command = ["test", "clerk", "--cases", &cases, "--live", "--test-server", "agents"];
    let told = machine.run(&command);
    assert!(told.code == 1 && told.stdout.contains("no gate refused the answer, and one should"), "{told:?}");
    assert!(told.stdout.contains("agents/judge says passed, wanted fail (agreed in 1 of 2 labelled runs"), "{told:?}");
    let last = told.stdout.trim_end().lines().last().unwrap_or_default();
    assert!(last.starts_with("agents/judge agreed in 1 of 2 labelled runs, 0.500 ("), "{told:?}");
    let report = machine.run(&[&["--json"][..], &command].concat());
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let judge = &report["judges"][0];
    assert_eq!((&judge["judge"], &judge["agreed"], &judge["asked"]), (&json!("agents/judge"), &json!(1), &json!(2)));
    assert_eq!(report["cases"][0]["runs"][0]["judges"], json!([{ "judge": "agents/judge", "passed": true }]));

    // Nobody may ask it: that it is silent is no refusal.
    let unasked = machine.run(&["--json", "test", "clerk", "--cases", &cases, "--live"]);
    let report: Value = serde_json::from_str(&unasked.stdout).expect("JSON");
    let run = &report["cases"][1]["runs"][0];
    assert_eq!((&run["verdict"], &report["judges"]), (&json!("undecided"), &Value::Null), "{report}");
    assert_eq!(run["denied"][0], "agents/judge", "{report}");
    assert!(run["reasons"].to_string().contains("the gate agents/judge could not judge the answer: a call was denied"));
}

#[test]
fn what_a_check_calls_is_no_tool_of_the_agent_in_cases_and_tests() {
    let (machine, node, _) = judged(r#"{"passed": true}"#);
    let case = json!({ "input": "a mug", "target": "a mug", "metadata": { "althing": { "tools": { "exact": [] } } } });
    let file = machine.write("none.jsonl", &format!("{case}\n"));
    let live = ["test", "clerk", "--cases", file.to_str().expect("a plain path"), "--live", "--test-server", "agents"];
    let report = machine.json(&live);
    assert_eq!((&report["verdict"], &report["cases"][0]["runs"][0]["tools"]), (&json!("pass"), &json!([])), "{report}");
    drop(node);

    let (station, teller) = (Station::new(), Teller::of("judged"));
    let mut file: Value = serde_json::from_str(&station.file(Some("keyed"))).expect("JSON");
    file["contract"]["capabilities"] = json!(["count/add", "agents/judge"]);
    file["contract"]["verify"] = json!({ "checks": [{ "by": "agents/judge" }] });
    file["contract"]["record"] = "tape".into();
    let node = teller.begin_with(&file.to_string());
    teller.machine.write("shop.py", include_str!("../../python/shop.py"));
    let judge = cast::program("judge", &["python3", "shop.py", r#"{"passed": true}"#], "trusted");
    teller.machine.add("judge", &judge);
    let task = teller.is_told(&node);
    let End::Completed(done) = teller.end(&node, &task) else { panic!("it is in doubt") };
    assert_eq!(words(&done), BOTH);
    let added = teller.machine.run(&["case", "add", &task]);
    let case: Value = serde_json::from_str(added.stdout.trim_end()).unwrap_or_else(|_| panic!("{added:?}"));
    assert_eq!(case["metadata"]["althing"]["tools"]["exact"], json!(["count/add", "count/add"]), "{case}");
    let (code, told) = tested(&teller, &case, &[]);
    assert_eq!(code, 0, "{told}");
}

#[test]
fn a_verdict_of_a_judge_is_shown_with_how_often_it_agreed_once_that_is_measured() {
    let (machine, node, cases) = judged(r#"{"passed": false, "reason": "it is rude"}"#);
    let asked = ask(&node.gateway(), "clerk", "SendMessage", &says("a mug"));
    let task = asked["task"]["id"].as_str().expect("a task");
    let shown = || machine.run(&["verdict", task]).stdout;
    until(SOON, "the refusal is kept", || shown().contains("it is rude"));
    assert!(shown().contains("agents/judge (its agreement is not measured)"), "{}", shown());
    assert_eq!(machine.json(&["verdict", task]).get("judges"), None);
    let tested = machine.run(&["test", "clerk", "--cases", &cases, "--live", "--test-server", "agents"]);
    assert_eq!(tested.code, 1, "it refuses what is right: {tested:?}");
    assert!(shown().contains("agents/judge (agreed in 1 of 2 labelled runs, 0.500 ("), "{}", shown());
    let judge = &machine.json(&["verdict", task])["judges"][0];
    assert_eq!((&judge["judge"], &judge["agreed"], &judge["asked"]), (&json!("agents/judge"), &json!(1), &json!(2)));
}

#[test]
fn an_agent_of_another_node_is_tested_by_its_answers_once_its_effects_there_are_accepted() {
    let station = Station::new();
    let teller = Teller::of("there");
    let node = teller.begin(&station, Some("keyed"));
    let here = teller.machine.of_same_owner();
    let _here = here.up_alone(&["--peer", &node.address("/ip4/127.0.0.1")]);
    until(SOON, "the agent is found", || here.finds("teller"));
    let case = json!({ "input": format!("there {STEPS}"), "target": BOTH });
    let file = here.write("cases.jsonl", &format!("{case}\n"));
    let path = file.to_str().expect("a plain path");
    let test = |agent: &str, more: &[&str]| {
        let mut command = vec!["test", agent, "--cases", path];
        command.extend(more);
        let ended = here.run(&command);
        (ended.code, format!("{}{}", ended.stdout, ended.stderr))
    };

    let (code, told) = test("teller", &[]);
    assert!(code == 4 && told.contains("runs on this node") && told.contains("live"), "{code}: {told}");
    let (code, told) = test("teller", &["--live"]);
    assert!(code == 5 && told.contains("effects there") && told.contains("--yes"), "{code}: {told}");
    let (code, told) = test("teller", &["--live", "--yes", "--test-server", "count"]);
    assert!(code == 2 && told.contains("says nothing to that node"), "{code}: {told}");
    let (code, told) = test("nobody", &["--live", "--yes"]);
    assert!(code == 4, "{code}: {told}");
    assert_eq!(station.counts("there"), [0; STEPS], "nothing was called");

    let report = here.json(&["test", "teller", "--cases", path, "--live", "--yes"]);
    assert_eq!((&report["verdict"], &report["elsewhere"]), (&json!("pass"), &json!(true)), "{report}");
    let run = &report["cases"][0]["runs"][0];
    assert_eq!((&run["agent"], &run["tools"]), (&json!("teller"), &json!([])), "{report}");
    assert_eq!(
        (&run["tokens"], &run["tokensPerSecond"]),
        (&Value::Null, &Value::Null),
        "what is not seen is no figure"
    );
    assert_eq!(station.counts("there"), [1; STEPS], "it was called there");
    let agents = teller.machine.json(&["agent", "list"]);
    let id = agents["agents"][0]["id"].as_str().expect("its id");
    let (code, told) = test(id, &["--live", "--yes"]);
    assert!(code == 0 && told.contains("effects there are not seen here"), "{code}: {told}");

    // What cannot be seen is no pass, and nothing is called for it.
    let mut named = case.clone();
    named["metadata"] = json!({ "althing": { "tools": { "never": ["count/clear"] } } });
    here.write("cases.jsonl", &format!("{named}\n"));
    let before = station.counts("there");
    let (code, told) = test("teller", &["--live", "--yes"]);
    assert!(code == 9 && told.contains("names tools"), "{code}: {told}");
    assert_eq!(station.counts("there"), before);
    let mut wrong = case;
    wrong["target"] = "heard nothing".into();
    here.write("cases.jsonl", &format!("{wrong}\n"));
    let (code, told) = test("teller", &["--live", "--yes"]);
    assert!(code == 1 && told.contains("wanted \"heard nothing\""), "{code}: {told}");
}

#[test]
fn what_is_no_task_or_no_agent_here_is_refused() {
    let station = Station::new();
    let (teller, _node, _) = teller(&station, "none", false);
    let machine = &teller.machine;
    machine.write("cases.jsonl", "{\"input\": \"hi\", \"target\": \"hi\"}\n");
    let file = machine.folder().join("cases.jsonl");
    let path = file.to_str().expect("a plain path");
    let empty = machine.write("none.jsonl", "");
    let empty = machine.run(&["test", "teller", "--cases", empty.to_str().expect("a plain path")]);
    assert!(empty.code == 2 && empty.stderr.contains("\"target\""), "it says what a case is: {empty:?}");
    for command in [&["replay", "none"][..], &["case", "add", "none"], &["test", "nobody", "--cases", path]] {
        let refused = machine.run(command);
        assert!(refused.code == 4 && refused.stderr.contains("no"), "{command:?}: {refused:?}");
    }
}
