//! A new version of an agent gets a share of its calls: one that fails goes back by itself and stays back, also when its node was
//! killed; one that does not takes the place of the one before.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_e2e::sessions::{End, STEPS, Station, Teller};
use althing_e2e::{ADD_MAX, Machine, Node, Outcome, Running, cast, http, until};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);
const SHOP: &str = include_str!("../../python/shop.py");
/// From the verdict on one node to the other one; it is a second where commands take no time.
const TOLD_MAX: Duration = Duration::from_secs(5);
/// Far more calls than it takes to see that every second one fails.
const CALLS_MAX: usize = 400;

/// The file of a version that says this word to everything, or fails.
fn shop(version: &str, word: &str) -> String {
    let file = cast::program("shop", &["python3", "shop.py", word], "trusted");
    file.replace("version: 1.0.0\n", &format!("version: {version}\n"))
}

fn begin(machine: &Machine, version: &str, word: &str) -> Outcome {
    let file = machine.write(&format!("shop-{version}.yaml"), &shop(version, word));
    let mut command = machine.althing(&["--json", "rollout", "shop", "--steps", "50,100", "--yes", "--to"]);
    Running::start(command.arg(&file)).end(ADD_MAX)
}

fn began(machine: &Machine, version: &str, word: &str) -> Value {
    let begun = begin(machine, version, word);
    assert_eq!(begun.code, 0, "{begun:?}");
    serde_json::from_str(&begun.stdout).expect("JSON")
}

fn show(machine: &Machine) -> Value {
    machine.json(&["rollout", "show", "shop"])
}

/// What a message is answered with, in this conversation or in none; none where its task failed.
fn said(node: &Node, context: Option<&str>) -> Option<String> {
    let mut params = http::says("a mug, please");
    if let Some(context) = context {
        params["message"]["contextId"] = json!(context);
    }
    let task = http::ask(&node.gateway(), "shop", "SendMessage", &params)["task"].take();
    task["artifacts"][0]["parts"][0]["text"].as_str().map(str::to_owned)
}

/// The versions of the agent that run, with their shares.
fn shares(machine: &Machine) -> BTreeMap<String, u64> {
    let list = machine.json(&["ps"]);
    let rows = list["agents"].as_array().expect("a list").iter();
    let share = |row: &Value| {
        let rollout = &row["rollout"];
        Some((rollout["version"].as_str()?.to_owned(), rollout["sharePercent"].as_u64()?))
    };
    rows.filter_map(share).collect()
}

/// What is on record of the agent's rollouts, the oldest first.
fn on_record(machine: &Machine) -> Vec<String> {
    let list = machine.json(&["audit", "query", "--stage", "changed"]);
    let actions = list["entries"].as_array().into_iter().flatten().filter_map(|entry| entry["action"].as_str());
    let of_rollouts = ["rollout", "promoting", "aborting", "going back"];
    let mut said: Vec<String> = actions.filter(|what| of_rollouts.contains(what)).map(str::to_owned).collect();
    said.reverse();
    said
}

/// Kills the node, and starts it again.
fn again(machine: &Machine, node: Node) -> Node {
    node.running.kill();
    let node = machine.up_alone(&[]);
    let ready = |params: &Value| http::ask_while_up(&node.gateway(), "shop", "SendMessage", params).is_some();
    until(SOON, "the agent answers", || ready(&http::says("open?")));
    node
}

#[test]
fn a_version_that_fails_goes_back_by_itself_and_stays_back() {
    let machine = Machine::new();
    machine.write("shop.py", SHOP);
    let node = machine.up_alone(&[]);
    machine.add("shop", &shop("1.0.0", "one"));
    let unknown = machine.run(&["rollout", "show", "shop"]);
    assert!(unknown.code == 4 && unknown.stderr.contains("no rollout of"), "{unknown:?}");
    let same = begin(&machine, "1.0.0", "fails");
    assert!(same.code != 0 && same.stderr.contains("runs in version 1.0.0 already"), "{same:?}");

    let begun = began(&machine, "1.1.0", "fails");
    assert_eq!((&begun["state"], &begun["new"]["sharePercent"]), (&json!("running"), &json!(50)), "{begun}");
    assert_eq!(shares(&machine), BTreeMap::from([("1.0.0".to_owned(), 50), ("1.1.0".to_owned(), 50)]));
    let mut failures = 0;
    for _ in 0..CALLS_MAX {
        match said(&node, None) {
            Some(word) => assert_eq!(word, "one"),
            None => failures += 1,
        }
        if failures > 1 && show(&machine)["state"] != "running" {
            break;
        }
    }
    let told = show(&machine);
    assert_eq!(told["state"], "wentBack", "{failures} failures: {told}");
    let reason = told["reason"].as_str().expect("a reason").to_owned();
    assert!(reason.starts_with("it is worse: "), "{told}");
    let is_clean = |node: &Node| (0..20).all(|_| said(node, None).as_deref() == Some("one"));
    assert!(is_clean(&node), "{told}");
    until(SOON, "it is on record that it went back", || on_record(&machine) == ["rollout", "going back"]);

    let node = again(&machine, node);
    assert!(is_clean(&node), "what went back is back after a kill");
    let told = show(&machine);
    assert_eq!((&told["state"], told["reason"].as_str()), (&json!("wentBack"), Some(reason.as_str())), "{told}");
    let shown = machine.run(&["rollout", "show", "shop"]);
    assert!(shown.stdout.contains("went back, and is not tried again") && shown.stdout.contains(&reason), "{shown:?}");
    // Not under another number either.
    let twice = begin(&machine, "1.2.0", "fails");
    assert!(twice.code == 5 && twice.stderr.contains("went back before"), "{twice:?}");
    assert!(is_clean(&node), "nothing was begun");
}

#[test]
fn a_version_whose_program_ends_before_it_answers_goes_back_at_its_first_call() {
    let machine = Machine::new();
    machine.write("shop.py", SHOP);
    let node = machine.up_alone(&[]);
    machine.add("shop", &shop("1.0.0", "one"));
    began(&machine, "1.1.0", "ends");
    assert!((0..CALLS_MAX).any(|_| said(&node, None).is_none()), "no call was the new version's");
    until(SOON, "one is enough", || show(&machine)["state"] == "wentBack");
    let told = show(&machine);
    assert!(told["reason"].as_str().is_some_and(|reason| reason.starts_with("it crashed")), "{told}");
    assert!((0..20).all(|_| said(&node, None).as_deref() == Some("one")), "{told}");
}

#[test]
fn a_version_that_is_promoted_is_the_agent_from_then_on_and_conversations_stay_with_theirs() {
    let machine = Machine::new();
    machine.write("shop.py", SHOP);
    let node = machine.up_alone(&[]);
    machine.add("shop", &shop("1.0.0", "one"));
    assert_eq!(said(&node, Some("before")).as_deref(), Some("one"));
    began(&machine, "2.0.0", "two");
    let names: Vec<String> = (0..24).map(|number| format!("talk-{number}")).collect();
    let talk = |node: &Node| -> Vec<Option<String>> { names.iter().map(|name| said(node, Some(name))).collect() };
    let first = talk(&node);
    for word in ["one", "two"] {
        assert!(first.iter().any(|said| said.as_deref() == Some(word)), "both answer: {first:?}");
    }
    assert_eq!(talk(&node), first, "a conversation stays with its version");
    assert_eq!(said(&node, Some("before")).as_deref(), Some("one"), "it is older than the rollout");
    let busy = begin(&machine, "3.0.0", "three");
    assert!(busy.code != 0 && busy.stderr.contains("under way"), "{busy:?}");

    let node = again(&machine, node);
    assert_eq!(talk(&node), first, "also when its node was killed");
    let promoted = machine.json(&["rollout", "promote", "shop"]);
    assert_eq!(promoted["state"], "promotedByOwner", "{promoted}");
    until(SOON, "it is on record who was promoted", || on_record(&machine) == ["rollout", "promoting"]);
    let are_new = |node: &Node| (0..12).all(|_| said(node, None).as_deref() == Some("two"));
    assert!(are_new(&node), "new conversations are the new version's");
    assert_eq!(talk(&node), first, "and older ones go on where they are");
    let node = again(&machine, node);
    assert!(are_new(&node) && talk(&node) == first, "after a kill too");
    let over = machine.run(&["rollout", "abort", "shop"]);
    assert!(over.code == 4 && over.stderr.contains("no rollout of this agent is under way"), "{over:?}");

    machine.json(&["agent", "remove", "shop"]);
    assert_eq!(machine.json(&["ps"])["agents"], json!([]), "all versions are the agent");
}

/// Two nodes of one owner that are connected, each with the agent, and with a rollout of the same new version.
fn pair(word: &str) -> [(Machine, Node); 2] {
    let one = Machine::new();
    let first = one.up_alone(&[]);
    let other = one.of_same_owner();
    let second = other.up_alone(&["--peer", &first.address("/ip4/127.0.0.1")]);
    for (machine, mark) in [(&one, "left"), (&other, "right")] {
        machine.add(mark, &cast::echo(mark, "own"));
        machine.write("shop.py", SHOP);
        machine.add("shop", &shop("1.0.0", "one"));
    }
    until(SOON, "they know each other's agents", || one.finds("right") && other.finds("left"));
    let digests = [&one, &other].map(|machine| began(machine, "1.1.0", word)["new"]["digest"].take());
    assert_eq!(digests[0], digests[1], "it is one version");
    [(one, first), (other, second)]
}

#[test]
fn what_goes_back_on_one_node_goes_back_on_the_owner_s_other_one_and_stays_back() {
    let nodes = pair("ends");
    let went_back = |machine: &Machine| show(machine)["state"] == "wentBack";
    // Whichever of both answers its calls.
    for _ in 0..CALLS_MAX {
        said(&nodes[0].1, None);
        if nodes.iter().any(|(machine, _)| went_back(machine)) {
            break;
        }
    }
    let took = until(TOLD_MAX, "both know it", || nodes.iter().all(|(machine, _)| went_back(machine)));
    println!("the other node was told within {took:?}, two commands included");
    let reasons = [0, 1].map(|at: usize| show(&nodes[at].0)["reason"].as_str().expect("a reason").to_owned());
    let dids = [0, 1].map(|at: usize| nodes[at].1.did());
    let own = reasons.iter().position(|reason| reason.starts_with("it crashed")).expect("it went back on one of them");
    let told = &reasons[1 - own];
    assert!(told.starts_with("it went back on another node of its owner") && told.contains(&dids[own]), "{told}");
    until(SOON, "it is on record there", || on_record(&nodes[1 - own].0) == ["rollout", "going back"]);
    let is_clean = |node: &Node| (0..12).all(|_| said(node, None).as_deref() == Some("one"));
    assert!(nodes.iter().all(|(_, node)| is_clean(node)));

    // Killed, and alone: nobody tells it again.
    let [one, other] = nodes;
    let ((machine, node), (_, gone)) = if own == 0 { (other, one) } else { (one, other) };
    drop(gone);
    let node = again(&machine, node);
    let shown = show(&machine);
    assert_eq!((&shown["state"], shown["reason"].as_str()), (&json!("wentBack"), Some(told.as_str())), "{shown}");
    assert!(is_clean(&node));
    let twice = begin(&machine, "1.2.0", "ends");
    assert!(twice.code == 5 && twice.stderr.contains("went back on another node of its owner"), "{twice:?}");
}

#[test]
fn what_is_promoted_on_one_node_is_promoted_on_the_owner_s_other_one_and_stays_so() {
    let [(one, first), (other, second)] = pair("two");
    assert_eq!(one.json(&["rollout", "promote", "shop"])["state"], "promotedByOwner");
    let took = until(TOLD_MAX, "the other node promotes it", || show(&other)["state"] == "promotedElsewhere");
    println!("the other node promoted it within {took:?}, a command included");
    let shown = other.run(&["rollout", "show", "shop"]);
    let says = format!("why: it was promoted on {}", first.did());
    assert!(shown.stdout.contains("was promoted, as on another node of its owner"), "{shown:?}");
    assert!(shown.stdout.contains(&says), "{shown:?}");
    until(SOON, "it is on record there", || on_record(&other) == ["rollout", "promoting"]);
    let is_new = |node: &Node| (0..12).all(|_| said(node, None).as_deref() == Some("two"));
    until(SOON, "new conversations are the new version's", || is_new(&second));
    // Killed, and alone: nobody tells it again.
    drop(first);
    let second = again(&other, second);
    assert!(is_new(&second) && show(&other)["state"] == "promotedElsewhere", "after a kill too");
}

/// The file of a version that says again what it hears, as a task or as a message, held to that.
fn echo(version: &str, answer: &str, verify: Option<Value>) -> String {
    let mut file = json!({
        "name": "shop",
        "description": "Sells mugs",
        "version": version,
        "runtime": { "native": { "builtin": "echo", "config": { "answer": answer } } },
        "contract": { "class": { "latency": "srt" } },
    });
    if let Some(verify) = verify {
        file["contract"]["verify"] = verify;
    }
    file.to_string()
}

/// Begins a rollout of that file, with these options.
fn begin_with(machine: &Machine, file: &str, options: &[&str]) -> Outcome {
    let file = machine.write("new.yaml", file);
    let mut command = machine.althing(&["--json", "rollout", "shop", "--steps", "50,100", "--yes", "--to"]);
    Running::start(command.arg(&file).args(options)).end(ADD_MAX)
}

/// The same, as a shadow.
fn shadowed(machine: &Machine, file: &str) -> Outcome {
    begin_with(machine, file, &["--shadow"])
}

#[test]
fn a_loop_that_is_not_hard_real_time_is_not_rolled_out_and_says_why() {
    let machine = Machine::new();
    machine.write("arm.wat", include_str!("../../../../examples/robot-arm/arm.wat"));
    let _node = machine.up_alone(&[]);
    let file = |version: &str| {
        json!({
            "name": "shop",
            "description": "Moves an arm",
            "version": version,
            "runtime": { "wasm": { "module": "arm.wat" } },
            "contract": {
                "class": { "latency": "srt" },
                "signals": { "inputs": ["arm.target", "arm.angle", "arm.speed"], "outputs": ["arm.torque"] },
            },
        })
        .to_string()
    };
    machine.add("shop", &file("1.0.0"));
    let refused = begin_with(&machine, &file("1.1.0"), &[]);
    assert!(refused.code == 2 && refused.stderr.contains("which has one writer"), "{refused:?}");
}

#[test]
fn a_tenth_version_waits_for_those_that_still_have_conversations() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    machine.add("shop", &echo("1.0.0", "task", None));
    let begin = |number: u32| {
        let file = echo(&format!("1.{number}.0"), "task", None).replace("mugs", &format!("{number} mugs"));
        begin_with(&machine, &file, &[])
    };
    for number in 1..10 {
        let begun = begin(number);
        assert_eq!(begun.code, 0, "{begun:?}");
        assert_eq!(machine.run(&["rollout", "promote", "shop"]).code, 0);
    }
    let refused = begin(10);
    assert!(refused.code != 0 && refused.stderr.contains("as many earlier versions"), "{refused:?}");
}

#[test]
fn labelled_cases_count_with_the_calls() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    machine.add("shop", &echo("1.0.0", "task", None));
    let lines = ["a mug", "a cup"].map(|said| format!("{}\n", json!({ "input": said, "target": said, "id": said })));
    let cases = machine.write("cases.jsonl", &lines.concat());
    let cases = cases.to_str().expect("a plain path");
    let bad = machine.write("bad.jsonl", "{\"input\": 7}\n");
    let bad = bad.to_str().expect("a plain path");
    let bad = begin_with(&machine, &echo("1.1.0", "message", None), &["--with-cases", bad]);
    assert!(bad.code == 2 && bad.stderr.contains("line 1"), "{bad:?}");
    assert_eq!(machine.run(&["rollout", "show", "shop"]).code, 4, "nothing was begun");
    let begun = begin_with(&machine, &echo("1.1.0", "message", None), &["--with-cases", cases]);
    assert_eq!(begun.code, 0, "{begun:?}");
    let told = show(&machine);
    let expected = json!({ "stable": 2, "stableWrong": 0, "new": 2, "newWrong": 0 });
    assert_eq!((&told["cases"], &told["calls"], &told["state"]), (&expected, &json!(2), &json!("running")), "{told}");
    machine.json(&["rollout", "abort", "shop"]);
    until(SOON, "it is on record that it was ended", || on_record(&machine) == ["rollout", "aborting"]);
    let schema = json!({ "schema": { "output": { "type": "object" } } });
    let begun = begin_with(&machine, &echo("1.2.0", "task", Some(schema)), &["--with-cases", cases]);
    assert_eq!(begun.code, 0, "{begun:?}");
    let told = show(&machine);
    assert_eq!((&told["cases"]["stableWrong"], &told["cases"]["newWrong"]), (&json!(0), &json!(2)), "{told}");
}

#[test]
fn a_shadow_is_given_the_same_and_is_compared_and_nobody_hears_it() {
    const CALLS: u64 = 12;
    let machine = Machine::new();
    machine.write("shop.py", SHOP);
    let node = machine.up_alone(&[]);
    machine.add("shop", &echo("1.0.0", "task", None));
    let open = shadowed(&machine, &shop("1.1.0", "one"));
    assert!(open.code != 0 && open.stderr.contains("can have no shadow"), "it is a program: {open:?}");
    let begun = shadowed(&machine, &echo("1.2.0", "message", None));
    assert_eq!(begun.code, 0, "{begun:?}");
    // Both say the same, and only one of them makes a task of it.
    let hears_stable = |node: &Node| said(node, None).as_deref() == Some("a mug, please");
    for _ in 0..CALLS {
        assert!(hears_stable(&node), "the new version is heard");
    }
    let mut shadow = Value::Null;
    until(SOON, "all copies ended", || {
        shadow = show(&machine)["shadow"].take();
        shadow["calls"] == CALLS
    });
    assert_eq!((&shadow["running"], &shadow["bad"], &shadow["liveCalls"]), (&json!(true), &json!(0), &json!(0)));
    assert_eq!(shadow["differing"], CALLS, "{shadow}");
    let shown = machine.run(&["rollout", "show", "shop"]);
    assert!(shown.stdout.contains("is given copies of all calls"), "{shown:?}");
    assert!(shown.stdout.contains("copies that nobody heard: 12"), "{shown:?}");
    machine.json(&["rollout", "abort", "shop"]);

    // Its gate refuses what it answers, and no caller ever meets that.
    let schema = json!({ "schema": { "output": { "type": "object" } } });
    let begun = shadowed(&machine, &echo("1.3.0", "task", Some(schema)));
    assert_eq!(begun.code, 0, "{begun:?}");
    assert!(hears_stable(&node));
    until(SOON, "it goes back", || show(&machine)["state"] == "wentBack");
    let told = show(&machine);
    let reason = told["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("it gave what a gate refused"), "{told}");
    assert!((0..5).all(|_| hears_stable(&node)), "{told}");
}

#[test]
fn a_copy_to_which_a_call_was_denied_counts_as_nothing_and_is_told() {
    let station = Station::new();
    let teller = Teller::of("copied");
    let node = teller.begin(&station, Some("keyed"));
    let machine = &teller.machine;
    let mut file: Value = serde_json::from_str(&station.file(Some("keyed"))).expect("JSON");
    file["version"] = json!("1.1.0");
    file["runtime"]["model"]["prompt"] = json!("Count well.");
    let file = machine.write("new.yaml", &file.to_string());
    let options = ["--json", "rollout", "teller", "--steps", "50,100", "--yes", "--shadow", "--to"];
    let begun = Running::start(machine.althing(&options).arg(&file)).end(ADD_MAX);
    assert_eq!(begun.code, 0, "{begun:?}");
    let task = teller.is_told(&node);
    assert!(matches!(teller.end(&node, &task), End::Completed(_)), "the old version answers");
    let mut told = Value::Null;
    until(SOON, "the copy ended", || {
        told = machine.json(&["rollout", "show", "teller"]);
        told["shadow"]["denied"] == 1
    });
    assert_eq!((&told["state"], &told["calls"], &told["shadow"]["calls"]), (&json!("running"), &json!(0), &json!(0)));
    assert_eq!(station.counts("copied"), [1; STEPS], "the copy changed nothing");
    let shown = machine.run(&["rollout", "show", "teller"]);
    assert!(shown.stdout.contains("a call was denied to the new version there: 1; where"), "{shown:?}");
}
