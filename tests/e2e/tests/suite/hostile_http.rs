//! Thousands of malformed requests: each gets a typed refusal, and the node is as well afterwards as before.

use std::os::unix::fs::PermissionsExt as _;

use althing_e2e::attack::{Attack, honest, judge};
use althing_e2e::http::{HONEST, ask, authority, get, raw, request, says};
use althing_e2e::{Machine, Node, cast};

/// Growth of the node's memory that is allowed over the whole attack. One request is under way at a time, and nothing
/// of it stays but its span, in a ring of 4 MiB. A body has 1 MiB at most; the allocator may keep the pages of one for
/// each of the threads that read, parse and refuse it: 8 MiB.
const GROWTH_KIB_MAX: u64 = 12 << 10;
/// Growth over the second half of it: what a node takes once it has then, but for the rest of the ring.
const LATER_KIB_MAX: u64 = 5 << 10;
const TOKEN: &str = "a-token-of-the-tests-0123456789";

fn alive(node: &Node) {
    let said = ask(&node.gateway(), "echo", "SendMessage", &says("still there?"));
    assert_eq!(said["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{said}");
}

#[test]
fn thousands_of_malformed_requests() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    let gateway = node.gateway();
    let attack = Attack::on(&gateway);
    assert!(attack.cases.len() >= 3_000, "{} cases", attack.cases.len());
    // Buffers and the allocator's arenas reach their size.
    (0..50).for_each(|_| alive(&node));
    attack.cases.iter().rev().take(4).for_each(|case| drop(raw(&gateway, &case.bytes)));
    let before = node.memory_kib();
    // Both halves have cases of each kind.
    let every_other = |first: usize| -> Vec<String> {
        let cases = attack.cases.iter().skip(first).step_by(2);
        cases.filter_map(|case| judge(case, &raw(&gateway, &case.bytes)).err()).collect()
    };
    let mut wrong = every_other(0);
    let between = node.memory_kib();
    wrong.extend(every_other(1));
    let after = node.memory_kib();
    alive(&node);
    println!(
        "measured: {} malformed requests; KiB before, halfway, after: {before}, {between}, {after}",
        attack.cases.len()
    );
    assert!(
        wrong.is_empty(),
        "{} of {} answers are wrong:\n{}",
        wrong.len(),
        attack.cases.len(),
        wrong[..wrong.len().min(30)].join("\n")
    );
    assert!(after < before + GROWTH_KIB_MAX, "memory grew from {before} to {after} KiB");
    assert!(after < between + LATER_KIB_MAX, "memory goes on growing, from {between} to {after} KiB");
    assert_eq!(machine.json(&["status"])["layers"]["calls"]["liveTasks"], 0, "no malformed request left a task behind");
}

#[test]
fn a_token_is_asked_for_where_one_is_set() {
    let machine = Machine::new();
    machine.configure(&format!("[gateway]\ntoken = {TOKEN:?}\n"));
    let config = machine.config().join("althing.toml");
    let mode = |mode| std::fs::set_permissions(&config, std::fs::Permissions::from_mode(mode)).expect("its mode");
    mode(0o644);
    let refused = machine.run(&["up"]);
    assert!(refused.code != 0 && refused.stderr.contains("chmod 600"), "a token that others may read: {refused:?}");
    assert!(!refused.stderr.contains(TOKEN), "{refused:?}");
    mode(0o600);
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    let gateway = node.gateway();
    let bearer = format!("Bearer {TOKEN}");
    let card = "/a2a/echo/.well-known/agent-card.json";
    let wrong = ["", "Bearer", "Bearer ", "Bearer wrong", "Basic dTpw", TOKEN, &bearer[..bearer.len() - 1]];
    for given in wrong {
        for path in [card, "/agents"] {
            let answer = get(&gateway, path, &[("Authorization", given)]);
            assert_eq!(answer.status, 401, "{given:?} {path}: {answer:?}");
            assert!(answer.head.to_ascii_lowercase().contains("www-authenticate: bearer"), "{answer:?}");
        }
    }
    let body = honest("SendMessage", says("hello"));
    let without = raw(&gateway, &request(&gateway, "POST", "/a2a/echo", &HONEST, body.as_bytes()));
    assert_eq!(without.status, 401, "{without:?}");
    let with = [HONEST[0], HONEST[1], ("Authorization", bearer.as_str())];
    let with = raw(&gateway, &request(&gateway, "POST", "/a2a/echo", &with, body.as_bytes()));
    assert_eq!(with.json()["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    let card = get(&gateway, card, &[("Authorization", &bearer)]).json();
    assert!(card["securitySchemes"].is_object(), "the card says that a token is needed: {card}");
    assert_eq!(get(&gateway, "/healthz", &[]).status, 200, "health is for watchdogs without secrets");
}

/// SR-6: what strangers are shown is shown under the node's own names, and to no other site's page.
#[test]
fn introductions_are_made_under_the_nodes_own_names_only() {
    let machine = Machine::new();
    let config = "[introduce]\nlisten = \"127.0.0.1:0\"\n[gateway]\nhosts = [\"lamp.example\"]\n";
    machine.configure(config);
    let node = machine.up_alone(&["--introduce"]);
    machine.add("lamp", &cast::echo("lamp", "anyone"));
    let address = node.said["introducing"][0].as_str().expect("an address").to_owned();
    let (base, port) = (format!("http://{address}"), address.rsplit(':').next().expect("a port"));
    let paths = ["/things/lamp", "/.well-known/wot", "/a2a/lamp/.well-known/agent-card.json"];
    for host in [address.clone(), format!("localhost:{port}"), format!("lamp.example:{port}")] {
        for path in paths {
            let answer = get(&base, path, &[("Host", &host)]);
            assert_eq!(answer.status, 200, "{host}{path}: {answer:?}");
        }
    }
    for path in paths {
        let rebound = get(&base, path, &[("Host", &format!("evil.example:{port}"))]);
        assert!(rebound.status == 421 && !rebound.body.contains("lamp"), "{path}: {rebound:?}");
        let page = get(&base, path, &[("Origin", &format!("http://evil.example:{port}"))]);
        assert!(page.status == 403 && !page.body.contains("lamp"), "{path}: {page:?}");
    }
}

#[test]
fn who_stalls_is_let_go() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    let gateway = node.gateway();
    let head = |length: &str| {
        let host = authority(&gateway);
        let head = format!("POST /a2a/echo HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
        format!("{head}A2A-Version: 1.0\r\nContent-Length: {length}\r\n\r\n{{")
    };
    let stalls = [
        ("nothing", String::new(), None),
        ("half a head", "POST /a2a/echo HT".to_owned(), None),
        ("half of how HTTP/2 begins", "PRI * HT".to_owned(), None),
        ("half a body", head("100"), Some(-32600)),
        ("a body without end", head("99999999999"), Some(-32600)),
    ];
    // `raw` fails when there is no end in time.
    std::thread::scope(|scope| {
        for (name, sent, expected) in &stalls {
            let gateway = &gateway;
            scope.spawn(move || assert_eq!(raw(gateway, sent.as_bytes()).code(), *expected, "{name}"));
        }
    });
    alive(&node);
}
