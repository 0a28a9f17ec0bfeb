//! A group of real processes, each on a machine of its own, under real faults: nothing that was acknowledged is lost, and
//! the group serves again when the fault is over; and what clients saw of values and of tasks has an order.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use althing_e2e::disk::Disk;
use althing_e2e::history::History;
use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Node, Running, text, until};
use nix::sys::signal::Signal;

const SOON: Duration = Duration::from_secs(60);
/// Members of the group that the clients use.
const COUNT: usize = 5;
/// How long each fault lasts.
const FAULT: Duration = Duration::from_secs(3);

/// An agent that does the tasks of the group.
const ECHO: &str = "name: echo\ndescription: Says what it is told\nruntime: { native: { builtin: echo } }\ncontract: { class: { latency: srt } }\ncallers: anyone\n";

struct Team<'a> {
    world: &'a World,
    nodes: Vec<Option<Node>>,
}

impl Team<'_> {
    fn form(world: &World) -> Team<'_> {
        let nodes: Vec<Option<Node>> = world.machines.iter().map(|machine| Some(machine.up(&[]))).collect();
        world.machines[0].json(&["group", "create", "team"]);
        for (at, node) in nodes.iter().enumerate().skip(1) {
            let did = node.as_ref().expect("it runs").did();
            let ticket = text(&world.machines[0].json(&["group", "invite", "team", &did])["ticket"]);
            world.machines[at].json(&["group", "join", &ticket]);
        }
        let team = Team { world, nodes };
        until(SOON, "all vote", || team.world.machines.iter().all(|machine| role(machine) != "learner"));
        team
    }

    fn leader(&self) -> usize {
        let mut found = None;
        until(SOON, "somebody leads", || {
            let leads = |at: &usize| self.nodes[*at].is_some() && role(&self.world.machines[*at]) == "leader";
            found = (0..self.nodes.len()).find(leads);
            found.is_some()
        });
        found.expect("it was there")
    }

    fn signal(&self, at: usize, signal: Signal) {
        self.nodes[at].as_ref().expect("it runs").running.signal(signal);
    }

    fn kill(&mut self, at: usize) {
        self.nodes[at].take().expect("it runs").running.kill();
    }

    fn restart(&mut self, at: usize) {
        self.nodes[at] = Some(self.world.machines[at].up(&[]));
    }

    /// After how long each member has written again.
    fn serves(&self, after: &str) {
        let begun = Instant::now();
        for (at, machine) in self.world.machines.iter().enumerate() {
            until(SOON, "the group serves", || {
                machine.run(&["group", "set", "team", &format!("serves-{at}"), after]).code == 0
            });
        }
        println!("after {after}: each member has written again after {:?}", begun.elapsed());
    }
}

fn role(machine: &Machine) -> String {
    let said = machine.run(&["--json", "group", "status", "team"]);
    let status: serde_json::Value = serde_json::from_str(&said.stdout).unwrap_or_default();
    status["role"].as_str().unwrap_or("learner").to_owned()
}

/// What the clients did.
#[derive(Default)]
struct Counts {
    /// The keys whose writes were acknowledged.
    written: Mutex<Vec<String>>,
    /// Increments of the counter that were acknowledged, and those of which nobody said what became of them.
    counted: AtomicU64,
    unknown: AtomicU64,
    over: AtomicBool,
}

/// Writes keys of its own through one member after the other.
fn write(machines: &[Machine], client: usize, history: &Counts) {
    for number in 0.. {
        if history.over.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("key-{client}-{number}");
        let machine = &machines[(client + number) % COUNT];
        if machine.run(&["group", "set", "team", &key, &key]).code == 0 {
            history.written.lock().expect("no panic").push(key);
        }
    }
}

/// Counts up, each step only if nobody else counted since it read.
fn count(machines: &[Machine], client: usize, history: &Counts) {
    for number in 0.. {
        if history.over.load(Ordering::Relaxed) {
            return;
        }
        let machine = &machines[(client + number) % COUNT];
        let read = machine.run(&["--json", "group", "get", "team", "counter"]);
        let Ok(read) = serde_json::from_str::<serde_json::Value>(&read.stdout) else { continue };
        let (Some(value), Some(version)) = (read["value"].as_str(), read["version"].as_u64()) else { continue };
        let next = (value.parse::<u64>().expect("a number") + 1).to_string();
        let set = machine.run(&["group", "set", "team", "counter", &next, "--if-version", &version.to_string()]);
        match set.code {
            0 => history.counted.fetch_add(1, Ordering::Relaxed),
            // Another version: it was not counted.
            5 => 0,
            _ => history.unknown.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// The faults, one after the other; the group serves again after each.
fn faults(team: &mut Team<'_>) {
    let leader = team.leader();
    team.kill(leader);
    std::thread::sleep(FAULT);
    team.restart(leader);
    team.serves("the leader was killed");
    let leader = team.leader();
    team.signal(leader, Signal::SIGSTOP);
    std::thread::sleep(FAULT);
    team.signal(leader, Signal::SIGCONT);
    team.serves("the leader was stopped");
    let leader = team.leader();
    team.world.cut(leader);
    std::thread::sleep(FAULT);
    team.world.restore(leader);
    team.serves("the leader was cut off");
    let leader = team.leader();
    for other in (0..COUNT).filter(|other| *other != leader) {
        team.world.deafen(leader, other);
    }
    std::thread::sleep(FAULT);
    team.world.mend(leader);
    team.serves("the leader heard nobody");
    let leader = team.leader();
    let other = (leader + 1) % COUNT;
    team.world.deafen(leader, other);
    team.world.deafen(other, leader);
    std::thread::sleep(FAULT);
    team.world.mend(leader);
    team.world.mend(other);
    team.serves("two of them did not hear each other");
    (0..COUNT).for_each(|at| team.world.lose(at, 0.5));
    std::thread::sleep(FAULT);
    (0..COUNT).for_each(|at| team.world.mend(at));
    team.serves("half of all packets were lost");
    (0..COUNT).for_each(|at| team.kill(at));
    (0..COUNT).for_each(|at| team.restart(at));
    team.serves("all were killed");
}

#[test]
fn nothing_acknowledged_is_lost_and_the_group_serves_after_each_fault() {
    let Some(world) = World::new(COUNT, Multicast::Carried) else { return };
    let machines = &world.machines[..];
    let mut team = Team::form(&world);
    machines[0].json(&["group", "set", "team", "counter", "0"]);
    let (history, judged) = (Counts::default(), History::default());
    judged.begin(&machines[0]);
    machines.iter().for_each(|machine| machine.add("echo", ECHO));
    std::thread::scope(|scope| {
        let (history, judged) = (&history, &judged);
        scope.spawn(move || write(machines, 0, history));
        scope.spawn(move || count(machines, 1, history));
        for client in 1..3 {
            scope.spawn(move || judged.use_values(client, machines));
            scope.spawn(move || judged.use_tasks(client + 2, machines));
        }
        // Whatever becomes of the faults, the clients end.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| faults(&mut team)));
        history.over.store(true, Ordering::Relaxed);
        judged.end();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    judged.judge(&machines[1]);
    let written = history.written.into_inner().expect("no panic");
    let kept = machines[1].json(&["group", "keys", "team", "key-"]);
    let kept: Vec<&str> = kept["keys"].as_array().expect("a list").iter().filter_map(|key| key.as_str()).collect();
    let lost: Vec<&String> = written.iter().filter(|key| !kept.contains(&key.as_str())).collect();
    assert!(lost.is_empty(), "of {} acknowledged writes these are lost: {lost:?}", written.len());
    let counter = machines[2].json(&["group", "get", "team", "counter"]);
    let counter: u64 = text(&counter["value"]).parse().expect("a number");
    let (counted, unknown) = (history.counted.into_inner(), history.unknown.into_inner());
    println!("{} writes and {counted} increments were acknowledged, {unknown} are unknown", written.len());
    assert!((counted..=counted + unknown).contains(&counter), "{counted} to {} are due: {counter}", counted + unknown);
    assert!(written.len() > 20 && counted > 10, "the clients did something");
}

/// The leader's disk is full: another one leads, and the member goes on when there is room.
#[test]
fn a_group_goes_on_while_its_leaders_disk_is_full() {
    let Some(world) = World::new(3, Multicast::Carried) else { return };
    let data = world.machines[0].data();
    let Some(disk) = Disk::mount(&data) else { return };
    let team = Team::form(&world);
    let first = team.nodes[0].as_ref().expect("it runs").did();
    until(SOON, "the first one leads", || {
        role(&world.machines[0]) == "leader" || {
            world.machines[0].run(&["group", "transfer", "team", &first]);
            false
        }
    });
    let fill = disk.fill();
    let written: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    for key in &written {
        let set = || world.machines[1].run(&["group", "set", "team", key, &"v".repeat(8_192)]).code == 0;
        until(SOON, "a majority has room", set);
    }
    assert_ne!(role(&world.machines[0]), "leader", "it could write nothing down");
    std::fs::remove_file(fill).expect("there is room again");
    team.serves("the disk was full");
    let kept = world.machines[0].json(&["group", "keys", "team", "key-"]);
    assert_eq!(kept["keys"].as_array().map(Vec::len), Some(written.len()), "{kept}");
}

/// E40: `doctor` names the fifth layer, and what to do.
#[test]
fn doctor_names_the_layer_of_a_group_that_lost_its_majority() {
    let Some(world) = World::new(3, Multicast::Carried) else { return };
    let mut team = Team::form(&world);
    team.kill(1);
    team.kill(2);
    let left = &world.machines[0];
    let mut found = serde_json::Value::Null;
    until(SOON, "the fifth layer is named", || {
        let told = left.run(&["--json", "doctor"]);
        let report: serde_json::Value = serde_json::from_str(&told.stdout).unwrap_or_default();
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        let is_it = |one: &serde_json::Value| {
            one["layer"] == "L5" && one["fine"] == false && text(&one["what"]).contains("1 of 3 voters")
        };
        let at_fault = findings.into_iter().find(is_it);
        found = at_fault.unwrap_or_default();
        !found.is_null()
    });
    assert_ne!(found["remedy"], "", "{found}");
    team.restart(1);
    until(SOON, "it is well", || {
        let told = left.run(&["--json", "doctor"]);
        let report: serde_json::Value = serde_json::from_str(&told.stdout).unwrap_or_default();
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        findings.iter().any(|one| one["layer"] == "L5")
            && findings.iter().all(|one| one["layer"] != "L5" || one["fine"] == true)
    });
}

/// A member's log is damaged: its node refuses to start and says why, the others go on, and with an empty store the member is
/// admitted anew and gets everything.
#[test]
fn a_member_with_a_damaged_log_refuses_to_start_and_comes_back_empty() {
    let Some(world) = World::new(3, Multicast::Carried) else { return };
    let mut team = Team::form(&world);
    let (others, machine) = (&world.machines[0], &world.machines[2]);
    for number in 0..8 {
        others.json(&["group", "set", "team", &format!("key-{number}"), &"v".repeat(2_000)]);
    }
    let did = team.nodes[2].as_ref().expect("it runs").did();
    let kept = || machine.json(&["group", "keys", "team", "key-"])["keys"].as_array().map(Vec::len);
    assert_eq!(kept(), Some(8));
    team.kill(2);
    let store = machine.data().join("store");
    damage(&store.join("db"));
    let refused = Running::start(&mut machine.althing(&["up"])).end(SOON);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("damaged") && refused.stderr.contains("move it away"), "{refused:?}");
    others.json(&["group", "set", "team", "key-8", "meanwhile"]);
    std::fs::rename(&store, store.with_extension("damaged")).expect("it is moved away");
    team.restart(2);
    assert_eq!(machine.run(&["group", "status", "team"]).code, 4, "it knows no group");
    others.json(&["group", "expel", "team", &did]);
    let ticket = text(&others.json(&["group", "invite", "team", &did])["ticket"]);
    machine.json(&["group", "join", &ticket]);
    until(SOON, "it votes again", || role(machine) != "learner");
    assert_eq!(kept(), Some(9));
}

/// Changes bytes in the middle of the newest log of a store.
fn damage(db: &Path) {
    let files = std::fs::read_dir(db).expect("a store").map(|file| file.expect("a file").path());
    let logs = files.filter(|file| file.extension().is_some_and(|name| name == "log"));
    let log = logs.max_by_key(|file| file.metadata().expect("its size").len()).expect("a log");
    let mut bytes = std::fs::read(&log).expect("it can be read");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].iter_mut().for_each(|byte| *byte ^= 0xff);
    std::fs::write(&log, bytes).expect("it can be written");
}
