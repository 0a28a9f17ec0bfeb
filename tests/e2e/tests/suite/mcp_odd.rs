//! A server of tools that no SDK made: what is good of it is adopted and goes on being called, and what is not is named.

use std::path::Path;
use std::time::Duration;

use althing_e2e::python::python;
use althing_e2e::{Machine, Node, Running, node};
use serde_json::{Value, json};

const SERVER: &str = include_str!("../../python/odd_mcp.py");
const CLIENT: &str = include_str!("../../python/asking_mcp.py");
const SCHEMAS: &str = include_str!("../../python/odd_schemas_mcp.py");
const LISTING: &str = include_str!("../../js/listing.cjs");
/// The tools of the server with odd schemas.
const ODD_SCHEMAS: usize = 28;
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(180);

/// A node that adopted the server, and what was said of that.
struct Scene {
    machine: Machine,
    node: Node,
    adopted: Value,
}

fn scene() -> Scene {
    let machine = Machine::new();
    machine.configure("[adopt]\ncheck_seconds = 1\n");
    machine.write("odd_mcp.py", SERVER);
    let node = machine.up_alone(&[]);
    let home = machine.folder().to_string_lossy().into_owned();
    // It looks into the test's folder.
    let adopted = machine.json(&["adopt", "--sandbox", "none", "--as", "odd", "python3", "odd_mcp.py", &home]);
    Scene { machine, node, adopted }
}

impl Scene {
    fn call(&self, tool: &str, arguments: &Value) -> althing_e2e::Outcome {
        self.machine.run(&["call", "odd", &json!({ "tool": tool, "arguments": arguments }).to_string()])
    }
}

#[test]
fn what_is_good_of_a_server_is_adopted_and_the_rest_is_named() {
    let scene = scene();
    let left_out = scene.adopted["leftOut"].as_array().expect("a list").clone();
    let why = |what: &str| {
        let one = left_out.iter().find(|one| one["what"] == what).unwrap_or_else(|| panic!("{what}: {left_out:?}"));
        one["why"].as_str().expect("a reason").to_owned()
    };
    assert!(why("nameless-arguments").contains("inputSchema"), "{left_out:?}");
    assert!(why("its list of tools").contains("do not end"), "{left_out:?}");
    let work = json!({ "mode": "fast", "speed": "slow" });
    let done = scene.call("work", &work);
    assert!(done.code == 0 && done.stdout.contains("work is done"), "{done:?}");
    // The order of a set is no change.
    scene.machine.write("spoilt", "");
    let done = scene.call("work", &work);
    assert!(done.code == 0 && done.stdout.contains("work is done"), "{done:?}");
}

#[test]
fn a_picture_of_three_megabytes_passes_and_a_longer_answer_is_told_at_once() {
    let scene = scene();
    let passes = scene.machine.run(&["--json", "call", "odd", r#"{"tool":"picture","arguments":{"bytes":3000000}}"#]);
    assert!(passes.code == 0 && passes.stdout.len() > 4_000_000, "{} {}", passes.code, passes.stderr);
    let refused = scene.call("picture", &json!({ "bytes": 6_000_000 }));
    assert!(refused.code != 0 && refused.stderr.contains("its answer has more than 4 MiB"), "{}", refused.stderr);
}

#[test]
fn a_server_that_works_on_one_thing_at_a_time_is_not_ended_by_the_nodes_own_questions() {
    let scene = scene();
    // Each second the node asks for the list, and waits for it.
    let slow = json!({ "tool": "slow", "arguments": { "seconds": 15 } }).to_string();
    let calls: Vec<Running> =
        (0..2).map(|_| Running::start(&mut scene.machine.althing(&["call", "odd", &slow]))).collect();
    for call in calls {
        let outcome = call.end(SOON);
        assert!(outcome.code == 0 && outcome.stdout.contains("slow is done"), "{outcome:?}");
    }
}

#[test]
fn the_official_client_is_asked_and_hears_all_progress() {
    let Some(python) = python() else { return };
    let scene = scene();
    scene.machine.write("asking_mcp.py", CLIENT);
    let mut client = scene.machine.command(Path::new(python));
    client.arg("asking_mcp.py").arg(format!("{}/mcp/odd", scene.node.gateway()));
    let outcome = Running::start(&mut client).end(SOON);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.ends_with("ASKED OK\n"), "{outcome:?}");
}

#[test]
fn an_odd_schema_spoils_no_clients_list() {
    let Some((program, packages)) = node::mcp_tools() else { return };
    let machine = Machine::new();
    machine.write("odd_schemas_mcp.py", SCHEMAS);
    let script = machine.write("listing.cjs", LISTING);
    let node = machine.up_alone(&[]);
    let adopted = machine.json(&["adopt", "--sandbox", "none", "--as", "odd", "python3", "odd_schemas_mcp.py"]);
    assert_eq!(adopted["kind"], "MCP server", "{adopted}");
    let mut client = machine.command(program);
    client.arg(script).arg(format!("{}/mcp", node.gateway())).arg("odd_").env("NODE_PATH", packages);
    let outcome = Running::start(&mut client).end(SOON);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    let all = format!("{ODD_SCHEMAS} tools\n");
    assert_eq!(outcome.stdout, format!("{all}{all}LISTED OK\n"), "{outcome:?}");
    // What is not listed as it was written is named.
    let doctor = machine.run(&["doctor"]);
    assert!(doctor.stdout.contains("is listed without `pattern` at /properties/a"), "{doctor:?}");
}
