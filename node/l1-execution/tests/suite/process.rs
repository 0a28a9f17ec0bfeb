//! The `process` runtime with real programs: this very test program, run again as an agent that behaves as told.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use a2a::{Message, Part, Role, TaskState};
use althing_execution::agent::{Made, Outputs, Parameters};
use althing_execution::process::ProcessConfig;
use althing_execution::{AgentError, AgentState, Builtins, Host, Output, StartError, Turn};
use althing_protocol::Contract;
use althing_td::AgentFile;
use althing_testing::{remedy, skip};
use serde_json::{Value, json};

mod endings;
mod refused;
mod repeats;
mod said;
mod sockets;

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
        note(&niceness());
    }
    if behaviour == "tells" {
        for (name, _) in std::env::vars_os() {
            note(&format!("variable {}", name.to_string_lossy()));
        }
        note(&format!("pid {} handed to {}", std::process::id(), std::env::var("LISTEN_PID").unwrap_or_default()));
        let handed = std::fs::read_link("/proc/self/fd/3").expect("descriptor 3");
        note(&format!("descriptor 3 is {}", handed.display()));
    }
    if behaviour.contains(WITH_CHILD) {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        note(&format!("child {}", child.id()));
        std::thread::spawn(move || child.wait());
    }
    let Ok(port) = std::env::var("PORT") else { return on_a_socket(&behaviour) };
    let listener = TcpListener::bind(("127.0.0.1", port.parse().expect("a number"))).expect("the port is ours");
    for stream in listener.incoming() {
        let (behaviour, stream) = (behaviour.clone(), stream.expect("a connection"));
        let mut out = stream.try_clone().expect("a handle");
        std::thread::spawn(move || serve(stream, &mut out, &behaviour));
    }
}

/// Listens anew at the path of the socket, as a program does that knows nothing of descriptors.
fn on_a_socket(behaviour: &str) {
    let path = std::env::var_os("ALTHING_SOCKET").expect("a path");
    note(&format!("socket {}", Path::new(&path).display()));
    std::fs::remove_file(&path).expect("it is there");
    let listener = UnixListener::bind(&path).expect("the folder is ours");
    for stream in listener.incoming() {
        let (behaviour, stream) = (behaviour.to_owned(), stream.expect("a connection"));
        let mut out = stream.try_clone().expect("a handle");
        std::thread::spawn(move || serve(stream, &mut out, &behaviour));
    }
}

/// How this process is scheduled.
fn niceness() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("what the system tells");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
    // proc(5): 19 is the nice value, 41 the policy, of which the first two were cut off.
    format!("nice {} policy {}", fields[16], fields[38])
}

fn note(line: &str) {
    let Some(notes) = std::env::var_os(NOTES) else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(notes).expect("a file for notes");
    writeln!(file, "{line}").expect("a note");
}

fn serve(stream: impl Read, out: &mut dyn Write, behaviour: &str) {
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
            note("GET");
            if behaviour.starts_with(endings::UNFIT) {
                endings::show(out, behaviour);
                continue;
            }
            let streaming = !behaviour.ends_with("without streams");
            let card = json!({
                "name": "program", "description": "a program", "version": "1", "skills": [],
                "supportedInterfaces": [{
                    "url": "http://somewhere.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0",
                }],
                "capabilities": { "streaming": streaming, "extensions": [
                    { "uri": "https://example.com/x", "required": true },
                    { "uri": "https://althing.dev/ext/evidence/v1" },
                    { "uri": "https://example.com/long", "description": "x".repeat(5_000) },
                ] },
                "defaultInputModes": ["text/plain", "image/png"], "defaultOutputModes": ["text/plain"],
            });
            answer(out, "application/json", card.to_string().as_bytes());
            continue;
        }
        assert!(lines[0].starts_with("POST /rpc "), "the card's path: {}", lines[0]);
        let request: Value = serde_json::from_slice(&body).expect("JSON");
        act(out, behaviour, &request);
    }
}

fn answer(out: &mut dyn Write, kind: &str, body: &[u8]) {
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

fn events(out: &mut dyn Write, events: &[Value]) {
    let lines: String = events
        .iter()
        .map(|event| format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": event })))
        .collect();
    answer(out, "text/event-stream", lines.as_bytes());
}

fn act(out: &mut dyn Write, behaviour: &str, request: &Value) {
    let (method, message) = (request["method"].as_str().unwrap_or_default(), &request["params"]["message"]);
    let text = message["parts"][0]["text"].as_str().unwrap_or_default();
    note(&format!("{method} {} {}", message["taskId"].as_str().unwrap_or("-"), text));
    let status = |state: &str| {
        json!({ "statusUpdate": { "taskId": "t-1", "contextId": "theirs",
        "status": { "state": state } } })
    };
    match behaviour {
        says if says.starts_with(said::HERE) => said::act(out, says, request),
        leaves if leaves.starts_with(endings::HERE) => endings::act(out, leaves, request),
        "without streams" => {
            let result = json!({ "task": task("TASK_STATE_COMPLETED", Some(text)) });
            answer(
                out,
                "application/json",
                json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string().as_bytes(),
            );
        }
        "an error" => {
            let error = json!({ "code": -32_005, "message": "not today", "data": [{ "reason": "X" }] });
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": error });
            answer(out, "application/json", error.to_string().as_bytes());
        }
        "an error in the stream" if method == "GetTask" => {
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32_001, "message": "no such task" } });
            answer(out, "application/json", error.to_string().as_bytes());
        }
        "an error in the stream" => {
            let first = json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": task("TASK_STATE_WORKING", None) } });
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32_603, "message": "not any more" } });
            answer(out, "text/event-stream", format!("data: {first}\n\ndata: {error}\n\n").as_bytes());
        }
        "a message" => {
            note(&request["params"].to_string());
            events(
                out,
                &[json!({ "message": {
                "messageId": "m", "contextId": "theirs", "role": "ROLE_AGENT", "parts": [{ "text": text }],
            } })],
            );
        }
        "metadata" => {
            let mut first = task("TASK_STATE_SUBMITTED", None);
            first["metadata"] = json!({ "of": "task" });
            let mut working = status("TASK_STATE_WORKING");
            working["statusUpdate"]["metadata"] = json!({ "of": "status" });
            let chunk = json!({ "artifactUpdate": {
                "taskId": "t-1", "contextId": "theirs", "append": true, "lastChunk": true,
                "artifact": { "artifactId": "a", "parts": [{ "text": "x" }], "metadata": { "of": "artifact" } },
                "metadata": { "of": "chunk" },
            } });
            events(out, &[json!({ "task": first }), working, chunk, status("TASK_STATE_COMPLETED")]);
        }
        "asks" if method == "CancelTask" => {
            note(&format!("cancelled {}", request["params"]["id"].as_str().unwrap_or_default()));
            let mut done = task("TASK_STATE_CANCELED", None);
            done["status"]["message"] =
                json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "as you wish" }] });
            let answered = json!({ "jsonrpc": "2.0", "id": 1, "result": done });
            answer(out, "application/json", answered.to_string().as_bytes());
        }
        "activates" => {
            let event =
                json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": task("TASK_STATE_COMPLETED", Some(text)) } });
            let body = format!("data: {event}\n\n");
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                        A2A-Extensions: https://example.com/x, https://example.com/b";
            let head = format!("{head}\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = out.write_all(format!("{head}{body}").as_bytes());
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

/// A program that starts another.
const WITH_CHILD: &str = "with a child";

fn file(folder: &Path, behaviour: &str, startup_timeout_ms: u64) -> AgentFile {
    let program = std::env::current_exe().expect("a test knows where it is");
    // Whose processes are counted has the machine's numbers of them, and no namespace of its own.
    let sandbox = if behaviour == WITH_CHILD { json!("none") } else { json!({}) };
    let yaml = json!({
        "name": "program",
        "description": "runs a program",
        "skills": [{ "id": "x.y", "name": "X", "description": "x" }],
        "contract": { "class": { "latency": "srt" } },
        "runtime": { "process": {
            "command": [program, "--exact", "process::program", "--nocapture"],
            "env": { BEHAVIOUR: behaviour, NOTES: folder.join("notes") },
            "startup_timeout_ms": startup_timeout_ms,
            "sandbox": sandbox,
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
        extensions: vec!["https://example.com/a".to_owned(), "https://example.com/b".to_owned()],
        metadata: Some([("trip".to_owned(), json!(7))].into()),
        accepted_output_modes: Some(vec!["text/markdown".to_owned()]),
        history_length: Some(3),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        ..Parameters::default()
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

/// Where an agent's program runs and listens is nobody's but its operator's.
fn tells_no_place(error: &AgentError) {
    let told = error.to_string();
    assert!(!told.contains('/') && !told.contains("127.0.0.1"), "{told}");
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
async fn what_a_program_activates_of_the_extensions_asked_for_is_named() {
    let scene = scene("activates");
    let asked = turn("hello", None);
    let activated = asked.parameters.activated.clone();
    let (out, made) = Output::channel();
    let (ended, _) = tokio::join!(scene.host.turn("program", asked, out), all(made));
    ended.expect("a turn");
    assert_eq!(activated.get(), ["https://example.com/b"]);
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
    for (behaviour, expected) in [
        ("an error", "not today"),
        ("no A2A", "something else than A2A"),
        ("an endless event", "its answer has more than 4 MiB"),
    ] {
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

fn own_card(scene: &Scene) -> Option<althing_execution::agent::OwnCard> {
    scene.host.agent("program").expect("it runs").own_card()
}

#[tokio::test]
async fn what_a_programs_card_says_is_read_as_far_as_it_may_say_it() {
    let scene = scene("honest");
    until("it is ready", || own_card(&scene).is_some()).await;
    let card = own_card(&scene).expect("a card");
    assert_eq!(card.input_modes, ["text/plain", "image/png"]);
    let [extension] = &card.extensions[..] else { panic!("{:?}", card.extensions) };
    assert_eq!((&*extension.uri, extension.required), ("https://example.com/x", Some(true)));
}

#[tokio::test]
async fn a_programs_own_error_keeps_its_code_and_data() {
    let (_, ended) = scene("an error").turn("hello", None).await;
    let (code, message, details) = (-32_005, "not today".to_owned(), vec![json!({ "reason": "X" })]);
    assert_eq!(ended, Err(AgentError::Refused { code, message, details }));
    let (made, ended) = scene("an error in the stream").turn("hello", None).await;
    let (code, message, details) = (-32_603, "not any more".to_owned(), Vec::new());
    assert_eq!(ended, Err(AgentError::Refused { code, message, details }));
    assert!(made.contains(&Made::Begun { state: TaskState::Working, metadata: None }), "{made:?}");
}

#[tokio::test]
async fn a_message_is_a_reply_and_what_was_sent_beside_the_question_reaches_the_program() {
    let scene = scene("a message");
    let (made, ended) = scene.turn("hello", None).await;
    ended.expect("a turn");
    assert!(matches!(&made[..], [Made::Reply(said)] if said.text() == Some("hello")), "{made:?}");
    let notes = scene.notes();
    let sent = notes.lines().find_map(|line| serde_json::from_str::<Value>(line).ok()).expect("what was sent");
    assert_eq!(sent["metadata"], json!({ "trip": 7 }));
    let configuration = json!({ "acceptedOutputModes": ["text/markdown"], "historyLength": 3 });
    assert_eq!(sent["configuration"], configuration);
}

#[tokio::test]
async fn metadata_comes_back_with_what_it_is_of() {
    let (made, ended) = scene("metadata").turn("hello", None).await;
    ended.expect("a turn");
    let of = |what: &str| -> althing_execution::agent::Metadata { [("of".to_owned(), json!(what))].into() };
    assert!(matches!(made[0], Made::Remember(_)));
    assert_eq!(made[1], Made::Begun { state: TaskState::Submitted, metadata: Some(of("task")) });
    assert_eq!(made[2], Made::Status(TaskState::Working, None).annotated(Some(of("status"))));
    let Made::Annotated(chunk, metadata) = &made[3] else { panic!("{:?}", made[3]) };
    assert_eq!(*metadata, of("chunk"));
    let Made::Artifact { artifact, append: true, last: true } = &**chunk else { panic!("{chunk:?}") };
    assert_eq!(artifact.metadata, Some(of("artifact")));
    assert_eq!(made[4..], [Made::Status(TaskState::Completed, None)]);
}

#[tokio::test]
async fn a_task_that_waits_is_cancelled_at_the_program() {
    let scene = scene("asks");
    let (made, ended) = scene.turn("first", None).await;
    ended.expect("a turn");
    let kept = made.iter().find_map(|one| match one {
        Made::Remember(kept) => Some(kept.clone()),
        _ => None,
    });
    let said =
        scene.host.agent("program").expect("it runs").cancel(&kept.expect("its own ids"), &Parameters::default()).await;
    assert_eq!(said.expect("it agrees").expect("its words").text(), Some("as you wish"));
    assert!(scene.notes().contains("cancelled t-1"), "{}", scene.notes());
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
    let error = ended.expect_err("it died with the turn");
    tells_no_place(&error);
    assert!(matches!(error, AgentError::Breakdown(_)), "{error:?}");
    let state = scene.host.status()[0].state.clone();
    assert!(matches!(state, AgentState::Restarting { .. }), "whoever counts the turn finds it so: {state:?}");
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
            && why.contains("exit status 0"))
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
    assert!(down.contains("does not answer yet") || down.contains("`ps`"), "{down}");
    // Its operator is told where it should have been; who asks is not.
    let restarting =
        |state: &AgentState| matches!(state, AgentState::Restarting { why, .. } if why.contains("ALTHING_SOCKET"));
    until("it is tried again", || restarting(&host.status()[0].state)).await;
    let (out, _made) = Output::channel();
    tells_no_place(&host.turn("program", turn("hello", None), out).await.expect_err("it is down"));
    assert!(host.stop("program").await);
}

#[tokio::test]
async fn stopping_ends_the_program_and_its_children() {
    let scene = scene(WITH_CHILD);
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
    assert!(matches!(error, StartError::Spawn(_)), "{error}");
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
    // Another one runs as the node does, which whoever started it may have made nicer.
    let own = niceness();
    for (class, policies) in [("srt", [&*own, &own]), ("dt", ["policy 5", "nice 19 policy 0"])] {
        let scene = under("is nice", &json!({ "class": { "latency": class } }));
        scene.noted("policy").await;
        let notes = scene.notes();
        assert!(policies.iter().any(|policy| notes.contains(policy)), "{class}: {notes}");
        scene.host.stop_all().await;
    }
}

#[tokio::test]
async fn nothing_survives_a_killed_keeper_though_program_and_child_ignore_to_be_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    provide();
    let config = ProcessConfig { stop_grace: Duration::from_millis(200), ..ProcessConfig::default() };
    let mut stubborn = file(folder.path(), WITH_CHILD, 20_000);
    if let althing_td::RuntimeSpec::Process { command, .. } = &mut stubborn.runtime {
        // What is ignored stays ignored over exec, and in children.
        let ignoring = ["/bin/sh", "-c", "trap '' TERM; exec \"$@\"", "ignores"].map(str::to_owned);
        *command = ignoring.into_iter().chain(command.clone()).collect();
    }
    let scene = Scene { folder, host: Host::new(Builtins::new(), config) };
    scene.host.start(&stubborn, scene.folder.path()).expect("it starts");
    until("it is ready", || scene.host.status()[0].state == AgentState::Ready).await;
    let keeper = scene.host.status()[0].pid.expect("a keeper").to_string();
    let notes = scene.notes();
    let started = notes.lines().find_map(|line| line.strip_prefix("started ")).expect("a program").to_owned();
    let child = notes.lines().find_map(|line| line.strip_prefix("child ")).expect("a child").to_owned();
    assert!(runs(&started) && runs(&child) && started != keeper);
    for pid in [&started, &child] {
        assert!(std::process::Command::new("kill").args(["-TERM", pid]).status().expect("kill").success());
        assert!(runs(pid), "it ignores that");
    }
    assert!(std::process::Command::new("kill").args(["-KILL", &keeper]).status().expect("kill").success());
    until("its end is noticed", || scene.host.status()[0].state != AgentState::Ready).await;
    let state = scene.host.status()[0].state.clone();
    assert!(matches!(state, AgentState::Restarting { .. }), "from its end on it is told why: {state:?}");
    until("nothing of it runs any more", || !runs(&started) && !runs(&child)).await;
    until("another runs", || scene.notes().matches("child ").count() > 1).await;
    let notes = scene.notes();
    assert!(scene.host.stop("program").await);
    for line in notes.lines() {
        if let Some(pid) = line.strip_prefix("started ").or_else(|| line.strip_prefix("child ")) {
            assert!(!runs(pid), "{line} outlives its agent");
        }
    }
}
