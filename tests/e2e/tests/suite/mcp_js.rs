//! MCP's own inspector lists and calls tools of agents, on the node that it speaks to and on another one, over HTTP and over
//! standard input and output.

use std::path::Path;
use std::time::Duration;

use althing_e2e::{Machine, Node, Outcome, Running, binary, cast, node, until};
use serde_json::Value;

const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
const SOON: Duration = Duration::from_secs(30);

/// Two owners' nodes on loopback that trust each other, each with an agent.
struct Pair {
    one: Machine,
    _two: Machine,
    near: Node,
    _far: Node,
}

impl Pair {
    fn start() -> Pair {
        let (one, two) = (Machine::new(), Machine::new());
        let near = one.up_alone(&[]);
        let far = two.up_alone(&["--peer", &near.address("/ip4/127.0.0.1/")]);
        two.json(&["trust", &near.owner()]);
        one.json(&["trust", &far.owner()]);
        one.add("near", &cast::echo("near", "trusted"));
        two.add("far", &cast::echo("far", "trusted"));
        until(SOON, "the agent is found on the other node", || one.finds("far"));
        Pair { one, _two: two, near, _far: far }
    }
}

/// The inspector with a server.
struct Inspector<'a> {
    machine: &'a Machine,
    node: &'a Path,
    packages: &'a Path,
    server: Vec<String>,
}

impl Inspector<'_> {
    fn run(&self, method: &str, more: &[&str]) -> Outcome {
        let mut command = self.machine.command(self.node);
        command
            .arg(self.packages.join(INSPECTOR))
            .arg("--cli")
            .args(&self.server)
            .args(["--method", method])
            .args(more);
        Running::start(&mut command).end(Duration::from_secs(60))
    }

    /// What it prints of an answer.
    fn ask(&self, method: &str, more: &[&str]) -> Value {
        let outcome = self.run(method, more);
        assert_eq!(outcome.code, 0, "{method} {more:?}: {outcome:?}");
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{method} {more:?}: {error}: {outcome:?}"))
    }

    /// The names of the tools; the inspector finds nothing in their schemas that a client could not use.
    fn tools(&self) -> Vec<String> {
        let list = self.ask("tools/list", &["--strict"]);
        let names = list["tools"].as_array().expect("a list").iter();
        names.map(|tool| althing_e2e::text(&tool["name"])).collect()
    }

    /// Calls a tool with a message; the answer says it back.
    fn echoes(&self, tool: &str, agent: Option<&str>) {
        let said = format!("to {tool}");
        let (message, agent) = (format!("message={said}"), agent.map(|agent| format!("agent={agent}")));
        let mut more = vec!["--tool-name", tool, "--tool-arg", &message];
        more.extend(agent.as_deref());
        let answer = self.ask("tools/call", &more);
        assert_eq!(answer["structuredContent"]["text"], said.as_str(), "{answer}");
    }
}

#[test]
fn the_inspector_lists_and_calls_agents_here_and_on_another_node() {
    let Some((node, packages)) = node::mcp_tools() else { return };
    let pair = Pair::start();
    let on = |server: &[&str]| Inspector {
        machine: &pair.one,
        node,
        packages,
        server: server.iter().map(|word| (*word).to_owned()).collect(),
    };
    let gateway = format!("{}/mcp", pair.near.gateway());
    let here = on(&[&gateway]);
    assert_eq!(here.tools(), ["find_agents", "describe_agent", "call_agent", "near_near_say"]);
    here.echoes("near_near_say", None);
    here.echoes("call_agent", Some("far"));
    let refused = here.run("tools/call", &["--tool-name", "call_agent", "--tool-arg", "agent=nobody", "message=x"]);
    assert!(refused.stdout.contains("AGENT_UNKNOWN"), "{refused:?}");

    let mesh = on(&[&format!("{gateway}?agents=mesh"), "--transport", "http"]);
    let tools = mesh.tools();
    let far = tools.iter().find(|name| name.starts_with("far_far_say")).expect("the other node's");
    mesh.echoes(far, None);

    let (althing, data) = (binary(), pair.one.data());
    let stdio = on(&[&althing.to_string_lossy(), "--data", &data.to_string_lossy(), "mcp"]);
    assert_eq!(stdio.tools(), here.tools());
    stdio.echoes("call_agent", Some("far"));
}
