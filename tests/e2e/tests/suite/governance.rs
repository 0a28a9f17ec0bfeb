//! A call that a contract has people asked about: its task waits for them, over restarts; a yes makes it once, a no or silence never,
//! and what happened is proved to whoever has nothing of the node.

use std::collections::BTreeSet;
use std::path::Path;

use althing_e2e::python::python;
use althing_e2e::sessions::{SOON, STEPS, Station, Teller, words};
use althing_e2e::{Machine, Node, http, ssh, until};
use serde_json::{Value, json};

/// A name that no other test's files have.
const LEAF: &str = "order.leaf";

/// The agent whose calls people are asked about.
fn asking(station: &Station) -> String {
    let mut file: Value = serde_json::from_str(&station.file(None)).expect("JSON");
    file["contract"]["security"] = json!({ "consent_for": ["count/add"] });
    file.to_string()
}

/// The state of a task, and the task.
fn state(node: &Node, task: &str) -> Option<(String, Value)> {
    let task = http::ask_while_up(&node.gateway(), "teller", "GetTask", &json!({ "id": task }))?;
    Some((task["status"]["state"].as_str()?.to_owned(), task))
}

fn waits_for_people(node: &Node, task: &str) {
    until(SOON, "the task waits for people", || {
        state(node, task).is_some_and(|(state, _)| state == "TASK_STATE_AUTH_REQUIRED")
    });
}

/// The one thing that waits.
fn pending(teller: &Teller) -> Value {
    let list = teller.machine.json(&["pending"]);
    let [one] = list["pending"].as_array().expect("a list").as_slice() else { panic!("{list}") };
    one.clone()
}

/// Waits for the next question after one.
fn next(teller: &Teller, after: &str) -> String {
    let mut id = String::new();
    until(SOON, "the next call is asked about", || {
        let list = teller.machine.json(&["pending"]);
        let mut ids = list["pending"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str());
        id = ids.rfind(|id| *id != after).unwrap_or_default().to_owned();
        !id.is_empty()
    });
    id
}

fn completed(node: &Node, task: &str) -> Value {
    let mut done = Value::Null;
    until(SOON, "the task is completed", || match state(node, task) {
        Some((state, task)) if state == "TASK_STATE_COMPLETED" => {
            done = task;
            true
        }
        _ => false,
    });
    done
}

/// The entries of an action, the newest first.
fn entries(teller: &Teller, stage: &str) -> Vec<Value> {
    let list = teller.machine.json(&["audit", "query", "--action", "count/add", "--stage", stage]);
    list["entries"].as_array().expect("a list").clone()
}

#[test]
fn a_call_is_asked_about_waits_over_a_restart_is_made_once_and_is_proved() {
    let station = Station::new();
    let teller = Teller::of("consent");
    let machine = &teller.machine;
    let node = teller.begin_with(&asking(&station));
    let task = teller.is_told(&node);
    waits_for_people(&node, &task);
    let asked = pending(&teller);
    assert_eq!(
        (&asked["action"], &asked["task"], &asked["source"]),
        (&json!("count/add"), &json!(task), &json!("call"))
    );
    assert!(asked["outline"].to_string().contains("consent"), "the arguments are shown: {asked}");
    assert_eq!(station.counts("consent"), [0; STEPS], "nothing is done before somebody agrees");
    let status = machine.json(&["status"]);
    assert_eq!(status["layers"]["l7Governance"]["pending"], json!(1), "{status}");
    let doctor = machine.run(&["doctor"]);
    assert!(
        doctor.code == 1 && doctor.stdout.contains("WRONG L7") && doctor.stdout.contains("count/add"),
        "{doctor:?}"
    );
    node.running.kill();

    let node = machine.up_alone(&[]);
    waits_for_people(&node, &task);
    assert_eq!(pending(&teller)["id"], asked["id"], "it is the same question");
    assert_eq!(station.counts("consent"), [0; STEPS]);
    let first = althing_e2e::text(&asked["id"]);
    let shown = machine.run(&["approve", &first]);
    assert!(shown.code == 5 && shown.stderr.contains("count/add") && shown.stderr.contains("--yes"), "{shown:?}");
    assert_eq!(machine.json(&["approve", &first, "--yes"]), json!({ "id": first, "state": "approved" }));
    let second = next(&teller, &first);
    assert_eq!(station.counts("consent"), [1, 0], "a yes is for one call");
    let used = machine.run(&["approve", &first, "--yes"]);
    assert_eq!(used.code, 4, "it is over: {used:?}");
    machine.json(&["approve", &second, "--yes"]);
    let done = completed(&node, &task);
    assert_eq!((station.counts("consent"), words(&done).as_str()), ([1; STEPS], "heard [step 1] [step 2]"));
    assert_eq!(machine.json(&["pending"]), json!({ "pending": [] }));
    proves(&teller);
}

/// What was done is in the log, and an entry of it is verified where the node is not.
fn proves(teller: &Teller) {
    let machine = &teller.machine;
    until(SOON, "each call has its entries", || {
        ["intent", "outcome", "asked", "answered"].iter().all(|stage| entries(teller, stage).len() == STEPS)
    });
    let questions = |stage: &str| {
        let found = entries(teller, stage);
        found.iter().map(|entry| althing_e2e::text(&entry["question"])).collect::<BTreeSet<_>>()
    };
    assert_eq!(questions("answered").len(), STEPS);
    assert_eq!(questions("intent"), questions("answered"), "each call names the question whose answer allowed it");
    let outcomes = entries(teller, "outcome");
    assert!(outcomes.iter().all(|entry| entry["outcome"] == "done"), "{outcomes:?}");
    let entry = format!("{}.{}", outcomes[0]["log"], outcomes[0]["entry"]);
    let leaf = machine.folder().join(LEAF);
    let leaf = leaf.to_str().expect("a plain path");
    machine.json(&["audit", "show", &entry, "--export", leaf]);
    let key = althing_e2e::text(&machine.json(&["audit", "query"])["key"]);
    let stranger = Machine::new();
    let verified = stranger.json(&["audit", "verify", leaf, "--log", &key]);
    assert_eq!((&verified["valid"], &verified["trusted"]), (&json!(true), &json!(true)), "{verified}");
    assert_eq!(verified["entry"]["action"], json!("count/add"));
    let text = std::fs::read_to_string(leaf).expect("it was written");
    let at = text.find("leaf ").expect("the entry") + "leaf ".len() + 8;
    let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
    let edited = machine.write("edited.leaf", &format!("{}{other}{}", &text[..at], &text[at + 1..]));
    let refused = stranger.run(&["audit", "verify", edited.to_str().expect("a plain path")]);
    assert!(refused.code == 1 && refused.stderr.contains("proves nothing"), "{refused:?}");
}

#[test]
fn a_no_is_heard_by_the_agent_with_its_reason_and_nothing_is_called() {
    let station = Station::new();
    let teller = Teller::of("denied");
    let machine = &teller.machine;
    let node = teller.begin_with(&asking(&station));
    let task = teller.is_told(&node);
    waits_for_people(&node, &task);
    let id = althing_e2e::text(&pending(&teller)["id"]);
    let denied = machine.json(&["deny", &id, "--reason", "not today", "--yes"]);
    assert_eq!(denied, json!({ "id": id, "state": "denied" }));
    let second = next(&teller, &id);
    machine.json(&["deny", &second, "--yes"]);
    let done = completed(&node, &task);
    assert!(words(&done).contains("not today"), "{done}");
    assert_eq!(station.counts("denied"), [0; STEPS]);
    node.running.kill();
    let node = machine.up_alone(&[]);
    until(SOON, "the agent is here", || machine.finds("teller"));
    assert_eq!(state(&node, &task).map(|(state, _)| state).as_deref(), Some("TASK_STATE_COMPLETED"));
    assert_eq!(station.counts("denied"), [0; STEPS], "a denial is not asked about again");
}

#[test]
fn somebody_else_answers_with_a_key_of_the_file_of_people_and_nobody_with_another() {
    if ssh::is_missing() {
        return;
    }
    let station = Station::new();
    let teller = Teller::of("signed");
    let machine = &teller.machine;
    let [ada, _] = ["ada", "eve"].map(|name| ssh::key(machine, name, "ed25519"));
    let node = teller.begin_with(&asking(&station));
    let people = machine.write("people.yaml", &format!("owner: ada\npeople:\n  ada:\n    keys: [{ada:?}]\n"));
    machine.json(&["people", "load", people.to_str().expect("a plain path")]);
    let shown = machine.run(&["people", "show"]);
    assert!(shown.code == 0 && shown.stdout.contains("SHA256:"), "{shown:?}");
    let task = teller.is_told(&node);
    waits_for_people(&node, &task);
    let id = althing_e2e::text(&pending(&teller)["id"]);
    let signed = |name: &str| {
        let text = machine.run(&["approve", &id, "--text"]);
        assert_eq!(text.code, 0, "{text:?}");
        machine.write(name, &text.stdout);
        let key = name.split('-').next().expect("a name");
        ssh::signature(machine, key, "althing-consent", name).to_str().expect("a plain path").to_owned()
    };
    let stranger = machine.run(&["approve", &id, "--signature", &signed("eve-yes"), "--yes"]);
    assert!(stranger.code == 5 && stranger.stderr.contains("nobody"), "{stranger:?}");
    assert_eq!(station.counts("signed"), [0; STEPS]);
    let yes = signed("ada-yes");
    let turned = machine.run(&["deny", &id, "--signature", &yes, "--yes"]);
    assert_eq!(turned.code, 5, "a signed yes is no no: {turned:?}");
    machine.json(&["approve", &id, "--signature", &yes, "--yes"]);
    let second = next(&teller, &id);
    assert_eq!(station.counts("signed"), [1, 0]);
    let again = machine.run(&["approve", &second, "--signature", &yes, "--yes"]);
    assert_eq!(again.code, 5, "it is of another question: {again:?}");
}

#[test]
fn a_person_who_is_elsewhere_reads_the_question_at_the_gateway_and_answers_with_a_signature() {
    if ssh::is_missing() {
        return;
    }
    let station = Station::new();
    let teller = Teller::of("answered");
    let machine = &teller.machine;
    let node = teller.begin_with(&asking(&station));
    let of = |name: &str| {
        let key = ssh::key(machine, name, "ed25519");
        format!("  {name}:\n    keys: [{key:?}]\n    users: [{name}]\n")
    };
    let people = machine.write("people.yaml", &format!("owner: ada\npeople:\n{}{}", of("ada"), of("eve")));
    machine.json(&["people", "load", people.to_str().expect("a plain path")]);
    let task = teller.is_told(&node);
    waits_for_people(&node, &task);
    let id = althing_e2e::text(&pending(&teller)["id"]);
    let (gateway, path) = (node.gateway(), format!("/questions/{id}"));
    assert_eq!(http::get(&gateway, &path, &[]).status, 403, "whoever sits at the machine has its control socket");

    let bearer = |name: &str| format!("Bearer {}", althing_e2e::text(&machine.json(&["token", "add", name])["token"]));
    let (ada, eve, nobody) = (bearer("ada"), bearer("eve"), bearer("nobody"));
    let get = |bearer: &str| http::get(&gateway, &path, &[("Authorization", bearer)]);
    for (bearer, status) in [("Bearer none", 401), (nobody.as_str(), 403), (eve.as_str(), 404)] {
        assert_eq!(get(bearer).status, status, "{bearer} is not asked");
    }
    let shown = get(&ada);
    assert_eq!(shown.status, 200, "{shown:?}");
    let shown = shown.json();
    let question = &shown["question"];
    assert_eq!((&question["id"], &question["action"]), (&json!(id), &json!("count/add")), "{shown}");
    assert!(question["outline"].to_string().contains("answered"), "the arguments are shown: {shown}");

    let signed = |key: &str, word: &str| {
        let file = format!("{key}-{word}");
        machine.write(&file, shown[word].as_str().expect("a text"));
        ssh::signed(machine, key, "althing-consent", &file)
    };
    let post = |bearer: &str, answer: &Value| {
        let headers = [("Authorization", bearer), ("Content-Type", "application/json")];
        let body = answer.to_string();
        http::raw(&gateway, &http::request(&gateway, "POST", &path, &headers, body.as_bytes()))
    };
    let yes = |signature: &str| json!({ "approved": true, "signature": signature });
    let (of_ada, of_eve) = (signed("ada", "approve"), signed("eve", "approve"));
    for (bearer, answer, status) in [
        (&ada, yes(&of_eve), 403),
        (&eve, yes(&of_eve), 404),
        (&eve, yes(&of_ada), 404),
        (&ada, yes(&signed("ada", "deny")), 403),
        (&ada, json!({ "approved": true }), 403),
        (&ada, json!({ "approved": true, "signature": of_ada, "by": "eve" }), 422),
    ] {
        let refused = post(bearer, &answer);
        assert_eq!(refused.status, status, "{answer}: {refused:?}");
    }
    assert_eq!(station.counts("answered"), [0; STEPS], "nothing of that is a yes");
    let taken = post(&ada, &yes(&of_ada));
    assert_eq!((taken.status, taken.json()), (200, json!({ "id": id, "state": "approved" })));
    next(&teller, &id);
    assert_eq!(station.counts("answered"), [1, 0], "a yes is for one call");
    assert_eq!(post(&ada, &yes(&of_ada)).status, 404, "it waits no more");
}

#[test]
fn policies_are_swapped_whole_or_not_at_all_and_explain_themselves() {
    let station = Station::new();
    let teller = Teller::of("policy");
    let machine = &teller.machine;
    // Where policies are in force, labels decide too: this tool may be given anything, and can be relied on.
    let mut agent: Value = serde_json::from_str(&station.file(None)).expect("JSON");
    agent["tools"]["count"]["profiles"] = json!({ "add": { "clearance": "restricted", "trusted": true } });
    let node = teller.begin_with(&agent.to_string());
    assert!(machine.run(&["policy", "status"]).stdout.starts_with("no policies are in force"));
    let good = "@id(\"calls\") permit(principal, action == Action::\"call\", resource);\n@id(\"models\") permit(principal, action \
                == Action::\"model\", resource);\n@id(\"steps\") permit(principal, action == Action::\"add\", resource) when { \
                context.input.step == 1 };\n";
    let file = |name: &str, text: &str| machine.write(name, text).to_str().expect("a plain path").to_owned();
    let (good, bad) = (file("good.cedar", good), file("bad.cedar", "permit(principal, action,"));
    let refused = machine.run(&["policy", "load", &bad]);
    assert!(refused.code == 2 && refused.stderr.contains("line 1"), "{refused:?}");
    assert_eq!(machine.json(&["policy", "status"])["digest"], Value::Null, "nothing of it is in force");
    let loaded = machine.json(&["policy", "load", &good]);
    assert_eq!(loaded["policies"], json!(3), "{loaded}");
    machine.run(&["policy", "load", &bad]);
    assert_eq!(machine.json(&["policy", "status"])["digest"], loaded["digest"], "what was in force stays");

    let task = teller.is_told(&node);
    let done = completed(&node, &task);
    assert_eq!(station.counts("policy"), [1, 0], "the second step is not permitted: {done}");
    let all = file("all.cedar", "@id(\"all\") permit(principal, action, resource);\n");
    let turned = machine.json(&["policy", "diff", &all]);
    let turned = turned["turned"].as_array().expect("a list").clone();
    let [one] = turned.as_slice() else { panic!("{turned:?}") };
    assert_eq!((&one["was"], &one["becomes"]), (&json!("deny"), &json!("permit")));
    let why = machine.run(&["explain", &one["decision"].to_string()]);
    assert!(why.code == 0 && why.stdout.contains("deny") && why.stdout.contains("count/add"), "{why:?}");
    let who = machine.run(&["who", "count/add"]);
    assert!(who.code == 0 && who.stdout.contains("teller"), "{who:?}");
    let who = &machine.json(&["who", "count/add"])["agents"][0];
    assert_eq!((&who["answer"], &who["accountable"]), (&json!("depends"), &json!("owner")), "{who}");
    node.running.kill();
    let _node = machine.up_alone(&[]);
    assert_eq!(machine.json(&["policy", "status"])["digest"], loaded["digest"], "it is in force after a restart");
}

#[test]
fn a_program_that_cannot_resume_is_denied_when_its_node_starts_again() {
    let Some(python) = python() else { return };
    let station = Station::new();
    let teller = Teller::of("program");
    let machine = &teller.machine;
    machine.write("at_once.py", include_str!("../../python/at_once.py"));
    let mut file: Value =
        serde_json::from_str(&station.program(&[python, Path::new("at_once.py")], Some("keyed"))).expect("JSON");
    file["contract"]["security"] = json!({ "consent_for": ["count/add"] });
    file.as_object_mut().expect("an object").remove("session");
    let node = teller.begin_with(&file.to_string());
    teller.is_told(&node);
    until(SOON, "its calls are asked about", || {
        machine.json(&["pending"])["pending"].as_array().is_some_and(|list| !list.is_empty())
    });
    let id = althing_e2e::text(&machine.json(&["pending"])["pending"][0]["id"]);
    node.running.kill();
    let _node = machine.up_alone(&[]);
    until(SOON, "the agent is here", || machine.finds("teller"));
    assert_eq!(machine.json(&["pending"]), json!({ "pending": [] }), "a restart denies what it asked");
    assert_eq!(machine.run(&["approve", &id, "--yes"]).code, 4);
    assert_eq!(station.counts("program"), [0; STEPS]);
}

#[test]
fn a_standing_yes_is_listed_and_taken_back_and_what_happened_to_the_agent_is_on_record() {
    let station = Station::new();
    let teller = Teller::of("standing");
    let machine = &teller.machine;
    let node = teller.begin_with(&asking(&station));
    assert_eq!(machine.json(&["consents"]), json!({ "consents": [] }));
    let task = teller.is_told(&node);
    waits_for_people(&node, &task);
    let first = althing_e2e::text(&pending(&teller)["id"]);
    let listed = machine.run(&["pending"]).stdout;
    let until = listed.split_whitespace().find(|word| word.len() == 20 && word.ends_with('Z')).expect("its end");
    machine.json(&["approve", &first, "--yes", "--standing", "5", "--until", until]);
    let list = machine.json(&["consents"]);
    let [one] = list["consents"].as_array().expect("a list").as_slice() else { panic!("{list}") };
    assert!(one["action"] == "count/add" && one["left"].as_u64().is_some_and(|left| left > 0), "{one}");
    let id = althing_e2e::text(&one["id"]);
    let shown = machine.run(&["consents", "withdraw", &id]);
    assert!(shown.code == 5 && shown.stderr.contains("count/add") && shown.stderr.contains("--yes"), "{shown:?}");
    assert_eq!(machine.json(&["consents", "withdraw", &id[..8], "--yes"])["id"], json!(id));
    assert_eq!(machine.json(&["consents"]), json!({ "consents": [] }));
    assert_eq!(machine.run(&["consents", "withdraw", &id, "--yes"]).code, 4, "it is gone");

    let second = next(&teller, &first);
    machine.json(&["deny", &second, "--yes"]);
    completed(&node, &task);
    machine.run(&["agent", "remove", "teller"]);
    let words = |stage: &str| {
        let list = machine.json(&["audit", "query", "--stage", stage]);
        let entries = list["entries"].as_array().expect("a list").clone();
        let said = entries.iter().map(|entry| entry["action"].as_str().unwrap_or_default().to_owned());
        said.collect::<Vec<String>>()
    };
    until_on_record(&words);
    assert!(words("turn").is_empty(), "the turn has other entries");
}

/// The agent was added, started and removed, and the standing yes was taken back.
fn until_on_record(words: &dyn Fn(&str) -> Vec<String>) {
    until(SOON, "all of it is on record", || {
        let changed = words("changed");
        ["adding", "removing", "standing yes"].iter().all(|what| changed.iter().any(|action| action == what))
            && words("started").len() == 1
            && words("ended").len() == 1
    });
}
