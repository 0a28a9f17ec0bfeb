//! A node under attack: 100,000 forged records, peers that add provider records without end, peers that send and read very
//! slowly, 1,000 connections that send nothing or noise, 600 that are silent after the handshake. Measured is the effect on
//! an honest peer and on new peers.
//!
//! The attackers run when nobody else wants the processors (SCHED_IDLE). The honest peer is measured twice: as on a machine of
//! its own, where it runs at once (SCHED_FIFO), and sharing the processors with the node and the attackers. The goals apply
//! to the first: the second also includes the kernel's scheduling of three programs on one machine.

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
/// Hostile writes, and the number of nodes that send them.
const WRITES: u64 = 100_000;
const WRITERS: usize = 8;
/// Upper bound of the attack's duration.
const ATTACK_MAX: Duration = Duration::from_secs(240);
/// Nodes that misuse their streams, and streams of each.
const SLOW_NODES: usize = 8;
const SLOW_STREAMS: usize = 32;
/// Useless connections that are held open.
const HELD: usize = 1_000;
/// Connections that are silent after the handshake: more than there are slots.
const CROWD: usize = 600;
/// The address of these and of the useless ones.
const CROWD_AT: &str = "127.0.0.9";
/// The address of the others; only the honest peer uses 127.0.0.1.
const ATTACKERS_AT: &str = "127.0.0.7";
/// Nodes that add provider records without end.
const PROVIDERS: usize = 4;
/// Provider records that the node may keep of all others, as `RecordLimits` has it.
const PROVIDED_MAX: u64 = 65_536;
/// Honest calls, and the time between two.
const CALLS: usize = 1_000;
const EVERY: Duration = Duration::from_millis(10);
/// New peers during the attack in each round of calls, and the timeout of each.
const NEWCOMERS: usize = 4;
const NEWCOMER_MAX: Duration = Duration::from_secs(5);
/// How much slower an honest call may be under attack, p99.
const RATIO_MAX: f64 = 2.0;
/// Memory limit of the node, MiB.
const RESIDENT_MAX: f64 = 512.0;

/// Honest calls: a signed request to the node, and its signed answer.
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

/// How the honest peer is scheduled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// It shares the processors with the node and the attackers.
    Shared,
    /// It runs at once (SCHED_FIFO), as on a machine of its own.
    Own,
}

impl Setting {
    const ALL: [Setting; 2] = [Setting::Shared, Setting::Own];

    /// Applies it to this process; false if the account has no permission.
    async fn take(self) -> bool {
        let mut command = Command::new("chrt");
        match self {
            Setting::Shared => command.args(["--all-tasks", "--other", "--pid", "0"]),
            Setting::Own => command.args(["--all-tasks", "--reset-on-fork", "--fifo", "--pid", "1"]),
        };
        command.arg(std::process::id().to_string()).stderr(Stdio::null());
        // Without permission nothing was changed: it is shared anyway.
        command.status().await.is_ok_and(|status| status.success()) || self == Setting::Shared
    }
}

/// The honest peer's latencies in one setting.
struct Latencies {
    setting: Setting,
    quiet: Vec<Duration>,
    under_fire: Vec<Duration>,
}

impl Latencies {
    /// Whether the goals are met.
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

/// A new peer from that address makes one call; it tries again, as nodes do. Gives the time until the answer, if it comes in
/// time.
async fn new_peer(node: PublicKey, address: &str, from: &'static str) -> Option<Duration> {
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

/// The latencies of new peers from one address.
struct NewPeers {
    from: &'static str,
    what: &'static str,
    came: usize,
    answered: Vec<Duration>,
}

impl NewPeers {
    async fn come(&mut self, node: PublicKey, address: &str) {
        for _ in 0..NEWCOMERS {
            self.came += 1;
            self.answered.extend(new_peer(node, address, self.from).await);
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

/// Prints the latencies and what the node stored; true if all goals are met.
pub async fn run() -> bool {
    let mut program: PathBuf = std::env::current_exe().expect("this program");
    program.set_file_name("althing");
    let folder = tempfile::tempdir().expect("a folder");
    let (node, _, said) = idle::node_saying(&program, folder.path(), &[]).await;
    let did = PublicKey::from_did(said["node"].as_str().expect("a DID")).expect("a DID");
    let address = said["listening"][0].as_str().expect("an address").to_owned();
    let (communication, _) = communication().await;
    communication.network().dial(Some(did), vec![address.clone()]).await.expect("a connection");
    honest(&communication, did, 100).await;
    let mut felt = Vec::new();
    for setting in Setting::ALL {
        if setting.take().await {
            felt.push(Latencies { setting, quiet: honest(&communication, did, CALLS).await, under_fire: Vec::new() });
        } else {
            println!("  the honest peer shares the processors only: this account may not run in real time");
        }
    }
    let before = idle::resident(&node);
    let mut attack = attackers(did, &address).await;
    let mut lines = BufReader::new(attack.stdout.take().expect("its output")).lines();
    lines.next_line().await.expect("a line");
    let begun = Instant::now();
    let newcomers = |from, what| NewPeers { from, what, came: 0, answered: Vec::new() };
    let mut newcomers =
        [newcomers("127.0.0.5", "an address of their own"), newcomers(CROWD_AT, "the address of the crowd")];
    let mut most = before;
    // Writes that the node refused have arrived; sent ones may have been lost with their connection.
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
    let felt: Vec<bool> = felt.iter_mut().map(Latencies::print).collect();
    newcomers.iter_mut().for_each(NewPeers::print);
    println!(
        "  resident: {before:.1} MiB before, {most:.1} MiB at most (wanted: below {RESIDENT_MAX:.0}); kept {} values (wanted: 1, its own) and {} provider records (wanted: at most {PROVIDED_MAX})",
        table["values"], table["providers"]
    );
    let provided = table["providers"].as_u64().is_some_and(|provided| provided <= PROVIDED_MAX);
    // New peers from the attackers' own address have no goal: they share its slots.
    let all_came = newcomers[0].answered.len() == newcomers[0].came;
    let held = table["values"] == 1 && provided && all_came && most < RESIDENT_MAX;
    held && table["refused"].as_u64().is_some_and(|came| came >= WRITES) && felt.into_iter().all(|held| held)
}
