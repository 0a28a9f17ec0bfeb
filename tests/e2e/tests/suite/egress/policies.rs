//! The owner's policies decide on what programs reach and on which agents are added, beside what their files name.

use althing_e2e::sandbox::{has_namespaces, interpreter};
use althing_e2e::until;
use serde_json::{Value, json};

use super::{NETS, Origin, SOON, Scene, by_proxy, named};

/// Where policies are in force, labels decide too: these tools may be given anything, and can be relied on.
const TOOLS: &str = "[[tools]]\nname = \"server/*\"\neffect = \"none\"\ntrusted = true\nclearance = \"restricted\"\n";
const SET: &str = "@id(\"all\") permit(principal, action, resource);
@id(\"no-tunnels-home\") forbid(principal, action == Action::\"egress\", resource == Host::\"localhost\");
@id(\"sandboxes\") forbid(principal, action == Action::\"addAgent\", resource)
  when { context.input has sandbox && context.input.sandbox == \"none\" };
@id(\"no-keys\") forbid(principal, action == Action::\"useSecret\", resource == Secret::\"KEY\")
  when { !(context.input has host) };
";

/// The denials of an action in the audit log, the newest first.
fn denials(scene: &Scene, action: &str) -> Vec<Value> {
    let list = scene.machine.json(&["audit", "query", "--action", action, "--stage", "denied"]);
    list["entries"].as_array().expect("a list").clone()
}

/// An agent file with a program as its server of tools, which has that besides.
fn loose(scene: &Scene, key: &str, value: Value) -> String {
    let mut server = json!({ "command": [scene.python, scene.machine.folder().join("reaching.py")] });
    server[key] = value;
    let file = json!({
        "name": "loose",
        "description": "Reaches everything",
        "runtime": { "native": { "builtin": "tools" } },
        "tools": { "server": server },
        "contract": {
            "class": { "latency": "srt" },
            "capabilities": ["server/get"],
            "security": { "secrets": ["KEY"] },
        },
    });
    scene.machine.write("loose.yaml", &file.to_string()).display().to_string()
}

#[test]
fn a_policy_forbids_a_host_a_program_without_a_sandbox_and_a_secret_in_an_environment() {
    let Some(python) = interpreter().filter(|python| has_namespaces(python)) else { return };
    let origin = Origin::start();
    let scene = Scene::start(&python, &format!("{NETS}{TOOLS}"), |machine| machine.up_alone(&[]));
    scene.add("sandbox", named(&origin));
    let (status, _) = scene.tunnel("localhost", origin.port);
    assert_eq!(status, 200, "without policies its file decides");
    let set = scene.machine.write("set.cedar", SET).display().to_string();
    scene.machine.json(&["policy", "load", &set]);

    let (status, why) = scene.tunnel("localhost", origin.port);
    assert!(status == 403 && why.contains("no-tunnels-home"), "{status}: {why}");
    let (status, body) = scene.get(&by_proxy(&origin));
    assert_eq!((status, body.as_str()), (200, "heard: nothing\n"), "another host is not forbidden");
    assert_eq!(origin.lines(), ["GET /by-tunnel", "GET /by-proxy"]);
    assert!(scene.refused().contains("no-tunnels-home"), "{}", scene.refused());

    let refused = scene.machine.run(&["agent", "add", "--yes", &loose(&scene, "sandbox", json!("none"))]);
    assert!(refused.code == 5 && refused.stderr.contains("sandboxes"), "{refused:?}");
    let refused = scene.machine.run(&["agent", "add", "--yes", &loose(&scene, "env_secrets", json!({ "KEY": "KEY" }))]);
    assert!(refused.code != 0 && refused.stderr.contains("no-keys"), "{refused:?}");
    assert!(!scene.machine.finds("loose"), "neither was added");

    until(SOON, "each denial is in the audit log", || {
        ["egress", "addAgent", "useSecret"].iter().all(|action| !denials(&scene, action).is_empty())
    });
}
