//! `althing adopt` of Things and of directories: a stock server of the Web of Things joins as it is, and is used from another
//! node over each face; what a description could do to the node that reads it is refused.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use althing_e2e::registry::{RegistryProcess, program};
use althing_e2e::{Machine, Node, Running, free_port, http, node, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const LAMP: &str = include_str!("../../js/lamp.cjs");
/// A program starts slowly on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// A description is read each second, not each half minute.
const OFTEN: &str = "[adopt]\ncheck_seconds = 1\n";
const DONE: Duration = Duration::from_secs(60);

/// Two owners' nodes on loopback that trust each other, of which the second adopts.
struct Pair {
    one: Machine,
    two: Machine,
    caller: Node,
    _host: Node,
}

impl Pair {
    fn start() -> Pair {
        let (one, two) = (Machine::new(), Machine::new());
        let caller = one.up_alone(&[]);
        two.configure(OFTEN);
        let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
        two.json(&["trust", &caller.owner()]);
        one.json(&["trust", &host.owner()]);
        Pair { one, two, caller, _host: host }
    }

    fn call(&self, words: Value) -> althing_e2e::Outcome {
        self.one.run(&["call", "lamp", &words.to_string()])
    }

    fn state(&self) -> (String, String) {
        state(&self.two)
    }
}

/// The state of the only agent of a machine, and why.
fn state(machine: &Machine) -> (String, String) {
    let list = machine.json(&["ps"]);
    let text = |key: &str| list["agents"][0][key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("why"))
}

fn agents(machine: &Machine) -> usize {
    machine.json(&["agent", "list"])["agents"].as_array().map_or(0, Vec::len)
}

/// A lamp made with node-wot, and the address of its description.
fn lamp(machine: &Machine, packages: &Path, credentials: Option<&str>) -> (Running, String) {
    let (port, script) = (free_port(), machine.write("lamp.cjs", LAMP));
    let mut command = machine.command(Path::new("node"));
    let command = command.arg(script).arg(port.to_string()).args(credentials).env("NODE_PATH", packages);
    let running = Running::start(command);
    until(SOON, "the lamp listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let base = format!("http://127.0.0.1:{port}");
    until(SOON, "the lamp is exposed", || http::get(&base, "/lamp", &[]).status == 200);
    (running, format!("{base}/lamp"))
}

fn keep_secret(machine: &Machine, name: &str, value: &str) {
    let mut child = machine.althing(&["secret", "set", name]).stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(value.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success());
}

/// The result of a tool of the adopted server, by MCP through the gateway of another node.
fn over_mcp(gateway: &str, tool: &str, arguments: &Value) -> Value {
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let post = |headers: &[(&str, &str)], body: &Value| {
        http::raw(gateway, &http::request(gateway, "POST", "/mcp?agent=lamp", headers, body.to_string().as_bytes()))
    };
    let client =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let begun = post(&headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client }));
    let named = |line: &str| line.to_ascii_lowercase().starts_with("mcp-session-id:");
    let session = begun.head.lines().find(|line| named(line)).and_then(|line| line.split_once(": "));
    let session = session.unwrap_or_else(|| panic!("no session: {begun:?}")).1.trim().to_owned();
    let headers =
        [&headers[..], &[("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")]].concat();
    post(&headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let params = json!({ "name": tool, "arguments": arguments });
    let answer = post(&headers, &json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    let line =
        answer.body.lines().find_map(|line| line.find('{').map(|at| &line[at..]).filter(|it| it.contains("\"id\":2")));
    let value: Value = serde_json::from_str(line.unwrap_or_else(|| panic!("{answer:?}"))).expect("JSON");
    value["result"].clone()
}

#[test]
fn a_stock_thing_is_used_from_another_node_over_each_face_until_it_changes() {
    let Some(packages) = node::packages() else { return };
    let pair = Pair::start();
    let (lamp, url) = lamp(&pair.two, packages, None);
    // Flags may stand after the address.
    let shown = pair.two.json(&["adopt", &url, "--callers", "trusted", "--dry-run"]);
    assert_eq!((&shown["kind"], agents(&pair.two)), (&json!("Thing"), 0), "{shown}");
    let adopted = pair.two.json(&["adopt", "--callers", "trusted", &url]);
    assert_eq!(
        (&adopted["file"], &adopted["file"]["name"]),
        (&shown["file"], &json!("lamp")),
        "what was shown is what is published"
    );
    until(SOON, "it is found", || pair.one.finds("lamp"));
    until(SOON, "it is ready", || pair.state().0 == "ready");
    let found = pair.one.json(&["find", "--cap", "read_level"]);
    assert_eq!(found["agents"][0]["name"], "lamp", "{found}");

    // A2A.
    let level = pair.call(json!({ "tool": "read_level" }));
    assert!(level.code == 0 && level.stdout.contains("40"), "{level:?}");
    let written = pair.call(json!({ "tool": "write_level", "arguments": { "value": 10 } }));
    assert_eq!(written.code, 0, "{written:?}");
    let failed = pair.call(json!({ "tool": "fail" }));
    assert!(failed.code == 1 && failed.stderr.contains("the bulb is broken"), "{failed:?}");
    // MCP.
    let result = over_mcp(&pair.caller.gateway(), "dim", &json!({ "by": 5 }));
    assert_eq!(result["structuredContent"], json!({ "level": 15 }), "{result}");
    // WoT.
    let said = json!({ "messages": [{ "role": "user", "content": json!({ "tool": "dim", "arguments": { "by": 1 } }).to_string() }] });
    let body = said.to_string();
    let request =
        http::request(&pair.caller.gateway(), "POST", "/things/lamp/actions/chat", &http::HONEST, body.as_bytes());
    let answer = http::raw(&pair.caller.gateway(), &request);
    assert!(answer.status == 200 && answer.body.contains("16"), "{answer:?}");
    // An event: it happens again and again until whoever waits has it.
    let waiting = Running::start(&mut pair.one.althing(&[
        "call",
        "lamp",
        r#"{"tool": "next_overheated", "arguments": {"seconds": 60}}"#,
    ]));
    let mut waiting = Some(waiting);
    until(SOON, "the event is told", || {
        lamp.signal(Signal::SIGHUP);
        waiting.as_mut().is_some_and(Running::ended)
    });
    let told = waiting.take().expect("it waited").end(DONE);
    assert!(told.code == 0 && told.stdout.contains("97"), "{told:?}");

    changes(&pair, &lamp);
}

/// The Thing shows another description, which is accepted.
fn changes(pair: &Pair, lamp: &Running) {
    lamp.signal(Signal::SIGUSR2);
    until(SOON, "the change is seen", || pair.state().0 == "suspended");
    assert!(pair.state().1.contains("althing adopt --accept lamp"), "{:?}", pair.state());
    let refused = pair.call(json!({ "tool": "read_level" }));
    assert!(refused.code != 0 && refused.stderr.contains("another description"), "{refused:?}");
    // Nothing is accepted unseen.
    let offer = pair.two.run(&["adopt", "--accept", "lamp"]);
    assert!(offer.code == 5 && offer.stderr.contains("who is at home"), "{offer:?}");
    assert_eq!(pair.state().0, "suspended");
    let accepted =
        offer.stderr.split('`').find_map(|word| word.strip_prefix("althing adopt --accept ")).expect("how").to_owned();
    let other = format!("lamp@{}", "0".repeat(16));
    let refused = pair.two.run(&["adopt", "--accept", &other]);
    assert!(refused.code == 5 && refused.stderr.contains("not what you looked at"), "{refused:?}");
    pair.two.json(&["adopt", "--accept", &accepted]);
    until(SOON, "it is ready again", || pair.state().0 == "ready");
    until(SOON, "it is called again", || pair.call(json!({ "tool": "read_level" })).code == 0);
}

#[test]
fn a_thing_gets_the_secret_that_its_description_asks_for() {
    let Some(packages) = node::packages() else { return };
    let machine = Machine::new();
    machine.configure(OFTEN);
    let _node = machine.up_alone(&[]);
    let (lamp, url) = lamp(&machine, packages, Some("owner:sesame"));
    let refused = machine.run(&["adopt", &url]);
    assert!(refused.code != 0 && refused.stderr.contains("althing secret set"), "{refused:?}");
    keep_secret(&machine, "LAMP", "owner:sesame");
    let adopted = machine.json(&["adopt", &url, "--secret", "LAMP"]);
    assert!(!adopted.to_string().contains("sesame"), "{adopted}");
    let described = machine.run(&["describe", "lamp"]);
    assert!(
        described.code == 0 && !described.stdout.contains("LAMP") && !described.stdout.contains("127.0.0.1"),
        "{described:?}"
    );
    let level = machine.run(&["call", "lamp", r#"{"tool": "read_level"}"#]);
    assert!(level.code == 0 && level.stdout.contains("40"), "{level:?}");
    lamp.kill();
    let gone = machine.run(&["call", "lamp", r#"{"tool": "read_level"}"#]);
    assert!(gone.code != 0 && !gone.stderr.contains("127.0.0.1"), "{gone:?}");
    until(SOON, "it is noticed", || state(&machine).0 == "unreachable");
    assert!(state(&machine).1.contains("nothing listens at"), "{:?}", state(&machine));
}

#[test]
fn a_directory_lists_its_things_and_those_that_are_chosen_join() {
    let site = Site::start();
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let data = machine.folder().join("registry");
    let registry = RegistryProcess::start(&machine, &data, &[]);
    let mut command = machine.command(&program());
    let token = Running::start(command.args(["token", "add", "things", "--data"]).arg(&data)).end(DONE);
    let bearer = format!("Bearer {}", token.stdout.trim());
    for name in ["a", "b"] {
        let td = td(&format!("urn:x:{name}"), &format!("Thing {name}"), &format!("{}/level", site.at));
        let headers = [("Content-Type", "application/td+json"), ("Authorization", bearer.as_str())];
        let path = format!("/things/urn:x:{name}");
        let request = http::request(&registry.at, "PUT", &path, &headers, td.to_string().as_bytes());
        let answer = http::raw(&registry.at, &request);
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    for at in [registry.at.clone(), format!("{}/.well-known/wot", registry.at), format!("{}/things", registry.at)] {
        let listed = machine.json(&["adopt", &at]);
        let ids: Vec<&str> =
            listed["things"].as_array().expect("a list").iter().filter_map(|it| it["id"].as_str()).collect();
        assert_eq!(ids, ["urn:x:a", "urn:x:b"], "{listed}");
    }
    assert_eq!(agents(&machine), 0);
    // Its forms lead to another server.
    let refused = machine.run(&["adopt", &registry.at, "--thing", "urn:x:b"]);
    assert!(refused.code != 0 && refused.stdout.contains(&format!("--allow {}", site.at)), "{refused:?}");
    assert_eq!(site.requests("/level"), 0);
    let adopted = machine.json(&["adopt", &registry.at, "--thing", "urn:x:b", "--allow", &site.at]);
    assert_eq!(adopted["adopted"][0]["added"]["name"], "thing-b", "{adopted}");
    let level = machine.run(&["call", "thing-b", r#"{"tool": "read_level"}"#]);
    assert!(level.code == 0 && level.stdout.contains('7'), "{level:?}");
    assert_eq!(site.requests("/level"), 1);
    let all = machine.json(&["adopt", &registry.at, "--all", "--dry-run", "--allow", &site.at]);
    assert_eq!(all["adopted"].as_array().map(Vec::len), Some(2), "{all}");
    let unknown = machine.run(&["adopt", &registry.at, "--thing", "urn:x:c"]);
    assert_eq!(unknown.code, 4, "{unknown:?}");
}

#[test]
fn a_hostile_description_leads_nowhere() {
    let (site, inside) = (Site::start(), Site::start());
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let adopt = |path: &str| machine.run(&["adopt", &format!("{}{path}", site.at)]);
    for (path, why) in [
        ("/metadata", "http://169.254.169.254"),
        ("/inside", "which you did not allow"),
        ("/invalid", "nothing can be done with this Thing"),
        ("/deep", "neither a Thing, nor an A2A agent"),
        ("/huge", "neither a Thing, nor an A2A agent"),
        ("/redirect", "is not followed"),
        ("/nothing", "it answers 404"),
        ("/webthing", "a Thing of WebThings before W3C: it has links where forms belong"),
        ("/webthings", "a Thing of WebThings before W3C: it has links where forms belong"),
    ] {
        site.leads_to(&inside.at);
        let refused = adopt(path);
        assert!(refused.code != 0 && refused.stderr.contains(why), "{path}: {refused:?}");
        assert!(!path.starts_with("/webthing") || !refused.stderr.contains("A2A"), "in one sentence: {refused:?}");
    }
    assert_eq!(inside.connections(), 0, "nothing was asked there");
    // A Thing whose answer is a redirect: it is told, and not followed.
    let adopted = adopt("/turns");
    assert_eq!(adopted.code, 0, "{adopted:?}");
    let name = machine.json(&["agent", "list"])["agents"][0]["name"].as_str().expect("a name").to_owned();
    let refused = machine.run(&["call", &name, r#"{"tool": "read_level"}"#]);
    assert!(refused.code != 0 && refused.stderr.contains("not followed"), "{refused:?}");
    assert_eq!(inside.connections(), 0);
    let closed = format!("http://127.0.0.1:{}", free_port());
    let refused = machine.run(&["adopt", &closed]);
    assert!(refused.code == 1 && refused.stderr.contains("nothing listens at"), "{refused:?}");
    assert_eq!(agents(&machine), 1);
}

/// A description with one property.
fn td(id: &str, title: &str, href: &str) -> Value {
    json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "id": id,
        "title": title,
        "securityDefinitions": { "none": { "scheme": "nosec" } },
        "security": "none",
        "properties": { "level": { "type": "integer", "readOnly": true, "forms": [{ "href": href }] } },
    })
}

/// A Thing as WebThings described them before W3C.
fn webthing() -> Value {
    json!({
        "@context": "https://webthings.io/schemas",
        "@type": ["Fan"],
        "title": "Fan",
        "properties": { "speed": { "type": "integer", "links": [{ "href": "/fan/properties/speed" }] } },
    })
}

/// A web server with descriptions of hostile Things; it counts who asks.
struct Site {
    at: String,
    asked: Arc<std::sync::Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    target: Arc<std::sync::Mutex<String>>,
}

impl Site {
    fn start() -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = format!("http://{}", listener.local_addr().expect("bound"));
        let site = Site { at, asked: Arc::default(), connections: Arc::default(), target: Arc::default() };
        let (own, asked, connections, target) =
            (site.at.clone(), site.asked.clone(), site.connections.clone(), site.target.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                connections.fetch_add(1, Ordering::Relaxed);
                let (own, asked, target) = (own.clone(), asked.clone(), target.clone());
                std::thread::spawn(move || {
                    let target = target.lock().expect("whole").clone();
                    serve(stream, &own, &target, &asked);
                });
            }
        });
        site
    }

    fn leads_to(&self, target: &str) {
        target.clone_into(&mut self.target.lock().expect("whole"));
    }

    fn requests(&self, path: &str) -> usize {
        self.asked.lock().expect("whole").iter().filter(|asked| *asked == path).count()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, own: &str, target: &str, asked: &std::sync::Mutex<Vec<String>>) {
    let mut request = [0; 8_192];
    let read = stream.read(&mut request).unwrap_or(0);
    let request = String::from_utf8_lossy(&request[..read]).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().expect("whole").push(path.clone());
    let (status, body) = match path.as_str() {
        "/level" => ("200 OK", "7".to_owned()),
        "/metadata" => ("200 OK", td("urn:x:m", "M", "http://169.254.169.254/latest/meta-data/").to_string()),
        "/inside" => ("200 OK", td("urn:x:i", "I", &format!("{target}/level")).to_string()),
        "/turns" => ("200 OK", td("urn:x:t", "Turns", &format!("{own}/redirect")).to_string()),
        "/invalid" => {
            ("200 OK", json!({ "@context": "https://www.w3.org/2022/wot/td/v1.1", "title": "I" }).to_string())
        }
        "/deep" => ("200 OK", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        "/huge" => ("200 OK", "[".to_owned() + &" ".repeat(16 << 20)),
        "/webthing" => ("200 OK", webthing().to_string()),
        "/webthings" => ("200 OK", json!([webthing()]).to_string()),
        "/redirect" => ("302 Found", String::new()),
        _ => ("404 Not Found", String::new()),
    };
    let location = if status.starts_with("302") { format!("Location: {target}/level\r\n") } else { String::new() };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{location}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // Whoever asked may have heard enough.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}
