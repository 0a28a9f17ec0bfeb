//! Turns of an agent whose contract has no gates, on a host that looks for what fails in silence, beside one that does not: whole
//! turns, and the first piece of a stream.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a::{Artifact, Part};
use althing_execution::agent::Made;
use althing_execution::kernel::{Kernel, KernelConfig};
use althing_execution::process::ProcessConfig;
use althing_execution::{Agent, AgentError, Builtins, Host, Output, Ports, Scheduling, SystemCalls, Turn};
use althing_td::AgentFile;
use althing_verification::gates::output_gates;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::figures::{Goals, median, percentile, us};
use crate::wasm;

const ROUNDS: usize = 21;
const TURNS: usize = 1_000;
/// Pieces of a stream.
const PIECES: u64 = 32;
/// How much longer a turn may take, and how much later a stream may begin, by their medians, microseconds.
const ADDED_US_MAX: f64 = 2.0;

/// Answers in so many pieces.
struct Talker(u64);

impl Agent for Talker {
    fn turn<'a>(&'a self, _: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            for piece in 0..self.0 {
                let artifact = Artifact {
                    artifact_id: "answer".to_owned(),
                    name: None,
                    description: None,
                    parts: vec![Part::text("Words that answer. ")],
                    metadata: None,
                    extensions: None,
                };
                out.put(Made::Artifact { artifact, append: piece > 0, last: piece + 1 == self.0 }).await?;
                // As a model's: the next one is not there yet, so that whoever reads gets this one.
                tokio::task::yield_now().await;
            }
            Ok(())
        })
    }
}

fn talker(config: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    let pieces = config["pieces"].as_u64().ok_or("`pieces` is missing")?;
    Ok(Arc::new(Talker(pieces)))
}

/// A host with an agent of that name, which answers in so many pieces.
fn host(scheduling: &Scheduling, ports: Ports, (name, pieces): (&str, u64)) -> Host {
    let mut builtins = Builtins::new();
    builtins.insert("talker", talker);
    let host = Host::scheduled(builtins, ProcessConfig::default(), scheduling.clone(), ports);
    let file = json!({
        "name": name,
        "description": "Talks",
        "runtime": { "native": { "builtin": "talker", "config": { "pieces": pieces } } },
        "contract": { "class": { "latency": "srt" } },
    });
    let file = AgentFile::parse(&file.to_string()).expect("an agent file");
    tokio::task::block_in_place(|| host.start(&file, Path::new("/"))).expect("it starts");
    host
}

/// How long it took until the first piece, and until the end.
async fn turn(host: &Host, name: &str) -> (Duration, Duration) {
    let (out, mut outputs) = Output::channel();
    let turn = wasm::turn();
    let begun = Instant::now();
    let reading = async {
        let mut first = None;
        while outputs.recv().await.is_some() {
            first.get_or_insert_with(|| begun.elapsed());
        }
        first
    };
    let (ended, first) = tokio::join!(host.turn(name, turn, out), reading);
    ended.expect("an answer");
    (first.expect("a piece"), begun.elapsed())
}

/// The times of a round: until the first piece, and until the end.
#[derive(Default)]
struct Times {
    first: Vec<Duration>,
    whole: Vec<Duration>,
}

impl Times {
    fn add(&mut self, (first, whole): (Duration, Duration)) {
        self.first.push(first);
        self.whole.push(whole);
    }

    /// Their medians, microseconds.
    fn medians(&mut self) -> [f64; 2] {
        [us(percentile(&mut self.first, 0.5)), us(percentile(&mut self.whole, 0.5))]
    }
}

/// What the host with the gates adds until the first piece and until the end, and what both took without them.
async fn added(name: &str, watched: &Host, bare: &Host) -> [[f64; 2]; 2] {
    let (mut floors, mut differences) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..=ROUNDS {
        let (mut ours, mut floor) = (Times::default(), Times::default());
        for _ in 0..TURNS {
            floor.add(turn(bare, name).await);
            ours.add(turn(watched, name).await);
        }
        if round == 0 {
            continue; // warming up
        }
        for (place, (ours, floor)) in ours.medians().into_iter().zip(floor.medians()).enumerate() {
            floors[place].push(floor);
            differences[place].push(ours - floor);
        }
    }
    [differences.map(median), floors.map(median)]
}

/// Prints both figures.
pub async fn run(goals: &mut Goals) {
    let kernel = Kernel::start(KernelConfig::default(), althing_wasm::make_hard).expect("threads");
    let scheduling = Scheduling { kernel, soft: Arc::new(althing_wasm::Soft::default()) };
    let hosts = |agent| {
        let ports = Ports { output_gates: output_gates(), ..Ports::none() };
        [host(&scheduling, ports, agent), host(&scheduling, Ports::none(), agent)]
    };
    let [watched, bare] = hosts(("short", 1));
    let [[_, added_whole], [_, whole]] = added("short", &watched, &bare).await;
    println!(
        "  a turn without gates: p50 {whole:.1} µs on a host that looks at nothing; to look for silent failures adds {added_whole:.1} µs {}",
        goals.at_most(added_whole, ADDED_US_MAX),
    );
    let [watched, bare] = hosts(("stream", PIECES));
    let [[added_first, added_whole], [first, _]] = added("stream", &watched, &bare).await;
    println!(
        "  the first of {PIECES} pieces of a stream without gates: p50 {first:.1} µs; it adds {added_first:.1} µs {}, and {added_whole:.1} µs until the end",
        goals.at_most(added_first, ADDED_US_MAX),
    );
}
