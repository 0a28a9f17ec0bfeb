//! A program takes all that it can get, of processes and of a disk: others go on, and what it took is free again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_e2e::disk::Disk;
use althing_e2e::http::{ask, says};
use althing_e2e::sandbox::{has_namespaces, interpreter};
use althing_e2e::{Machine, Node, cast, runs, until};
use althing_testing::{remedy, skip};
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;
use serde_json::{Value, json};

const PROGRAM: [(&str, &str); 2] = [
    ("overdoing.py", include_str!("../../python/overdoing.py")),
    ("plain_mcp.py", include_str!("../../python/plain_mcp.py")),
];
/// Python programs start slowly on a busy machine, and many processes take long to end there.
const SOON: Duration = Duration::from_secs(60);
/// What a program may have of processes and threads (docs/agents.md).
const PROCESSES_MAX: usize = 512;
/// Of these its keeper has a few.
const NEAR: usize = PROCESSES_MAX - 8;
/// How often it is looked, once it has all that it may.
const LOOKS: usize = 20;
/// Memory that is left to others where a program fills its temporary folder, which is in memory: 512 MiB (docs/agents.md), KiB.
const MEMORY_KIB_MIN: u64 = 2 << 20;
/// What the node itself may write meanwhile, bytes.
const OF_NODE: u64 = 16 << 20;

/// A node with the program as the server of tools of the agent `greedy`, and a neighbour without a program.
struct Scene<'a> {
    machine: &'a Machine,
    node: Node,
    /// A word on the command lines of the program's processes, and of no others.
    mark: String,
}

impl<'a> Scene<'a> {
    /// The agent's file lies in that folder.
    fn start(machine: &'a Machine, python: &Path, folder: &Path) -> Scene<'a> {
        let node = machine.up_alone(&[]);
        std::fs::create_dir_all(folder).expect("a folder");
        for (name, text) in PROGRAM {
            std::fs::write(folder.join(name), text).expect("it takes files");
        }
        let mark = format!("{}-greedy", machine.home().file_name().expect("a name").to_string_lossy());
        let file = json!({
            "name": "greedy",
            "description": "Takes all that it can get",
            "runtime": { "native": { "builtin": "tools" } },
            "tools": { "server": { "command": [python, folder.join("overdoing.py"), mark] } },
            "contract": { "class": { "latency": "srt" }, "capabilities": ["server/bomb", "server/fill", "server/fill_temporary"] },
        });
        let path = folder.join("greedy.yaml");
        std::fs::write(&path, file.to_string()).expect("it takes files");
        let scene = Scene { machine, node, mark };
        let added = machine.run(&["agent".as_ref(), "add".as_ref(), path.as_os_str()]);
        assert_eq!(added.code, 0, "{added:?}");
        machine.add("neighbour", &cast::echo("neighbour", "anyone"));
        scene
    }

    /// Calls a tool of the program, which answers at once.
    fn asks(&self, tool: &str, answer: &str) {
        let call = json!({ "tool": tool, "arguments": {} }).to_string();
        let said = ask(&self.node.gateway(), "greedy", "SendMessage", &says(&call));
        let told = &said["task"]["artifacts"][0]["parts"][0]["text"];
        assert_eq!(told, &Value::from(json!(answer).to_string()), "{said}");
    }

    fn neighbour_answers(&self) {
        let said = ask(&self.node.gateway(), "neighbour", "SendMessage", &says("still here"));
        assert!(said.to_string().contains("still here"), "{said}");
    }

    /// The program's processes.
    fn processes(&self) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").expect("/proc");
        let all = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_its_own = |pid: &u32| {
            // It may be gone already.
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == self.mark.as_bytes()) && runs(*pid)
        };
        all.filter(is_its_own).collect()
    }

    /// What nothing bounds of what its program takes, as `ps` says it; none where all is bounded.
    fn unbounded(&self) -> Option<String> {
        let agents = self.machine.json(&["ps"])["agents"].clone();
        let greedy = agents.as_array().into_iter().flatten().find(|agent| agent["name"] == "greedy");
        let how = greedy.unwrap_or_else(|| panic!("{agents}"))["containment"][0]["how"].as_str().map(str::to_owned);
        how.filter(|how| how.contains("number of its processes"))
    }

    /// What `doctor` finds to be wrong.
    fn wrong(&self) -> Vec<String> {
        let told = self.machine.run(&["--json", "doctor"]);
        let report: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told:?}"));
        let findings = report["findings"].as_array().expect("findings").iter();
        let wrong = findings.filter(|finding| finding["fine"] == false);
        wrong.map(|finding| format!("{}: {}", finding["layer"], finding["what"])).collect()
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        for pid in self.processes() {
            // It may be gone already.
            let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL);
        }
    }
}

#[test]
fn a_program_that_forks_without_end_meets_its_bound_and_others_go_on() {
    let Some(python) = interpreter() else { return };
    let machine = Machine::new();
    let folder: PathBuf = machine.folder().join("greedy");
    let scene = Scene::start(&machine, &python, &folder);
    if let Some(how) = scene.unbounded() {
        return skip(&format!("nothing bounds how many processes a program has: {how}"), remedy::ROOT);
    }
    scene.asks("bomb", "it goes off");
    let mut most = 0;
    let mut count = || {
        let count = scene.processes().len();
        assert!(count <= PROCESSES_MAX, "{count}");
        most = most.max(count);
        count
    };
    until(SOON, "it has all that it may", || count() >= NEAR);
    for _ in 0..LOOKS {
        count();
        scene.neighbour_answers();
    }
    println!("it had {most} processes");
    assert_eq!(scene.machine.run(&["agent", "remove", "greedy"]).code, 0);
    until(SOON, "all of them are gone", || scene.processes().is_empty());
    scene.neighbour_answers();
}

#[test]
fn a_program_that_fills_the_disk_of_its_node_is_noticed_and_all_goes_on_once_there_is_room() {
    let Some(python) = interpreter() else { return };
    let machine = Machine::new();
    let disk = machine.home().join("data");
    let Some(_disk) = Disk::mount(&disk) else { return };
    let folder = disk.join("greedy");
    let scene = Scene::start(&machine, &python, &folder);
    assert_eq!(scene.wrong(), [""; 0]);
    scene.neighbour_answers();
    scene.asks("fill", "it begins");
    until(SOON, "it is full", || scene.wrong().iter().any(|wrong| wrong.contains("disk of the data directory")));
    let refused = machine.run(&["call", "neighbour", "while it is full"]);
    assert!(refused.code == 1 && refused.stderr.contains("disk is full"), "{refused:?}");
    // What cannot be recorded is not done either.
    let is_of_disk = |wrong: &str| wrong.starts_with("\"L7\": \"nothing can be recorded") && wrong.contains("is full");
    let wrong = scene.wrong();
    assert!(wrong.iter().all(|wrong| wrong.starts_with("\"L1\"") || is_of_disk(wrong)), "{wrong:?}");
    // What needs no room goes on: it says who runs, and takes the program away, which would write on.
    assert_eq!(machine.run(&["status"]).code, 0);
    let agents = machine.json(&["ps"])["agents"].clone();
    assert!(agents.as_array().is_some_and(|agents| agents.iter().all(|agent| agent["state"] == "ready")), "{agents}");
    assert_eq!(machine.run(&["agent", "remove", "greedy"]).code, 0);
    until(SOON, "it is gone", || scene.processes().is_empty());
    std::fs::remove_file(folder.join("fill")).expect("it is there");
    until(SOON, "there is room again", || scene.wrong().is_empty());
    scene.neighbour_answers();
}

/// Whether so much memory is free that a program may take some; if not, the reason is printed.
fn has_memory() -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").expect("the kernel has it");
    let free = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let free: u64 = free.and_then(|free| free.parse().ok()).expect("a number of KiB");
    if free < MEMORY_KIB_MIN {
        skip(&format!("{free} KiB of memory are free"), remedy::MEMORY);
    }
    free >= MEMORY_KIB_MIN
}

#[test]
fn a_program_that_fills_its_temporary_folder_takes_nothing_of_the_disk_of_its_node() {
    let Some(python) = interpreter().filter(|python| has_namespaces(python)) else { return };
    let machine = Machine::new();
    let disk = machine.home().join("data");
    let Some(_disk) = Disk::mount(&disk) else { return };
    if !has_memory() {
        return;
    }
    let scene = Scene::start(&machine, &python, &machine.folder().join("greedy"));
    let free = || {
        let found = statvfs(&disk).expect("it is mounted");
        found.blocks_available() * found.fragment_size()
    };
    let before = free();
    scene.asks("fill_temporary", "512 MiB, then ENOSPC");
    let after = free();
    assert!(before.abs_diff(after) < OF_NODE, "{before} and {after} bytes are free");
    assert_eq!(scene.wrong(), [""; 0]);
    scene.neighbour_answers();
    assert_eq!(scene.machine.run(&["agent", "remove", "greedy"]).code, 0);
    until(SOON, "it is gone", || scene.processes().is_empty());
}
