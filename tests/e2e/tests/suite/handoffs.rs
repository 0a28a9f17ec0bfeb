//! `althing handoff`: documents by which one agent gives work to another, checked without a node; and work that is handed over
//! between the nodes of two owners.
#![expect(clippy::disallowed_methods, reason = "a handoff is valid for some hours of the real time of day")]

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use althing_e2e::{Machine, Outcome, Running, cast, ssh, until};
use serde_json::{Value, json};

/// Says a word every 50 ms for a minute.
const SLOW: &str = include_str!("../../python/slow.py");
const SOON: Duration = Duration::from_secs(60);
const HOUR_MS: u64 = 3_600_000;
const PUBLISHER: &str = "urn:althing:zQmY8AwLhikXv1eG4pSSeFts6oZGeDvasQgedDH3gvhJ2Pz";

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("a while yet")
}

/// Complete, of an hour, and for everybody.
fn draft(number: u8) -> Value {
    let now_ms = now_ms();
    json!({
        "handoff_id": format!("01a2b3c4-d5e6-7000-8000-0000000000{number:02x}"),
        "task_id": "task-1",
        "sender": { "agent": format!("{PUBLISHER}:clerk") },
        "recipient": format!("{PUBLISHER}:auditor"),
        "issued_at_ms": now_ms - 1_000,
        "not_after_ms": now_ms + HOUR_MS,
        "context": { "task_description": "Check the invoices of June." },
        "quality_checklist": ["Every invoice is listed once."],
    })
}

fn regulated() -> Value {
    let mut view = draft(9);
    view["regulation"] = json!({
        "classification": "restricted",
        "region": "eu",
        "regulation_refs": ["R-1"],
        "audit": [{ "event": "read", "digest": "00".repeat(32) }],
        "sign_offs": [],
    });
    view
}

/// A machine on which a node ran, so that it has a key.
fn machine() -> Machine {
    let machine = Machine::new();
    machine.up_alone(&[]).running.kill();
    machine
}

fn handoff(machine: &Machine, arguments: &[&str]) -> Outcome {
    machine.run(&[&["handoff"][..], arguments].concat())
}

/// What `verify` says as JSON, and how it ends.
fn verified(machine: &Machine, arguments: &[&str]) -> (i32, Value) {
    let outcome = machine.run(&[&["--json", "handoff", "verify"][..], arguments].concat());
    let told = serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    (outcome.code, told)
}

/// The reasons for which the handoff of that number is not valid.
fn reasons(told: &Value, at: usize) -> Vec<&str> {
    let problems = told["handoffs"][at]["problems"].as_array().expect("a list");
    problems.iter().filter_map(|problem| problem["reason"].as_str()).collect()
}

/// P-206
#[test]
fn a_handoff_is_signed_shown_and_verified() {
    let machine = machine();
    machine.write("draft.json", &draft(1).to_string());
    let (code, told) = verified(&machine, &["draft.json"]);
    assert_eq!((code, reasons(&told, 0)), (1, vec!["bad_signature"]), "nobody signed it: {told}");
    let signed = handoff(&machine, &["sign", "draft.json", "signed.json"]);
    assert_eq!(signed.code, 0, "{signed:?}");
    let (code, told) = verified(&machine, &["signed.json"]);
    assert_eq!((code, &told["valid"], reasons(&told, 0)), (0, &json!(true), vec![]), "{told}");
    assert_eq!(told["handoffs"][0]["signer"], machine.json(&["id"])["node"]);
    let shown = handoff(&machine, &["show", "signed.json"]);
    assert!(shown.stdout.contains("context.task_description: Check the invoices of June.\n"), "{shown:?}");
    let again = handoff(&machine, &["sign", "draft.json", "signed.json"]);
    assert_eq!(again.code, 1, "no file is written over: {again:?}");
    // A word is another, in what was signed.
    let text = std::fs::read_to_string(machine.folder().join("signed.json")).expect("it was written");
    machine.write("forged.json", &text.replace("of June", "of July"));
    let (code, told) = verified(&machine, &["forged.json"]);
    assert_eq!((code, reasons(&told, 0)), (1, vec!["bad_signature"]), "{told}");
}

/// P-206
#[test]
fn what_would_not_be_accepted_is_not_signed_and_says_why() {
    let machine = machine();
    let mut incomplete = draft(2);
    incomplete["quality_checklist"] = json!([]);
    let mut expired = draft(3);
    expired["issued_at_ms"] = json!(now_ms() - 3 * HOUR_MS);
    expired["not_after_ms"] = json!(now_ms() - HOUR_MS);
    for (name, view, reason) in [
        ("incomplete", incomplete, "incomplete"),
        ("expired", expired, "expired"),
        ("restricted", regulated(), "sign_off_missing"),
    ] {
        let file = format!("{name}.json");
        machine.write(&file, &view.to_string());
        let (code, told) = verified(&machine, &[&file]);
        assert_eq!((code, reasons(&told, 0)), (1, vec!["bad_signature", reason]), "{name}: {told}");
        let signed = handoff(&machine, &["sign", &file, "out.json"]);
        assert_eq!(signed.code, 5, "{name}: {signed:?}");
        assert!(signed.stderr.contains(&format!("[{reason}]")), "{name}: {signed:?}");
    }
    let unread = |name: &str, text: &str, says: &str| {
        machine.write(name, text);
        let outcome = handoff(&machine, &["verify", name]);
        assert_eq!(outcome.code, 2, "{name}: {outcome:?}");
        assert!(outcome.stderr.contains(says), "{name}: {outcome:?}");
    };
    let names = (0..9).map(|at| format!("n{}: &n{} [*n{at}, *n{at}]\n", at + 1, at + 1)).collect::<String>();
    unread("bomb.yaml", &format!("n0: &n0 [x, x]\n{names}"), "write out what they stand for");
    unread("unknown.yaml", "next_action: run it\n", "next_action");
    unread("huge.yaml", &"x".repeat((1 << 20) + 1), "bytes");
    unread("deep.yaml", &"[".repeat(100_000), "not YAML");
}

/// P-206
#[test]
fn a_chain_is_verified_from_the_oldest_on() {
    let machine = machine();
    let sign = |name: &str, view: &Value| {
        machine.write("draft.json", &view.to_string());
        let signed = handoff(&machine, &["sign", "draft.json", name]);
        assert_eq!(signed.code, 0, "{signed:?}");
        let (_, told) = verified(&machine, &[name]);
        told["handoffs"][0]["digest"].as_str().expect("it is signed").to_owned()
    };
    let first = sign("one.json", &draft(4));
    let mut second = draft(5);
    second["previous"] = json!(first);
    let second = sign("two.json", &second);
    let mut third = draft(6);
    third["previous"] = json!(second);
    sign("three.json", &third);
    let (code, told) = verified(&machine, &["one.json", "two.json", "three.json"]);
    assert_eq!((code, &told["valid"]), (0, &json!(true)), "{told}");
    let (code, told) = verified(&machine, &["one.json", "three.json"]);
    assert_eq!((code, reasons(&told, 0), reasons(&told, 1)), (1, vec![], vec!["chain"]), "one is left out: {told}");
    let (code, told) = verified(&machine, &["two.json", "one.json"]);
    assert_eq!((code, reasons(&told, 1)), (1, vec!["chain"]), "the other way round: {told}");
}

/// P-207, with the program that people have.
#[test]
fn what_ssh_keygen_signs_counts_as_a_sign_off() {
    if ssh::is_missing() {
        return;
    }
    let machine = machine();
    machine.write("draft.json", &regulated().to_string());
    let until = "2099-12-31T23:59:59Z";
    let statement = handoff(&machine, &["show", "draft.json", "--statement", "owner", "--until", until]);
    assert_eq!(statement.code, 0, "{statement:?}");
    machine.write("statement", &statement.stdout);
    for (name, kind) in [("owner", "ed25519"), ("other", "ed25519"), ("rsa", "rsa")] {
        ssh::key(&machine, name, kind);
    }
    let signed_off = |name: &str, signature: String| {
        let draft = std::fs::read_to_string(machine.folder().join("draft.json")).expect("the draft");
        let mut view: Value = serde_json::from_str(&draft).expect("JSON");
        let until_ms = 4_102_444_799_000u64;
        view["regulation"]["sign_offs"] = json!([{ "role": "owner", "until_ms": until_ms, "signature": signature }]);
        machine.write(name, &view.to_string());
    };
    signed_off("good.json", ssh::signed(&machine, "owner", "althing-handoff", "statement"));
    let signed = handoff(&machine, &["sign", "good.json", "signed.json", "--signers", "owner.pub"]);
    assert_eq!(signed.code, 0, "{signed:?}");
    let (code, told) = verified(&machine, &["signed.json", "--signers", "owner.pub"]);
    assert_eq!((code, &told["handoffs"][0]["signOffs"][0]["counts"]), (0, &json!(true)), "{told}");
    let fingerprint = ssh::keygen(&machine, &["-l", "-f", "owner.pub"]).stdout;
    let shown = told["handoffs"][0]["signOffs"][0]["key"].as_str().expect("a key");
    assert!(fingerprint.contains(shown), "{fingerprint} is {shown}");
    // Nobody said that this key counts, or somebody else's does.
    for signers in [&[][..], &["--signers", "other.pub"][..]] {
        let (code, told) = verified(&machine, &[&["signed.json"][..], signers].concat());
        assert_eq!((code, reasons(&told, 0)), (1, vec!["sign_off_missing"]), "{told}");
    }
    // For another use, by a key of another kind, of other words.
    signed_off("use.json", ssh::signed(&machine, "owner", "file", "statement"));
    signed_off("kind.json", ssh::signed(&machine, "rsa", "althing-handoff", "statement"));
    machine.write("changed", &statement.stdout.replace("role: owner", "role: clerk"));
    signed_off("words.json", ssh::signed(&machine, "owner", "althing-handoff", "changed"));
    for name in ["use.json", "kind.json", "words.json"] {
        let refused = handoff(&machine, &["sign", name, "out.json", "--signers", "owner.pub"]);
        // A signature of RSA is longer than a sign-off may be.
        assert!([2, 5].contains(&refused.code), "{name}: {refused:?}");
        assert!(!machine.folder().join("out.json").exists(), "{name}");
    }
}

/// P-208: whoever called the agent hears the other one's answer, in the same task.
#[test]
fn the_work_of_a_task_is_handed_to_the_agent_of_another_owner() {
    if Command::new("python3").arg("--version").output().is_err() {
        return althing_testing::skip("there is no python3", althing_testing::remedy::PYTHON);
    }
    let (here, there) = (Machine::new(), Machine::new());
    let serving = there.up_alone(&[]);
    let _asking = here.up_alone(&["--peer", &serving.address("/ip4/127.0.0.1")]);
    there.add("far", &cast::echo("far", "anyone"));
    until(SOON, "it is found", || here.finds("far"));
    assert_eq!(here.run(&["trust", &serving.owner()]).code, 0);
    here.write("slow.py", SLOW);
    here.add("slow", &cast::program("slow", &["python3", "slow.py"], "own"));
    let mut calling = Running::start(&mut here.althing(&["--json", "call", "slow", "Count the pages."]));
    let first = calling.line(SOON).expect("its task");
    let task: Value = serde_json::from_str(&first).expect("JSON");
    let task = task["task"]["id"].as_str().expect("an id").to_owned();

    let none = handoff(&here, &["nothing", "far"]);
    assert_eq!(none.code, 4, "{none:?}");
    let drafted = handoff(&here, &[&task, "far", "--remaining", "Pages 8 to 12.", "--draft", "work.json"]);
    assert_eq!(drafted.code, 0, "{drafted:?}");
    let (code, told) = verified(&here, &["work.json"]);
    assert_eq!((code, reasons(&told, 0)), (1, vec!["bad_signature"]), "it is complete, and not signed: {told}");
    // Tools that nobody there has: the agent goes on.
    let text = std::fs::read_to_string(here.folder().join("work.json")).expect("it was written");
    let mut needing: Value = serde_json::from_str(&text).expect("JSON");
    needing["context"]["tools_required"] = json!(["calc/add"]);
    here.write("needing.json", &needing.to_string());
    let rejected = handoff(&here, &[&task, "far", "--sign-off", "needing.json"]);
    assert_eq!(rejected.code, 5, "{rejected:?}");
    assert!(rejected.stdout.contains("[missing_tools]"), "{rejected:?}");

    let given = here.json(&["handoff", &task, "far", "--sign-off", "work.json"]);
    assert_eq!((&given["state"], &given["task"]), (&json!("given"), &json!(task)), "{given}");
    assert_ne!(given["becomes"], json!(task));
    let ended = calling.end(SOON);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("Pages 8 to 12."), "the other one's answer: {ended:?}");
    let over = handoff(&here, &[&task, "far"]);
    assert_eq!(over.code, 5, "{over:?}");
    // Each time that the work was offered is on record, whatever came of it.
    let listed = here.json(&["audit", "query", "--action", "handing over", "--stage", "changed"]);
    assert_eq!(listed["entries"].as_array().map(Vec::len), Some(2), "{listed}");
}

/// Whoever does the work, who asked is promised what the contract of the agent says that was asked.
#[test]
fn what_the_other_agent_answers_has_to_pass_the_gates_of_the_one_that_was_asked() {
    if Command::new("python3").arg("--version").output().is_err() {
        return althing_testing::skip("there is no python3", althing_testing::remedy::PYTHON);
    }
    let (here, there) = (Machine::new(), Machine::new());
    let serving = there.up_alone(&[]);
    let _asking = here.up_alone(&["--peer", &serving.address("/ip4/127.0.0.1")]);
    there.add("far", &cast::echo("far", "anyone"));
    until(SOON, "it is found", || here.finds("far"));
    assert_eq!(here.run(&["trust", &serving.owner()]).code, 0);
    here.write("slow.py", SLOW);
    let slow = cast::program("slow", &["python3", "slow.py"], "own");
    let class = "class: { latency: srt }";
    assert!(slow.contains(class), "{slow}");
    let gated = format!("{class}, verify: {{ schema: {{ output: {{ type: object }} }} }}");
    here.add("slow", &slow.replace(class, &gated));
    let mut calling = Running::start(&mut here.althing(&["--json", "call", "slow", "Count the pages."]));
    let first = calling.line(SOON).expect("its task");
    let task: Value = serde_json::from_str(&first).expect("JSON");
    let task = task["task"]["id"].as_str().expect("an id").to_owned();
    let drafted = handoff(&here, &[&task, "far", "--remaining", "Pages 8 to 12.", "--draft", "work.json"]);
    assert_eq!(drafted.code, 0, "{drafted:?}");
    let given = here.json(&["handoff", &task, "far", "--sign-off", "work.json"]);
    assert_eq!(given["state"], "given", "{given}");
    let ended = calling.end(SOON);
    let told = format!("{}{}", ended.stdout, ended.stderr);
    assert!(told.contains("GATE_REFUSED") && !told.contains("Pages 8 to 12."), "{told}");
    let refused = &here.json(&["verdict", &task])["refusals"][0];
    assert!(refused["answer"].as_str().is_some_and(|answer| answer.contains("Pages 8 to 12.")), "{refused}");
}
