//! An agent beside a greedy one: what a turn takes while other agents' turns spin to their limit of processor time, or take
//! memory to theirs (requirements A10 and C9).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use althing_execution::{Host, Output};
use serde_json::json;

use crate::figures::{percentile, us};
use crate::programs;
use crate::wasm::{self, ECHO};

/// What the greedy agents do, each in place of a line of the echo agent; and how long a turn may take beside them in
/// the same class, p99: twice what was measured (1.9 and 2.8 ms). It waits until the guests that have the slots reach
/// the end of an epoch, which has 1 ms (`TICK` of `node/l1-execution/wasm/src/epochs.rs`), and those that take memory
/// have the kernel work for them meanwhile.
const GREEDY: [(&str, Duration, &str); 2] = [
    ("spin", Duration::from_millis(4), "(loop $on (br $on))"),
    // A page after the other, each written to, until there are no more; then again from the first.
    (
        "allocate",
        Duration::from_millis(6),
        "(local $to i32)
         (loop $on
           (drop (memory.grow (i32.const 1)))
           (local.set $to (i32.const 0))
           (loop $write
             (i32.store8 (local.get $to) (i32.const 1))
             (local.set $to (i32.add (local.get $to) (i32.const 4096)))
             (br_if $write (i32.lt_u (local.get $to) (i32.mul (memory.size) (i32.const 65536)))))
           (br $on))",
    ),
];
/// Turns of a greedy agent at once.
const AT_ONCE: usize = 16;
/// Turns of the neighbour, and the time between two.
const TURNS: usize = 3_000;
const EVERY: Duration = Duration::from_millis(2);
/// How much slower a turn may be beside agents of the class below, p99; smaller differences are noise between runs.
const RATIO_MAX: f64 = 2.0;

/// The neighbour's turns, one after the other at a fixed pace.
pub async fn turns(host: &Host) -> Vec<Duration> {
    let (mut times, mut next) = (Vec::with_capacity(TURNS), Instant::now());
    for _ in 0..TURNS {
        next += EVERY;
        tokio::time::sleep_until(next.into()).await;
        let begun = Instant::now();
        assert!(wasm::asked(host, "neighbour").await > 0, "it is answered whatever the others do");
        times.push(begun.elapsed());
        next = next.max(Instant::now());
    }
    times
}

/// Turns without a pause until the end; how many were stopped at their limit.
async fn greedy(host: Arc<Host>, name: String, ended: Arc<AtomicBool>, stopped: Arc<AtomicU64>) {
    while !ended.load(Ordering::Relaxed) {
        let (out, _made) = Output::channel();
        host.turn(&name, wasm::turn(), out).await.expect_err("it is stopped at its limit");
        stopped.fetch_add(1, Ordering::Relaxed);
    }
}

fn start(host: &Host, name: &str, class: &str, folder: &Path, module: &str) {
    let path = format!("{name}.wat");
    std::fs::write(folder.join(&path), module).expect("a file");
    let compute = json!({ "cpu_ms_per_turn": 200, "memory_bytes": 16 << 20 });
    let file = wasm::file(name, &path, &json!({ "class": { "latency": class }, "compute": compute }));
    tokio::task::block_in_place(|| host.start(&file, folder)).expect("it starts");
}

/// Prints the effect of each kind of greedy agent on a neighbour, in its own class and in the one below; true if the goals
/// are met.
pub async fn run() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let host = Arc::new(wasm::host());
    start(&host, "neighbour", "srt", folder.path(), ECHO);
    println!(
        "a neighbour of greedy agents ({TURNS} turns, one each {} ms; {AT_ONCE} greedy turns at once)",
        EVERY.as_millis()
    );
    turns(&host).await; // warming up
    let mut fine = true;
    for (what, own_class_max, code) in GREEDY {
        for class in ["dt", "srt"] {
            let name = format!("{what}-{class}");
            start(&host, &name, class, folder.path(), &ECHO.replacen(";; a greedy one works here", code, 1));
            let mut quiet = turns(&host).await;
            let (ended, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
            let others: Vec<_> = (0..AT_ONCE)
                .map(|_| tokio::spawn(greedy(host.clone(), name.clone(), ended.clone(), stopped.clone())))
                .collect();
            let mut beside = turns(&host).await;
            ended.store(true, Ordering::Relaxed);
            for other in others {
                other.await.expect("a greedy agent's turns");
            }
            let (quiet99, beside99) = (percentile(&mut quiet, 0.99), percentile(&mut beside, 0.99));
            let ratio = us(beside99) / us(quiet99);
            let (held, wanted) = match class {
                "dt" => (ratio <= RATIO_MAX, format!("ratio at most {RATIO_MAX}")),
                _ => (beside99 <= own_class_max, format!("at most {} ms", own_class_max.as_millis())),
            };
            fine &= held;
            println!(
                "  {what}, {class}: alone p50 {:.0} p99 {:.0} µs; beside it p50 {:.0} p99 {:.0} µs, ratio of p99 {ratio:.2} (wanted: {wanted}); {} greedy turns were stopped",
                us(percentile(&mut quiet, 0.5)),
                us(quiet99),
                us(percentile(&mut beside, 0.5)),
                us(beside99),
                stopped.load(Ordering::Relaxed),
            );
        }
    }
    fine & programs::run().await
}
