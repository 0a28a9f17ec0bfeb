//! What models and embeddings are asked with their secrets, where the environment names a proxy: this very test program,
//! run again as a node whose environment does.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use a2a::{Message, Part, Role};
use althing_execution::agent::Parameters;
use althing_execution::memory::Embedder;
use althing_execution::model::Model;
use althing_execution::secrets::SecretLookup;
use althing_execution::tools::{ContractGate, Tools};
use althing_execution::{Agent as _, Output, Ports, SystemCalls, Turn};
use althing_protocol::Contract;
use althing_td::{ModelEndpoint, RuntimeSpec};
use serde_json::json;

/// Where the endpoint on loopback is.
const ENDPOINT: &str = "ALTHING_TEST_ENDPOINT";
/// What of the environment tells of proxies, or when not to use them.
const PROXIES: [&str; 8] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"];
const FAR: &str = "https://models.invalid/v1";
const SECRET: &str = "hush-hush";

/// Not a test of its own: the node. Nobody answers it; what it sends is what counts.
#[tokio::test]
async fn node() {
    let Ok(near) = std::env::var(ENDPOINT) else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    for url in [near.as_str(), FAR] {
        ask_model(url).await;
        let embedder = Embedder::endpoint(url, "small", Some(SECRET.to_owned())).expect("an embedder");
        embedder.embed(&["x"]).await.expect_err("nobody answers");
    }
}

async fn ask_model(url: &str) {
    let endpoint = ModelEndpoint {
        url: url.to_owned(),
        model: "small".to_owned(),
        secret: Some("KEY".to_owned()),
        ..ModelEndpoint::default()
    };
    let runtime = RuntimeSpec::Model { prompt: "Be brief.".to_owned(), endpoints: vec![endpoint], temperature: None };
    let contract = json!({ "class": { "latency": "srt" }, "security": { "secrets": ["KEY"] } });
    let contract = Contract::from_value(&contract).expect("a contract");
    let secrets: SecretLookup = Arc::new(|_| Ok(Some(SECRET.to_owned())));
    let agent = Ports::none().agent_ref("agent", "1.0.0").expect("a name");
    let tools = Tools::new(agent, BTreeMap::new(), Arc::new(ContractGate::new(Vec::new())));
    let calls = SystemCalls { tools: Arc::new(tools), memory: None, budget: Arc::default() };
    let model = Model::new(&runtime, &contract, &secrets, calls).expect("a model");
    let turn = Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text("hello")]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    };
    let (out, _made) = Output::channel();
    model.turn(turn, out).await.expect_err("nobody answers");
}

/// Refuses every request, and keeps their heads.
fn refusing() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let seen = heads.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let head = head(&stream);
            seen.lock().expect("no holder panics").push(head);
            // The other side may be gone.
            let _ = (&stream).write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (at, heads)
}

/// The head of a request whose body was read too.
fn head(stream: &TcpStream) -> String {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).is_ok_and(|read| read > 0) {}
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).expect("the body");
    head
}

#[test]
fn a_secret_passes_no_proxy_that_could_read_it() {
    let ((proxy, passed), (near, asked)) = (refusing(), refusing());
    let mut node = Command::new(std::env::current_exe().expect("a test knows where it is"));
    node.args(["--exact", "proxy::node", "--nocapture"]).env(ENDPOINT, format!("http://{near}/v1"));
    for name in PROXIES {
        node.env_remove(name);
    }
    for name in ["HTTP_PROXY", "HTTPS_PROXY"] {
        node.env(name, format!("http://{proxy}"));
    }
    let ran = node.output().expect("this program runs again");
    let passed = passed.lock().expect("no holder panics").clone();
    for head in &passed {
        assert!(head.starts_with("CONNECT models.invalid:443 "), "it goes in the clear: {head}");
        assert!(!head.contains(SECRET), "{head}");
    }
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(passed.len(), 2, "what is encrypted may pass: {passed:?}");
    let asked = asked.lock().expect("no holder panics").clone();
    let [completion, embedding] = &asked[..] else { panic!("{asked:?}") };
    assert!(completion.starts_with("POST /v1/chat/completions "), "{completion}");
    assert!(embedding.starts_with("POST /v1/embeddings "), "{embedding}");
    assert!(asked.iter().all(|head| head.contains(&format!("Bearer {SECRET}"))), "{asked:?}");
}
