//! The tools of an adopted MCP server are Things of the mesh: another node finds, describes and calls each of them, by the
//! Web of Things and by MCP; a tool that its server changes is none until its owner accepts the change.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use althing_e2e::http::{Answer, get, raw, request};
use althing_e2e::python::python;
use althing_e2e::{Machine, Node, Outcome, Running, node, until};
use serde_json::{Value, json};

const TOOLS: &str = include_str!("../../python/tools.py");
const CONSUMER: &str = include_str!("../../js/tool.cjs");
const CHANGING: &str = include_str!("../../python/changing.py");
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Two owners' nodes on loopback that trust each other, of which the second adopts.
struct Pair {
    one: Machine,
    two: Machine,
    near: Node,
    far: Node,
}

impl Pair {
    fn start() -> Pair {
        let (one, two) = (Machine::new(), Machine::new());
        let near = one.up_alone(&[]);
        let far = two.up_alone(&["--peer", &near.address("/ip4/127.0.0.1/")]);
        two.json(&["trust", &near.owner()]);
        one.json(&["trust", &far.owner()]);
        Pair { one, two, near, far }
    }

    fn get(&self, path: &str) -> Answer {
        get(&self.near.gateway(), path, &[])
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let headers = [&[("Content-Type", "application/json")], headers].concat();
        let gateway = self.near.gateway();
        raw(&gateway, &request(&gateway, "POST", path, &headers, body.to_string().as_bytes()))
    }

    /// Asks the near node as a client of MCP over standard input and output.
    fn mcp(&self, method: &str, params: Value) -> Value {
        let mut child = self.one.althing(&["mcp", "--mesh"]).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut input = child.stdin.take().expect("a pipe");
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        for message in [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params }),
        ] {
            writeln!(input, "{message}").expect("it reads");
        }
        drop(input);
        let ended = child.wait_with_output().expect("it ends");
        let lines = String::from_utf8(ended.stdout).expect("text");
        let mut answers =
            lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a message on each line"));
        answers.find(|answer| answer["id"] == 2).unwrap_or_else(|| panic!("no answer: {lines}"))
    }

    /// The tool of MCP whose name begins so.
    fn listed(&self, begins: &str) -> Option<Value> {
        let list = self.mcp("tools/list", json!({}));
        let tools = list["result"]["tools"].as_array().cloned().unwrap_or_default();
        tools.into_iter().find(|tool| tool["name"].as_str().is_some_and(|name| name.starts_with(begins)))
    }
}

fn lint(machine: &Machine, td: &str) -> Outcome {
    let file = machine.write("served.td.json", td);
    machine.run(&["td", "lint", &file.to_string_lossy()])
}

/// The path of an address below the gateway.
fn path(base: &str, href: &str) -> String {
    let from = base.find("/things/").expect("a path");
    format!("{}{href}", &base[from..])
}

#[test]
fn a_tool_of_an_official_server_is_a_thing_on_another_node() {
    let Some(python) = python() else { return };
    let pair = Pair::start();
    pair.two.write("tools.py", TOOLS);
    let python = python.to_string_lossy();
    // By default what is adopted is there for its node alone.
    pair.two.json(&["adopt", "--as", "mine", &python, "tools.py"]);
    pair.two.json(&["adopt", "--callers", "trusted", "--as", "box", &python, "tools.py"]);
    until(SOON, "it is found", || pair.one.finds("box"));
    let found = pair.one.json(&["find", "--cap", "add"]);
    let tools = found["agents"][0]["tools"].as_array().expect("its tools");
    assert_eq!((found["agents"].as_array().map(Vec::len), tools.len()), (Some(1), 1), "{found}");
    assert_eq!((&tools[0]["name"], &tools[0]["description"]), (&json!("box/add"), &json!("Adds two numbers.")));
    let shown = pair.one.run(&["find", "numbers"]);
    assert!(shown.code == 0 && shown.stdout.contains("box/add"), "{shown:?}");
    let own = get(&pair.far.gateway(), "/things/mine/tools/add", &[]);
    assert_eq!((own.status, pair.get("/things/mine/tools/add").status), (200, 404), "{own:?}");

    // Its description, and its model.
    let served = pair.get("/things/box/tools/add");
    let td = served.json();
    assert_eq!((served.status, &td["@type"], &td["id"]), (200, &json!("lmos:Tool"), &tools[0]["id"]), "{td}");
    assert_eq!(td["actions"]["add"]["input"]["properties"]["a"]["type"], "integer", "{td}");
    let linted = lint(&pair.one, &served.body);
    assert_eq!(linted.code, 0, "{linted:?}");
    let base = td["base"].as_str().expect("a base").to_owned();
    let model = td["links"].as_array().into_iter().flatten().find(|link| link["rel"] == "type").expect("a link");
    let model = pair.get(&path(&base, model["href"].as_str().expect("an address"))).json();
    assert_eq!(
        (&model["@type"][0], &model["actions"]["add"]["input"]),
        (&json!("tm:ThingModel"), &td["actions"]["add"]["input"])
    );
    assert_eq!(pair.one.json(&["describe", "box/add"]), model);
    let all = pair.get("/things").json();
    let ids: Vec<&Value> = all.as_array().into_iter().flatten().map(|thing| &thing["id"]).collect();
    assert_eq!(ids.len(), 4, "the agent and its tools: {ids:?}");
    assert!(ids.contains(&&td["id"]), "{ids:?}");
    let pages: Vec<Value> =
        (0..4).map(|at| pair.get(&format!("/things?offset={at}&limit=1")).json()[0]["id"].clone()).collect();
    assert_eq!(pages.iter().collect::<Vec<_>>(), ids);
    assert!(pair.get("/.well-known/wot").body.contains("/tools/add"));
    assert!(pair.get("/a2a/box/.well-known/agent-card.json").body.contains("\"add\""));

    // Its action.
    let href = path(&base, td["actions"]["add"]["forms"][0]["href"].as_str().expect("a form"));
    let sum = pair.post(&href, &[], &json!({ "a": 2, "b": 40 }));
    assert_eq!((sum.status, sum.json()), (200, json!({ "result": 42 })), "{sum:?}");
    let later = pair.post(&href, &[("Prefer", "respond-async")], &json!({ "a": 1, "b": 1 }));
    assert_eq!(later.status, 201, "{later:?}");
    let status = later.json()["href"].as_str().expect("an address").to_owned();
    until(SOON, "it is done", || pair.get(&status).json()["status"] == "completed");
    assert_eq!(pair.get(&status).json()["output"], json!({ "result": 2 }));
    let fails = pair.post("/things/box/tools/fails/actions/fails", &[], &json!({}));
    assert!(fails.status == 500 && fails.body.contains("TASK_FAILED"), "{fails:?}");
    for (path, body, status) in [
        ("/things/box/tools/add/actions/sub", json!({}), 404),
        ("/things/box/tools/sub/actions/sub", json!({}), 404),
        ("/things/box/tools/add/actions/add", json!([1, 2]), 400),
        ("/things/box/tools/add/actions/add", json!({ "a": 2 }), 400),
    ] {
        assert_eq!(pair.post(path, &[], &body).status, status, "{path} {body}");
    }

    // By MCP it has its own arguments.
    let tool = pair.listed("box_add").expect("it is listed");
    assert_eq!(tool["inputSchema"]["properties"]["b"]["type"], "integer", "{tool}");
    assert_eq!(tool["outputSchema"]["properties"]["result"]["type"], "integer", "{tool}");
    let called = pair.mcp("tools/call", json!({ "name": tool["name"], "arguments": { "a": 2, "b": 40 } }));
    assert_eq!(called["result"]["structuredContent"], json!({ "result": 42 }), "{called}");
    let wrong = pair.mcp("tools/call", json!({ "name": tool["name"], "arguments": { "a": "two" } }));
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
}

fn tool(name: &str, description: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    json!({ "name": name, "description": description, "inputSchema": schema })
}

/// Whether there is a Python for servers that need nothing else.
fn has_python() -> bool {
    let ran = std::process::Command::new("python3").arg("--version").output();
    let has = ran.is_ok_and(|done| done.status.success());
    if !has {
        althing_testing::skip("there is no python3", althing_testing::remedy::PYTHON);
    }
    has
}

#[test]
fn a_stock_consumer_uses_a_tool_of_another_node() {
    let (true, Some(packages)) = (has_python(), node::packages()) else { return };
    let pair = Pair::start();
    pair.two.write("changing.py", CHANGING);
    pair.two.write("tools.json", &json!([tool("say", "Says it.")]).to_string());
    pair.two.json(&["adopt", "--callers", "trusted", "--as", "voice", "python3", "changing.py", "tools.json"]);
    until(SOON, "it is found", || pair.one.finds("voice"));
    let script = pair.one.write("tool.cjs", CONSUMER);
    let mut program = pair.one.command(Path::new("node"));
    program.arg(script).arg(format!("{}/things/voice/tools/say", pair.near.gateway()));
    let outcome = Running::start(program.env("NODE_PATH", packages)).end(Duration::from_secs(90));
    assert!(outcome.code == 0 && outcome.stdout.ends_with("TOOL OK\n"), "{outcome:?}");
}

#[test]
fn an_agent_exposes_those_of_its_tools_that_its_owner_names() {
    if !has_python() {
        return;
    }
    let pair = Pair::start();
    pair.two.write("changing.py", CHANGING);
    pair.two.write("tools.json", &json!([tool("say", "Says it."), tool("sing", "Sings it.")]).to_string());
    let file = |name: &str, expose: &str| {
        format!(
            "name: {name}\ndescription: Repeats.\nruntime: {{ native: {{ builtin: echo }} }}\n\
             tools: {{ voice: {{ command: [python3, changing.py, tools.json] }} }}\n{expose}\
             contract: {{ class: {{ latency: srt }}, capabilities: [voice/say] }}\ncallers: trusted\n"
        )
    };
    pair.two.add("quiet", &file("quiet", ""));
    pair.two.add("open", &file("open", "expose: [voice/*]\n"));
    until(SOON, "both are found", || pair.one.finds("quiet") && pair.one.finds("open"));
    let call = |agent: &str, tool: &str| {
        pair.post(&format!("/things/{agent}/tools/{tool}/actions/{tool}"), &[], &json!({ "text": "hi" }))
    };
    let said = call("open", "voice.say");
    assert_eq!((said.status, &said.json()["text"]), (200, &json!("say {\"text\": \"hi\"}")), "{said:?}");
    assert_eq!(call("open", "voice.sing").status, 404, "its contract does not name it");
    assert_eq!(call("quiet", "voice.say").status, 404, "its owner keeps it");
    let found = pair.one.json(&["find", "--cap", "voice.say"]);
    assert_eq!((found["agents"].as_array().map(Vec::len), &found["agents"][0]["name"]), (Some(1), &json!("open")));
    let echoed = pair.one.run(&["call", "open", "what it is for"]);
    assert_eq!((echoed.code, echoed.stdout.trim()), (0, "what it is for"), "{echoed:?}");
    // Nor does it help to ask as a gateway does.
    for (agent, tool) in [("quiet", "voice/say"), ("open", "voice/sing")] {
        let relayed = json!({ "method": "tools/call", "params": { "name": tool, "arguments": { "text": "hi" } } });
        let message = json!({
            "messageId": agent, "role": "ROLE_USER", "extensions": ["https://althing.dev/ext/mcp/v1"],
            "parts": [{ "data": relayed }],
        });
        let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
        let answer = pair.post(&format!("/a2a/{agent}"), &[("A2A-Version", "1.0")], &asked);
        assert!(!answer.body.contains("say {") && !answer.body.contains("sing {"), "{answer:?}");
    }
}

#[test]
fn a_tool_that_changes_is_no_thing_until_that_is_accepted() {
    if !has_python() {
        return;
    }
    let pair = Pair::start();
    pair.two.write("changing.py", CHANGING);
    // In one step: the server reads it at any time.
    let write = |tools: &[Value]| {
        let new = pair.two.write("tools.new", &json!(tools).to_string());
        std::fs::rename(&new, pair.two.folder().join("tools.json")).expect("it is renamed");
    };
    let (say, sing) = (tool("say", "Says it."), tool("sing", "Sings it."));
    write(&[say.clone(), sing.clone()]);
    let words = ["adopt", "--callers", "trusted", "--as", "voice", "python3", "changing.py", "tools.json"];
    pair.two.json(&words);
    until(SOON, "it is found", || pair.one.finds("voice"));
    let call = || pair.post("/things/voice/tools/say/actions/say", &[], &json!({ "text": "hi" }));
    let said = call();
    assert_eq!((said.status, &said.json()["text"]), (200, &json!("say {\"text\": \"hi\"}")), "{said:?}");

    // Another description is another tool.
    write(&[tool("say", "Says it, and tells its author."), sing.clone()]);
    until(SOON, "it is suspended", || pair.get("/things/voice/tools/say").status == 410);
    let refused = pair.get("/things/voice/tools/say");
    assert!(refused.body.contains("TOOL_SUSPENDED") && refused.body.contains("description"), "{refused:?}");
    assert!(!refused.body.contains("tells its author"), "what it says now is not passed on: {refused:?}");
    assert_eq!((call().status, pair.get("/things/voice/tools/sing").status), (410, 200));
    assert_eq!(pair.one.run(&["find", "--cap", "say"]).code, 4);
    assert!(pair.listed("voice_say").is_none() && pair.listed("voice_sing").is_some());
    let ps = pair.two.json(&["ps"]).to_string();
    assert!(ps.contains("TOOL_CHANGED"), "{ps}");
    // What is accepted is what was shown.
    let offer = pair.two.run(&["adopt", "--accept", "voice"]);
    if offer.code != 0 {
        let how = offer.stderr.split('`').find_map(|word| word.strip_prefix("althing adopt --accept ")).expect("how");
        pair.two.json(&["adopt", "--accept", how]);
    }
    until(SOON, "it is back", || pair.get("/things/voice/tools/say").status == 200);
    assert!(pair.get("/things/voice/tools/say").body.contains("tells its author"));

    // What the server takes back is gone until it is there again.
    write(&[tool("say", "Says it, and tells its author.")]);
    until(SOON, "it is gone", || pair.get("/things/voice/tools/sing").status == 410);
    assert!(pair.get("/things/voice/tools/sing").body.contains("offers it no more"));
    write(&[tool("say", "Says it, and tells its author."), sing]);
    until(SOON, "it is there again", || pair.get("/things/voice/tools/sing").status == 200);
    drop(pair.far);
}
