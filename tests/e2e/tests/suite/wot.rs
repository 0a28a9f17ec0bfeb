//! The stock consumer of the Web of Things, node-wot, and a stock validator of OpenAPI, with an agent on the gateway's node
//! and with one on another node.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use althing_e2e::python::python;
use althing_e2e::{Machine, Node, Running, cast, node, until};

const CONSUMER: &str = include_str!("../../js/wot.cjs");
const GENERATED: &str = include_str!("../../python/generated.py");
const OPENAPI: &str = include_str!("../../js/openapi.cjs");
const TOKEN: &str = "a-token-of-the-tests-0123456789";
const SOON: Duration = Duration::from_secs(30);

/// Two owners' nodes that trust each other on loopback, each with an agent.
struct Pair {
    one: Machine,
    _two: Machine,
    gateway: Node,
    _host: Node,
}

impl Pair {
    fn start(config: &str) -> Pair {
        let (one, two) = (Machine::new(), Machine::new());
        let config = one.configure(config);
        // A token that others may read is refused.
        std::fs::set_permissions(config, std::fs::Permissions::from_mode(0o600)).expect("our own file");
        let gateway = one.up_alone(&[]);
        let host = two.up_alone(&["--peer", &gateway.address("/ip4/127.0.0.1/")]);
        two.json(&["trust", &gateway.owner()]);
        one.json(&["trust", &host.owner()]);
        one.add("near", &cast::echo("near", "trusted"));
        two.add("far", &cast::echo("far", "trusted"));
        until(SOON, "the agent is found on the other node", || one.finds("far"));
        Pair { one, _two: two, gateway, _host: host }
    }

    /// Runs a script with an address of the gateway; it says at its end that all is well.
    fn run(&self, packages: &Path, script: &str, path: &str, argument: Option<&str>, last: &str) {
        let script = self.one.write("script.cjs", script);
        let mut program = self.one.command(Path::new("node"));
        program.arg(script).arg(format!("{}{path}", self.gateway.gateway())).args(argument);
        let outcome = Running::start(program.env("NODE_PATH", packages)).end(Duration::from_secs(90));
        assert!(outcome.code == 0 && outcome.stdout.ends_with(last), "{path}: {outcome:?}");
    }

    fn consume(&self, packages: &Path, agent: &str, token: Option<&str>) {
        self.run(packages, CONSUMER, &format!("/things/{agent}"), token, "WOT OK\n");
    }
}

#[test]
fn a_stock_consumer_uses_agents_of_this_node_and_of_another() {
    let Some(packages) = node::packages() else { return };
    let pair = Pair::start("");
    pair.consume(packages, "near", None);
    pair.consume(packages, "far", None);
    // The same gateway, as OpenAPI describes it.
    for agent in ["near", "far"] {
        pair.run(packages, OPENAPI, "/openapi.json", Some(agent), "OPENAPI OK\n");
    }
}

#[test]
fn a_stock_consumer_sends_the_token_that_the_description_asks_for() {
    let Some(packages) = node::packages() else { return };
    let pair = Pair::start(&format!("[gateway]\ntoken = {TOKEN:?}\n"));
    pair.consume(packages, "near", Some(TOKEN));
    pair.consume(packages, "far", Some(TOKEN));
}

/// A client that a stock generator makes of the gateway's OpenAPI document works with agents of this node and of another.
#[test]
fn a_generated_client_works() {
    let Some(python) = python() else { return };
    let pair = Pair::start("");
    let script = pair.one.write("generated.py", GENERATED);
    for agent in ["near", "far"] {
        let mut program = pair.one.command(python);
        program.arg(&script).arg(pair.gateway.gateway()).arg(agent).current_dir(pair.one.folder());
        let outcome = Running::start(&mut program).end(Duration::from_secs(90));
        assert!(outcome.code == 0 && outcome.stdout.ends_with("GENERATED OK\n"), "{agent}: {outcome:?}");
    }
}
