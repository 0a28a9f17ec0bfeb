//! The gateway behind a proxy, and pages of other origins: it says what the world calls it, events pass a stock proxy one by one,
//! and a page that the operator named may use it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use althing_e2e::http::{HONEST, ask, authority, get, raw, request, says};
use althing_e2e::{Machine, Running, cast, free_port, until};
use althing_testing::{remedy, skip};
use serde_json::{Value, json};

/// What the world calls it.
const PUBLIC: &str = "https://agents.example.org/mesh";
/// No answer may take longer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Where nginx is: its folder is not in every account's path.
pub(crate) fn nginx() -> Option<PathBuf> {
    let found = ["nginx", "/usr/sbin/nginx"].into_iter().map(PathBuf::from).find(|program| {
        let ran = Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
        ran.is_ok_and(|status| status.success())
    });
    if found.is_none() {
        skip("there is no nginx", remedy::NGINX);
    }
    found
}

/// A proxy in front of a gateway, with nothing but nginx's defaults.
fn proxy(machine: &Machine, program: &Path, gateway: &str, location: &str, to: &str) -> (Running, String) {
    let port = free_port();
    let folder = machine.folder().display();
    let config = format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;\nevents {{}}\nhttp {{\n  access_log off;\n  \
         client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fcgi;\n  \
         uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n  server {{\n    listen 127.0.0.1:{port};\n    \
         location {location} {{ proxy_pass http://{}{to}; }}\n  }}\n}}\n",
        authority(gateway)
    );
    let file = machine.write("nginx.conf", &config);
    let mut command = machine.command(program);
    let running = Running::start(command.arg("-c").arg(file).arg("-e").arg("stderr"));
    let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    until(ANSWER_MAX, "nginx listens", listens);
    (running, format!("http://127.0.0.1:{port}"))
}

/// The members of a value that are addresses of a gateway.
fn addresses(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.starts_with("http") || text.starts_with("ws") || text.starts_with('/') => {
            found.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| addresses(item, found)),
        Value::Object(members) => {
            let named = members.iter().filter(|(name, _)| ["base", "href", "url", "card"].contains(&name.as_str()));
            named.for_each(|(_, value)| addresses(value, found));
            members.values().filter(|value| !value.is_string()).for_each(|value| addresses(value, found));
        }
        _ => {}
    }
}

#[test]
fn behind_a_proxy_every_address_is_the_one_that_the_operator_names() {
    let machine = Machine::new();
    machine.configure(&format!("[gateway]\npublic = {PUBLIC:?}\n"));
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    let gateway = node.gateway();
    // A proxy passes the name on, and somebody may write what he likes.
    let headers =
        [("Host", "agents.example.org"), ("X-Forwarded-Host", "evil.example"), ("Forwarded", "host=evil.example")];
    for path in [
        "/agents",
        "/a2a/echo/.well-known/agent-card.json",
        "/things/echo",
        "/things",
        "/.well-known/wot",
        "/openapi.json",
    ] {
        let answer = get(&gateway, path, &headers);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(!answer.body.contains("evil.example") && !answer.body.contains("http://agents"), "{path}");
        let mut found = Vec::new();
        addresses(&answer.json(), &mut found);
        let own: Vec<&String> =
            found.iter().filter(|text| text.contains("agents.example.org") || text.starts_with('/')).collect();
        assert!(!own.is_empty(), "{path}: {found:?}");
        for address in own {
            let path_of_it = address.split("agents.example.org").last().expect("an address");
            assert!(path_of_it.starts_with("/mesh"), "{path}: {address}");
        }
    }
    for path in ["/llms.txt", "/llms-full.txt", "/"] {
        let body = get(&gateway, path, &headers).body;
        assert!(body.contains(&format!("{PUBLIC}/")) || body.contains(PUBLIC), "{path}: {body}");
        assert!(!body.contains("http://127.0.0.1") && !body.contains("evil.example"), "{path}");
    }
    // With the path and without, as proxies pass it on.
    for path in ["/mesh/agents", "/agents", "/mesh/a2a/echo/.well-known/agent-card.json"] {
        assert_eq!(get(&gateway, path, &headers).status, 200, "{path}");
    }
    assert_eq!(get(&gateway, "/meshed/agents", &headers).status, 404);
}

#[test]
fn events_pass_a_stock_proxy_one_by_one() {
    let Some(program) = nginx() else { return };
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "trusted"));
    let gateway = node.gateway();
    let (_proxy, proxied) = proxy(&machine, &program, &gateway, "/mesh/", "/");
    let mut stream = TcpStream::connect(authority(&proxied)).expect("it listens");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("a time limit");
    let asked =
        request(&proxied, "GET", "/mesh/things/echo/events/agentEvent", &[("Accept", "text/event-stream")], b"");
    stream.write_all(&asked).expect("it listens");
    let mut lines = BufReader::new(stream.take(1 << 20)).lines();
    // The head comes only when the proxy passes it on before the end, which never comes.
    let head = lines.by_ref().map(|line| line.expect("a line")).take_while(|line| !line.is_empty());
    assert!(head.collect::<Vec<_>>()[0].contains(" 200 "));
    let chat = json!({ "messages": [{ "role": "user", "content": "hello" }] }).to_string();
    let headers = [("Content-Type", "application/json")];
    assert_eq!(
        raw(&proxied, &request(&proxied, "POST", "/mesh/things/echo/actions/chat", &headers, chat.as_bytes())).status,
        200
    );
    let told = lines.map(|line| line.expect("a line in time")).find(|line| line.starts_with("data:"));
    assert!(told.is_some(), "the event passes while the stream goes on");
    // Over the proxy's connections, which it keeps.
    for _ in 0..3 {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": says("again") }).to_string();
        assert_eq!(raw(&proxied, &request(&proxied, "POST", "/mesh/a2a/echo", &HONEST, body.as_bytes())).status, 200);
    }
    assert!(ask(&gateway, "echo", "SendMessage", &says("direct")).to_string().contains("direct"));
}

#[test]
fn a_page_that_the_operator_names_may_use_the_gateway_and_no_other() {
    let machine = Machine::new();
    machine.configure("[gateway]\norigins = [\"http://localhost:6274\"]\n");
    let node = machine.up_alone(&[]);
    let gateway = node.gateway();
    let preflight = |origin: &str| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "mcp-protocol-version,a2a-version,content-type"),
        ];
        raw(&gateway, &request(&gateway, "OPTIONS", "/mcp", &headers, b""))
    };
    let answer = preflight("http://localhost:6274");
    let head = answer.head.to_ascii_lowercase();
    assert_eq!(answer.status, 204, "{answer:?}");
    assert!(head.contains("access-control-allow-origin: http://localhost:6274"), "{head}");
    assert!(head.contains("mcp-protocol-version") && head.contains("a2a-version"), "{head}");
    let other = preflight("http://localhost:6275");
    assert!(other.status == 403 && !other.head.to_ascii_lowercase().contains("access-control"), "{other:?}");
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "page", "version": "1" } },
    });
    // No Accept, JSON alone, or anything.
    for accept in [None, Some("application/json"), Some("*/*")] {
        let mut headers = vec![("Origin", "http://localhost:6274"), ("Content-Type", "application/json")];
        headers.extend(accept.map(|accept| ("Accept", accept)));
        let answer = raw(&gateway, &request(&gateway, "POST", "/mcp", &headers, initialize.to_string().as_bytes()));
        assert_eq!(answer.status, 200, "{accept:?}: {answer:?}");
        let head = answer.head.to_ascii_lowercase();
        assert!(head.contains("access-control-expose-headers: mcp-session-id"), "{head}");
        assert!(head.contains("content-type: application/json") && head.contains("mcp-session-id: "), "{head}");
        assert_eq!(answer.json()["result"]["protocolVersion"], "2024-11-05", "{answer:?}");
    }
    // What does not say that it is JSON.
    for kind in [None, Some("text/plain")] {
        let mut headers = vec![("Origin", "http://localhost:6274"), ("Accept", "*/*")];
        headers.extend(kind.map(|kind| ("Content-Type", kind)));
        let answer = raw(&gateway, &request(&gateway, "POST", "/mcp", &headers, initialize.to_string().as_bytes()));
        assert_eq!(answer.status, 415, "{kind:?}: {answer:?}");
    }
}
