//! The owner's API, as it answers on the control socket: what it refuses, what it says of itself, and that nobody else has it.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use althing_e2e::http::{Answer, raw, request};
use althing_e2e::{Machine, cast, until};
use serde_json::{Value, json};

/// No answer may take longer.
const ANSWER_MAX: Duration = Duration::from_secs(20);
const JSON: [(&str, &str); 2] = [("Host", "node"), ("Content-Type", "application/json")];
/// The most bytes of the body of a `POST`, as the document says for a path with a word for each variable.
fn bytes_max(document: &Value, path: &str) -> usize {
    let paths = document["paths"].as_object().expect("paths");
    let (_, methods) = paths.iter().find(|(named, _)| filled(named) == path).expect("the document has it");
    let most = methods["post"]["requestBody"]["x-bytes-max"].as_u64().expect("a number");
    usize::try_from(most).expect("it fits")
}

/// A path with a word for each variable.
fn filled(path: &str) -> String {
    let mut parts = path.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| format!("{path}x{}", part.split_once('}').map_or("", |(_, rest)| rest)))
}

/// Sends a request over the control socket, and reads what comes back until the node closes the connection.
fn asked(socket: &Path, method: &str, path: &str, body: &[u8]) -> Answer {
    let mut stream = UnixStream::connect(socket).expect("the node listens");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("a time limit");
    stream.set_write_timeout(Some(ANSWER_MAX)).expect("a time limit");
    // Whoever refuses early closes before it took everything.
    let _ = stream.write_all(&request("http://node", method, path, &JSON, body));
    let mut answer = Vec::new();
    // The same: what came before the end counts.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// Asserts that an answer is a problem of that kind, as JSON; its message.
#[track_caller]
fn problem(answer: &Answer, status: u16, kind: &str) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.head.to_lowercase().contains("content-type: application/json"), "{answer:?}");
    let problem = answer.json();
    assert_eq!(problem["kind"], kind, "{answer:?}");
    problem["message"].as_str().expect("a message").to_owned()
}

/// The operations of a document of OpenAPI: method, and path with a word for each variable.
fn operations(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().expect("paths");
    let of = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().expect("methods").keys().map(|method| method.to_uppercase());
        methods.map(|method| (method, filled(path))).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

#[test]
fn every_operation_refuses_bad_requests_in_json() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let socket = machine.data().join("control.sock");
    let document = asked(&socket, "GET", "/openapi.json", b"").json();
    let operations = operations(&document);
    let posts: Vec<&str> =
        operations.iter().filter(|(method, _)| method == "POST").map(|(_, path)| path.as_str()).collect();
    assert!(posts.len() > 30, "{posts:?}");
    let mut limits = BTreeSet::new();
    for path in posts {
        let unknown = asked(&socket, "POST", path, br#"{"nobodyKnowsThis":1}"#);
        let said = problem(&unknown, 422, "invalid");
        assert!(said.contains("`nobodyKnowsThis`"), "{path}: {said}");
        for wrong in [&b"7"[..], b"[]", b"null", b"{", b""] {
            problem(&asked(&socket, "POST", path, wrong), 422, "invalid");
        }
        let most = bytes_max(&document, path);
        limits.insert(most);
        problem(&asked(&socket, "POST", path, &vec![b' '; most + 1]), 413, "tooLarge");
        problem(&asked(&socket, "PUT", path, b"{}"), 405, "invalid");
    }
    assert_eq!(limits.into_iter().collect::<Vec<_>>(), [2 << 20, 24 << 20], "requests with files, and those without");
    // Also where there are no parameters.
    for (method, path) in &operations {
        let said = problem(&asked(&socket, method, &format!("{path}?nobodyKnowsThis=1"), b"{}"), 422, "invalid");
        assert!(said.contains("`nobodyKnowsThis`"), "{method} {path}: {said}");
    }
    problem(&asked(&socket, "GET", "/nowhere", b""), 404, "notFound");
    // Reads that were asked by POST once.
    for path in ["/find", "/tap", "/logs"] {
        problem(&asked(&socket, "POST", path, b"{}"), 405, "invalid");
    }
    problem(&asked(&socket, "POST", "/groups/x", br#""status""#), 422, "invalid");
    assert_eq!(asked(&socket, "GET", "/status", b"").status, 200, "the node is as well as before");
}

#[test]
fn the_gateway_has_none_of_the_owners_paths() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "anyone"));
    let socket = machine.data().join("control.sock");
    let document = asked(&socket, "GET", "/openapi.json", b"").json();
    let title = "Althing node";
    assert_eq!(document["info"]["title"], title);
    let own = raw(&node.gateway(), &request(&node.gateway(), "GET", "/openapi.json", &[], b"")).json();
    assert_ne!(own["info"]["title"], title, "the gateway describes itself");
    // Its own list of agents has the path of the owner's, and says what its callers may see.
    let own = operations(&own);
    let owners: Vec<_> = operations(&document).into_iter().filter(|asked| !own.contains(asked)).collect();
    assert!(owners.len() > 70, "{owners:?}");
    let paths: BTreeSet<&str> = own.iter().map(|(_, path)| path.as_str()).collect();
    for (method, path) in &owners {
        let answer = raw(&node.gateway(), &request(&node.gateway(), method, path, &JSON[1..], b"{}"));
        // One of its own paths may be asked in other ways.
        let expected = if paths.contains(path.as_str()) { 405 } else { 404 };
        assert_eq!(answer.status, expected, "{method} {path}: {answer:?}");
    }
}

#[test]
fn reads_are_asked_by_get_and_any_key_can_be_read() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let socket = machine.data().join("control.sock");
    for name in ["team", "join"] {
        machine.json(&["group", "create", name]);
        let status = asked(&socket, "GET", &format!("/groups/{name}"), b"").json();
        assert_eq!(status["name"], name, "{status}");
    }
    for key in ["plain", "a/b", "..", "ü &c=%2F?", "."] {
        machine.json(&["group", "set", "team", key, "value"]);
        assert_eq!(machine.json(&["group", "get", "team", key])["value"], "value", "{key}");
    }
    assert_eq!(machine.json(&["group", "keys", "team", "a/"])["keys"], json!(["a/b"]));
    let missing = asked(&socket, "GET", "/groups/team/value?key=none", b"");
    problem(&missing, 404, "notFound");
    assert_eq!(
        asked(&socket, "GET", "/groups/team/tasks?finished=true", b"").json(),
        json!({ "tasks": [], "total": 0 })
    );
}

/// Sends JSON over the control socket.
fn posted(socket: &Path, path: &str, body: &Value) -> Answer {
    asked(socket, "POST", path, body.to_string().as_bytes())
}

#[test]
fn a_folder_that_is_handed_over_is_the_agents_until_it_is_removed() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let socket = machine.data().join("control.sock");
    let folders = || std::fs::read_dir(machine.data().join("uploads")).map_or(0, Iterator::count);
    let file = "name: clerk\ndescription: Knows the rules\n\
        runtime: { native: { builtin: knowledge, config: { folder: docs } } }\ncontract: { class: { latency: srt } }\n";
    // "Lamps are blue on Thursdays."
    let files = json!({ "docs/rules.txt": "TGFtcHMgYXJlIGJsdWUgb24gVGh1cnNkYXlzLgo=" });
    let request = json!({ "file": file, "folder": { "upload": files } });
    assert_eq!(posted(&socket, "/bind", &request).status, 200);
    assert_eq!(folders(), 0, "what is only looked at leaves nothing");
    let added = posted(&socket, "/agents", &request);
    assert!(added.status == 200 && added.json()["name"] == "clerk", "{added:?}");
    let again = posted(&socket, "/agents", &request);
    problem(&again, 409, "conflict");
    assert_eq!(folders(), 1, "nor does what is refused");
    let answer = posted(
        &socket,
        "/call",
        &json!({ "agent": "clerk", "text": "which lamps are blue on Thursdays", "explain": false }),
    );
    assert!(answer.body.contains("rules.txt"), "{answer:?}");
    assert_eq!(asked(&socket, "DELETE", "/agents/clerk", b"").status, 200);
    assert_eq!(folders(), 0);
    problem(&asked(&socket, "DELETE", "/agents/clerk", b""), 404, "notFound");
}

#[test]
fn a_token_and_a_key_count_from_the_next_request_on() {
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    let socket = machine.data().join("control.sock");
    let made = posted(&socket, "/tokens", &json!({ "name": "maria", "scopes": ["read"] })).json();
    let bearer = format!("Bearer {}", made["token"].as_str().expect("a token"));
    let seen = || {
        let headers = [("Authorization", bearer.as_str())];
        raw(&node.gateway(), &request(&node.gateway(), "GET", "/agents", &headers, b"")).status
    };
    assert_eq!(seen(), 200);
    problem(&posted(&socket, "/tokens", &json!({ "name": "maria", "scopes": ["call"] })), 409, "conflict");
    let all = json!({ "tokens": [{ "name": "maria", "scopes": ["read"], "agents": [] }] });
    assert_eq!(asked(&socket, "GET", "/tokens", b"").json(), all);
    assert_eq!(machine.json(&["token", "list"]), all, "the command reads the same file");
    problem(&posted(&socket, "/gateway/open", &json!({})), 409, "conflict");
    let removed = asked(&socket, "DELETE", "/tokens/maria", b"").json();
    assert_eq!((removed, seen()), (json!({ "removed": "maria", "left": 0 }), 401));
    assert_eq!(posted(&socket, "/gateway/open", &json!({})).json(), json!({ "open": true }));
    let on_record = || {
        let list = machine.json(&["audit", "query", "--stage", "changed", "--action", "tokens"]);
        list["entries"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(on_record(), 3, "it was made, it was withdrawn, and the gateway was opened");
    machine.json(&["token", "add", "grace"]);
    until(ANSWER_MAX, "what the command changed is on record", || on_record() == 4);
    machine.json(&["token", "remove", "grace"]);
    machine.json(&["token", "open"]);
    let key = || asked(&socket, "GET", "/status", b"").json()["ownerKeys"]["key"].clone();
    let before = key();
    let rotated = posted(&socket, "/keys/rotate", &json!({ "overlapMinutes": 0 })).json();
    assert_ne!(rotated["key"], before);
    assert_eq!((&key(), &machine.json(&["key", "show"])["key"]), (&rotated["key"], &rotated["key"]));
    problem(&posted(&socket, "/keys/rotate", &json!({ "overlapMinutes": 1_441 })), 422, "invalid");
    let other = posted(&socket, "/keys/revoke", &json!({ "owner": "somebody else" }));
    assert!(problem(&other, 422, "invalid").contains("name it to confirm"), "{other:?}");
}
