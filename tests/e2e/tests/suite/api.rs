//! The owner's API, as it answers on the control socket: what it refuses, what it says of itself, and that nobody else has it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use althing_e2e::http::{Answer, raw, request};
use althing_e2e::{Machine, cast};
use serde_json::{Value, json};

/// No answer may take longer.
const ANSWER_MAX: Duration = Duration::from_secs(20);
const JSON: [(&str, &str); 2] = [("Host", "node"), ("Content-Type", "application/json")];
/// One byte more than a body may have.
const TOO_LONG: usize = (2 << 20) + 1;

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
    let filled = |path: &str| {
        let mut parts = path.split('{');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |path, part| format!("{path}x{}", part.split_once('}').map_or("", |(_, rest)| rest)))
    };
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
    let long = vec![b' '; TOO_LONG];
    for path in posts {
        let unknown = asked(&socket, "POST", path, br#"{"nobodyKnowsThis":1}"#);
        let said = problem(&unknown, 422, "invalid");
        assert!(said.contains("`nobodyKnowsThis`"), "{path}: {said}");
        for wrong in [&b"7"[..], b"[]", b"null", b"{", b""] {
            problem(&asked(&socket, "POST", path, wrong), 422, "invalid");
        }
        problem(&asked(&socket, "POST", path, &long), 413, "tooLarge");
        problem(&asked(&socket, "PUT", path, b"{}"), 405, "invalid");
    }
    // What has no parameters does not look at them.
    for path in
        ["/find", "/tap", "/logs", "/traces", "/waits/x", "/describe/x", "/groups/x/values", "/org", "/releases"]
    {
        let said = problem(&asked(&socket, "GET", &format!("{path}?nobodyKnowsThis=1"), b""), 422, "invalid");
        assert!(said.contains("`nobodyKnowsThis`"), "{path}: {said}");
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
    for (method, path) in &owners {
        let answer = raw(&node.gateway(), &request(&node.gateway(), method, path, &JSON[1..], b"{}"));
        // One of its own paths may be asked in other ways.
        assert!(matches!(answer.status, 404 | 405), "{method} {path}: {answer:?}");
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
    problem(&missing, 422, "notFound");
    assert_eq!(
        asked(&socket, "GET", "/groups/team/tasks?finished=true", b"").json(),
        json!({ "tasks": [], "total": 0 })
    );
}
