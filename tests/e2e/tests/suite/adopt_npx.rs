//! A server that `npx` starts, contained: it is offered the registry from which it is fetched, and with a cache of its own it does
//! without.

use std::process::Command;

use althing_e2e::Machine;
use althing_e2e::node::{NPX_SERVER, npx_cache};
use althing_e2e::python::done;
use althing_e2e::sandbox::{has_namespaces, interpreter, tells_of_calls};
use serde_json::{Value, json};

/// What it is offered.
const REGISTRY: &str = "sandbox: { egress: [registry.npmjs.org] }";

#[test]
fn a_server_that_npx_starts_is_offered_the_registry_and_with_a_cache_of_its_own_it_does_without() {
    if !interpreter().is_some_and(|python| has_namespaces(&python)) || !tells_of_calls() {
        return;
    }
    let Some(cache) = npx_cache() else { return };
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    let refused = machine.run(&["adopt", "--as", "box", "npx", "-y", NPX_SERVER]);
    assert!(refused.code == 5 && refused.stderr.contains(REGISTRY), "its home is empty: {refused:?}");

    let own = machine.home().join("own");
    std::fs::create_dir(&own).expect("a folder");
    done(Command::new("cp").arg("-a").arg(cache).arg(own.join("box"))).expect("it is copied");
    let at = format!("npm_config_cache={}", own.join("box").display());
    let options = ["--write", "~/own/box", "--env", &at, "--env", "npm_config_offline=true"];
    let words = [&["adopt", "--as", "box"], &options[..], &["npx", "-y", NPX_SERVER]].concat();
    let adopted = machine.json(&words);
    let granted = json!({ "folder": "read", "write": ["~/own/box"] });
    assert_eq!(adopted["file"]["tools"]["server"]["sandbox"], granted, "{adopted}");
    let called = machine.run(&["call", "box", r#"{"tool": "echo", "arguments": {"message": "out of the cache"}}"#]);
    assert!(called.code == 0 && called.stdout.contains("out of the cache"), "{called:?}");
    let program: Value = machine.json(&["ps"])["agents"][0]["containment"][0].clone();
    assert_eq!(program["how"], "contained", "{program}");
    assert!(!machine.home().join(".npm").exists(), "it has no other cache");
}
