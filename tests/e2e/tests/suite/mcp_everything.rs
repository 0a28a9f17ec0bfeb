//! MCP's official server that does everything, adopted, through the node that has it and another one, with the official client for
//! TypeScript: its user is asked and answers, all progress arrives, and its tools are such that the inspector finds nothing in them.

use std::path::Path;
use std::time::Duration;

use althing_e2e::{Machine, Node, Running, free_port, http, node, until};
use althing_testing::at_night;

const SERVER: &str = "@modelcontextprotocol/server-everything/dist/index.js";
const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
const CLIENT: &str = include_str!("../../js/everything.cjs");
const SOON: Duration = Duration::from_secs(60);
/// How long its long work takes, in seconds, and in how many steps: as it is, 10 s in 5. At night both are ten times that.
const WORK: [(&str, &str); 2] = [("2", "50"), ("100", "50")];
/// Beside the work itself.
const CLIENT_MAX: Duration = Duration::from_secs(240);

/// Node.js and the packages.
struct Tools {
    node: &'static Path,
    packages: &'static Path,
}

impl Tools {
    /// The server over HTTP on a port of its own, and its address.
    fn serve(&self, machine: &Machine) -> (Running, String) {
        let port = free_port();
        let mut command = machine.command(self.node);
        command.arg(self.packages.join(SERVER)).arg("streamableHttp").env("PORT", port.to_string());
        let running = Running::start(&mut command);
        until(SOON, "the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        (running, format!("http://127.0.0.1:{port}/mcp"))
    }

    /// Starts the client.
    fn client(&self, machine: &Machine, url: &str, mode: &str) -> Running {
        let (seconds, steps) = WORK[usize::from(at_night())];
        let mut command = machine.command(self.node);
        command.arg("everything.cjs").args([url, mode, seconds, steps]).env("NODE_PATH", self.packages);
        Running::start(&mut command)
    }

    /// The inspector finds nothing in the tools of a list that a client could not use.
    fn inspect(&self, machine: &Machine, url: &str) {
        let mut command = machine.command(self.node);
        command.arg(self.packages.join(INSPECTOR)).args(["--cli", url, "--transport", "http"]);
        command.args(["--method", "tools/list", "--strict"]);
        let outcome = Running::start(&mut command).end(SOON);
        assert_eq!(outcome.code, 0, "{url}: {outcome:?}");
        assert!(outcome.stdout.contains("long-running-operation"), "{url}: {outcome:?}");
    }
}

/// A node that adopts the server both ways, and one of another owner that calls it there.
fn mesh(tools: &Tools, url: &str) -> ([Machine; 2], [Node; 2]) {
    let (one, two) = (Machine::new(), Machine::new());
    let host = one.up_alone(&[]);
    let caller = two.up_alone(&["--peer", &host.address("/ip4/127.0.0.1/")]);
    one.json(&["trust", &caller.owner()]);
    two.json(&["trust", &host.owner()]);
    let adopt = |name: &str, server: &[&str]| {
        let mut arguments = vec!["adopt", "--callers", "trusted", "--as", name];
        arguments.extend(server);
        assert_eq!(one.json(&arguments)["kind"], "MCP server", "{name}");
    };
    adopt("web", &[url]);
    let (program, script) = (tools.node.to_string_lossy(), tools.packages.join(SERVER));
    adopt("pipes", &[&program, &script.to_string_lossy(), "stdio"]);
    until(SOON, "both are found on the other node", || two.finds("web") && two.finds("pipes"));
    ([one, two], [host, caller])
}

#[test]
fn the_official_server_asks_its_user_and_tells_all_its_progress_through_two_nodes() {
    let Some((node, packages)) = node::mcp_tools() else { return };
    let tools = Tools { node, packages };
    let beside = Machine::new();
    let (_server, url) = tools.serve(&beside);
    beside.write("everything.cjs", CLIENT);
    let (_machines, nodes) = mesh(&tools, &url);
    // All of them at once: mostly they wait. Over its pipes, a question does not say which of several calls it belongs to.
    for name in ["web", "pipes"] {
        let asks = |at: &Node, mode: &str| {
            let url = format!("{}/mcp/{name}", at.gateway());
            (format!("{url}, {mode}"), tools.client(&beside, &url, mode))
        };
        let all: Vec<_> = nodes.iter().flat_map(|at| ["auto", "legacy"].map(|mode| (at, mode))).collect();
        let at_once = if name == "pipes" { 1 } else { all.len() };
        for some in all.chunks(at_once) {
            let running: Vec<_> = some.iter().map(|(at, mode)| asks(at, mode)).collect();
            for (what, client) in running {
                let outcome = client.end(CLIENT_MAX);
                assert!(outcome.code == 0 && outcome.stdout.ends_with("EVERYTHING OK\n"), "{what}: {outcome:?}");
            }
        }
    }
    for at in &nodes {
        tools.inspect(&beside, &format!("{}/mcp/web", at.gateway()));
        tools.inspect(&beside, &format!("{}/mcp?agents=mesh", at.gateway()));
        assert_eq!(http::get(&at.gateway(), "/healthz", &[]).status, 200);
    }
}
