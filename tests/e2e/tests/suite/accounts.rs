//! Programs that have accounts of their own, on a machine that contains them by nothing else.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use althing_e2e::http::{ask, says};
use althing_e2e::sandbox::{everybodys_interpreter, gives_accounts};
use althing_e2e::{Machine, Node};
use serde_json::{Value, json};

/// A server of one tool, which is named by its argument: `keep` writes a note that its account alone may read, `look` reads one.
const NOTES: &str = r#"import os, sys
import plain_mcp


def call(name, arguments):
    told = {"account": os.getuid(), "path": os.path.join(os.environ["TMPDIR"], "note")}
    try:
        if name == "look":
            with open(arguments["path"]) as note:
                return {**told, "text": note.read()}
        with open(os.open(told["path"], os.O_WRONLY | os.O_CREAT, 0o600), "w") as note:
            note.write("mine alone")
        return told
    except OSError as error:
        return {**told, "error": type(error).__name__}


schema = {"type": "object", "properties": {"path": {"type": "string"}}}
plain_mcp.serve("notes", [{"name": sys.argv[1], "description": "Notes.", "inputSchema": schema}], call)
"#;

/// What a tool of the agent `notes` answers.
fn told(node: &Node, tool: &str, arguments: &Value) -> Value {
    let call = json!({ "tool": tool, "arguments": arguments }).to_string();
    let said = ask(&node.gateway(), "notes", "SendMessage", &says(&call));
    let text = said["task"]["artifacts"][0]["parts"][0]["text"].as_str();
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| panic!("{tool}: {said}"))
}

#[test]
fn two_servers_of_one_agents_tools_read_nothing_of_each_other() {
    let Some(python) = everybodys_interpreter() else { return };
    if !gives_accounts(&python) {
        return;
    }
    let machine = Machine::new();
    let folder = machine.folder().join("agents/notes");
    fs::create_dir_all(&folder).expect("a new folder");
    for (name, text) in [("notes.py", NOTES), ("plain_mcp.py", include_str!("../../python/plain_mcp.py"))] {
        fs::write(folder.join(name), text).expect("it takes files");
    }
    // Every account may go to where agents are, and to nothing of the node's.
    for (name, mode) in [("", 0o711), ("config/althing", 0o700)] {
        fs::set_permissions(machine.home().join(name), Permissions::from_mode(mode)).expect("it is ours");
    }
    let node = machine.up_bare(&python);
    let server = |tool: &str| json!({ "command": [python, folder.join("notes.py"), tool] });
    let file = json!({
        "name": "notes",
        "description": "Keeps notes, and looks at them",
        "runtime": { "native": { "builtin": "tools" } },
        "tools": { "one": server("keep"), "other": server("look") },
        "contract": { "class": { "latency": "srt" }, "capabilities": ["one/keep", "other/look"] },
    });
    machine.add("agents/notes/notes", &file.to_string());
    let kept = told(&node, "keep", &json!({}));
    assert_eq!(kept["error"], Value::Null, "{kept}");
    let looked = told(&node, "look", &json!({ "path": kept["path"] }));
    assert_eq!(looked["error"], "PermissionError", "{looked}");
    assert_ne!(looked["account"], kept["account"], "each has an account of its own");
}
