//! One call is one trace across the nodes that it touches, exported to a collector over OTLP; metrics and logs too.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use althing_e2e::http::{HONEST, raw, request, says};
use althing_e2e::{COMMAND_MAX, Machine, Outcome, Running, cast, until};
use althing_protocol::hex;
use nix::sys::signal::Signal;
use serde_json::json;

const MODEL: &str = include_str!("../../python/model.py");
const DOCUMENT: &str = include_str!("../../../../docs/traces.md");
const SOON: Duration = Duration::from_secs(20);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A span as the collector got it.
#[derive(Debug, Clone)]
struct Span {
    node: String,
    name: String,
    trace: String,
    id: String,
    parent: String,
    /// The manifest that its turn was bound by.
    binding: String,
    /// What was said to the agent.
    said: String,
}

/// Fields of a protobuf message: numbers, and the bytes of what has a length (protobuf's encoding guide).
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn number(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().expect("a whole number");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes);
        let length = match key & 7 {
            0 => {
                number(&mut bytes);
                continue;
            }
            1 => 8,
            2 => usize::try_from(number(&mut bytes)).expect("a length"),
            5 => 4,
            kind => panic!("no wire type {kind}"),
        };
        let (value, rest) = bytes.split_at(length);
        bytes = rest;
        all.push((key >> 3, value));
    }
    all
}

fn field<'a>(of: &[(u64, &'a [u8])], number: u64) -> &'a [u8] {
    of.iter().find(|(found, _)| *found == number).map_or(&[], |(_, value)| value)
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// The spans of an `ExportTraceServiceRequest` (opentelemetry-proto, trace/v1).
fn spans(body: &[u8]) -> Vec<Span> {
    let mut all = Vec::new();
    for (_, of_resource) in fields(body) {
        let of_resource = fields(of_resource);
        let attributes = fields(field(&of_resource, 1)).into_iter().map(|(_, attribute)| fields(attribute));
        let mut named = attributes.filter(|attribute| field(attribute, 1) == b"service.instance.id");
        let node = named.next().map(|attribute| utf8(field(&fields(field(&attribute, 2)), 1))).unwrap_or_default();
        for (_, of_scope) in of_resource.iter().filter(|(number, _)| *number == 2) {
            for (_, span) in fields(of_scope).into_iter().filter(|(number, _)| *number == 2) {
                let span = fields(span);
                let attribute = |name: &[u8]| {
                    let attributes =
                        span.iter().filter(|(number, _)| *number == 9).map(|(_, attribute)| fields(attribute));
                    let mut named = attributes.filter(|attribute| field(attribute, 1) == name);
                    let text = named.next().map(|attribute| utf8(field(&fields(field(&attribute, 2)), 1)));
                    text.unwrap_or_default()
                };
                all.push(Span {
                    node: node.clone(),
                    name: utf8(field(&span, 5)),
                    trace: hex(field(&span, 1)),
                    id: hex(field(&span, 2)),
                    parent: hex(field(&span, 4)),
                    binding: attribute(b"althing.binding.hash"),
                    said: attribute(b"gen_ai.input.messages"),
                });
            }
        }
    }
    all
}

/// The fields of that number.
fn nested(of: &[u8], number: u64) -> Vec<&[u8]> {
    fields(of).into_iter().filter(|(found, _)| *found == number).map(|(_, value)| value).collect()
}

/// The metrics of an `ExportMetricsServiceRequest` (opentelemetry-proto, metrics/v1), with the attributes of their points.
fn metrics(body: &[u8]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::<String, BTreeSet<String>>::new();
    let of_scopes = nested(body, 1).into_iter().flat_map(|of_resource| nested(of_resource, 2));
    for metric in of_scopes.flat_map(|of_scope| nested(of_scope, 2)) {
        let attributes = all.entry(utf8(field(&fields(metric), 1))).or_default();
        // Points of gauges (5) and sums (7) have their attributes elsewhere than those of histograms (9).
        for (kind, at) in [(5, 7), (7, 7), (9, 9)] {
            let points = nested(metric, kind).into_iter().flat_map(|data| nested(data, 1));
            let keys = points.flat_map(|point| nested(point, at)).map(|attribute| utf8(field(&fields(attribute), 1)));
            attributes.extend(keys);
        }
    }
    all
}

/// What a node exported.
#[derive(Debug)]
struct Export {
    path: String,
    body: Vec<u8>,
}

impl Export {
    /// Its spans; none where it has metrics or logs.
    fn spans(&self) -> Vec<Span> {
        if self.path == "/v1/traces" { spans(&self.body) } else { Vec::new() }
    }

    fn says(&self, bytes: &[u8]) -> bool {
        self.body.windows(bytes.len()).any(|window| window == bytes)
    }
}

/// Takes exports for as long as the test runs.
fn collector() -> (String, Receiver<Export>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (took, spans) = sync_channel(1_000);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let took = took.clone();
            std::thread::spawn(move || take(stream, &took));
        }
    });
    (address, spans)
}

fn take(stream: TcpStream, took: &SyncSender<Export>) {
    let mut answers = stream.try_clone().expect("a handle");
    let mut stream = BufReader::new(stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim().to_lowercase();
            if line.is_empty() {
                break;
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let path = first.strip_prefix("post ").and_then(|rest| rest.strip_suffix(" http/1.1"));
        let path = path.unwrap_or_else(|| panic!("{first}")).to_owned();
        assert!(["/v1/traces", "/v1/metrics", "/v1/logs"].contains(&path.as_str()), "{path}");
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("the body");
        // The test may have seen enough.
        let _ = took.send(Export { path, body });
        let _ =
            answers.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n");
    }
}

fn configured(collector: &str) -> Machine {
    let machine = Machine::new();
    let file = machine.config().join("althing.toml");
    std::fs::write(file, format!("[telemetry]\notlp_endpoint = \"{collector}\"\n")).expect("a configuration");
    machine
}

/// The only span of that name.
fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut named = spans.iter().filter(|span| span.name == name);
    let found = named.next().unwrap_or_else(|| panic!("no span {name}: {spans:?}"));
    assert!(named.next().is_none(), "one span {name}: {spans:?}");
    found
}

#[test]
fn a_call_is_one_trace_from_the_client_through_both_nodes() {
    let (collector, exported) = collector();
    let (caller, host) = (configured(&collector), configured(&collector));
    let mut serving = host.up_alone(&["--name", "host"]);
    let mut asking = caller.up_alone(&["--name", "caller", "--peer", &serving.address("/ip4/127.0.0.1")]);
    let (caller_did, host_did) = (asking.did(), serving.did());
    host.add("echo", &cast::echo("echo", "anyone"));
    // So its name leads to it, over the gateway too.
    assert_eq!(caller.run(&["--name", "caller", "trust", &serving.owner()]).code, 0);
    until(SOON, "it is found", || caller.finds("echo"));
    let binding =
        host.json(&["--name", "host", "bind", "--running", "echo"])["hash"].as_str().expect("a hash").to_owned();

    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [HONEST[0], HONEST[1], ("traceparent", traceparent.as_str())];
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": says("hello") });
    let answer =
        raw(&asking.gateway(), &request(&asking.gateway(), "POST", "/a2a/echo", &headers, body.to_string().as_bytes()));
    assert_eq!(answer.json()["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer:?}");

    // What waits to be exported is exported when a node stops.
    for node in [&mut asking, &mut serving] {
        node.running.signal(Signal::SIGTERM);
    }
    asking.running.end(COMMAND_MAX);
    serving.running.end(COMMAND_MAX);
    let begun = Instant::now();
    let mut all: Vec<Span> = Vec::new();
    while !["a2a.client", "a2a.server", "turn", "invoke_agent"]
        .iter()
        .all(|name| all.iter().any(|span| span.name == *name))
    {
        let left = SOON.saturating_sub(begun.elapsed());
        all.extend(exported.recv_timeout(left).unwrap_or_else(|_| panic!("not all was exported: {all:?}")).spans());
    }
    all.retain(|span| span.trace == TRACE);
    let (client, server, turn) = (one(&all, "a2a.client"), one(&all, "a2a.server"), one(&all, "turn"));
    let invoked = one(&all, "invoke_agent");
    assert_eq!((&invoked.parent, &invoked.binding, &turn.binding), (&turn.id, &binding, &binding));
    assert_eq!((&client.node, client.parent.as_str()), (&caller_did, PARENT));
    assert_eq!((&server.node, &server.parent), (&host_did, &client.id));
    assert_eq!((&turn.node, &turn.parent), (&host_did, &server.id));
}

#[test]
fn a_contract_says_what_traces_tell() {
    let (collector, exported) = collector();
    let machine = configured(&collector);
    let node = machine.up_alone(&[]);
    let levels = ["none", "calls", "content"];
    for level in levels {
        let file = cast::echo(level, "own")
            .replace("{ latency: srt } }", &format!("{{ latency: srt }}, observability: {level} }}"));
        machine.add(level, &file);
        let called = machine.run(&["call", level, "between us"]);
        assert_eq!((called.code, called.stdout.as_str()), (0, "between us\n"), "{called:?}");
    }
    node.running.signal(Signal::SIGTERM);
    node.running.end(COMMAND_MAX);
    let mut all: Vec<Span> = Vec::new();
    while all.iter().filter(|span| span.name == "turn").count() < levels.len() {
        all.extend(exported.recv_timeout(SOON).unwrap_or_else(|_| panic!("not all was exported: {all:?}")).spans());
    }
    let mut told: Vec<&str> =
        all.iter().filter(|span| span.name == "invoke_agent").map(|span| span.said.as_str()).collect();
    told.sort_unstable();
    assert_eq!(told, ["", "between us"], "{all:?}");
}

/// The names are those of OpenTelemetry's conventions for GenAI.
#[test]
fn verdicts_of_gates_are_events_of_the_spans_of_their_turns() {
    let (collector, exported) = collector();
    let machine = configured(&collector);
    let node = machine.up_alone(&[]);
    let verify = "verify: { schema: { output: { type: object } } } }";
    machine.add(
        "judged",
        &cast::echo("judged", "own").replace("{ latency: srt } }", &format!("{{ latency: srt }}, {verify}")),
    );
    let verify = "verify: { schema: { input: { type: object } } } }";
    machine.add(
        "asked",
        &cast::echo("asked", "own").replace("{ latency: srt } }", &format!("{{ latency: srt }}, {verify}")),
    );
    assert_eq!(machine.run(&["call", "judged", "{}"]).code, 0);
    for agent in ["judged", "asked"] {
        assert_ne!(machine.run(&["call", agent, "quicksand"]).code, 0);
    }
    node.running.signal(Signal::SIGTERM);
    node.running.end(COMMAND_MAX);
    let mut turns = Vec::new();
    while turns.len() < 3 {
        let export = exported.recv_timeout(SOON).expect("not all was exported");
        if export.path == "/v1/traces" {
            let scopes = nested(&export.body, 1).into_iter().flat_map(|of_resource| nested(of_resource, 2));
            let spans = scopes.flat_map(|of_scope| nested(of_scope, 2));
            turns.extend(spans.filter(|span| field(&fields(span), 5) == b"turn").map(<[u8]>::to_vec));
        }
    }
    // The events of a span (11), their names (2) and attributes (3).
    let told = |turn: &Vec<u8>| {
        let events = nested(turn, 11);
        let [event] = &events[..] else { panic!("one verdict: {}", events.len()) };
        assert_eq!(utf8(field(&fields(event), 2)), "gen_ai.evaluation.result");
        let attributes = nested(event, 3).into_iter().map(fields);
        let pair =
            |attribute: Vec<(u64, &[u8])>| (utf8(field(&attribute, 1)), utf8(field(&fields(field(&attribute, 2)), 1)));
        let told: BTreeMap<String, String> = attributes.map(pair).collect();
        let of = |name: &str| told.get(&format!("gen_ai.evaluation.{name}")).cloned().unwrap_or_default();
        (of("score.label"), of("name"), of("explanation"))
    };
    let mut verdicts: Vec<(String, String, String)> = turns.iter().map(told).collect();
    verdicts.sort();
    let [refusals @ .., (pass, ..)] = &verdicts[..] else { panic!("{verdicts:?}") };
    assert_eq!((refusals.len(), pass.as_str()), (2, "pass"));
    for (fail, gate, why) in refusals {
        assert_eq!((fail.as_str(), gate.as_str()), ("fail", "schema"));
        assert!(why.contains("GATE_REFUSED") && !why.contains("quicksand"), "{why}");
    }
}

/// The metrics that the documentation names.
fn documented() -> BTreeSet<String> {
    let rows = DOCUMENT.lines().skip_while(|line| !line.starts_with("| metric |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(1));
    rows.flat_map(|names| names.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// A node that asks an agent of another one, of the same owner, whose model has it call a tool of the first: what the
/// documentation has a metric for happens on one of them. Their collector, and what the first one said until it ended.
fn told_by_two_nodes() -> (Receiver<Export>, Outcome) {
    let (collector, exported) = collector();
    let first = Machine::new();
    let telemetry = format!(
        "[telemetry]\notlp_endpoint = \"{collector}\"\nlog = \"althing_session=debug\"\nlog_format = \"json\"\n"
    );
    std::fs::write(first.config().join("althing.toml"), telemetry).expect("a configuration");
    let asking = first.up_alone(&[]);
    first.add("echo", &cast::echo("echo", "own"));
    // With the configuration of the first.
    let second = first.of_same_owner();
    let serving = second.up_alone(&["--peer", &asking.address("/ip4/127.0.0.1")]);
    second.write("model.py", MODEL);
    let mut model = Running::start(second.command(Path::new("python3")).arg("model.py"));
    let port = model.line(SOON).expect("the endpoint says its port");
    let endpoint = json!({ "url": format!("http://127.0.0.1:{}/v1", port.trim()), "model": "stub" });
    let helper = json!({
        "name": "helper",
        "description": "Helps",
        "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
        "tools": { "far": { "url": format!("{}/mcp", asking.gateway()) } },
        "contract": { "class": { "latency": "srt" }, "capabilities": ["far/call_agent"] },
    });
    second.add("helper", &helper.to_string());
    until(SOON, "it is found", || first.finds("helper"));
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [HONEST[0], HONEST[1], ("traceparent", traceparent.as_str())];
    let words = says(r#"call far__call_agent {"agent": "echo", "message": "hello"}"#);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": words }).to_string();
    let gateway = asking.gateway();
    let answer = raw(&gateway, &request(&gateway, "POST", "/a2a/helper", &headers, body.as_bytes()));
    assert_eq!(answer.json()["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer:?}");
    // What waits to be exported is exported when a node stops.
    for node in [&asking, &serving] {
        node.running.signal(Signal::SIGTERM);
    }
    serving.running.end(COMMAND_MAX);
    (exported, asking.running.end(COMMAND_MAX))
}

#[test]
fn metrics_and_logs_are_exported_by_the_names_of_the_conventions_and_lines_name_their_trace() {
    let (exported, ended) = told_by_two_nodes();
    let documented = documented();
    assert_eq!(documented.len(), 9, "{documented:?}");
    let trace: Vec<u8> = (0..16).map(|at| u8::from_str_radix(&TRACE[2 * at..2 * at + 2], 16).expect("hex")).collect();
    let (mut figures, mut lines) = (BTreeMap::<String, BTreeSet<String>>::new(), Vec::new());
    let complete = |figures: &BTreeMap<String, BTreeSet<String>>, lines: &[Export]| {
        documented.iter().all(|name| figures.contains_key(name))
            && lines.iter().any(|export: &Export| export.says(&trace) && export.says(b"turn ended"))
    };
    while !complete(&figures, &lines) {
        let export = exported.recv_timeout(SOON).unwrap_or_else(|_| panic!("{figures:?} {lines:?} {ended:?}"));
        match export.path.as_str() {
            "/v1/metrics" => {
                metrics(&export.body).into_iter().for_each(|(name, by)| figures.entry(name).or_default().extend(by));
            }
            "/v1/logs" => lines.push(export),
            _ => {}
        }
    }
    assert_eq!(figures.keys().cloned().collect::<BTreeSet<_>>(), documented, "no metric but those that are documented");
    for (name, by) in [
        ("rpc.client.call.duration", &["rpc.method"][..]),
        ("rpc.server.call.duration", &["rpc.method"]),
        ("gen_ai.client.operation.duration", &["gen_ai.operation.name", "gen_ai.request.model", "gen_ai.agent.name"]),
        ("gen_ai.client.token.usage", &["gen_ai.token.type"]),
        ("mcp.client.operation.duration", &["gen_ai.tool.name"]),
    ] {
        assert!(by.iter().all(|by| figures[name].contains(*by)), "{name}: {:?}", figures[name]);
    }
    // What libraries say is not exported: what the exporter itself does would never end.
    assert!(!lines.iter().any(|export| export.says(b"hyper_util")), "{lines:?}");
    let line = ended.stderr.lines().find(|line| line.contains("turn ended")).expect("a line");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!((&line["trace_id"], &line["level"]), (&json!(TRACE), &json!("DEBUG")));
    assert!(line["span_id"].as_str().is_some_and(|span| span.len() == 16), "{line}");
}

#[test]
fn a_line_of_text_names_its_trace_too() {
    let machine = Machine::new();
    let file = machine.config().join("althing.toml");
    std::fs::write(file, "[telemetry]\nlog = \"althing_session=debug\"\n").expect("a configuration");
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "own"));
    assert_eq!(machine.run(&["call", "echo", "hello"]).code, 0);
    let listed = machine.json(&["trace"]);
    let trace = listed["traces"][0]["trace"].as_str().expect("a trace").to_owned();
    node.running.signal(Signal::SIGTERM);
    let ended = node.running.end(COMMAND_MAX);
    let line = ended.stderr.lines().find(|line| line.contains("turn ended")).expect("a line");
    assert!(line.ends_with(&format!(" trace={trace}")), "{line}");
}

/// The spans that a node exports of one call, until it ended; `started` is its `althing up`.
fn export_of_a_call(machine: &Machine, mut started: Running, exported: &Receiver<Export>) -> (String, Export) {
    let said = started.line(SOON).expect("it starts");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    machine.add("echo", &cast::echo("echo", "own"));
    assert_eq!(machine.run(&["call", "echo", "hello"]).code, 0);
    started.signal(Signal::SIGTERM);
    started.end(COMMAND_MAX);
    let begun = Instant::now();
    loop {
        let export = exported.recv_timeout(SOON.saturating_sub(begun.elapsed())).expect("spans are exported");
        if !export.spans().is_empty() {
            return (said["node"].as_str().expect("a DID").to_owned(), export);
        }
    }
}

const UP: [&str; 7] = ["--json", "up", "--no-lan", "--gateway", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"];

#[test]
fn what_is_exported_says_which_node_it_is_of_and_the_variables_of_opentelemetry_win() {
    let ((first, of_first), (second, of_second)) = (collector(), collector());
    // The path of a signal is taken off.
    let machine = configured(&format!("{first}/v1/traces"));
    let started = Running::start(&mut machine.althing(&UP));
    let (did, export) = export_of_a_call(&machine, started, &of_first);
    let host = nix::unistd::gethostname().expect("a name").into_string().expect("text");
    for (name, value) in [
        ("service.name", "althing"),
        ("service.instance.id", did.as_str()),
        ("host.name", host.as_str()),
        ("althing.network", "althing"),
    ] {
        assert!(export.says(name.as_bytes()) && export.says(value.as_bytes()), "{name}: {value}");
    }

    let machine = configured("http://127.0.0.1:9");
    let mut up = machine.althing(&UP);
    up.env("OTEL_EXPORTER_OTLP_ENDPOINT", &second).env("OTEL_SERVICE_NAME", "mesh-of-mine");
    up.env("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=number-one,deployment.environment.name=lab");
    let (did, export) = export_of_a_call(&machine, Running::start(&mut up), &of_second);
    for value in ["mesh-of-mine", "number-one", "deployment.environment.name", "lab"] {
        assert!(export.says(value.as_bytes()), "{value}");
    }
    assert!(!export.says(did.as_bytes()), "the variable says another id");

    let machine = configured("collector:4318");
    let refused = machine.run(&UP);
    assert!(refused.code == 2 && refused.stderr.contains("`telemetry.otlp_endpoint`"), "{refused:?}");
}

/// A collector that answers each request with a status, 0 with nothing at all.
fn moody() -> (String, Arc<AtomicU16>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let status = Arc::new(AtomicU16::new(0));
    let now = status.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let status = now.load(Ordering::SeqCst);
            if status == 0 {
                continue;
            }
            std::thread::spawn(move || answer(stream, status));
        }
    });
    (address, status)
}

/// Reads a request and answers it with a status.
fn answer(stream: TcpStream, status: u16) {
    let mut reader = BufReader::new(&stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let line = line.trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_ok() {
        let said = format!("HTTP/1.1 {status} So\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        // Whoever hung up hears nothing.
        let _ = (&stream).write_all(said.as_bytes());
    }
}

#[test]
fn a_collector_that_is_away_is_told_once_is_a_finding_and_is_told_when_it_is_well_again() {
    let (collector, status) = moody();
    let machine = configured(&collector);
    let node = machine.up_alone(&[]);
    let found = |what: &str, fine: bool| {
        let report: serde_json::Value =
            serde_json::from_str(&machine.run(&["--json", "doctor"]).stdout).expect("a report");
        let all = report["findings"].as_array().expect("a list").clone();
        all.iter().any(|one| one["fine"] == fine && one["what"].as_str().is_some_and(|said| said.contains(what)))
    };
    until(SOON, "it is away", || found("takes nothing: it cannot be reached", false));
    status.store(404, Ordering::SeqCst);
    until(SOON, "it is at another path", || found("takes nothing: it answers with status 404", false));
    status.store(200, Ordering::SeqCst);
    until(SOON, "it is well", || found("the collector takes what is measured", true));
    node.running.signal(Signal::SIGTERM);
    let ended = node.running.end(COMMAND_MAX);
    let count = |words: &str| ended.stderr.matches(words).count();
    assert_eq!((count("takes no telemetry"), count("takes telemetry again")), (1, 1), "{}", ended.stderr);
}
