//! The official A2A SDK for JavaScript on both ends: its client drives an agent through the gateway of its own node and of
//! another, over each binding, and the agent itself is made with its server.

use std::path::Path;
use std::time::Duration;

use althing_e2e::counter::Pair;
use althing_e2e::{Running, node};

const CLIENT: &str = include_str!("../../js/a2a.cjs");
/// The bindings over which the client has its conversation.
const BINDINGS: [&str; 3] = ["JSONRPC", "HTTP+JSON", "GRPC"];

#[test]
fn the_official_client_drives_an_agent_here_and_on_another_node() {
    let Some(packages) = node::packages() else { return };
    let pair = Pair::start(packages);
    pair.one.write("a2a.cjs", CLIENT);
    for gateway in pair.gateways() {
        let mut client = pair.one.command(Path::new("node"));
        // The client looks for the card beside the last slash.
        client.arg("a2a.cjs").arg(format!("{gateway}/a2a/counter/")).args(BINDINGS).env("NODE_PATH", packages);
        let outcome = Running::start(&mut client).end(Duration::from_secs(90));
        assert!(outcome.code == 0 && outcome.stdout.ends_with("A2A OK\n"), "{outcome:?}");
    }
    pair.is_idle();
}
