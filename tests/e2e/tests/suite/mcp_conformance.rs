//! MCP's conformance suite against a server of tools, directly and as an adopted agent through its node and another one.
//! The server is made for the suite, with the official SDK.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_e2e::{Machine, Node, Running, node, until};

const SUITE: &str = "@modelcontextprotocol/conformance/dist/index.js";
const FIXTURE: &str = include_str!("../../js/fixture.cjs");
const DOCS: &str = include_str!("../../../../docs/mcp.md");
const SOON: Duration = Duration::from_secs(30);

/// What is not relayed, and so not required of a node. The reasons are in docs/mcp.md.
const LEFT: [&str; 18] = [
    "http-custom-header-server-validation",
    "input-required-result-basic-list-roots",
    "input-required-result-basic-sampling",
    "input-required-result-capability-check",
    "input-required-result-multiple-input-requests",
    "input-required-result-non-tool-request",
    "logging-set-level",
    "prompts-get-embedded-resource",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-with-image",
    "resources-read-binary",
    "resources-read-text",
    "resources-subscribe",
    "resources-templates-read",
    "resources-unsubscribe",
    "tools-call-sampling",
    "tools-call-with-logging",
];
/// The extension of tasks, which is optional.
const OPTIONAL: &str = "tasks-";

struct Bench {
    machine: Machine,
    node: &'static Path,
    packages: &'static Path,
}

impl Bench {
    fn command(&self, script: &Path) -> std::process::Command {
        let mut command = self.machine.command(self.node);
        command.arg(script).env("NODE_PATH", self.packages);
        command
    }

    /// How many checks of each scenario passed, and how many failed; with all that the suite said.
    fn run(&self, version: &str, url: &str) -> (BTreeMap<String, (u32, u32)>, String) {
        let mut command = self.command(&self.packages.join(SUITE));
        command.args(["server", "--requirements", version, "--url", url]);
        let outcome = Running::start(&mut command).end(Duration::from_secs(120));
        let summary = outcome.stdout.split("=== SUMMARY ===").nth(1).unwrap_or_default();
        let counted = summary.lines().filter_map(|line| {
            let (name, counts) = line.strip_prefix(['✓', '✗'])?.trim().split_once(": ")?;
            let mut numbers = counts.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
            Some((name.to_owned(), (numbers.next()?, numbers.next()?)))
        });
        let counted: BTreeMap<_, _> = counted.collect();
        assert!(counted.len() > 20, "{version} {url}: {outcome:?}");
        (counted, outcome.stdout)
    }
}

/// A node that adopted the server, and one that trusts it.
fn mesh(bench: &Bench, url: &str) -> (Machine, [Node; 2]) {
    let two = Machine::new();
    let caller = bench.machine.up_alone(&[]);
    let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
    two.json(&["trust", &caller.owner()]);
    bench.machine.json(&["trust", &host.owner()]);
    let adopted = two.json(&["adopt", "--callers", "trusted", "--as", "fixture", url]);
    assert_eq!(adopted["kind"], "MCP server", "{adopted}");
    until(SOON, "it is found", || bench.machine.finds("fixture"));
    (two, [host, caller])
}

#[test]
fn what_passes_directly_passes_through_a_node_and_another_one() {
    let Some((node, packages)) = node::mcp_tools() else { return };
    let bench = Bench { machine: Machine::new(), node, packages };
    let script: PathBuf = bench.machine.write("fixture.cjs", FIXTURE);
    let mut server = Running::start(&mut bench.command(&script));
    let port = server.line(SOON).expect("its port");
    let url = format!("http://127.0.0.1:{port}/mcp");
    let (_two, nodes) = mesh(&bench, &url);
    let mut needed = BTreeSet::new();
    for version in ["2026-07-28", "2025-11-25"] {
        let (directly, _) = bench.run(version, &url);
        for node in &nodes {
            let (through, said) = bench.run(version, &format!("{}/mcp/fixture", node.gateway()));
            assert!(through.keys().eq(directly.keys()), "the same scenarios");
            let tried = through.clone();
            let required = through.iter().filter(|(name, _)| !left(name));
            let failed: Vec<_> = required.filter(|(_, (_, failed))| *failed > 0).collect();
            assert!(failed.is_empty(), "{version}: {failed:?}\n{said}");
            needed.extend(through.into_iter().filter(|(_, (_, failed))| *failed > 0).map(|(name, _)| name));
            let elicits = tried.iter().filter(|(name, (passed, _))| name.contains("elicitation") && *passed > 1);
            assert!(elicits.count() > 0, "{version}: elicitation was tried: {tried:?}");
        }
    }
    let needless: Vec<_> = LEFT.iter().filter(|name| !needed.contains(**name)).collect();
    assert!(needless.is_empty(), "they pass, and are required from now on: {needless:?}");
}

fn left(name: &str) -> bool {
    LEFT.contains(&name) || name.starts_with(OPTIONAL)
}

#[test]
fn what_is_left_out_has_a_reason() {
    let without: Vec<&&str> = LEFT.iter().filter(|name| !DOCS.contains(&format!("`{name}`"))).collect();
    assert!(without.is_empty(), "docs/mcp.md says nothing of {without:?}");
}
