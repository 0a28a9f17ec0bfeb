//! An agent that was removed is added again: what its programs reach more than before is shown, and somebody agrees to it first.

use std::path::PathBuf;

use althing_e2e::sandbox::{has_namespaces, interpreter};
use althing_e2e::{Machine, Node, Outcome};
use serde_json::{Value, json};

const PROGRAM: [(&str, &str); 2] = [
    ("rewriting.py", include_str!("../../python/rewriting.py")),
    ("plain_mcp.py", include_str!("../../python/plain_mcp.py")),
];

/// A node, and the file of an agent whose program lies beside it.
struct Scene {
    _node: Node,
    machine: Machine,
    python: PathBuf,
}

impl Scene {
    /// None, with the reason printed, where nothing contains programs.
    fn start() -> Option<Scene> {
        let python = interpreter().filter(|python| has_namespaces(python))?;
        let machine = Machine::new();
        PROGRAM.iter().for_each(|(name, text)| drop(machine.write(name, text)));
        Some(Scene { _node: machine.up_alone(&[]), machine, python })
    }

    /// Adds the agent with this sandbox and this variable, as that command line says.
    fn add(&self, sandbox: &Value, mode: &str, options: &[&str]) -> Outcome {
        let server = json!({ "command": [self.python, "rewriting.py"], "env": { "MODE": mode }, "sandbox": sandbox });
        let file = json!({
            "name": "scribe",
            "description": "Writes",
            "runtime": { "native": { "builtin": "tools" } },
            "tools": { "server": server },
            "contract": { "class": { "latency": "srt" }, "capabilities": ["server/rewrite"] },
        });
        let path = self.machine.write("scribe.yaml", &file.to_string()).display().to_string();
        self.machine.run(&[&["agent", "add"], options, &[path.as_str()]].concat())
    }

    fn remove(&self) {
        self.machine.json(&["agent", "remove", "scribe"]);
    }

    fn agents(&self) -> usize {
        self.machine.json(&["agent", "list"])["agents"].as_array().map_or(0, Vec::len)
    }
}

#[test]
fn a_program_changes_no_file_of_an_agent_although_it_writes_the_folder() {
    let Some(scene) = Scene::start() else { return };
    let added = scene.add(&json!({}), "quiet", &[]);
    assert_eq!(added.code, 0, "{added:?}");
    let file = scene.machine.folder().join("scribe.yaml");
    let before = std::fs::read_to_string(&file).expect("it is there");
    let call = json!({ "tool": "rewrite", "arguments": { "path": "scribe.yaml" } }).to_string();
    let called = scene.machine.run(&["call", "scribe", &call]);
    assert!(called.code == 0 && called.stdout.contains("append"), "{called:?}");
    assert!(!called.stdout.contains("done"), "{called:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), before);
    assert!(scene.machine.folder().join("beside").exists(), "what else lies there it writes");
}

#[test]
fn who_adds_an_agent_again_with_a_wider_sandbox_is_asked() {
    let Some(scene) = Scene::start() else { return };
    let narrow = json!({ "egress": ["a.example"] });
    let first = scene.add(&narrow, "quiet", &[]);
    assert!(first.code == 0 && !first.stdout.contains("changed"), "{first:?}");
    scene.remove();
    let same = scene.add(&narrow, "quiet", &[]);
    assert!(same.code == 0 && !same.stdout.contains("changed"), "{same:?}");
    scene.remove();

    // What is no wider is shown, without its value, and added.
    let other = scene.add(&narrow, "loud-and-secret", &[]);
    assert!(other.code == 0 && other.stdout.contains("changed  tools.server: env MODE"), "{other:?}");
    assert!(!other.stdout.contains("loud-and-secret"), "{other:?}");
    scene.remove();

    // Where nobody can be asked, what is wider takes the option that it names.
    let wide = json!({ "egress": ["a.example", "b.example"] });
    for (sandbox, shown) in
        [(&wide, "is   a.example, b.example"), (&json!("none"), "is   none: it reaches whatever your account does")]
    {
        let refused = scene.add(sandbox, "loud-and-secret", &[]);
        assert_eq!(refused.code, 5, "{refused:?}");
        for part in ["scribe would reach more", "wider    tools.server: sandbox", shown, "--yes"] {
            assert!(refused.stderr.contains(part), "{part}: {refused:?}");
        }
    }
    let scripted = scene.add(&wide, "loud-and-secret", &["--json"]);
    let error: Value = serde_json::from_str(&scripted.stderr).expect("JSON");
    let offer = &error["error"]["offer"];
    assert!(scripted.code == 5 && offer["wider"] == true, "{error}");
    assert_eq!(offer["changes"][0]["new"], "a.example, b.example", "{error}");
    assert_eq!(scene.agents(), 0, "nothing was added");

    let agreed = scene.add(&wide, "loud-and-secret", &["--yes"]);
    assert!(agreed.code == 0 && agreed.stdout.contains("wider    tools.server: sandbox egress"), "{agreed:?}");
    // It was agreed to: the next time nobody is asked.
    scene.remove();
    let again = scene.add(&wide, "loud-and-secret", &[]);
    assert!(again.code == 0 && !again.stdout.contains("wider"), "{again:?}");
}
