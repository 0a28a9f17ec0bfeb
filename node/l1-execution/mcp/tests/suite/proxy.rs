//! What tool servers are asked with their secrets, where the environment names a proxy: this very test program, run again
//! as a node whose environment does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use althing_execution::ServerOf;
use althing_execution::process::ProcessConfig;
use althing_execution::secrets::ServerSecrets;
use althing_td::ToolServerSpec;

/// Where the server on loopback is.
const SERVER: &str = "ALTHING_TEST_SERVER";
/// What of the environment tells of proxies, or when not to use them.
const PROXIES: [&str; 8] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"];
const FAR: &str = "https://tools.invalid/mcp";
const SECRET: &str = "hush-hush";

/// Not a test of its own: the node. Nobody answers it; what it sends is what counts.
#[tokio::test]
async fn node() {
    let Ok(near) = std::env::var(SERVER) else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    for url in [near.as_str(), FAR] {
        let spec = ToolServerSpec::Url { url: url.to_owned(), secret: Some("KEY".to_owned()), leads_to: Vec::new() };
        let server = althing_mcp::server(
            ServerOf { agent: "agent", server: "files", folder: Path::new("."), memory_kib: 0 },
            &spec,
            ServerSecrets { bearer: Some(SECRET.to_owned()), ..ServerSecrets::default() },
            &ProcessConfig::default(),
        );
        server.tools().await.expect_err("nobody answers");
    }
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
    node.args(["--exact", "proxy::node", "--nocapture"]).env(SERVER, format!("http://{near}/mcp"));
    for name in PROXIES {
        node.env_remove(name);
    }
    for name in ["HTTP_PROXY", "HTTPS_PROXY"] {
        node.env(name, format!("http://{proxy}"));
    }
    let ran = node.output().expect("this program runs again");
    let passed = passed.lock().expect("no holder panics").clone();
    for head in &passed {
        assert!(head.starts_with("CONNECT tools.invalid:443 "), "it goes in the clear: {head}");
        assert!(!head.contains(SECRET), "{head}");
    }
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(!passed.is_empty(), "what is encrypted may pass");
    let asked = asked.lock().expect("no holder panics").clone();
    assert!(!asked.is_empty(), "the server is asked");
    for head in asked {
        assert!(head.starts_with("POST /mcp ") && head.contains(&format!("Bearer {SECRET}")), "{head}");
    }
}
