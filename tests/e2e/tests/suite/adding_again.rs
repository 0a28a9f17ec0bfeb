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

    /// What the agent is told of its attempt to rename a folder, which is not renamed, while what else lies there is written.
    fn keeps(&self, folder: &str, expected: &str) {
        let call = json!({ "tool": "rename", "arguments": { "path": folder } }).to_string();
        let called = self.machine.run(&["call", "scribe", &call]);
        assert!(called.code == 0 && called.stdout.contains(expected), "{folder}: {called:?}");
        assert!(called.stdout.contains("done"), "it writes there: {called:?}");
        assert!(!self.machine.folder().join(format!("{folder}-before")).exists(), "{called:?}");
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
fn a_program_renames_no_folder_above_a_file_of_an_agent() {
    let Some(scene) = Scene::start() else { return };
    let folder = scene.machine.folder().to_owned();
    let within = |name: &str, text: &str| {
        std::fs::create_dir_all(folder.join(name).parent().expect("a folder")).expect("a folder");
        std::fs::write(folder.join(name), text).expect("written");
        folder.join(name).display().to_string()
    };
    PROGRAM.iter().for_each(|(name, text)| drop(within(&format!("own/{name}"), text)));
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": ["server/rename"] });
    within("own/contracts/deep/c.yaml", &contract.to_string());
    // Its folder lies in one that it may write too.
    let program = folder.join("own/rewriting.py");
    let server = json!({ "command": [scene.python, program], "cwd": folder, "sandbox": { "write": [folder] } });
    let file = json!({
        "name": "scribe",
        "description": "Writes",
        "runtime": { "native": { "builtin": "tools" } },
        "tools": { "server": server },
        "contract": "contracts/deep/c.yaml",
    });
    let path = within("own/scribe.yaml", &file.to_string());
    let added = scene.machine.run(&["agent", "add", &path]);
    assert_eq!(added.code, 0, "{added:?}");
    for above in ["own/contracts/deep", "own/contracts", "own"] {
        scene.keeps(above, "busy");
        assert!(folder.join(above).join("new").exists(), "{above}");
    }
    let kept = std::fs::read_to_string(folder.join("own/contracts/deep/c.yaml")).expect("it is there");
    assert_eq!(kept, contract.to_string());
}

#[test]
fn an_agent_without_a_sandbox_is_asked_about_whatever_its_name_and_however_it_is_started() {
    let Some(scene) = Scene::start() else { return };
    let server = json!({ "command": [scene.python, "rewriting.py"], "sandbox": "none" });
    let named = |name: &str| {
        let file = json!({
            "name": name,
            "description": "Writes",
            "runtime": { "native": { "builtin": "tools" } },
            "tools": { "server": server },
            "contract": { "class": { "latency": "srt" }, "capabilities": ["server/rewrite"] },
        });
        scene.machine.write("scribe.yaml", &file.to_string()).display().to_string()
    };
    let first = scene.add(&json!({}), "quiet", &[]);
    assert_eq!(first.code, 0, "{first:?}");
    scene.remove();
    for name in ["scribe", "scribe2"] {
        let path = named(name);
        for command in [&["agent", "add"][..], &["run"]] {
            let refused = scene.machine.run(&[command, &[path.as_str()]].concat());
            assert_eq!(refused.code, 5, "{name} {command:?}: {refused:?}");
            for part in ["would reach more", "wider    tools.server: sandbox", "--yes"] {
                assert!(refused.stderr.contains(part), "{part}: {refused:?}");
            }
        }
    }
    assert_eq!(scene.agents(), 0, "nothing was added");
    let agreed = scene.machine.run(&["agent", "add", "--yes", &named("scribe2")]);
    assert_eq!(agreed.code, 0, "{agreed:?}");
    scene.machine.json(&["agent", "remove", "scribe2"]);
    let again = scene.machine.run(&["agent", "add", &named("scribe2")]);
    assert_eq!(again.code, 0, "it was agreed to for that name and that file: {again:?}");
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
