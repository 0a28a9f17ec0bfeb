//! A hundred real nodes in one process, over libp2p on the loopback: how long they take to join, to say and to find
//! something, and what a node costs; and the same of bare libp2p nodes that do nothing else.
//!
//! Each of the two runs in a process of its own, so that its memory is its own.

mod bare;
mod ours;
pub mod plot;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Things said, and things looked for.
    pub rounds: usize,
}

/// How long everybody may take to know enough others.
const JOIN_MAX: Duration = Duration::from_secs(120);
/// Nodes that a node knows when it has joined.
const ENOUGH: usize = 20;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What one kind of nodes took.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// From the first node to when all know enough others, milliseconds.
    pub join_ms: f64,
    /// Processor time of that, milliseconds of one node.
    pub join_cpu_ms: f64,
    /// From the first node to when all that nodes have was told, milliseconds; only nodes of ours do that by themselves.
    pub settled_ms: f64,
    /// Saying where one can be dialled, milliseconds each, and requests.
    pub put_ms: Vec<f64>,
    /// See `put_ms`.
    pub put_requests: Vec<u32>,
    /// Looking up who has something, milliseconds each, and requests.
    pub look_up_ms: Vec<f64>,
    /// See `look_up_ms`.
    pub look_up_requests: Vec<u32>,
    /// Finding it, with its node's word and evidence, milliseconds each; only nodes of ours do that.
    pub find_ms: Vec<f64>,
    /// Things that were looked for and not found.
    pub missed: usize,
    /// Memory of one node when all have joined, KiB.
    pub memory_kib: f64,
    /// Connections of one node.
    pub connections: f64,
    /// Share of a core that all take when nothing is asked of them.
    pub idle_cores: f64,
}

/// Which nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// L2 and L3 of this project on its libp2p shell, with an agent each; neither calls, nor a store, nor a gateway.
    Ours,
    /// libp2p's Kademlia, identify and ping, over the same transport.
    Bare,
}

/// Measures one kind, in this process.
///
/// # Errors
/// What did not come about.
pub fn measure(kind: Kind, size: Size) -> Result<Measured, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        match kind {
            Kind::Ours => ours::measure(size).await,
            Kind::Bare => bare::measure(size).await,
        }
    })
}

/// The report of both.
#[must_use]
pub fn report(size: Size, ours: &Measured, bare: &Measured) -> Value {
    // To a ten-thousandth: a find that the catalogue answers takes under a hundredth of a look-up.
    let ratio = |a: f64, b: f64| if b > 0.0 { (a / b * 10_000.0).round() / 10_000.0 } else { 0.0 };
    let row = |measured: &Measured| {
        json!({
            "joinMs": measured.join_ms.round(),
            "joinCpuMs": measured.join_cpu_ms.round(),
            "settledMs": measured.settled_ms.round(),
            "putMs": times(&measured.put_ms),
            "putRequests": mean(&measured.put_requests),
            "lookUpMs": times(&measured.look_up_ms),
            "lookUpRequests": mean(&measured.look_up_requests),
            "findMs": times(&measured.find_ms),
            "missed": measured.missed,
            "memoryKib": measured.memory_kib.round(),
            "connections": measured.connections.round(),
            "idleCores": (measured.idle_cores * 100.0).round() / 100.0,
        })
    };
    json!({
        "benchmark": "althing-swarm/1",
        "nodes": size.nodes,
        "rounds": size.rounds,
        "ours": row(ours),
        "bare": row(bare),
        "ratios": {
            "put": ratio(quantile(&ours.put_ms, 50), quantile(&bare.put_ms, 50)),
            "lookUp": ratio(quantile(&ours.look_up_ms, 50), quantile(&bare.look_up_ms, 50)),
            // A find is a look-up, and then asks who was named and verifies what it says.
            "findToLookUp": ratio(quantile(&ours.find_ms, 50), quantile(&bare.look_up_ms, 50)),
            "memory": ratio(ours.memory_kib, bare.memory_kib),
        },
    })
}

fn times(all: &[f64]) -> Value {
    let round = |ms: f64| (ms * 1_000.0).round() / 1_000.0;
    json!({ "n": all.len(), "p50": round(quantile(all, 50)), "p99": round(quantile(all, 99)) })
}

fn mean(all: &[u32]) -> f64 {
    if all.is_empty() { 0.0 } else { f64::from(all.iter().sum::<u32>()) / all.len() as f64 }
}

/// A quantile, in hundredths.
#[must_use]
pub fn quantile(all: &[f64], of: usize) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get((sorted.len() * of / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Memory of this process, KiB.
fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0)
}

/// Processor time of this process so far.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may have spaces: user and system time are the 12th and 13th, in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// What all nodes together take in `LOOKING`, when nothing is asked of them.
async fn idle_cores() -> f64 {
    const LOOKING: Duration = Duration::from_secs(5);
    let before = processor();
    tokio::time::sleep(LOOKING).await;
    (processor() - before).as_secs_f64() / LOOKING.as_secs_f64()
}

/// Waits until `holds`, or says what did not come about.
async fn until(what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(JOIN_MAX, waiting)
        .await
        .map_err(|_| format!("within {JOIN_MAX:?} it did not come about that {what}"))
}

/// Waits until a count has been the same, and more than nothing, for a while.
async fn settle(count: impl Fn() -> usize) -> Result<(), String> {
    const SAME: u32 = 8;
    let waiting = async {
        let (mut last, mut same) = (0, 0);
        while same < SAME {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = count();
            same = if now == last && now > 0 { same + 1 } else { 0 };
            last = now;
        }
    };
    tokio::time::timeout(2 * JOIN_MAX, waiting).await.map_err(|_| "what nodes tell does not come to an end".to_owned())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
