//! An agent elsewhere whose server sends requests on: within itself it is followed once, and anywhere else it is not.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a::{Message, Part, Role};
use althing_execution::agent::{Made, Parameters};
use althing_execution::process::ProcessConfig;
use althing_execution::{AgentError, AgentState, Builtins, CardFault, Host, Output, Turn, remote_card};
use althing_td::AgentFile;
use serde_json::{Value, json};

/// Nothing here takes longer.
const SOON: Duration = Duration::from_secs(30);

/// A server, what it was asked, and how it answers.
struct Server {
    at: String,
    asked: Arc<Mutex<Vec<String>>>,
}

/// The line that a redirect needs.
type Onward = fn(path: &str, at: &str) -> Option<String>;

impl Server {
    fn start(onward: Onward) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = format!("http://{}", listener.local_addr().expect("bound"));
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (seen, own) = (asked.clone(), at.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (line, body) = request(&stream);
                seen.lock().expect("no holder panics").push(line.clone());
                // The other side may be gone.
                let _ = (&stream).write_all(answer(&line, &body, &own, onward).as_bytes());
            }
        });
        Server { at, asked }
    }

    /// How often it was asked for that.
    fn times(&self, line: &str) -> usize {
        self.asked.lock().expect("no holder panics").iter().filter(|asked| asked.starts_with(line)).count()
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

fn answer(line: &str, body: &Value, at: &str, onward: Onward) -> String {
    let path = line.split(' ').nth(1).unwrap_or_default();
    let result = if path.ends_with("/agent.json") {
        json!({ "name": "Old", "description": "x", "version": "1", "url": format!("{at}/agent"), "skills": [] })
    } else if line.starts_with("GET") {
        json!({
            "name": "Mounted", "description": "x", "version": "1", "skills": [], "capabilities": {},
            "supportedInterfaces": [{ "url": format!("{at}/agent"), "protocolBinding": "JSONRPC" }],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        })
    } else {
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "hello" }] });
        json!({ "jsonrpc": "2.0", "id": body["id"], "result": { "message": message } })
    };
    let to = onward(path, at);
    let (status, location, text) = match &to {
        Some(to) => (&to[..3], format!("Location: {}\r\n", &to[4..]), String::new()),
        None => ("200", String::new(), result.to_string()),
    };
    let length = text.len();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
    format!("{head}{location}Connection: close\r\n\r\n{text}")
}

/// As a framework mounts an agent.
fn mounted(path: &str, _: &str) -> Option<String> {
    (path == "/agent").then(|| "307 /agent/".to_owned())
}

fn card_moved(path: &str, at: &str) -> Option<String> {
    (path == "/.well-known/agent-card.json").then(|| format!("308 {at}/card.json"))
}

/// An agent of A2A 0.2: its card is elsewhere.
fn card_before(path: &str, _: &str) -> Option<String> {
    (path == "/.well-known/agent-card.json").then(|| "404 /".to_owned())
}

fn no_card(path: &str, _: &str) -> Option<String> {
    path.starts_with("/.well-known/").then(|| "404 /".to_owned())
}

fn away(path: &str, _: &str) -> Option<String> {
    (path == "/agent").then(|| "307 http://127.0.0.1:1/agent/?session=hush".to_owned())
}

/// A redirect that a client may follow with another request.
fn for_browsers(path: &str, _: &str) -> Option<String> {
    (path == "/agent").then(|| "302 /agent/".to_owned())
}

fn without_end(path: &str, _: &str) -> Option<String> {
    path.starts_with("/agent").then(|| format!("307 {path}x"))
}

fn started(server: &Server) -> Host {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let yaml = json!({
        "name": "mounted", "description": "elsewhere", "skills": [{ "id": "x.y", "name": "X", "description": "x" }],
        "contract": { "class": { "latency": "srt" } },
        "runtime": { "remote": { "url": server.at } },
    });
    let host = Host::new(Builtins::new(), ProcessConfig::default());
    let folder = std::env::temp_dir();
    host.start(&AgentFile::parse(&yaml.to_string()).expect("an agent file"), &folder).expect("it starts");
    host
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let looking = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, looking).await.unwrap_or_else(|_| panic!("it never came: {what}"));
}

async fn turn(host: &Host) -> Result<Option<Made>, AgentError> {
    let turn = Turn {
        task_id: "ours".to_owned(),
        context_id: "ctx".to_owned(),
        message: Message::new(Role::User, vec![Part::text("hello")]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    };
    let (out, mut made) = Output::channel();
    host.turn("mounted", turn, out).await?;
    Ok(made.recv().await)
}

fn state(host: &Host) -> AgentState {
    host.status()[0].state.clone()
}

#[tokio::test]
async fn what_sends_requests_on_within_itself_is_followed_once_and_remembered() {
    for onward in [mounted as Onward, card_moved] {
        let server = Server::start(onward);
        let host = started(&server);
        until("it is ready", || state(&host) == AgentState::Ready).await;
        for _ in 0..2 {
            let made = turn(&host).await.expect("an answer");
            assert!(matches!(&made, Some(Made::Reply(said)) if said.text() == Some("hello")), "{made:?}");
        }
        let asked = server.asked.lock().expect("no holder panics").clone();
        if onward("/agent", "").is_some() {
            assert_eq!((server.times("POST /agent "), server.times("POST /agent/ ")), (1, 2), "{asked:?}");
        }
        remote_card(&server.at, &[], None).await.expect("it can be adopted");
        host.stop_all().await;
    }
}

#[tokio::test]
async fn what_sends_requests_elsewhere_is_told_of_and_not_asked_there() {
    for (onward, to) in
        [(away as Onward, "http://127.0.0.1:1/agent/"), (for_browsers, "/agent/"), (without_end, "/agentxx")]
    {
        let server = Server::start(onward);
        let host = started(&server);
        until("it shows its card", || state(&host) == AgentState::Ready).await;
        let told = turn(&host).await.expect_err("it sends elsewhere").to_string();
        assert!(told.contains("it sends you to another address") && !told.contains("127.0.0.1"), "{told}");
        let AgentState::Unreachable { why } = state(&host) else { panic!("{:?}", state(&host)) };
        assert!(why.starts_with("it sends you to ") && why.contains(&format!("{to}; adopt that")), "{why}");
        assert!(!why.contains("hush"), "{why}");
        let refused = remote_card(&server.at, &[], None).await.expect_err("it answers no message");
        assert!(matches!(&refused, CardFault::Unfit(why) if why.contains(to)), "{refused}");
        host.stop_all().await;
    }
}

#[tokio::test]
async fn an_agent_of_a_version_before_this_is_told_of_where_its_card_is_at_the_old_place() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let old = Server::start(card_before);
    let refused = remote_card(&old.at, &[], None).await.expect_err("it is too old");
    assert!(matches!(&refused, CardFault::Unfit(why) if why.contains("an agent of A2A 0.2")), "{refused}");
    assert_eq!(old.times("GET /.well-known/agent.json "), 1);
    let none = Server::start(no_card);
    let refused = remote_card(&none.at, &[], None).await.expect_err("there is none");
    assert!(matches!(&refused, CardFault::NoCard(why) if why.starts_with("HTTP 404")), "{refused}");
}
