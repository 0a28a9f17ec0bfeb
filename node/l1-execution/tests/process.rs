//! The `process` runtime with real programs: this very test program, run again as an agent that behaves as told.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use a2a::{Message, Part, Role, TaskState};
use althing_execution::agent::{Made, Outputs, Parameters};
use althing_execution::process::ProcessConfig;
use althing_execution::{AgentError, AgentState, Builtins, Host, Output, StartError, Turn};
use althing_protocol::Contract;
use althing_td::AgentFile;
use serde_json::{Value, json};

/// How the program behaves.
const BEHAVIOUR: &str = "ALTHING_TEST_BEHAVIOUR";
/// Where it writes what it wants to be known.
const NOTES: &str = "ALTHING_TEST_NOTES";
/// Nothing here takes longer.
const SOON: Duration = Duration::from_secs(30);

/// Not a test of its own: the program.
#[test]
fn program() {
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else { return };
    note(&format!("started {}", std::process::id()));
    if behaviour == "ends" {
        return;
    }
    if behaviour == "hoards" {
        // Nobody looks at what is in it; written to it must be.
        let hoard = std::hint::black_box(vec![1_u8; 256 << 20]);
        note(&format!("hoarded {}", hoard.len()));
    }
    if behaviour == "is nice" {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("what the system tells");
        let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
        // proc(5): 19 is the nice value, 41 the policy, of which the first two were cut off.
        note(&format!("nice {} policy {}", fields[16], fields[38]));
    }
    let port: u16 = std::env::var("PORT").expect("a port").parse().expect("a number");
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is ours");
    if behaviour == "with a child" {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        note(&format!("child {}", child.id()));
        std::thread::spawn(move || child.wait());
    }
    for stream in listener.incoming() {
        let behaviour = behaviour.clone();
        std::thread::spawn(move || serve(stream.expect("a connection"), &behaviour));
    }
}

fn note(line: &str) {
    let Some(notes) = std::env::var_os(NOTES) else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(notes).expect("a file for notes");
    writeln!(file, "{line}").expect("a note");
}

fn serve(stream: TcpStream, behaviour: &str) {
    let mut out = stream.try_clone().expect("a handle");
    let mut stream = BufReader::new(stream);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let length = lines.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).expect("the body");
        for name in ["a2a-version", "a2a-extensions", "traceparent", "tracestate"] {
            lines.iter().filter(|line| line.to_lowercase().starts_with(name)).for_each(|line| note(line));
        }
        if lines[0].starts_with("GET") {
            let streaming = behaviour != "without streams";
            let card = json!({
                "name": "program", "description": "a program", "version": "1", "skills": [],
                "supportedInterfaces": [{
                    "url": "http://somewhere.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0",
                }],
                "capabilities": { "streaming": streaming },
                "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            });
            answer(&mut out, "application/json", card.to_string().as_bytes());
            continue;
        }
        assert!(lines[0].starts_with("POST /rpc "), "the card's path: {}", lines[0]);
        let request: Value = serde_json::from_slice(&body).expect("JSON");
        act(&mut out, behaviour, &request);
    }
}

fn answer(out: &mut TcpStream, kind: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
    // The node may be gone already.
    let _ = out.write_all(&[head.as_bytes(), body].concat());
}

fn task(state: &str, text: Option<&str>) -> Value {
    let mut task = json!({ "id": "t-1", "contextId": "theirs", "status": { "state": state } });
    if let Some(text) = text {
        task["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "text": text }] }]);
    }
    task
}

fn events(out: &mut TcpStream, events: &[Value]) {
    let lines: String = events
        .iter()
        .map(|event| format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": event })))
        .collect();
    answer(out, "text/event-stream", lines.as_bytes());
}

fn act(out: &mut TcpStream, behaviour: &str, request: &Value) {
    let (method, message) = (request["method"].as_str().unwrap_or_default(), &request["params"]["message"]);
    let text = message["parts"][0]["text"].as_str().unwrap_or_default();
    note(&format!("{method} {} {}", message["taskId"].as_str().unwrap_or("-"), text));
    let status = |state: &str| {
        json!({ "statusUpdate": { "taskId": "t-1", "contextId": "theirs",
        "status": { "state": state } } })
    };
    match behaviour {
        "without streams" => {
            let result = json!({ "task": task("TASK_STATE_COMPLETED", Some(text)) });
            answer(
                out,
                "application/json",
                json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string().as_bytes(),
            );
        }
        "an error" => {
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32_000, "message": "not today" } });
            answer(out, "application/json", error.to_string().as_bytes());
        }
        "no A2A" => answer(out, "text/event-stream", b"data: hello\n\n"),
        "an endless event" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: ";
            let _ = out.write_all(head.as_bytes());
            while out.write_all(&[b'x'; 65_536]).is_ok() {}
            note("cut off");
        }
        "dies" => std::process::exit(7),
        "stuck" if method == "CancelTask" => {
            let result = task("TASK_STATE_CANCELED", None);
            answer(
                out,
                "application/json",
                json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string().as_bytes(),
            );
        }
        "stuck" => {
            let first = json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": task("TASK_STATE_WORKING", None) } });
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            let _ = out.write_all(format!("{head}data: {first}\n\n").as_bytes());
            std::thread::park();
        }
        "asks" if message["taskId"].is_null() => {
            events(out, &[json!({ "task": task("TASK_STATE_INPUT_REQUIRED", None) })]);
        }
        _ => events(out, &[json!({ "task": task("TASK_STATE_WORKING", Some(text)) }), status("TASK_STATE_COMPLETED")]),
    }
}

/// What the node's `main` does first; an error means that another test did it.
fn provide() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// An agent that runs this program.
struct Scene {
    folder: tempfile::TempDir,
    host: Host,
}

fn file(folder: &Path, behaviour: &str, startup_timeout_ms: u64) -> AgentFile {
    let program = std::env::current_exe().expect("a test knows where it is");
    let yaml = json!({
        "name": "program",
        "description": "runs a program",
        "skills": [{ "id": "x.y", "name": "X", "description": "x" }],
        "contract": { "class": { "latency": "srt" } },
        "runtime": { "process": {
            "command": [program, "--exact", "program", "--nocapture"],
            "env": { BEHAVIOUR: behaviour, NOTES: folder.join("notes") },
            "startup_timeout_ms": startup_timeout_ms,
        } },
    });
    AgentFile::parse(&yaml.to_string()).expect("an agent file")
}

fn scene(behaviour: &str) -> Scene {
    under(behaviour, &json!({ "class": { "latency": "srt" } }))
}

fn under(behaviour: &str, contract: &Value) -> Scene {
    provide();
    let folder = tempfile::tempdir().expect("a folder");
    let config = ProcessConfig {
        backoff_min: Duration::from_millis(20),
        backoff_max: Duration::from_millis(40),
        ..ProcessConfig::default()
    };
    let host = Host::new(Builtins::new(), config);
    let mut file = file(folder.path(), behaviour, 20_000);
    file.contract = Some(Contract::from_value(contract).expect("a contract"));
    host.start(&file, folder.path()).expect("it starts");
    Scene { folder, host }
}

impl Scene {
    fn notes(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("notes")).unwrap_or_default()
    }

    /// One turn; what it made, and how it ended.
    async fn turn(&self, text: &str, remembered: Option<String>) -> (Vec<Made>, Result<(), AgentError>) {
        let (out, made) = Output::channel();
        let (ended, made) = tokio::join!(self.host.turn("program", turn(text, remembered), out), all(made));
        (made, ended)
    }

    async fn noted(&self, what: &str) {
        until(what, || self.notes().contains(what)).await;
    }
}

async fn all(mut made: Outputs) -> Vec<Made> {
    let mut all = Vec::new();
    while let Some(one) = made.recv().await {
        all.push(one);
    }
    all
}

fn turn(text: &str, remembered: Option<String>) -> Turn {
    let parameters = Parameters {
        principals: Vec::new(),
        extensions: vec!["https://example.com/a".to_owned(), "https://example.com/b".to_owned()],
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        tracestate: None,
    };
    Turn {
        task_id: "ours".to_owned(),
        context_id: "ctx".to_owned(),
        message: Message::new(Role::User, vec![Part::text(text)]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered,
        parameters,
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let looking = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, looking).await.unwrap_or_else(|_| panic!("it never came: {what}"));
}

fn texts(made: &[Made]) -> Vec<&str> {
    made.iter().filter_map(artifact_text).collect()
}

fn artifact_text(made: &Made) -> Option<&str> {
    match made {
        Made::Artifact { artifact, .. } => artifact.parts[0].as_text(),
        _ => None,
    }
}

fn ending(made: &[Made]) -> Option<TaskState> {
    made.iter().rev().find_map(|one| match one {
        Made::Status(state, _) => Some(state.clone()),
        _ => None,
    })
}

#[tokio::test]
async fn a_turn_streams_and_its_parameters_travel_as_headers() {
    let scene = scene("honest");
    let (made, ended) = scene.turn("hello", None).await;
    ended.expect("a turn");
    assert_eq!(texts(&made), ["hello"]);
    assert_eq!(ending(&made), Some(TaskState::Completed));
    let notes = scene.notes().to_lowercase();
    for header in [
        "a2a-version: 1.0",
        "a2a-extensions: https://example.com/a, https://example.com/b",
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ] {
        assert!(notes.contains(header), "{header}: {notes}");
    }
    assert!(!notes.contains("tracestate"));
    assert!(scene.host.stop("program").await);
}

#[tokio::test]
async fn a_program_without_streams_is_asked_for_one_answer() {
    let scene = scene("without streams");
    let (made, ended) = scene.turn("hello", None).await;
    ended.expect("a turn");
    assert_eq!((texts(&made), ending(&made)), (vec!["hello"], Some(TaskState::Completed)));
    assert!(scene.notes().contains("SendMessage - hello"));
}

#[tokio::test]
async fn the_programs_own_task_goes_on_in_the_next_turn() {
    let scene = scene("asks");
    let (made, ended) = scene.turn("first", None).await;
    ended.expect("a turn");
    assert_eq!(ending(&made), Some(TaskState::InputRequired));
    let kept = made.iter().find_map(|one| match one {
        Made::Remember(kept) => Some(kept.clone()),
        _ => None,
    });
    let (made, ended) = scene.turn("second", Some(kept.expect("its own ids"))).await;
    ended.expect("a turn");
    assert_eq!(ending(&made), Some(TaskState::Completed));
    assert!(scene.notes().contains("SendStreamingMessage t-1 second"), "{}", scene.notes());
}

#[tokio::test]
async fn what_is_not_a2a_is_said_and_bounded() {
    for (behaviour, expected) in
        [("an error", "not today"), ("no A2A", "something else than A2A"), ("an endless event", "an endless event")]
    {
        let scene = scene(behaviour);
        let (made, ended) = scene.turn("hello", None).await;
        let error = ended.expect_err("a failure").to_string();
        assert!(error.contains(expected), "{behaviour}: {error}");
        assert_eq!(made, [], "{behaviour}");
        if behaviour == "an endless event" {
            scene.noted("cut off").await;
        }
        assert_eq!(scene.host.status()[0].turns.running, 0);
    }
}

#[tokio::test]
async fn a_turn_that_is_dropped_is_cancelled_at_the_program() {
    let scene = scene("stuck");
    let (out, mut made) = Output::channel();
    {
        let turning = scene.host.turn("program", turn("hello", None), out);
        tokio::pin!(turning);
        tokio::select! {
            _ = &mut turning => panic!("it is stuck"),
            first = made.recv() => assert!(matches!(first, Some(Made::Remember(_))), "{first:?}"),
        }
    }
    scene.noted("CancelTask").await;
}

#[tokio::test]
async fn a_program_that_dies_is_started_again_and_takes_turns() {
    let scene = scene("dies");
    until("it is ready", || scene.host.status()[0].state == AgentState::Ready).await;
    let first = scene.host.status()[0].pid;
    let (_, ended) = scene.turn("hello", None).await;
    ended.expect_err("it died with the turn");
    until("another runs", || {
        let status = &scene.host.status()[0];
        status.state == AgentState::Ready && status.pid != first
    })
    .await;
    assert_eq!(scene.notes().matches("started").count(), 2);
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_tried_again_and_says_so() {
    let scene = scene("ends");
    until("it was tried again", || {
        matches!(&scene.host.status()[0].state, AgentState::Restarting { why, restarts } if *restarts >= 3
            && why.contains("exit status: 0"))
    })
    .await;
    assert!(scene.host.stop("program").await);
    let started = scene.notes().matches("started").count();
    assert!(started >= 3, "{started}");
}

#[tokio::test]
async fn a_program_that_shows_no_card_is_down_and_why_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    provide();
    let host = Host::new(Builtins::new(), ProcessConfig::default());
    let mut silent = file(folder.path(), "honest", 300);
    if let althing_td::RuntimeSpec::Process { command, .. } = &mut silent.runtime {
        *command = vec!["sleep".to_owned(), "1000".to_owned()];
    }
    host.start(&silent, folder.path()).expect("it starts");
    let (out, _made) = Output::channel();
    let down = host.turn("program", turn("hello", None), out).await.expect_err("it is down").to_string();
    assert!(down.contains("does not answer yet") || down.contains("no agent card"), "{down}");
    assert!(host.stop("program").await);
}

#[tokio::test]
async fn stopping_ends_the_program_and_its_children() {
    let scene = scene("with a child");
    until("it is ready", || scene.host.status()[0].state == AgentState::Ready).await;
    let notes = scene.notes();
    let pids: Vec<&str> = notes.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let (program, child) = (pids[0], notes.lines().find_map(|line| line.strip_prefix("child ")).expect("a child"));
    assert!(runs(program) && runs(child));
    assert!(scene.host.stop("program").await);
    assert!(!runs(program) && !runs(child), "both are gone when stopping returns");
    assert!(!scene.host.stop("program").await, "it is stopped once");
}

/// Runs, and is no zombie.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[tokio::test]
async fn a_command_that_is_none_is_said_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = Host::new(Builtins::new(), ProcessConfig::default());
    let mut missing = file(folder.path(), "honest", 300);
    if let althing_td::RuntimeSpec::Process { command, .. } = &mut missing.runtime {
        *command = vec!["no-such-program-anywhere".to_owned()];
    }
    let error = host.start(&missing, folder.path()).expect_err("no such program");
    assert!(matches!(error, StartError::Spawn { .. }), "{error}");
    assert_eq!(host.status(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_has_the_memory_of_its_contract_and_no_more() {
    let content = under("hoards", &json!({ "class": { "latency": "srt" }, "compute": { "memory_bytes": 1 << 30 } }));
    content.noted("hoarded").await;
    content.host.stop_all().await;
    let held = under("hoards", &json!({ "class": { "latency": "srt" }, "compute": { "memory_bytes": 128 << 20 } }));
    until("it is started again", || held.notes().matches("started").count() > 1).await;
    assert!(!held.notes().contains("hoarded"), "{}", held.notes());
    held.host.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_tolerant_program_runs_on_what_is_left_over() {
    for (class, policies) in [("srt", ["nice 0 policy 0", "nice 0 policy 0"]), ("dt", ["policy 5", "nice 19 policy 0"])]
    {
        let scene = under("is nice", &json!({ "class": { "latency": class } }));
        scene.noted("policy").await;
        let notes = scene.notes();
        assert!(policies.iter().any(|policy| notes.contains(policy)), "{class}: {notes}");
        scene.host.stop_all().await;
    }
}
