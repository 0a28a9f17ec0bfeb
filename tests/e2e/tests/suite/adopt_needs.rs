//! What a stock server needs to start is found out once, when it is adopted, and granted where somebody agrees.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_e2e::sandbox::{has_namespaces, interpreter};
use althing_e2e::{COMMAND_MAX, Machine, Node, Outcome, Running, binary, until};
use althing_testing::{remedy, skip};
use serde_json::{Value, json};

const PROGRAM: [(&str, &str); 2] = [
    ("needing.py", include_str!("../../python/needing.py")),
    ("plain_mcp.py", include_str!("../../python/plain_mcp.py")),
];
/// Python programs start slowly on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Runs its arguments at a terminal, where somebody types what comes by its input.
const TERMINAL: &str = "import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
/// What the program needs, in the order in which one lack hides the next.
const ROUNDS: [&str; 2] =
    ["sandbox: { read: [~/.cache/huggingface/hub/needing] }", "sandbox: { read: [~/maps/north.map] }"];

/// A node, and a server that needs data of a cache, and a map that its command line names. Both lie in the home of the account, and
/// so does what it writes, which is offered to nobody.
struct Scene {
    node: Option<Node>,
    machine: Machine,
    python: PathBuf,
    /// The option that names the map.
    map: String,
}

impl Scene {
    /// None, with the reason printed, where nothing contains programs, or nobody hears what they are refused.
    fn start() -> Option<Scene> {
        let python = interpreter().filter(|python| has_namespaces(python))?;
        let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
        if !actions.split_whitespace().any(|action| action == "user_notif") {
            skip("this kernel does not tell of calls", remedy::KERNEL);
            return None;
        }
        let machine = Machine::new();
        PROGRAM.iter().for_each(|(name, text)| drop(machine.write(name, text)));
        for (name, text) in
            [(".cache/huggingface/hub/needing/index", "one two"), ("notes/log", ""), ("maps/north.map", "pole")]
        {
            let path = machine.home().join(name);
            std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let settings = json!({ "cache": "~/.cache/huggingface/hub/needing" });
        machine.write("settings.json", &settings.to_string());
        let map = format!("--map={}", shown(&machine.home().join("maps/north.map")));
        let node = Some(machine.up_alone(&[]));
        Some(Scene { node, machine, python, map })
    }

    fn words<'a>(&'a self, options: &[&'a str]) -> Vec<&'a str> {
        [&["adopt", "--as", "guide"], options, &[self.python.to_str().expect("UTF-8"), "needing.py", &self.map]]
            .concat()
    }

    fn adopt(&self, options: &[&str]) -> Outcome {
        self.machine.run(&self.words(options))
    }

    /// The same by somebody at a terminal who types these lines.
    fn adopt_typing(&self, lines: &str) -> Outcome {
        let typed = File::open(self.machine.write("typed", lines)).expect("it was written");
        let mut command = self.machine.command(&self.python);
        command.args(["-c", TERMINAL]).arg(binary()).arg("--data").arg(self.machine.data());
        Running::start(command.args(self.words(&[])).stdin(typed)).end(COMMAND_MAX)
    }

    fn agents(&self) -> usize {
        self.machine.json(&["agent", "list"])["agents"].as_array().map_or(0, Vec::len)
    }

    fn answers(&self) {
        let called = self.machine.run(&["call", "guide", r#"{"tool": "places"}"#]);
        assert!(called.code == 0 && called.stdout.contains("pole") && called.stdout.contains("two"), "{called:?}");
    }
}

/// What the agent file grants in the end.
fn agreed() -> Value {
    json!({ "folder": "read", "read": ["~/.cache/huggingface/hub/needing", "~/maps/north.map"] })
}

#[test]
fn what_nobody_agrees_to_is_not_granted_and_the_command_that_grants_it_is_told() {
    let Some(scene) = Scene::start() else { return };
    let refused = scene.adopt(&["--callers", "own"]);
    let python = scene.python.display();
    let flags = format!("--data {}", scene.machine.data().display());
    let command = format!(
        "althing {flags} adopt --as guide --callers own --read ~/.cache/huggingface/hub/needing -- {python} needing.py {}",
        scene.map
    );
    assert_eq!(refused.code, 5, "{refused:?}");
    for part in [ROUNDS[0], command.as_str(), "it cannot do without", "--grant-needs"] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    let looked = scene.adopt(&["--dry-run"]);
    assert!(looked.code == 5 && looked.stderr.contains(ROUNDS[0]), "{looked:?}");
    let declined = scene.adopt(&["--yes"]);
    assert!(declined.code == 1 && declined.stderr.contains("does not answer as an MCP server"), "{declined:?}");
    assert!(declined.stderr.contains(&format!("its file would grant it by {}", ROUNDS[0])), "{declined:?}");
    let typed = scene.adopt_typing("n\n");
    assert!(typed.code == 5 && typed.stdout.contains("grant it? [y/N]"), "{typed:?}");

    // A script is told the same.
    let scripted = scene.machine.run(&[&["--json"], scene.words(&[]).as_slice()].concat());
    let error: Value = serde_json::from_str(&scripted.stderr).expect("JSON");
    let offered = &error["error"]["offer"]["needs"];
    assert_eq!(
        (scripted.code, &offered["sandbox"]["read"]),
        (5, &json!(["~/.cache/huggingface/hub/needing"])),
        "{error}"
    );
    assert_eq!(offered["block"], ROUNDS[0], "{error}");
    assert_eq!(scene.agents(), 0);
}

#[test]
fn what_is_agreed_to_stands_in_the_file_and_is_not_asked_for_again() {
    let Some(mut scene) = Scene::start() else { return };
    let words = [&["--json"], scene.words(&["--grant-needs"]).as_slice()].concat();
    let adopted = scene.machine.run(&words);
    assert_eq!(adopted.code, 0, "{adopted:?}");
    let adopted: Value = serde_json::from_str(&adopted.stdout).expect("JSON");
    assert_eq!(adopted["granted"], json!(ROUNDS), "{adopted}");
    assert_eq!(adopted["file"]["tools"]["server"]["sandbox"], agreed(), "{adopted}");
    scene.answers();

    drop(scene.node.take());
    scene.node = Some(scene.machine.up_alone(&[]));
    until(SOON, "it runs again", || scene.machine.json(&["ps"])["agents"][0]["state"] == "ready");
    scene.answers();
    let program = scene.machine.json(&["ps"])["agents"][0]["containment"][0].clone();
    assert_eq!((&program["refused"], &program["needs"]), (&json!([]), &Value::Null), "{program}");

    // More is granted later, after a look at it.
    let (extra, guide) = (scene.machine.write("../extra", "x"), "guide");
    let extra = extra.canonicalize().expect("it is there").display().to_string();
    let offer = scene.machine.run(&["adopt", "--accept", guide, "--read", &extra]);
    assert!(offer.code == 5 && offer.stderr.contains(&extra), "{offer:?}");
    let how = offer.stderr.split('`').find_map(|word| word.strip_prefix("althing adopt ")).expect("how").to_owned();
    assert!(how.ends_with(&format!(" --read {extra}")), "{how}");
    let words: Vec<&str> = ["adopt"].into_iter().chain(how.split(' ')).collect();
    let accepted = scene.machine.json(&words);
    let read = accepted["file"]["tools"]["server"]["sandbox"]["read"].clone();
    assert_eq!(read, json!(["~/.cache/huggingface/hub/needing", "~/maps/north.map", extra]), "{accepted}");
    until(SOON, "it answers with that", || scene.machine.json(&["ps"])["agents"][0]["state"] == "ready");
    scene.answers();
}

#[test]
fn whoever_sits_at_a_terminal_is_asked_for_each_and_is_shown_the_folder() {
    let Some(scene) = Scene::start() else { return };
    let adopted = scene.adopt_typing("y\ny\n");
    assert_eq!(adopted.code, 0, "{adopted:?}");
    for part in ROUNDS {
        assert!(adopted.stdout.contains(&format!("file     {part}")), "{part}: {adopted:?}");
        assert!(adopted.stdout.contains(&format!("granted  {part}")), "{part}: {adopted:?}");
    }
    scene.answers();
    let folder = shown(scene.machine.folder());
    assert!(adopted.stdout.contains(&format!("reads {folder}, the folder of its file")), "{adopted:?}");
    // Where it has all that it needs, nothing is asked.
    scene.machine.json(&["agent", "remove", "guide"]);
    let data = ["--read", "~/.cache/huggingface/hub/needing"];
    let adopted = scene.adopt(&[&["--read", "~/maps/north.map"], &data[..], &["--write", "."]].concat());
    assert!(adopted.code == 0 && !adopted.stdout.contains("needs "), "{adopted:?}");
    assert!(adopted.stdout.contains(&format!("writes {folder}")), "{adopted:?}");
}

#[test]
fn what_a_program_writes_is_shown_and_never_offered_nor_is_what_lies_beside_a_credential() {
    let Some(scene) = Scene::start() else { return };
    let log = scene.machine.home().join("notes/log");
    let note = format!("--note={}", shown(&log));
    let words = [scene.words(&["--grant-needs"]).as_slice(), &[note.as_str()]].concat();
    let adopted = scene.machine.run(&words);
    assert_eq!(adopted.code, 0, "{adopted:?}");
    let refused = format!("refused  write {} (not offered", shown(&log));
    assert!(adopted.stdout.contains(&refused) && adopted.stdout.contains("--write PATH"), "{adopted:?}");
    let file = scene.machine.json(&["ps"])["agents"][0]["containment"][0].clone();
    assert_eq!(file["needs"], Value::Null, "{file}");
    assert_eq!(std::fs::read_to_string(&log).expect("it is there"), "", "it wrote nothing");
    scene.answers();

    // A token beside the data: all of that is shown, and nothing of it offered.
    scene.machine.json(&["agent", "remove", "guide"]);
    std::fs::write(scene.machine.home().join(".cache/huggingface/hub/needing/token"), "hush").expect("a file");
    let refused = scene.adopt(&["--grant-needs"]);
    assert!(refused.code == 1 && refused.stderr.contains("named as keys and logins are"), "{refused:?}");
    assert!(!refused.stderr.contains("tried with"), "{refused:?}");
}

fn shown(folder: &Path) -> String {
    folder.display().to_string()
}
