//! Adopted A2A agents as they are: cards that official SDKs write, answers that end before their task, requests that are sent on.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use althing_e2e::{Machine, until};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

/// An agent of A2A: its card, and what it answers to the words of a message.
struct Agent {
    at: String,
    /// How often it was asked for its task.
    looked: Arc<AtomicUsize>,
}

/// Changes the card.
type Change = fn(&mut Value);

impl Agent {
    fn start(change: Change) -> Agent {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = format!("http://{}", listener.local_addr().expect("bound"));
        let looked = Arc::new(AtomicUsize::new(0));
        let mut card = json!({
            "name": "Cutter", "description": "Cuts", "version": "1.0.0", "capabilities": { "streaming": true },
            "supportedInterfaces": [{ "url": format!("{at}/rpc"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{ "id": "cut", "name": "Cut", "description": "Cuts", "tags": ["test"] }],
        });
        change(&mut card);
        let counted = looked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (line, body) = request(&stream);
                let (kind, text) = match line.split(' ').next() {
                    Some("GET") if line.contains("/.well-known/agent-card.json ") => {
                        ("application/json", card.to_string())
                    }
                    Some("POST") => answer(&body, &counted),
                    _ => ("text/plain", String::new()),
                };
                let status = if text.is_empty() { "404 Not Found" } else { "200 OK" };
                let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n");
                let length = text.len();
                // Whoever asked may be gone.
                let _ = (&stream).write_all(format!("{head}Content-Length: {length}\r\n\r\n{text}").as_bytes());
            }
        });
        Agent { at, looked }
    }
}

/// The first line of a request, and its body.
fn request(stream: &TcpStream) -> (String, Value) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).is_ok_and(|read| read > 0) {}
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    // Whoever asks may hang up.
    let _ = stream.read_exact(&mut body);
    (head.lines().next().unwrap_or_default().to_owned(), serde_json::from_slice(&body).unwrap_or_default())
}

fn answer(request: &Value, looked: &AtomicUsize) -> (&'static str, String) {
    let words = request["params"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
    let of = |result: Value| json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string();
    let task = |state: &str, text: &str| {
        let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
        json!({ "id": "t-1", "contextId": "c", "status": { "state": state }, "artifacts": [artifact] })
    };
    match (request["method"].as_str(), words) {
        (Some("GetTask"), _) if request["params"]["id"] == "t-1" => {
            let over = looked.fetch_add(1, Ordering::Relaxed) > 0;
            let (state, text) =
                if over { ("TASK_STATE_COMPLETED", "all of it") } else { ("TASK_STATE_WORKING", "all") };
            ("application/json", of(task(state, text)))
        }
        (Some("SendStreamingMessage"), "cut") => {
            ("text/event-stream", format!("data: {}\n\n", of(json!({ "task": task("TASK_STATE_WORKING", "all") }))))
        }
        (Some("SendStreamingMessage"), "odd") => {
            let done = of(json!({ "task": task("TASK_STATE_COMPLETED", "all of it") }));
            let text = format!("id: 0\ndata:\n\nevent: ping\ndata: {{}}\n\ndata: {done}\n\ndata: [DONE]\n\n");
            ("text/event-stream", text)
        }
        (Some("SendStreamingMessage"), "at once") => {
            ("application/json", of(json!({ "task": task("TASK_STATE_COMPLETED", "all of it") })))
        }
        (Some("SendStreamingMessage"), _) => ("text/event-stream", ": nothing\n\n".to_owned()),
        _ => {
            let error = json!({ "code": -32_001, "message": "no such task" });
            ("application/json", json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string())
        }
    }
}

#[test]
fn an_answer_that_ends_before_its_task_is_followed_and_one_that_says_nothing_has_failed() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let agent = Agent::start(|_| {});
    machine.json(&["adopt", "--as", "cutter", &agent.at]);
    until(SOON, "it is ready", || machine.json(&["ps"])["agents"][0]["state"] == "ready");
    for words in ["cut", "odd", "at once"] {
        let called = machine.run(&["call", "cutter", words]);
        assert!(called.code == 0 && called.stdout.contains("all of it"), "{words}: {called:?}");
    }
    assert_eq!(agent.looked.load(Ordering::Relaxed), 2, "the task that went on was asked for until it was over");
    let nothing = machine.run(&["call", "cutter", "nothing"]);
    assert!(nothing.code != 0 && nothing.stderr.contains("its answer ended while it worked"), "{nothing:?}");
}

#[test]
fn cards_that_sdks_write_are_adopted_with_a_note_and_old_ones_refused_in_a_sentence() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let good: [(&str, Change); 4] = [
        ("/supportedInterfaces/0/protocolVersion", |card| {
            card["supportedInterfaces"][0]["protocolVersion"] = Value::Null
        }),
        ("/defaultInputModes", |card| card["defaultInputModes"] = Value::Null),
        ("/capabilities", |card| drop(card.as_object_mut().expect("an object").remove("capabilities"))),
        ("/securitySchemes/new", |card| card["securitySchemes"] = json!({ "new": { "laterSecurityScheme": {} } })),
    ];
    for (at, change) in good {
        let agent = Agent::start(change);
        let shown = machine.run(&["adopt", "--dry-run", &agent.at]);
        assert!(shown.code == 0 && shown.stdout.contains(&format!("its card, {at}: ")), "{shown:?}");
    }
    let old = Agent::start(|card| {
        drop(card.as_object_mut().expect("an object").remove("supportedInterfaces"));
        card["url"] = json!("http://somewhere.example/");
    });
    let refused = machine.run(&["adopt", &old.at]);
    assert!(refused.code == 1 && refused.stderr.contains("this is an agent of A2A 0.3"), "{refused:?}");
    assert!(!refused.stderr.contains("MCP") && !refused.stderr.contains("missing field"), "{refused:?}");
    let other = Agent::start(|card| card["supportedInterfaces"][0]["protocolBinding"] = json!("GRPC"));
    let refused = machine.run(&["adopt", &other.at]);
    assert!(refused.code == 1 && refused.stderr.contains("/supportedInterfaces"), "{refused:?}");
}
