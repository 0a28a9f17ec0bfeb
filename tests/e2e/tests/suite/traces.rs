//! Recent traces when no collector is configured: one call through three nodes, a model and a tool, as one tree.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use althing_e2e::http::{HONEST, raw, request, says};
use althing_e2e::{Machine, Node, Running, cast, text, until};
use serde_json::{Value, json};

const MODEL: &str = include_str!("../../python/model.py");
const SOON: Duration = Duration::from_secs(30);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
/// The kinds of spans that are always of a turn: each carries the hash of the manifest that its agent was bound to. So do
/// `a2a.client` and `a2a.redirect`, where an agent calls another one in its turn; of redirects `group_redirects` tells.
const BOUND: [&str; 6] = ["a2a.server", "turn", "invoke_agent", "chat", "execute_tool", "retrieval"];

/// Three nodes of one owner: the first is called, the second hosts a model agent with a tool and a memory, the third an
/// agent, and is an MCP server besides.
struct Scene {
    machines: [Machine; 3],
    nodes: [Node; 3],
    _model: Running,
}

fn scene() -> Scene {
    let first = Machine::new();
    let asked = first.up_alone(&[]);
    let dialled = asked.address("/ip4/127.0.0.1");
    let (second, third) = (first.of_same_owner(), first.of_same_owner());
    let thinking = second.up_alone(&["--peer", &dialled]);
    let far = third.up_alone(&["--peer", &dialled, "--peer", &thinking.address("/ip4/127.0.0.1")]);
    third.add("echo", &cast::echo("echo", "own"));
    second.write("model.py", MODEL);
    let mut model = Running::start(second.command(Path::new("python3")).arg("model.py"));
    let port = model.line(SOON).expect("the endpoint says its port");
    let endpoint = json!({ "url": format!("http://127.0.0.1:{}/v1", port.trim()), "model": "stub" });
    let helper = json!({
        "name": "helper",
        "description": "Helps",
        "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
        "tools": { "far": { "url": format!("{}/mcp", far.gateway()) } },
        "contract": {
            "class": { "latency": "srt" },
            "capabilities": ["agents/echo", "far/call_agent", "memory/recall"],
            "memory": {},
        },
    });
    second.add("helper", &helper.to_string());
    second.write("rules.txt", "A dog costs ninety euro of tax in a year.\n");
    assert_eq!(second.run(&["memory", "add", "helper", "rules.txt"]).code, 0);
    until(SOON, "the first finds the second's agent", || first.finds("helper"));
    until(SOON, "the second finds the third's agent", || second.finds("echo"));
    Scene { machines: [first, second, third], nodes: [asked, thinking, far], _model: model }
}

/// Sends a message over the first node's gateway, in a trace.
fn send(gateway: &str, trace: &str, words: &str) {
    let traceparent = format!("00-{trace}-{PARENT}-01");
    let headers = [HONEST[0], HONEST[1], ("traceparent", traceparent.as_str())];
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": says(words) });
    let answer = raw(gateway, &request(gateway, "POST", "/a2a/helper", &headers, body.to_string().as_bytes()));
    assert_eq!(answer.json()["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer:?}");
}

/// The spans of a trace with that name, and where they were made.
fn named<'a>(spans: &'a [Value], name: &str) -> Vec<(&'a Value, &'a str)> {
    let of = spans.iter().filter(|span| span["name"] == name);
    of.map(|span| (span, span["node"].as_str().expect("a node"))).collect()
}

/// The hash of the manifest that a span names.
fn hash_of(span: &Value) -> &Value {
    &span["attributes"]["althing.binding.hash"]
}

/// The candidates that an attribute of a span tells.
fn candidates(span: &Value, attribute: &str) -> Vec<Value> {
    let told = span["attributes"][attribute].as_str().unwrap_or_else(|| panic!("{attribute} in {span}"));
    assert!(!told.contains("over the mesh") && !told.contains("over MCP"), "{told}");
    serde_json::from_str(told).expect("a list")
}

/// Which agent a name meant, and what the agent on that node was bound to, is told with why: by ids alone.
fn tells_choices(spans: &[Value], node: &str) {
    let of_agent = |name: &str| named(spans, name).into_iter().find(|(_, at)| *at == node).expect("helper's").0;
    let meant = candidates(of_agent("a2a.client"), "althing.agent.candidates");
    let is_echo = text(&meant[0]["id"]).ends_with(":echo") && meant[0]["why"] == "chosen: it is the owner's";
    assert!(meant.len() == 1 && is_echo, "{meant:?}");
    let bound = candidates(of_agent("invoke_agent"), "althing.binding.candidates");
    assert!(text(&bound[0]["why"]).starts_with("rank 1: ") && bound.len() <= 9, "{bound:?}");
}

/// From a span up to the first one without a known parent.
fn path<'a>(spans: &'a [Value], from: &'a Value) -> Vec<&'a str> {
    let mut names = vec![from["name"].as_str().expect("a name")];
    let mut at = from;
    while let Some(parent) = spans.iter().find(|span| span["id"] == at["parent"]) {
        names.push(parent["name"].as_str().expect("a name"));
        at = parent;
    }
    assert_eq!(at["parent"], PARENT, "the client's span is above all: {at}");
    names
}

// P-154, P-155
#[test]
fn one_trace_leads_over_three_nodes_to_an_agent_and_to_a_tool() {
    let scene = scene();
    let gateway = scene.nodes[0].gateway();
    let [a, b, c] = scene.nodes.each_ref().map(Node::did);
    send(&gateway, TRACE, r#"call agents__echo {"message": "over the mesh"}"#);
    send(&gateway, TRACE, r#"call far__call_agent {"agent": "echo", "message": "over MCP"}"#);

    // Spans end a little after the answer that they are of.
    let mut found = Value::Null;
    until(SOON, "all three tell", || {
        found = scene.machines[0].json(&["trace", TRACE]);
        let spans = found["spans"].as_array().expect("spans");
        spans.iter().filter(|span| span["name"] == "turn").count() == 4
            && spans.iter().filter(|span| span["name"] == "execute_tool").count() == 2
            && spans.iter().filter(|span| span["name"] == "a2a.client").count() == 4
    });
    let spans = found["spans"].as_array().expect("spans");
    assert!(spans.iter().all(|span| span["trace"] == TRACE), "{spans:?}");
    let nodes: BTreeSet<&str> = spans.iter().map(|span| span["node"].as_str().expect("a node")).collect();
    assert_eq!(nodes, BTreeSet::from([a.as_str(), b.as_str(), c.as_str()]));
    assert_eq!((&found["untold"], &found["more"]), (&json!([]), &json!(false)));

    // The deepest spans lead back to the client, over a frame of L2 and over MCP.
    let invoked: Vec<_> = named(spans, "invoke_agent").into_iter().filter(|(_, node)| *node == c).collect();
    let mut paths: Vec<Vec<&str>> = invoked.iter().map(|(span, _)| path(spans, span)).collect();
    paths.sort_by_key(Vec::len);
    let above = ["execute_tool", "invoke_agent", "turn", "a2a.server", "a2a.client"];
    let expected: [&[&str]; 2] =
        [&["invoke_agent", "turn", "a2a.client"], &["invoke_agent", "turn", "a2a.server", "a2a.client"]];
    assert_eq!(paths.len(), 2, "{spans:?}");
    for (path, below) in paths.iter().zip(expected) {
        assert_eq!(*path, [below, &above].concat(), "{spans:?}");
    }
    // All kinds of spans of a turn name the manifest.
    let hash = |machine: &Machine, agent: &str| text(&machine.json(&["bind", "--running", agent])["hash"]);
    let hashes = [(&b, hash(&scene.machines[1], "helper")), (&c, hash(&scene.machines[2], "echo"))];
    for kind in BOUND {
        let of = named(spans, kind);
        assert!(!of.is_empty(), "no span {kind}: {spans:?}");
        for (span, node) in of {
            let (_, hash) = hashes.iter().find(|(did, _)| *did == node).expect("it runs agents");
            assert_eq!(hash_of(span), hash, "{span}");
        }
    }
    // A call that the agent makes is of its turn; those of clients, over HTTP and MCP, are of none.
    let asked = named(spans, "a2a.client");
    let of_client: Vec<_> = asked.iter().filter(|(_, node)| *node != b).map(|(span, _)| span).collect();
    assert!(of_client.len() == 3 && of_client.iter().all(|span| hash_of(span).is_null()), "{of_client:?}");
    let in_turn: Vec<_> = asked.iter().filter(|(_, node)| *node == b).map(|(span, _)| hash_of(span)).collect();
    assert_eq!(in_turn, [&json!(hashes[0].1)], "the manifest of the agent that asked");

    tells_choices(spans, &b);

    // It is listed, may be named by its beginning, from another node too, and is shown as a tree.
    let listed = scene.machines[0].json(&["trace"]);
    assert!(listed["traces"].as_array().expect("a list").iter().any(|row| row["trace"] == TRACE), "{listed}");
    let tree = scene.machines[1].run(&["trace", &TRACE[..6]]);
    assert!(tree.code == 0 && tree.stdout.contains("spans on 3 nodes"), "{tree:?}");
    let lines: Vec<&str> = tree.stdout.lines().collect();
    let deepest = lines.iter().filter(|line| line.contains("invoke_agent echo")).count();
    assert_eq!(deepest, 2, "{tree:?}");
    let unknown = scene.machines[0].run(&["trace", "ffffffff"]);
    assert!(unknown.code == 4 && unknown.stderr.contains("no trace that begins with"), "{unknown:?}");
    let short = scene.machines[0].run(&["trace", "foo"]);
    assert!(short.code == 2 && short.stderr.contains("too short"), "{short:?}");
}
