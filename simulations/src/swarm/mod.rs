//! Measures a hundred real nodes in one process, over libp2p on loopback: the duration of joining, storing and searching, and the
//! cost of a node; and the same for bare libp2p nodes.
//!
//! Each kind runs in a process of its own, so that memory is measured separately.

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
    /// Rounds of storing and searching.
    pub rounds: usize,
}

/// The time limit of joining.
const JOIN_MAX: Duration = Duration::from_secs(120);
/// The size of the routing table of a node that has joined.
const ENOUGH: usize = 20;
/// The interval of polling.
const POLL: Duration = Duration::from_millis(50);

/// The measurements of one kind of nodes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// From the first node until all have joined, milliseconds.
    pub join_ms: f64,
    /// Processor time of joining, milliseconds per node.
    pub join_cpu_ms: f64,
    /// From the first node until all provider records are stored, milliseconds; only our nodes publish by themselves.
    pub settled_ms: f64,
    /// Storing a contact, milliseconds each, and requests.
    pub put_ms: Vec<f64>,
    /// See `put_ms`.
    pub put_requests: Vec<u32>,
    /// Looking up providers, milliseconds each, and requests.
    pub look_up_ms: Vec<f64>,
    /// See `look_up_ms`.
    pub look_up_requests: Vec<u32>,
    /// Searching for an agent with its placement and evidence, milliseconds each; only our nodes do that.
    pub find_ms: Vec<f64>,
    /// Failed searches.
    pub missed: usize,
    /// Memory per node when all have joined, KiB.
    pub memory_kib: f64,
    /// Connections per node.
    pub connections: f64,
    /// Cores that all idle nodes use together.
    pub idle_cores: f64,
}

/// The kind of nodes.
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
    // To a ten-thousandth: a search that the catalogue answers takes under a hundredth of a look-up.
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
            // A search is a look-up, and then asks the candidates and verifies their evidence.
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

/// The cores that all idle nodes use together, measured for `LOOKING`.
async fn idle_cores() -> f64 {
    const LOOKING: Duration = Duration::from_secs(5);
    let before = processor();
    tokio::time::sleep(LOOKING).await;
    (processor() - before).as_secs_f64() / LOOKING.as_secs_f64()
}

/// Waits until `holds`; the error names `what` did not happen in time.
async fn until(what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(JOIN_MAX, waiting).await.map_err(|_| format!("not within {JOIN_MAX:?}: {what}"))
}

/// Waits until a count has been stable, and above zero, for a while.
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
    tokio::time::timeout(2 * JOIN_MAX, waiting)
        .await
        .map_err(|_| "the number of stored records does not settle".to_owned())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
