//! Programs reach the hosts that their files name and no others, and the node puts secrets in, which no program ever has.

mod policies;
mod scheduled;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_e2e::http::{ask, says};
use althing_e2e::sandbox::{forbids_namespaces, has_landlock, has_namespaces, interpreter};
use althing_e2e::{Machine, Node, Running, text, until};
use althing_protocol::{digest, hex};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const PROGRAM: [(&str, &str); 2] = [
    ("reaching.py", include_str!("../../python/reaching.py")),
    ("plain_mcp.py", include_str!("../../python/plain_mcp.py")),
];
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(30);
const SECRET: &str = "sk-7Qx2vBnL0pRt9WzKd4Hs";
/// What hides the beginning of the secret from the program, which is told it so that it finds the secret.
const MASK: [u8; 4] = [0xa5, 0x3c, 0x96, 0x0f];
/// Calls of the tool, each of which asks so many times: a thousand in all, and no answer of the gateway takes long.
const ROUNDS: [usize; 2] = [10, 100];
/// Hosts of tests are on this machine.
const NETS: &str = "[sandbox]\nnets = [\"127.0.0.0/8\", \"::1/128\"]\n";
/// As much as the node can be made to say.
const TALKATIVE: &str = "[telemetry]\nlog = \"debug,althing=trace,hyper=trace,reqwest=trace\"\n";

/// A host. It says what it heard as `Authorization`: in a header, and in the body.
struct Origin {
    port: u16,
    /// The heads of what it was asked.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    fn start() -> Origin {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("it listens").port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let heads = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let heads = heads.clone();
                std::thread::spawn(move || answer(stream, &heads));
            }
        });
        Origin { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no holder panics").clone()
    }

    /// The first lines of what it was asked, without the version.
    fn lines(&self) -> Vec<String> {
        let line = |head: &String| head.split(" HTTP/").next().unwrap_or_default().to_owned();
        self.asked().iter().map(line).collect()
    }
}

fn answer(mut stream: TcpStream, heads: &Mutex<Vec<String>>) {
    let lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let lines: Vec<String> = lines.collect();
    let mut headers = lines.iter().filter_map(|line| line.split_once(": "));
    let heard =
        headers.find(|(name, _)| name.eq_ignore_ascii_case("authorization")).map_or("nothing", |(_, value)| value);
    let body = format!("heard: {heard}\n");
    let head = format!("HTTP/1.1 200 OK\r\nX-Heard: {heard}\r\nX-Plain: yes\r\nContent-Length: {}\r\n", body.len());
    heads.lock().expect("no holder panics").push(lines.join("\n"));
    // Who does not wait for it is not told.
    let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes());
}

/// A node with the program as the server of the tools of an agent.
struct Scene {
    node: Node,
    machine: Machine,
    python: PathBuf,
}

impl Scene {
    /// Starts the node by `up`, with a secret.
    fn start(python: &Path, configuration: &str, up: impl FnOnce(&Machine) -> Node) -> Scene {
        let machine = Machine::new();
        machine.configure(configuration);
        PROGRAM.iter().for_each(|(name, text)| drop(machine.write(name, text)));
        let node = up(&machine);
        let secret = machine.write("secret", SECRET);
        let file = File::open(&secret).expect("it was written");
        let kept = Running::start(machine.althing(&["secret", "set", "KEY"]).stdin(file)).end(SOON);
        assert_eq!(kept.code, 0, "{kept:?}");
        // It lay where the program finds it.
        std::fs::remove_file(secret).expect("it is there");
        Scene { node, machine, python: python.to_owned() }
    }

    /// Adds the agent; its file has this key of the program's.
    fn add(&self, key: &str, value: Value) {
        let mut server = json!({ "command": [self.python, self.machine.folder().join("reaching.py")] });
        server[key] = value;
        let file = json!({
            "name": "reaching",
            "description": "Reaches out",
            "skills": [{ "id": "reaching.ask", "name": "Ask", "description": "Asks a host" }],
            "runtime": { "native": { "builtin": "tools" } },
            "tools": { "server": server },
            "contract": {
                "class": { "latency": "srt" },
                "capabilities": ["server/get", "server/asks", "server/tunnel", "server/proxy", "server/holds"],
                "security": { "secrets": ["KEY"] },
            },
        });
        self.machine.add("reaching", &file.to_string());
    }

    /// The JSON that a tool answers.
    fn told(&self, tool: &str, arguments: &Value) -> Value {
        let call = json!({ "tool": tool, "arguments": arguments }).to_string();
        let said = ask(&self.node.gateway(), "reaching", "SendMessage", &says(&call));
        let told = said["task"]["artifacts"][0]["parts"][0]["text"].as_str();
        let told = told.and_then(|text| serde_json::from_str(text).ok());
        told.unwrap_or_else(|| panic!("{call} is answered with {said}"))
    }

    /// The status and the body of what is at an address: 0 and why, if it is not reached.
    fn get(&self, url: &str) -> (u64, String) {
        read(&self.told("get", &json!({ "url": url })))
    }

    /// The same of a host through a tunnel: what the proxy answers, if it makes none.
    fn tunnel(&self, host: &str, port: u16) -> (u64, String) {
        read(&self.told("tunnel", &json!({ "host": host, "port": port })))
    }

    /// Looks for the secret in all that the program has; where it is found.
    fn found(&self) -> Vec<String> {
        let masked: Vec<u8> = MASK.iter().zip(SECRET.bytes()).map(|(mask, byte)| mask ^ byte).collect();
        let (length, of) = (SECRET.len(), hex(&digest(SECRET.as_bytes())));
        let clue = json!({ "length": length, "digest": of, "mask": hex(&MASK), "masked": hex(&masked) });
        let told = self.told("holds", &clue);
        for (kind, least) in [("memory", 1 << 20), ("files", 1 << 10), ("environment", 1 << 7)] {
            assert!(told["searched"][kind].as_u64().is_some_and(|bytes| bytes > least), "{told}");
        }
        told["found"].as_array().expect("a list").iter().map(text).collect()
    }

    /// What the program was refused, as `ps` says it.
    fn refused(&self) -> String {
        self.machine.json(&["ps"])["agents"][0]["containment"][0]["refused"].to_string()
    }

    /// What the newest traces tell; the program's requests are among them.
    fn traces(&self) -> Vec<String> {
        let list = self.machine.json(&["trace"]);
        let ids = list["traces"].as_array().expect("a list").iter().map(|row| text(&row["trace"]));
        let traces: Vec<Value> = ids.map(|id| self.machine.json(&["trace", &id])).collect();
        let spans: Vec<&Value> = traces.iter().filter_map(|trace| trace["spans"].as_array()).flatten().collect();
        let asked = spans.iter().find(|span| span["name"] == "egress").unwrap_or_else(|| panic!("{traces:?}"));
        // The program asked while it worked on one call: that is what it asked for.
        let call = spans.iter().find(|span| span["id"] == asked["parent"]);
        assert!(call.is_some_and(|call| call["name"] == "execute_tool"), "{asked}: {traces:?}");
        assert_eq!(asked["attributes"]["gen_ai.agent.name"], "reaching", "{asked}");
        // And it names the manifest, as the call does.
        let bound = |span: &Value| span["attributes"]["althing.binding.hash"].clone();
        assert!(bound(asked).is_string() && call.map(|call| bound(call)) == Some(bound(asked)), "{asked}: {traces:?}");
        traces.iter().map(Value::to_string).chain([list.to_string()]).collect()
    }
}

fn read(told: &Value) -> (u64, String) {
    (told["status"].as_u64().unwrap_or_else(|| panic!("{told}")), text(&told["body"]))
}

/// The files in a folder, and in those in it, that have the secret.
fn having_it(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(at) = open.pop() {
        // What is gone by now has it no more.
        for entry in std::fs::read_dir(at).into_iter().flatten().filter_map(Result::ok) {
            let Ok(kind) = entry.file_type() else { continue };
            let has_it = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains(SECRET);
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() && std::fs::read(entry.path()).is_ok_and(has_it) {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Of all files of the account only that of the node's secrets has the secret.
fn is_kept_once(machine: &Machine) {
    assert_eq!(having_it(machine.home()), [machine.data().join("secrets/KEY")]);
}

/// The sandbox of a program that asks this host at `ORIGIN_URL`, and the node adds the secret.
fn with_header(origin: &Origin) -> Value {
    let headers = json!({ "Authorization": "Bearer {KEY}" });
    let host = format!("127.0.0.1:{}", origin.port);
    json!({ "egress": [{ "host": host, "variable": "ORIGIN_URL", "path": "/v1", "headers": headers }] })
}

/// The sandbox of a program that asks this host by itself, by its name and by its address.
fn named(origin: &Origin) -> Value {
    let hosts = ["localhost", "127.0.0.1"].map(|host| format!("{host}:{}", origin.port));
    json!({ "egress": hosts })
}

/// The address of a host in a spelling of which programs do not know that it is this machine: they ask the proxy for it.
fn by_proxy(origin: &Origin) -> String {
    format!("http://127.1:{}/by-proxy", origin.port)
}

/// A program to which this host was named reaches it by the proxy, and nothing else: `ps` says what it was refused.
fn reaches_what_is_named(scene: &Scene, origin: &Origin, other: &Origin) {
    assert_eq!(scene.get(&by_proxy(origin)), (200, "heard: nothing\n".to_owned()));
    let (status, body) = scene.tunnel("localhost", origin.port);
    assert!(status == 200 && body.ends_with("\r\n\r\nheard: nothing\n"), "{status}: {body}");
    assert_eq!(origin.lines(), ["GET /by-proxy", "GET /by-tunnel"]);
    for (host, port, write) in [
        ("other.example", 80, "other.example".to_owned()),
        ("other.example", 443, "other.example".to_owned()),
        ("127.0.0.1", other.port, format!("127.0.0.1:{}", other.port)),
        ("169.254.169.254", 80, "169.254.169.254".to_owned()),
    ] {
        let write = format!("sandbox: {{ egress: [{write}] }}");
        let (status, body) = scene.tunnel(host, port);
        assert!(status == 403 && body.contains(&write), "{host}: {status}: {body}");
        let refused = scene.refused();
        // A service of this machine is best asked by the node, since programs ask no proxy there.
        let advice = if host == "127.0.0.1" { "variable: NAME" } else { write.as_str() };
        assert!(refused.contains(&format!("{host}:{port}")) && refused.contains(advice), "{host}: {refused}");
    }
    let (status, body) = scene.get("http://other.example/");
    assert!(status == 403 && body.contains("sandbox: { egress: [other.example] }"), "{status}: {body}");
    // Of this machine they do not ask a proxy.
    for port in [origin.port, other.port] {
        let (status, why) = scene.get(&format!("http://localhost:{port}/direct"));
        assert!(status == 0 && why.starts_with("URLError: "), "{status}: {why}");
    }
    assert_eq!((origin.asked().len(), other.asked().len()), (2, 0));
    let ps = scene.machine.run(&["ps"]);
    assert!(ps.stdout.contains("reaching (tools.server) was refused"), "{ps:?}");
}

#[test]
fn a_program_reaches_the_hosts_that_its_file_names_and_no_others() {
    let Some(python) = interpreter().filter(|python| has_namespaces(python)) else { return };
    let (origin, other) = (Origin::start(), Origin::start());
    let scene = Scene::start(&python, NETS, |machine| machine.up_alone(&[]));
    scene.add("sandbox", named(&origin));
    reaches_what_is_named(&scene, &origin, &other);
}

#[test]
fn where_nobody_makes_namespaces_a_program_reaches_them_too_and_no_others() {
    let Some(python) = interpreter().filter(|python| has_landlock(python)) else { return };
    if !forbids_namespaces() {
        return;
    }
    let (origin, other) = (Origin::start(), Origin::start());
    let scene = Scene::start(&python, NETS, Machine::up_without_namespaces);
    scene.add("sandbox", named(&origin));
    reaches_what_is_named(&scene, &origin, &other);
    // Others of this machine, such as this process, reach its proxy too, and have no password for it.
    let (_, at) = read(&scene.told("proxy", &json!({})));
    let (login, address) = at
        .strip_prefix("http://")
        .and_then(|at| at.split_once('@'))
        .unwrap_or_else(|| panic!("it has no password: {at}"));
    let mut proxy = TcpStream::connect(address).expect("it listens");
    let asked = format!("GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", by_proxy(&origin));
    proxy.write_all(asked.as_bytes()).expect("it is heard");
    let mut answer = String::new();
    proxy.read_to_string(&mut answer).expect("it is text");
    assert!(answer.starts_with("HTTP/1.1 407 ") && !answer.contains(login), "{answer}");
    assert_eq!(origin.asked().len(), 2, "it was asked nothing more");
}

#[test]
fn a_name_that_leads_to_this_machine_is_not_followed_unless_its_owner_says_so() {
    let Some(python) = interpreter() else { return };
    let origin = Origin::start();
    let scene = Scene::start(&python, "", |machine| machine.up_alone(&[]));
    scene.add("sandbox", named(&origin));
    for (status, body) in [scene.tunnel("localhost", origin.port), scene.get(&by_proxy(&origin))] {
        assert!(status == 502 && body.contains("unless the operator names the net"), "{status}: {body}");
    }
    let refused = scene.refused();
    assert!(refused.contains(&format!("localhost:{}", origin.port)) && refused.contains("loopback"), "{refused}");
    assert!(origin.asked().is_empty());
}

#[test]
fn the_node_puts_secrets_in_and_the_program_never_has_them() {
    let Some(python) = interpreter().filter(|python| has_namespaces(python)) else { return };
    let origin = Origin::start();
    let scene = Scene::start(&python, TALKATIVE, |machine| machine.up_alone(&[]));
    scene.add("sandbox", with_header(&origin));
    let [rounds, times] = ROUNDS;
    let masked = format!("heard: Bearer {}\n", "*".repeat(SECRET.len()));
    for _ in 0..rounds {
        let told = scene.told("asks", &json!({ "variable": "ORIGIN_URL", "path": "/chat", "times": times }));
        // All answers are the same one.
        let Some([answer]) = told["answers"].as_array().map(Vec::as_slice) else { panic!("{told}") };
        assert_eq!((&told["asked"], &answer["status"]), (&json!(times), &json!(200)), "{told}");
        assert_eq!((&answer["body"], &answer["headers"]["x-plain"]), (&json!(masked), &json!("yes")), "{told}");
        assert!(answer["headers"]["x-heard"].is_null(), "{told}");
    }
    let asked = origin.asked();
    let bears = |head: &&String| head.starts_with("GET /v1/chat ") && head.contains(&format!(": Bearer {SECRET}"));
    assert_eq!((asked.len(), asked.iter().filter(bears).count()), (rounds * times, rounds * times));

    assert_eq!(scene.found(), [""; 0], "the program has it");
    is_kept_once(&scene.machine);
    let mut said = scene.traces();
    let commands: [&[&str]; 5] =
        [&["ps"], &["--json", "ps"], &["describe", "reaching"], &["secret", "list"], &["doctor"]];
    for command in commands {
        let outcome = scene.machine.run(command);
        said.extend([outcome.stdout, outcome.stderr]);
    }
    scene.node.running.signal(Signal::SIGTERM);
    let Scene { node, machine, .. } = scene;
    let ended = node.running.end(SOON);
    assert!(ended.stderr.contains("egress"), "the log tells of it: {ended:?}");
    said.extend([ended.stdout, ended.stderr, node.said.to_string()]);
    for text in said {
        assert!(!text.contains(SECRET), "{text}");
    }
    // What was still in memory is in files now.
    is_kept_once(&machine);
}

/// The search finds a secret that a program has, so that the test before can fail.
#[test]
fn a_secret_in_an_environment_is_found() {
    let Some(python) = interpreter().filter(|python| has_namespaces(python)) else { return };
    let scene = Scene::start(&python, "", |machine| machine.up_alone(&[]));
    scene.add("env_secrets", json!({ "KEY": "KEY" }));
    let left = scene.machine.write("left", &format!("before {SECRET} after")).display().to_string();
    let found = scene.found();
    for place in ["the variable KEY", "/environ", "/mem at ", left.as_str()] {
        assert!(found.iter().any(|found| found.contains(place)), "{place}: {found:?}");
    }
    assert_eq!(having_it(scene.machine.home()).len(), 2);
}

#[test]
fn a_program_without_namespaces_is_not_started_with_headers() {
    let Some(python) = interpreter() else { return };
    if !forbids_namespaces() {
        return;
    }
    let origin = Origin::start();
    let scene = Scene::start(&python, "", Machine::up_without_namespaces);
    scene.add("sandbox", with_header(&origin));
    let agent = || scene.machine.json(&["ps"])["agents"][0].clone();
    until(SOON, "it is not reached", || agent()["state"] == "unreachable");
    let agent = agent();
    let why = text(&agent["why"]);
    assert!(why.contains("every account of this machine could ask so") && why.contains("namespaces"), "{why}");
    assert_eq!(agent["containment"], json!([]), "it does not run");
    let call = json!({ "tool": "asks", "arguments": { "variable": "ORIGIN_URL", "path": "/chat", "times": 1 } });
    let said = ask(&scene.node.gateway(), "reaching", "SendMessage", &says(&call.to_string()));
    assert!(said["task"]["artifacts"].is_null() && origin.asked().is_empty(), "{said}");
}
