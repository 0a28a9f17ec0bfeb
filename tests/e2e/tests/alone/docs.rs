//! Every command of the documentation, run as a reader would: in order, in a shell, on a machine of its own. Its exit code
//! and what it prints are as the comment beside it says (`exit 4`, `prints: TEXT`), or as `althing_e2e::documents` knows.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::path::{Path, PathBuf};
use std::process::Command;

use althing_e2e::documents::{Said, commands, is_for_the_reader};
use althing_e2e::world::World;
use althing_e2e::{COMMAND_MAX, Machine, Node, Running, binary, until};

/// The documents, in reading order.
const DOCUMENTS: [&str; 21] = [
    "README.md",
    "docs/a2a.md",
    "docs/getting-started.md",
    "docs/wot.md",
    "docs/agents.md",
    "docs/sessions.md",
    "docs/rollouts.md",
    "docs/governance.md",
    "docs/mcp.md",
    "docs/routing.md",
    "docs/traces.md",
    "docs/groups.md",
    "docs/workflows.md",
    "docs/publishing.md",
    "docs/contracts.md",
    "docs/keys.md",
    "docs/handoffs.md",
    "docs/private-networks.md",
    "docs/simulations.md",
    "docs/measuring.md",
    "docs/admission.md",
];

/// Asked at run time: checkouts may share a build.
fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"))
        .ancestors()
        .nth(2)
        .expect("tests/e2e lies two levels below the top")
        .to_owned()
}

/// The address in the documents that nobody has, so that a node which was given it is not wholly well.
const NOBODY: &str = "/ip4/192.0.2.7/tcp/7421";
/// A node looks for peers, and is dialled back, a little after it has started.
const WELL: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn the_documented_exit_code_is_the_one_beside_the_command() {
    for (comment, exit, prints) in [
        ("", 0, None),
        ("# by text, the best match first", 0, None),
        ("# exit 4: nobody has it here", 4, None),
        ("# x, exit 5; prints: no; really", 5, Some("no")),
        ("# prints: version 2", 0, Some("version 2")),
    ] {
        let line = format!("althing x   {comment}");
        assert_eq!(Said::read(&line), Said { command: "althing x", exit, prints }, "{comment}");
    }
}

struct Reader {
    machine: Machine,
    nodes: Vec<Node>,
    registries: Vec<Running>,
}

impl Reader {
    fn shell(&self, command: &str) -> Command {
        let mut shell = self.machine.command(Path::new("/bin/sh"));
        let path =
            format!("{}:{}", self.machine.folder().join("bin").display(), std::env::var("PATH").unwrap_or_default());
        shell.args(["-c", command]).env("PATH", path);
        shell
    }

    /// A node that is to run beside what follows.
    fn up(&mut self, command: &str) {
        let command = command.split('#').next().unwrap_or_default().replacen("althing", "exec althing --json", 1);
        let mut running = Running::start(&mut self.shell(&command));
        let Some(line) = running.line(althing_e2e::UP_MAX) else { panic!("{command}: {:?}", running.end(COMMAND_MAX)) };
        let said = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{command}: {error}: {line}"));
        self.nodes.push(Node { running, said, ready: std::time::Instant::now() });
    }

    /// A registry that is to run beside what follows.
    fn serve(&mut self, command: &str) {
        let mut running = Running::start(&mut self.shell(&format!("exec {command}")));
        // The last line that it prints when it is ready.
        while !running.line(althing_e2e::UP_MAX).expect("a registry starts").starts_with("entries") {}
        self.registries.push(running);
    }

    /// Runs a command: it ends, and prints, as is said of it.
    fn run(&self, line: &str) {
        let said = Said::read(line);
        let command = said.command;
        if command == "althing doctor" {
            return self.examine();
        }
        let outcome = Running::start(&mut self.shell(command)).end(COMMAND_MAX);
        assert_eq!(outcome.code, said.exit, "{command}: {outcome:?}");
        let printed = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(printed.trim().is_empty(), said.is_silent(), "{command}: {outcome:?}");
        if said.is_silent() {
            return;
        }
        let Some(told) = said.told() else { panic!("nothing is known of what this prints: {command}: {outcome:?}") };
        for text in told {
            assert!(printed.contains(text), "{command} does not print {text:?}: {outcome:?}");
        }
    }

    /// Each layer is well, but for the address that nobody has, of which `doctor` tells.
    fn examine(&self) {
        let mut told = String::new();
        until(WELL, "doctor finds fault with nothing but that address", || {
            let outcome = Running::start(&mut self.shell("althing doctor")).end(COMMAND_MAX);
            let wrong: Vec<&str> = outcome.stdout.lines().filter(|line| line.starts_with("WRONG")).collect();
            assert_eq!(outcome.code, i32::from(!wrong.is_empty()), "{outcome:?}");
            if outcome.stdout != told {
                println!("{}", outcome.stdout);
                told.clone_from(&outcome.stdout);
            }
            let is_told =
                |layer: &str| outcome.stdout.lines().any(|line| line.starts_with(&format!("ok    {layer}  ")));
            let is_that = |line: &&str| line.starts_with(&format!("WRONG L3  {NOBODY}, "));
            wrong.len() == 1 && wrong.iter().all(is_that) && ["L1", "L2", "L3"].into_iter().all(is_told)
        });
    }
}

/// The demo says what it shows, ends with 0, and leaves nothing running.
/// The demo waits for delay-tolerant work, which beside another busy program gets a twentieth of the machine.
const DEMO_MAX: std::time::Duration = std::time::Duration::from_secs(240);

#[test]
fn the_demo_shows_the_main_job_and_leaves_nothing_behind() {
    let _alone = crate::alone();
    let Some(mut world) = World::new(1, althing_e2e::world::Multicast::Carried) else { return };
    let machine = world.machines.remove(0);
    std::fs::create_dir(machine.folder().join("notes")).expect("a folder");
    machine.write("notes/boats.md", "# Boats\n\nThe keel of the Argo was cut from oaks of Dodona.\n");
    let folder = machine.folder().join("notes");
    let folder = folder.to_str().expect("a plain path");
    let arguments = ["demo", "--docs", folder, "--question", "Where does the keel of the Argo come from?"];
    let demo = Running::start(machine.command(&binary()).args(arguments).current_dir(root())).end(DEMO_MAX);
    assert_eq!(demo.code, 0, "{demo:?}");
    assert!(demo.stdout.contains("boats.md:3"), "the answer is cited: {}", demo.stdout);
    for shown in ["amount = 900", "it proves nothing", "schema refused", "went back before"] {
        assert!(demo.stdout.contains(shown), "{shown}: {}", demo.stdout);
    }
    assert_eq!(world.processes(0), "", "nothing is left running");
    let empty = machine.folder().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    let arguments = ["demo", "--docs", empty.to_str().expect("a plain path")];
    let failed = Running::start(machine.command(&binary()).args(arguments).current_dir(root())).end(DEMO_MAX);
    assert_ne!(failed.code, 0, "a step that fails fails the demo: {failed:?}");
    assert_eq!(world.processes(0), "", "nothing is left running");
}

#[test]
fn the_demo_adopts_what_is_made_in_python() {
    let _alone = crate::alone();
    let Some(python) = althing_e2e::python::python() else { return };
    let Some(mut world) = World::new(1, althing_e2e::world::Multicast::Carried) else { return };
    let machine = world.machines.remove(0);
    let folder = python.parent().expect("its folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").expect("a path"));
    let mut demo = machine.command(&binary());
    let demo = Running::start(demo.args(["demo", "faces"]).env("PATH", path).current_dir(root())).end(DEMO_MAX);
    assert_eq!(demo.code, 0, "{demo:?}");
    for made in ["The MCP server is one made in Python with mcp", "The A2A agent is one made in Python with a2a-sdk"] {
        assert!(demo.stdout.contains(made), "{made}: {}", demo.stdout);
    }
    assert_eq!(world.processes(0), "", "nothing is left running");
}

#[test]
fn every_command_of_the_documentation_does_what_it_says() {
    let _alone = crate::alone();
    let Some(mut world) = World::new(1, althing_e2e::world::Multicast::Carried) else { return };
    let machine = world.machines.remove(0);
    // What a reader has: a clone of the project, and its programs on the path.
    std::fs::create_dir(machine.folder().join("bin")).expect("a folder");
    std::os::unix::fs::symlink(binary(), machine.folder().join("bin/althing")).expect("a link");
    std::os::unix::fs::symlink(root().join("thing-descriptions"), machine.folder().join("thing-descriptions"))
        .expect("a link");
    for program in ["althing-sim", "althing-registry"] {
        let link = machine.folder().join("bin").join(program);
        std::os::unix::fs::symlink(binary().with_file_name(program), link).expect("a link");
    }
    std::os::unix::fs::symlink(root().join("simulations"), machine.folder().join("simulations")).expect("a link");
    std::os::unix::fs::symlink(root().join("docs"), machine.folder().join("docs")).expect("a link");
    std::os::unix::fs::symlink(root().join("examples"), machine.folder().join("examples")).expect("a link");
    machine.write("question.txt", "What is this?\n");
    let mut reader = Reader { machine, nodes: Vec::new(), registries: Vec::new() };
    let mut done = 0;
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root().join(document)).expect("a document");
        if document == "docs/agents.md" {
            // It begins anew with the agent that the first page left.
            reader.run("althing agent remove echo");
        }
        for command in commands(&text).iter().filter(|command| !is_for_the_reader(command)) {
            println!("{document}: {command}");
            let bare = command.split('#').next().unwrap_or_default().trim().to_owned();
            if bare.split(' ').any(|word| word == "up") {
                // The same node again, with other flags: a reader would have stopped it.
                let first = bare.starts_with("althing --name") || reader.nodes.is_empty();
                if !first {
                    let node = reader.nodes.remove(0);
                    node.running.signal(nix::sys::signal::Signal::SIGINT);
                    assert_eq!(node.running.end(COMMAND_MAX).code, 0, "Ctrl-C is how a node is stopped");
                }
                reader.up(&bare);
                if !first {
                    reader.nodes.rotate_right(1);
                }
            } else if bare.starts_with("althing-registry --") {
                reader.serve(&bare);
            } else {
                reader.run(command);
            }
            done += 1;
        }
    }
    assert!(done >= 15, "only {done} commands were found");
}
