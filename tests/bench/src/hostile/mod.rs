//! A node under fire: 100,000 hostile writes to its table, others that say without end what they provide, peers that send and
//! read ever so slowly, 1,000 connections that say nothing, or noise, 600 that shake hands and are silent then; and what an
//! honest peer feels of it, and who comes new.
//!
//! The attackers run when nobody else wants the processors (SCHED_IDLE). The honest peer is measured twice: as on a machine of
//! its own, where it runs whenever it wants to (SCHED_FIFO), and sharing the processors with the node and them. What is
//! wanted is said of the first: the other holds what the kernel does with three programs on one machine, too.

mod attack;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use althing_communication::Request;
use althing_conformance::origins::by_way_of;
use althing_discovery::PLACEMENTS;
use althing_protocol::PublicKey;
use althing_protocol::inquiry::Inquiry;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

pub use attack::attack;

use crate::calls::communication;
use crate::figures::{percentile, us};
use crate::idle;

const NETWORK: &str = "althing";
/// Hostile writes that come, and by how many nodes.
const WRITES: u64 = 100_000;
const WRITERS: usize = 8;
/// It is over by then.
const ATTACK_MAX: Duration = Duration::from_secs(240);
/// Nodes that use their streams badly, and how many each of them has.
const SLOW_NODES: usize = 8;
const SLOW_STREAMS: usize = 32;
/// Connections that are held open and say nothing of use.
const HELD: usize = 1_000;
/// Connections of nodes that shake hands and are silent then: more than there are places.
const CROWD: usize = 600;
/// Where these and those that are held come from.
const CROWD_AT: &str = "127.0.0.9";
/// Where the others come from; the honest peer has 127.0.0.1 to itself.
const ATTACKERS_AT: &str = "127.0.0.7";
/// Nodes that say without end what they provide.
const PROVIDERS: usize = 4;
/// Provider records that the node may keep of all others, as `RecordLimits` has it.
const PROVIDED_MAX: u64 = 65_536;
/// Honest calls, and the time between two.
const CALLS: usize = 1_000;
const EVERY: Duration = Duration::from_millis(10);
/// Peers that come while the attack is on, in each round of calls, and how long one has.
const NEWCOMERS: usize = 4;
const NEWCOMER_MAX: Duration = Duration::from_secs(5);
/// How much slower an honest call may be under fire, p99.
const RATIO_MAX: f64 = 2.0;
/// Memory that the node may take, MiB.
const RESIDENT_MAX: f64 = 512.0;

/// Honest calls: a signed question to the node, and its signed answer.
async fn honest(at: &althing_communication::Communication, node: PublicKey, calls: usize) -> Vec<Duration> {
    let inquiry = Inquiry { capability: Some("nothing.has-this".to_owned()), ..Inquiry::default() }.encode();
    let (mut times, mut next) = (Vec::with_capacity(calls), Instant::now());
    for _ in 0..calls {
        next += EVERY;
        tokio::time::sleep_until(next.into()).await;
        let begun = Instant::now();
        at.call(node, PLACEMENTS, Request::new("find", inquiry.clone())).await.expect("an answer");
        times.push(begun.elapsed());
        next = next.max(Instant::now());
    }
    times
}

async fn attackers(peer: PublicKey, address: &str) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new("chrt");
    child.args(["--idle", "0"]).arg(program).args(["attack", &peer.peer_id(), address]);
    child.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("attackers")
}

/// How the honest peer gets a processor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// It shares those of the node and of the attackers, as any other program.
    Shared,
    /// It runs as soon as it wants to (SCHED_FIFO), as on a machine of its own.
    Own,
}

impl Setting {
    const ALL: [Setting; 2] = [Setting::Shared, Setting::Own];

    /// Puts this process into it; false when the account may not.
    async fn take(self) -> bool {
        let mut command = Command::new("chrt");
        match self {
            Setting::Shared => command.args(["--all-tasks", "--other", "--pid", "0"]),
            Setting::Own => command.args(["--all-tasks", "--reset-on-fork", "--fifo", "--pid", "1"]),
        };
        command.arg(std::process::id().to_string()).stderr(Stdio::null());
        // Who may not change anything shares them anyhow.
        command.status().await.is_ok_and(|status| status.success()) || self == Setting::Shared
    }
}

/// What an honest peer felt in one setting.
struct Felt {
    setting: Setting,
    quiet: Vec<Duration>,
    under_fire: Vec<Duration>,
}

impl Felt {
    /// True when it is as it is wanted.
    fn print(&mut self) -> bool {
        let (quiet99, fire99) = (percentile(&mut self.quiet, 0.99), percentile(&mut self.under_fire, 0.99));
        let ratio = fire99.as_secs_f64() / quiet99.as_secs_f64();
        let (setting, wanted) = match self.setting {
            Setting::Own => ("as on a machine of its own", " (wanted: at most 2)"),
            Setting::Shared => ("on the node's and the attackers' processors", ""),
        };
        println!(
            "  honest call, {setting}: quiet p50 {:.0} p99 {:.0} µs; under fire p50 {:.0} p99 {:.0} µs, ratio of p99 {:.2}{wanted}; {} calls",
            us(percentile(&mut self.quiet, 0.5)),
            us(quiet99),
            us(percentile(&mut self.under_fire, 0.5)),
            us(fire99),
            ratio,
            self.under_fire.len(),
        );
        self.setting == Setting::Shared || ratio <= RATIO_MAX
    }
}

async fn status(program: &PathBuf, folder: &std::path::Path) -> serde_json::Value {
    let mut command = Command::new(program);
    command.args(["--json", "--data"]).arg(folder.join("data")).arg("status").env("XDG_CONFIG_HOME", folder);
    serde_json::from_slice(&command.output().await.expect("a status").stdout).expect("JSON")
}

/// Somebody new who comes from that address and wants to ask something; it tries again, as nodes do. How long until there
/// is an answer, if there is one in time?
async fn newcomer(node: PublicKey, address: &str, from: &'static str) -> Option<Duration> {
    let begun = Instant::now();
    let (communication, _) = communication().await;
    let by_way = by_way_of(from, address).await;
    let coming = async {
        loop {
            if communication.network().dial(Some(node), by_way.clone()).await.is_ok() {
                let inquiry =
                    Inquiry { capability: Some("nothing.has-this".to_owned()), ..Inquiry::default() }.encode();
                if communication.call(node, PLACEMENTS, Request::new("find", inquiry)).await.is_ok() {
                    return begun.elapsed();
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(NEWCOMER_MAX, coming).await.ok()
}

/// What newcomers from one address felt.
struct Newcomers {
    from: &'static str,
    what: &'static str,
    came: usize,
    answered: Vec<Duration>,
}

impl Newcomers {
    async fn come(&mut self, node: PublicKey, address: &str) {
        for _ in 0..NEWCOMERS {
            self.came += 1;
            self.answered.extend(newcomer(node, address, self.from).await);
        }
    }

    fn print(&mut self) {
        let answered = self.answered.len();
        print!(
            "  newcomers from {}, answered within {} s: {answered} of {}",
            self.what,
            NEWCOMER_MAX.as_secs(),
            self.came
        );
        match answered {
            0 => println!(),
            _ => println!(", half of them within {:.0} ms", percentile(&mut self.answered, 0.5).as_secs_f64() * 1e3),
        }
    }
}

/// Prints what an honest peer felt, and what the node kept; true when all is as it is wanted.
pub async fn run() -> bool {
    let mut program: PathBuf = std::env::current_exe().expect("this program");
    program.set_file_name("althing");
    let folder = tempfile::tempdir().expect("a folder");
    let (node, _, said) = idle::node_saying(&program, folder.path()).await;
    let did = PublicKey::from_did(said["node"].as_str().expect("a DID")).expect("a DID");
    let address = said["listening"][0].as_str().expect("an address").to_owned();
    let (communication, _) = communication().await;
    communication.network().dial(Some(did), vec![address.clone()]).await.expect("a connection");
    honest(&communication, did, 100).await;
    let mut felt = Vec::new();
    for setting in Setting::ALL {
        if setting.take().await {
            felt.push(Felt { setting, quiet: honest(&communication, did, CALLS).await, under_fire: Vec::new() });
        } else {
            println!("  the honest peer shares the processors only: this account may not run in real time");
        }
    }
    let before = idle::resident(&node);
    let mut attack = attackers(did, &address).await;
    let mut lines = BufReader::new(attack.stdout.take().expect("its output")).lines();
    lines.next_line().await.expect("a line");
    let begun = Instant::now();
    let newcomers = |from, what| Newcomers { from, what, came: 0, answered: Vec::new() };
    let mut newcomers =
        [newcomers("127.0.0.5", "an address of their own"), newcomers(CROWD_AT, "the address of the crowd")];
    let mut most = before;
    // What the node refused came; what was sent may have been lost with its connection.
    let table = loop {
        for felt in &mut felt {
            felt.setting.take().await;
            felt.under_fire.extend(honest(&communication, did, CALLS).await);
        }
        for newcomers in &mut newcomers {
            newcomers.come(did, &address).await;
        }
        most = idle::resident(&node).max(most);
        let status = status(&program, folder.path()).await;
        let table = status["layers"]["l2Communication"]["table"].clone();
        if begun.elapsed() > ATTACK_MAX || table["refused"].as_u64().is_some_and(|came| came >= WRITES) {
            break table;
        }
    };
    println!(
        "a node under fire, {:.0} s: {} of {WRITES} hostile writes to its table by {WRITERS} nodes, {PROVIDERS} nodes that say what they provide, {HELD} connections that never shake hands and {CROWD} that do nothing else, {SLOW_NODES} nodes that write or read slowly on {SLOW_STREAMS} streams each",
        begun.elapsed().as_secs_f64(),
        table["refused"]
    );
    let felt: Vec<bool> = felt.iter_mut().map(Felt::print).collect();
    newcomers.iter_mut().for_each(Newcomers::print);
    println!(
        "  resident: {before:.1} MiB before, {most:.1} MiB at most (wanted: below {RESIDENT_MAX:.0}); kept {} values (wanted: 1, its own) and {} provider records (wanted: at most {PROVIDED_MAX})",
        table["values"], table["providers"]
    );
    let provided = table["providers"].as_u64().is_some_and(|provided| provided <= PROVIDED_MAX);
    // Those from the crowd's own address are counted only: they share its places.
    let all_came = newcomers[0].answered.len() == newcomers[0].came;
    let held = table["values"] == 1 && provided && all_came && most < RESIDENT_MAX;
    held && table["refused"].as_u64().is_some_and(|came| came >= WRITES) && felt.into_iter().all(|held| held)
}
