//! Long-running nodes beside others that start, stop, freeze and are cut off: no call is stuck, no acknowledged task is lost, and
//! memory and descriptors stay flat. Twenty seconds, or `ALTHING_SOAK_SECS` (`make soak`).
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Node, cast, http, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Without another word.
const SECS: u64 = 20;
const SOON: Duration = Duration::from_secs(60);
/// A call that takes longer counts as stuck.
const STUCK: Duration = Duration::from_secs(70);
/// The interval of calls of each of the three callers.
const EVERY: Duration = Duration::from_millis(250);
/// The interval of memory samples.
const LOOK: Duration = Duration::from_secs(2);
/// How long a fault lasts, and the quiet after it: at least, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(3));
/// Kinds of faults.
const KINDS: usize = 5;
/// Machines 0 and 1 live through it; 2 and 3 are disturbed.
const MACHINES: usize = 4;
const DISTURBED: [usize; 2] = [2, 3];

fn name(at: usize) -> String {
    format!("agent-{at}")
}

fn whole(world: &World) -> bool {
    world.machines.iter().all(|machine| (0..MACHINES).all(|at| machine.finds(&name(at))))
}

/// One JSON-RPC call: what came back, whatever it is; `None` when nothing did in time.
fn post(gateway: &str, agent: &str, method: &str, params: &Value) -> Option<Value> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let request = http::request(gateway, "POST", &format!("/a2a/{agent}"), &http::HONEST, body.as_bytes());
    let mut stream = TcpStream::connect(http::authority(gateway)).expect("a node that nobody disturbs listens");
    stream.set_read_timeout(Some(STUCK)).expect("a time limit");
    stream.write_all(&request).expect("it takes a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

/// Says something to the agent of a machine, and waits for what it makes of it unless it is only to begin.
fn say(gateway: &str, at: usize, id: &str, text: &str, only_begin: bool) -> Option<Value> {
    let params = json!({
        "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] },
        "configuration": { "returnImmediately": only_begin },
    });
    post(gateway, &name(at), "SendMessage", &params)
}

/// Whether a message was acknowledged: the answer has its task.
fn has_task(answer: &Value) -> bool {
    answer["result"]["task"]["id"].is_string()
}

/// A task that was acknowledged.
struct Kept {
    /// Whose gateway it was asked of, and which agent it is of.
    through: usize,
    at: usize,
    id: String,
    /// What was said in it.
    text: String,
}

/// The outcomes of the calls.
#[derive(Default)]
struct Tally {
    calls: AtomicUsize,
    refused: AtomicUsize,
    stuck: AtomicUsize,
    /// What was acknowledged.
    kept: Mutex<Vec<Kept>>,
    longest_ms: AtomicUsize,
}

impl Tally {
    /// Asks the agents one after the other, from the machine whose gateway that is, until it is over.
    fn ask(&self, gateway: &str, caller: usize, over: &AtomicBool) {
        for round in 0.. {
            if over.load(Ordering::Relaxed) {
                return;
            }
            let (at, text) = (round % MACHINES, format!("caller {caller}, round {round}"));
            let begun = Instant::now();
            // Every other one is only begun.
            let answer = say(gateway, at, &format!("{caller}-{round}"), &text, round % 2 == 1);
            let took = usize::try_from(begun.elapsed().as_millis()).unwrap_or(usize::MAX);
            self.longest_ms.fetch_max(took, Ordering::Relaxed);
            self.calls.fetch_add(1, Ordering::Relaxed);
            match answer {
                Some(answer) if has_task(&answer) => {
                    let id = althing_e2e::text(&answer["result"]["task"]["id"]);
                    let kept = Kept { through: caller % 2, at, id, text };
                    self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
                }
                Some(answer) if answer.get("error").is_some() => drop(self.refused.fetch_add(1, Ordering::Relaxed)),
                _ => drop(self.stuck.fetch_add(1, Ordering::Relaxed)),
            }
            std::thread::sleep(EVERY);
        }
    }
}

/// Disturbs the machines that may be disturbed, one fault after the other, until the time is up.
fn disturb(world: &World, nodes: &mut VecDeque<Node>, lasts: Duration) -> usize {
    let begun = Instant::now();
    let mut faults = 0;
    // Also a short soak has a fault of each kind.
    let pause = (lasts / 20).clamp(PAUSE.0, PAUSE.1);
    while begun.elapsed() + pause * 2 < lasts {
        let victim = faults % DISTURBED.len();
        let at = DISTURBED[victim];
        match faults % KINDS {
            0 => {
                let node = nodes.remove(victim).expect("it runs");
                node.running.kill();
                std::thread::sleep(pause);
                nodes.insert(victim, world.machines[at].up(&[]));
            }
            1 => {
                world.cut(at);
                std::thread::sleep(pause);
                world.restore(at);
            }
            2 => {
                nodes[victim].running.signal(Signal::SIGSTOP);
                std::thread::sleep(pause);
                nodes[victim].running.signal(Signal::SIGCONT);
            }
            3 => {
                world.lose(at, 0.3);
                std::thread::sleep(pause);
                world.mend(at);
            }
            _ => {
                // It hears one of those that are not disturbed no more, and that one still hears it.
                world.deafen(at, 0);
                std::thread::sleep(pause);
                world.mend(at);
            }
        }
        faults += 1;
        std::thread::sleep(pause);
    }
    faults
}

/// Memory in KiB and open descriptors of a node, look by look.
type Looks = Vec<(u64, usize)>;

/// The median of a quarter of the samples.
fn middle<T: Ord + Copy>(looks: &Looks, quarter: usize, of: impl Fn(&(u64, usize)) -> T) -> T {
    let len = looks.len() / 4;
    let mut some: Vec<T> = looks[quarter * len..(quarter + 1) * len].iter().map(of).collect();
    some.sort_unstable();
    some[some.len() / 2]
}

/// Memory that a node may take during a soak that is too short to fill the write buffers of its store and its ring of spans.
const FILLING_KIB: u64 = 12 << 10;
/// A soak of so many seconds begins with full buffers.
const FILLED_SECS: u64 = 600;
/// Calls that fill the buffers of a node. Of 64,000 calls by three callers its memory was flat from 14,000 on.
const FILLING_CALLS: usize = 18_000;
/// Who makes these calls to each node.
const FILLING_CALLERS: usize = 3;

/// Fills the buffers of the nodes behind these gateways: each is asked for its own agent.
fn fill(world: &World, gateways: &[String]) {
    let ask = |at: usize, caller: usize| {
        for round in 0..FILLING_CALLS / FILLING_CALLERS {
            let id = format!("filling {caller}-{round}");
            let answer = say(&gateways[at], at, &id, &id, false);
            assert!(answer.as_ref().is_some_and(has_task), "{id}: {answer:?}");
        }
    };
    std::thread::scope(|scope| {
        for at in 0..gateways.len() {
            for caller in 0..FILLING_CALLERS {
                scope.spawn(move || world.inside(at, || ask(at, caller)));
            }
        }
    });
}

/// Is what the last quarter holds as much as the second did?
fn flat(who: &str, looks: &Looks, secs: u64) {
    let (early, late) = (middle(looks, 1, |look| look.0), middle(looks, 3, |look| look.0));
    let (few, many) = (middle(looks, 1, |look| look.1), middle(looks, 3, |look| look.1));
    println!("measured: {who}: {early} KiB and {few} descriptors in the second quarter, {late} and {many} in the last");
    let room = if secs >= FILLED_SECS { early / 10 } else { FILLING_KIB };
    assert!(late <= early + room, "{who}'s memory grows: {looks:?}");
    assert!(many <= few + 24, "{who}'s descriptors grow: {looks:?}");
}

#[test]
fn beside_nodes_that_are_disturbed_no_call_is_stuck_and_no_task_is_lost() {
    let _alone = crate::alone();
    let secs = std::env::var("ALTHING_SOAK_SECS").ok().and_then(|secs| secs.parse().ok()).unwrap_or(SECS);
    let lasts = Duration::from_secs(secs.clamp(20, 3_600));
    let Some(world) = World::new(MACHINES, Multicast::Carried) else { return };
    let mut nodes: VecDeque<Node> = world.machines.iter().map(|machine| machine.up(&[])).collect();
    for (at, machine) in world.machines.iter().enumerate() {
        machine.add(&name(at), &cast::echo(&name(at), "anyone"));
    }
    // They call each other by name, over gateways.
    for (at, machine) in world.machines.iter().enumerate() {
        let others = nodes.iter().enumerate().filter(|(other, _)| *other != at);
        others.for_each(|(_, node)| drop(machine.json(&["trust", &node.owner()])));
    }
    until(SOON, "all find all", || whole(&world));
    let steady: Vec<Node> = nodes.drain(..2).collect();
    let (tally, over) = (Tally::default(), AtomicBool::new(false));
    let gateways = [steady[0].gateway(), steady[1].gateway()];
    if lasts.as_secs() >= FILLED_SECS {
        fill(&world, &gateways);
    }
    let mut looks: [Looks; 2] = Default::default();
    let faults = std::thread::scope(|scope| {
        let (world, tally, over) = (&world, &tally, &over);
        for caller in 0..3 {
            let gateway = &gateways[caller % 2];
            scope.spawn(move || world.inside(caller % 2, || tally.ask(gateway, caller, over)));
        }
        let disturbing = scope.spawn(|| disturb(world, &mut nodes, lasts));
        while !disturbing.is_finished() {
            for (node, looks) in steady.iter().zip(&mut looks) {
                looks.push((node.memory_kib(), node.descriptors()));
            }
            std::thread::sleep(LOOK);
        }
        over.store(true, Ordering::Relaxed);
        disturbing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let count = |what: &AtomicUsize| what.load(Ordering::Relaxed);
    let kept = tally.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "measured: {} s, {faults} faults, {} calls: {} acknowledged, {} refused, {} stuck; the longest took {} ms",
        lasts.as_secs(),
        count(&tally.calls),
        kept.len(),
        count(&tally.refused),
        count(&tally.stuck),
        count(&tally.longest_ms),
    );
    assert!(faults >= KINDS, "only {faults} faults, and there are {KINDS} kinds");
    assert_eq!(count(&tally.stuck), 0, "no call is stuck");
    assert!(kept.len() > count(&tally.calls) / 2, "most were acknowledged");
    until(SOON, "all find all again", || whole(&world));
    for (through, gateway) in gateways.iter().enumerate() {
        world.inside(through, || {
            for Kept { at, id, text, .. } in kept.iter().filter(|kept| kept.through == through) {
                let shown = post(gateway, &name(*at), "GetTask", &json!({ "id": id })).expect("an answer");
                assert!(shown["result"].to_string().contains(text.as_str()), "lost: {id} of {}: {shown}", name(*at));
            }
        });
    }
    for (who, looks) in looks.iter().enumerate() {
        flat(&format!("node {who}"), looks, lasts.as_secs());
    }
}
