//! `althing adopt`: servers made with the official SDKs join as they are, with one command, and are called from another node.

use std::path::Path;
use std::time::Duration;

use althing_e2e::http::{ask, says};
use althing_e2e::python::python;
use althing_e2e::sandbox::has_namespaces;
use althing_e2e::{COMMAND_MAX, Machine, Node, Running, free_port, until};
use serde_json::{Value, json};

const TOOLS: &str = include_str!("../../python/tools.py");
const LANGGRAPH: &str = include_str!("../../../../examples/langgraph-agent/agent.py");
const LANGGRAPH_FILE: &str = include_str!("../../../../examples/langgraph-agent/agent.yaml");
const AGENT: &str = include_str!("../../../../examples/python-agent/agent.py");
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Cards are read and tools are listed each second, not each half minute.
const OFTEN: &str = "[adopt]\ncheck_seconds = 1\n";

/// Two owners' nodes on loopback, of which the second adopts.
struct Pair {
    one: Machine,
    two: Machine,
    nodes: Vec<Node>,
}

impl Pair {
    fn start() -> Pair {
        let (one, two) = (Machine::new(), Machine::new());
        let caller = one.up_alone(&[]);
        two.configure(OFTEN);
        let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
        two.json(&["trust", &caller.owner()]);
        one.json(&["trust", &host.owner()]);
        Pair { one, two, nodes: vec![caller, host] }
    }

    fn adopt(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = [&["adopt", "--callers", "trusted"], words].concat();
        self.two.json(&words)
    }

    /// The state of the only agent, and why.
    fn state(&self) -> (String, String) {
        let list = self.two.json(&["ps"]);
        let text = |key: &str| list["agents"][0][key].as_str().unwrap_or_default().to_owned();
        (text("state"), text("why"))
    }
}

fn listens(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn agents(machine: &Machine) -> usize {
    machine.json(&["agent", "list"])["agents"].as_array().map_or(0, Vec::len)
}

#[test]
fn the_tools_of_an_mcp_server_are_called_from_another_node() {
    let Some(python) = python() else { return };
    let pair = Pair::start();
    pair.two.write("tools.py", TOOLS);
    let python = python.to_string_lossy();
    let shown = pair.adopt(&["--dry-run", "--as", "box", &python, "tools.py"]);
    assert_eq!((&shown["kind"], agents(&pair.two)), (&Value::from("MCP server"), 0), "{shown}");
    let adopted = pair.adopt(&["--as", "box", &python, "tools.py"]);
    assert_eq!(adopted["file"], shown["file"], "what was shown is what is published");
    until(SOON, "it is found", || pair.one.finds("box"));
    let found = pair.one.json(&["find", "--cap", "add"]);
    assert_eq!(found["agents"][0]["name"], "box", "{found}");
    let call = |words: &str| pair.one.run(&["call", "box", words]);
    let sum = call(r#"{"tool": "add", "arguments": {"a": 2, "b": 40}}"#);
    assert!(sum.code == 0 && sum.stdout.contains("42"), "{sum:?}");
    let fails = call(r#"{"tool": "fails"}"#);
    assert!(fails.code == 1 && fails.stderr.contains("executing tool fails"), "{fails:?}");
    let unclear = call("add two and forty");
    assert!(unclear.code != 0 && unclear.stderr.contains("its tools are add, fails, forbidden"), "{unclear:?}");
    let by_path = pair.one.run(&["call", "box/add", "Hi"]);
    assert!(by_path.code == 4 && by_path.stderr.contains(r#"althing call box '{"tool": "add","#), "{by_path:?}");
    pair.two.json(&["agent", "remove", "box"]);

    // The same server at an address.
    let port = free_port();
    let server = Running::start(pair.two.command(Path::new(&*python)).args(["tools.py", &port.to_string()]));
    until(SOON, "the server listens", || listens(port));
    let named = pair.adopt(&["--dry-run", "--as", "box-there", &format!("http://localhost:{port}/mcp")]);
    let spec = |shown: &Value| shown["file"]["tools"]["server"].clone();
    assert_eq!(spec(&named)["leads_to"], json!(["this-machine"]), "a name is followed nowhere else later: {named}");
    let adopted = pair.adopt(&["--as", "box-there", &format!("http://127.0.0.1:{port}/mcp")]);
    assert_eq!(adopted["kind"], "MCP server");
    assert!(spec(&adopted).get("leads_to").is_none(), "an address leads nowhere else: {adopted}");
    until(SOON, "it is found", || pair.one.finds("box-there"));
    let sum = pair.one.run(&["call", "box-there", r#"{"tool": "add", "arguments": {"a": 1, "b": 1}}"#]);
    assert!(sum.code == 0 && sum.stdout.contains('2'), "{sum:?}");
    assert_eq!(pair.state().0, "ready");
    server.kill();
    until(SOON, "it is noticed", || pair.state().0 == "unreachable");
    assert!(pair.state().1.contains(&port.to_string()), "{:?}", pair.state());
}

/// A server whose tool tells a variable of its environment.
const VARIABLES: &str = r#"
import os
from mcp.server import MCPServer

server = MCPServer("variables")


@server.tool()
def value(name: str) -> str:
    """The value of a variable."""
    return os.environ.get(name, "not set")


server.run(transport="stdio")
"#;

#[test]
fn a_program_is_given_variables_whose_values_are_secrets() {
    let Some(python) = python() else { return };
    let machine = Machine::new();
    let node = machine.up_alone(&[]);
    machine.write("variables.py", VARIABLES);
    let python = python.to_string_lossy();
    let adopt = |flags: &[&str]| {
        let words = [&["--json", "adopt", "--as", "box"], flags, &[&*python, "variables.py"]].concat();
        Running::start(machine.althing(&words).env("BOX_KEY", "hush-4711")).end(COMMAND_MAX)
    };
    let given = ["--env", "BOX_KEY", "--env", "MODE=very-fast"];
    let secrets = || machine.json(&["secret", "list"])["secrets"].clone();
    let names = json!([{ "name": "box.BOX_KEY" }, { "name": "box.MODE" }]);

    let shown = adopt(&[&["--dry-run"], &given[..]].concat());
    assert!(shown.code == 0 && shown.stdout.contains("box.BOX_KEY"), "{shown:?}");
    assert_eq!(secrets(), json!([]), "nothing is stored of what is only looked at");
    let adopted = adopt(&given);
    assert_eq!(adopted.code, 0, "{adopted:?}");
    assert_eq!(secrets(), names);
    for said in
        [&shown, &adopted, &machine.run(&["--json", "ps"]), &machine.run(&["--json", "bind", "--running", "box"])]
    {
        assert!(
            ![&said.stdout, &said.stderr].iter().any(|it| it.contains("4711") || it.contains("very-fast")),
            "{said:?}"
        );
    }
    let tells = |name: &str, value: &str| {
        let told =
            machine.run(&["call", "box", &json!({ "tool": "value", "arguments": { "name": name } }).to_string()]);
        assert!(told.code == 0 && told.stdout.contains(value), "{told:?}");
    };
    tells("BOX_KEY", "hush-4711");
    tells("MODE", "very-fast");

    // The node that starts again gives it the same.
    node.running.kill();
    let _node = machine.up_alone(&[]);
    until(SOON, "it runs again", || machine.json(&["ps"])["agents"][0]["state"] == "ready");
    tells("BOX_KEY", "hush-4711");

    let again = adopt(&given);
    assert!(again.code != 0 && again.stderr.contains("has an agent"), "{again:?}");
    assert_eq!(secrets(), names);
    let unset = adopt(&["--env", "NOBODY_SETS_THIS"]);
    assert!(unset.code == 2 && unset.stderr.contains("NOBODY_SETS_THIS"), "{unset:?}");
    let address = machine.run(&["adopt", "--env", "A=b", "http://127.0.0.1:9"]);
    assert!(address.code == 2 && address.stderr.contains("--secret"), "{address:?}");
    let removed = machine.json(&["agent", "remove", "box"]);
    assert_eq!(removed["secretsKept"], json!(["box.BOX_KEY", "box.MODE"]));
    assert_eq!(secrets(), names, "whoever adds it again needs them");
    let refused = adopt(&given);
    assert!(refused.code != 0 && refused.stderr.contains("althing secret remove box."), "{refused:?}");
}

#[test]
fn a_stock_agent_elsewhere_is_called_from_another_node_and_watched() {
    let Some(python) = python() else { return };
    let pair = Pair::start();
    let port = free_port();
    let listening = format!(r#"host="127.0.0.1", port={port}"#);
    pair.two.write("agent.py", &AGENT.replace("fd=3", &listening));
    let serve = || {
        let server = Running::start(pair.two.command(python).arg("agent.py"));
        until(SOON, "the server listens", || listens(port));
        server
    };
    let server = serve();
    let adopted = pair.adopt(&[&format!("http://127.0.0.1:{port}/.well-known/agent-card.json")]);
    assert_eq!((adopted["kind"].as_str(), adopted["file"]["name"].as_str()), (Some("A2A agent"), Some("counter")));
    until(SOON, "it is found", || pair.one.finds("counter"));
    let found = pair.one.json(&["find", "--cap", "words.count"]);
    assert_eq!(found["agents"][0]["name"], "counter", "{found}");
    until(SOON, "it answers", || pair.state().0 == "ready");
    let answered = pair.one.run(&["call", "counter", "0.01", "one", "two"]);
    assert_eq!((answered.code, answered.stdout.as_str()), (0, "one two \n2 words\n"), "{answered:?}");
    assert!(answered.stderr.contains("counting the words"), "{answered:?}");

    server.kill();
    until(SOON, "nobody listens", || !listens(port));
    let failed = pair.one.run(&["call", "counter", "0.01", "one"]);
    assert_ne!(failed.code, 0, "{failed:?}");
    until(SOON, "it is noticed", || pair.state().0 == "unreachable");
    assert!(pair.state().1.contains(&port.to_string()), "{:?}", pair.state());
    let _server = serve();
    until(SOON, "it answers again", || pair.state().0 == "ready");
    let answered = pair.one.run(&["call", "counter", "0.01", "three"]);
    assert_eq!((answered.code, answered.stdout.as_str()), (0, "three \n1 words\n"), "{answered:?}");
}

/// L9
#[test]
fn an_agent_of_langgraph_is_asked_from_another_node_and_asks_back() {
    let Some(python) = python() else { return };
    let pair = Pair::start();
    let port = free_port();
    pair.two.write("agent.py", LANGGRAPH);
    let _server = Running::start(pair.two.command(python).arg("agent.py").env("PORT", port.to_string()));
    until(SOON, "the server listens", || listens(port));
    let adopted = pair.adopt(&[&format!("http://127.0.0.1:{port}")]);
    assert_eq!((adopted["kind"].as_str(), adopted["file"]["name"].as_str()), (Some("A2A agent"), Some("office")));
    until(SOON, "it is found", || pair.one.finds("office"));
    let found = pair.one.json(&["find", "--cap", "office.hours"]);
    assert_eq!(found["agents"][0]["name"], "office", "{found}");
    until(SOON, "it answers", || pair.state().0 == "ready");
    let answered = pair.one.run(&["call", "office", "Are you open on Thursday?"]);
    let wanted = "The office is open from 14 to 18 (question 1 of this conversation).\n";
    assert_eq!((answered.code, answered.stdout.as_str()), (0, wanted), "{answered:?}");
    assert!(answered.stderr.contains("looking up opening_hours Thursday"), "the steps of the graph: {answered:?}");

    // It asks which day is meant, and knows the conversation when it is told.
    let gateway = pair.nodes[0].gateway();
    let asked = ask(&gateway, "office", "SendMessage", &says("When are you open?"));
    let status = &asked["task"]["status"];
    assert_eq!(status["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    assert_eq!(status["message"]["parts"][0]["text"], "Which day do you mean?");
    let mut told = says("Monday, please");
    told["message"]["taskId"] = asked["task"]["id"].clone();
    told["message"]["contextId"] = asked["task"]["contextId"].clone();
    let answered = ask(&gateway, "office", "SendMessage", &told);
    assert_eq!(answered["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answered}");
    let text = &answered["task"]["artifacts"][0]["parts"][0]["text"];
    assert_eq!(*text, "The office is open from 8 to 12 (question 2 of this conversation).", "{answered}");
}

/// The same program as an agent of its node, by the file beside it.
#[test]
fn an_agent_of_langgraph_runs_contained_in_its_node() {
    let Some(python) = python() else { return };
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    machine.write("agent.py", LANGGRAPH);
    let file = LANGGRAPH_FILE.replace("[python3, ", &format!("[{:?}, ", python.to_string_lossy()));
    assert_ne!(file, LANGGRAPH_FILE, "the example names its Python");
    machine.add("office", &file);
    let row = || machine.json(&["ps"])["agents"][0].clone();
    until(SOON, "the program is up", || row()["state"] == "ready");
    let answered = machine.run(&["call", "office", "Are you open on Thursday?"]);
    let wanted = "The office is open from 14 to 18 (question 1 of this conversation).\n";
    assert_eq!((answered.code, answered.stdout.as_str()), (0, wanted), "{answered:?}");
    assert!(answered.stderr.contains("looking up opening_hours Thursday"), "the steps of the graph: {answered:?}");
    if has_namespaces(python) {
        assert_eq!(row()["containment"][0]["how"], "contained", "{}", row());
    }
}

#[test]
fn an_agent_whose_card_changes_is_suspended_until_that_is_accepted() {
    let Some(python) = python() else { return };
    let mut pair = Pair::start();
    let port = free_port();
    let listening = format!(r#"host="127.0.0.1", port={port}"#);
    let serve = |pair: &Pair, words: &str| {
        pair.two.write("agent.py", &AGENT.replace("fd=3", &listening).replace("Counts words", words));
        let server = Running::start(pair.two.command(python).arg("agent.py"));
        until(SOON, "the server listens", || listens(port));
        server
    };
    let url = format!("http://127.0.0.1:{port}");
    let server = serve(&pair, "Counts words");
    pair.adopt(&[&url]);
    until(SOON, "it answers", || pair.state().0 == "ready");
    let shown = pair.adopt(&["--dry-run", &url]);
    assert!(shown["taken"] == true && shown.get("added").is_none(), "{shown}");

    server.kill();
    until(SOON, "nobody listens", || !listens(port));
    let _server = serve(&pair, "Sends words to its author");
    // What was agreed to outlives the node.
    let peer = pair.nodes[0].address("/ip4/127.0.0.1/");
    pair.nodes.remove(1).running.kill();
    pair.nodes.push(pair.two.up_alone(&["--peer", &peer]));
    until(SOON, "the change is seen", || pair.state().0 == "suspended");
    let why = pair.state().1;
    assert!(why.contains("althing adopt --accept counter") && why.contains("words.count"), "{why}");
    until(SOON, "it is found", || pair.one.finds("counter"));
    let refused = pair.one.run(&["call", "counter", "0", "one"]);
    assert!(refused.code != 0 && refused.stderr.contains("another agent card"), "{refused:?}");

    // What is accepted is what was shown, and nothing is without.
    let offer = pair.two.run(&["adopt", "--accept", "counter"]);
    assert!(offer.code == 5 && offer.stderr.contains("Sends words to its author"), "{offer:?}");
    let how =
        offer.stderr.split('`').find_map(|word| word.strip_prefix("althing adopt --accept ")).expect("how").to_owned();
    assert!(how.starts_with("counter@") && pair.state().0 == "suspended", "{how}");
    let accepted = pair.two.json(&["adopt", "--accept", &how]);
    assert_eq!(accepted["file"]["skills"][0]["description"], "Sends words to its author", "{accepted}");
    assert_eq!(accepted["file"]["callers"], "trusted", "{accepted}");
    until(SOON, "it answers", || pair.state().0 == "ready");
    until(SOON, "it is called again", || pair.one.run(&["call", "counter", "0", "one"]).code == 0);
    let unknown = pair.two.run(&["adopt", "--accept", "nobody"]);
    assert!(unknown.code != 0 && unknown.stderr.contains("nobody"), "{unknown:?}");
}

#[test]
fn what_is_neither_is_refused_with_what_was_tried() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let refused = machine.run(&["adopt", &nowhere]);
    assert!(refused.code == 1 && refused.stderr.contains("nothing listens at"), "{refused:?}");
    let refused = machine.run(&["adopt", "true"]);
    assert!(refused.code == 1 && refused.stderr.contains("does not answer as an MCP server"), "{refused:?}");
    let refused = machine.run(&["adopt", "no-such-program"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    for usage in [&["adopt"][..], &["adopt", "--secret", "KEY", "true"], &["adopt", &nowhere, "more"]] {
        assert_eq!(machine.run(usage).code, 2, "{usage:?}");
    }
    assert_eq!(agents(&machine), 0);
}

#[test]
fn a_program_that_is_missing_or_fails_and_an_address_without_a_scheme_are_named() {
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    for (what, told) in [
        (vec!["no-such-program"], "no such program"),
        (vec!["sh", "-c", "echo no module of that name >&2; exit 3"], "exit status 3; it said: no module of that name"),
        (vec!["127.0.0.1:7420"], "write http://127.0.0.1:7420"),
    ] {
        let refused = machine.run(&[&["adopt"], what.as_slice()].concat());
        assert!(refused.code != 0 && refused.stderr.contains(told), "{refused:?}");
    }
}
