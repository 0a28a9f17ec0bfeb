//! Reservations on another node, over the wire: two phases, leases, one holder, only the owner's nodes.

use std::time::Duration;

use althing_e2e::{Machine, Node, until};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(15);
const IDLE: &str = r#"(module (func (export "turn")))"#;

/// Two nodes, of one owner or of two; the first is to promise.
struct Scene {
    there: Machine,
    here: Machine,
    _nodes: [Node; 2],
    did: String,
}

fn scene(same_owner: bool) -> Scene {
    let (there, here) = (Machine::new(), Machine::new());
    for machine in [&there, &here] {
        machine.write("idle.wat", IDLE);
        machine.write("loop.yaml", &file("loop", 6_000));
        machine.write("other.yaml", &file("other", 6_000));
        machine.write("small.yaml", &file("small", 1_000));
        machine.write("odd.yaml", &file("odd", 5_900));
    }
    let serving = there.up_alone(&[]);
    if same_owner {
        for entry in std::fs::read_dir(there.config()).expect("the owner's keys") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), here.config().join(entry.file_name())).expect("copied");
        }
    }
    let asking = here.up_alone(&["--peer", &serving.address("/ip4/127.0.0.1")]);
    let did = serving.said["node"].as_str().expect("a DID").to_owned();
    // Nothing is proved before the machine is known.
    let known = || there.json(&["status"])["layers"]["l1Execution"]["machine"].is_object();
    until(SOON, "the machine is probed", known);
    until(SOON, "they are connected", || here.json(&["peers"])["peers"].as_array().is_some_and(|all| !all.is_empty()));
    Scene { there, here, _nodes: [serving, asking], did }
}

impl Scene {
    fn held(&self) -> u64 {
        self.there.json(&["status"])["layers"]["l1Execution"]["reserved"].as_u64().expect("a number")
    }
}

fn file(name: &str, budget_us: u64) -> String {
    json!({
        "name": name,
        "description": "Idles",
        "runtime": { "wasm": { "module": "idle.wat" } },
        "contract": {
            "class": { "latency": "hrt", "period_us": 10_000, "deadline_us": 10_000, "budget_us": budget_us },
            "placement": { "min_grade": "C" },
        },
    })
    .to_string()
}

/// P-59, P-60
#[test]
fn what_is_reserved_is_promised_to_nobody_else_until_it_is_taken_or_over() {
    let scene = scene(true);
    let reserve = |more: &[&str]| {
        let mut all = vec!["--json", "reserve", scene.did.as_str()];
        all.extend(more);
        scene.here.run(&all)
    };
    let held = reserve(&["loop.yaml"]);
    assert_eq!(held.code, 0, "{held:?}");
    let held: Value = serde_json::from_str(&held.stdout).expect("JSON");
    let id = held["id"].as_str().expect("an id").to_owned();
    assert!(held["responseBoundUs"].as_f64().is_some_and(|us| us >= 6_000.0), "{held}");
    assert_eq!(scene.held(), 1);
    // There is no room for another, neither from here nor from there; for a small one there is.
    let refused = reserve(&["other.yaml"]);
    assert!(refused.code == 5 && refused.stderr.contains("its deadlines cannot be promised"), "{refused:?}");
    assert_eq!(scene.there.run(&["agent", "add", "other.yaml"]).code, 5);
    assert_eq!(scene.there.run(&["agent", "add", "small.yaml"]).code, 0);
    // Another contract cannot take it; its own can, once.
    let wrong = scene.there.run(&["agent", "add", "odd.yaml", "--reservation", &id]);
    assert!(wrong.code == 5 && wrong.stderr.contains("another contract"), "{wrong:?}");
    let taken = scene.there.run(&["agent", "add", "loop.yaml", "--reservation", &id]);
    assert_eq!(taken.code, 0, "{taken:?}");
    assert_eq!(scene.held(), 0);
    let again = scene.there.run(&["agent", "add", "other.yaml", "--reservation", &id]);
    assert!(again.code == 4 && again.stderr.contains("no such reservation"), "{again:?}");
    // When its agent is gone there is room: held, given back, and held again until it is over.
    assert_eq!(scene.there.run(&["agent", "remove", "loop"]).code, 0);
    let second = reserve(&["other.yaml"]);
    let second: Value = serde_json::from_str(&second.stdout).expect("JSON");
    let second = second["id"].as_str().expect("an id").to_owned();
    assert_eq!(reserve(&["--cancel", &second]).code, 0);
    assert_eq!(reserve(&["--cancel", &second]).code, 4, "it is gone");
    assert_eq!(reserve(&["other.yaml", "--lease", "1"]).code, 0);
    assert_eq!(scene.there.run(&["agent", "add", "loop.yaml"]).code, 5);
    until(SOON, "it is over", || scene.held() == 0);
    assert_eq!(scene.there.run(&["agent", "add", "loop.yaml"]).code, 0);
}

/// P-59
#[test]
fn strangers_reserve_nothing() {
    let scene = scene(false);
    let refused = scene.here.run(&["reserve", &scene.did, "loop.yaml"]);
    assert!(refused.code == 5 && refused.stderr.contains("only the nodes of this node's owner"), "{refused:?}");
    // Trust lets call, not reserve.
    let owner = scene.here.json(&["id"])["owner"].as_str().expect("a DID").to_owned();
    assert_eq!(scene.there.run(&["trust", &owner]).code, 0);
    assert_eq!(scene.here.run(&["reserve", &scene.did, "loop.yaml"]).code, 5);
    assert_eq!(scene.held(), 0);
}
