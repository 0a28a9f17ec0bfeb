//! `althing bench layers`: what each layer of a node adds to a call that does nothing, beside a bare task of the runtime.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use althing_client::Out;
use althing_communication::WallClock;
use althing_execution::agent::Parameters;
use althing_execution::binding::{Bindable, bind};
use althing_execution::kernel::{Kernel, KernelConfig};
use althing_execution::memory::{Embedder, MEMORY, Memories};
use althing_execution::process::ProcessConfig;
use althing_execution::realtime::{Lateness, now_ns};
use althing_execution::{Builtins, Echo, Host, Output, Ports, Scheduling, Turn};
use althing_protocol::binding::{Candidates, Model, Runtime};
use althing_protocol::contract::{Contract, Memory};
use althing_protocol::{Frame, FrameKind, FrameOpener, FrameSealer, SecretKey, StreamBinding};
use althing_store::{RocksStore, Store, StoreConfig};
use althing_td::AgentFile;
use serde_json::{Value, json};

use crate::args::BenchLayers;
use crate::error::BenchError;
use crate::figures::times;
use crate::nothing::{contract, tools};
use crate::{goal, progress};

/// Passages that a search looks through.
const PASSAGES: usize = 1_000;
/// A control loop that adds two numbers.
const ADD: &str = r#"(module
  (import "althing" "input" (func $input (param i32) (result f64)))
  (import "althing" "output" (func $output (param i32 f64)))
  (func (export "turn")
    (call $output (i32.const 0) (f64.add (call $input (i32.const 0)) (call $input (i32.const 1))))))"#;

/// One layer's part, nanoseconds each.
struct Row {
    layer: &'static str,
    what: &'static str,
    took: Vec<u64>,
}

/// Runs the benchmark in this process.
pub async fn run(args: &BenchLayers, out: &Out, clock: &WallClock) -> Result<Value, BenchError> {
    let rounds = usize::try_from(args.rounds).unwrap_or(usize::MAX);
    let failed = |error: std::io::Error| BenchError::not_measured(error);
    let folder = tempfile::Builder::new().prefix("althing-bench-").tempdir().map_err(failed)?;
    let mut rows = vec![floor(rounds).await];
    progress(out, "frames, contracts, tools");
    rows.extend([frames(rounds)?, contracts(rounds)?, binding(rounds)?, gate(rounds).await?]);
    progress(out, "memory");
    rows.extend(memory(folder.path(), rounds, clock).await?);
    progress(out, "turns");
    rows.extend(turns(folder.path(), rounds).await?);
    let p = |row: &Row, permille| Lateness::of(row.took.clone()).quantile(permille) as f64;
    let bare = p(&rows[0], 500).max(1.0);
    let of = |what: &str| rows.iter().find(|row| row.what == what).map_or(0.0, |row| p(row, 500));
    Ok(json!({
        "benchmark": "althing-layers/1",
        "layers": rows.iter().map(|row| json!({
            "layer": row.layer,
            "what": row.what,
            "us": times(row.took.clone()),
            "ofTheFloor": p(row, 500) / bare,
        })).collect::<Vec<_>>(),
        "goals": [
            goal("a turn of an agent that echoes, as a ratio to a bare task, p50", of("turn: echo") / bare, "≤", 5.0),
            goal("a turn of a control loop, as a ratio to a bare task, p50", of("turn: control loop") / bare, "≤", 5.0),
            goal("a tool call's gate and hashes, as a ratio to a bare task, p50", of("tool call") / bare, "≤", 3.0),
        ],
    }))
}

/// The floor: spawning a task that does nothing and awaiting it, as every turn that changes runtimes does.
async fn floor(rounds: usize) -> Row {
    let mut took = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begun = now_ns();
        // A task that does nothing does not fail.
        let _ = tokio::spawn(async {}).await;
        took.push(now_ns() - begun);
    }
    Row { layer: "floor", what: "a bare task", took }
}

fn timed<T>(layer: &'static str, what: &'static str, rounds: usize, mut work: impl FnMut() -> T) -> Row {
    let once = |_| {
        let begun = now_ns();
        std::hint::black_box(work());
        now_ns() - begun
    };
    Row { layer, what, took: (0..rounds).map(once).collect() }
}

/// A request is sealed on one side and opened on the other.
fn frames(rounds: usize) -> Result<Row, BenchError> {
    let (one, two) = (SecretKey::from_seed(&[1; 32]), SecretKey::from_seed(&[2; 32]));
    let binding = StreamBinding {
        network: "bench".to_owned(),
        protocol: althing_calls::CALL.to_owned(),
        opener: one.public(),
        acceptor: two.public(),
        opener_challenge: [3; 32],
        acceptor_challenge: [4; 32],
    };
    let (mut sealer, mut opener) = (FrameSealer::new(&binding, one.clone()), FrameOpener::new(&binding, two.public()));
    let failed = |error: &dyn std::fmt::Display| BenchError::not_measured(error);
    let mut outcome = Ok(());
    let row = timed("L2 communication", "a frame, sealed and opened", rounds, || {
        let frame = Frame { operation: Some("GetTask".to_owned()), ..Frame::new(FrameKind::Request, b"{}".to_vec()) };
        let opened = sealer.seal(frame).map_err(|error| failed(&error));
        let opened = opened.and_then(|bytes| opener.open(&bytes).map_err(|error| failed(&error)));
        if let Err(failure) = opened {
            outcome = Err(failure);
        }
    });
    outcome.map(|()| row)
}

fn contracts(rounds: usize) -> Result<Row, BenchError> {
    let value = serde_json::to_value(contract(&json!({ "capabilities": ["a/*"] }))?).unwrap_or_default();
    Ok(timed("L1 execution", "a contract, checked", rounds, || Contract::from_value(&value)))
}

fn binding(rounds: usize) -> Result<Row, BenchError> {
    let contract = contract(&json!({ "model": { "models": ["m@^1"] } }))?;
    let offer = |minor: u32| Model {
        name: "m".to_owned(),
        version: Some(format!("1.{minor}.0")),
        context_tokens: None,
        ttft_ms: None,
        cost: None,
        clearance: None,
        digest: String::new(),
    };
    let candidates = Candidates { models: (0..8).map(offer).collect(), ..Candidates::default() };
    Ok(timed("L1 execution", "a contract, bound and hashed", rounds, || {
        let runtime = Runtime { kind: "model".to_owned(), digest: String::new() };
        let what = Bindable { agent: "a".to_owned(), agent_version: "1.0.0".to_owned(), runtime, embeddings: None };
        bind(&contract, what, candidates.clone()).map(|bound| bound.manifest.hash())
    }))
}

/// The gate, the hashes and the trace of a system call whose tool does nothing.
async fn gate(rounds: usize) -> Result<Row, BenchError> {
    let contract = contract(&json!({ "capabilities": ["none/*"] }))?;
    let tools = tools(&contract, &["none"]).await?;
    let mut took = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begun = now_ns();
        let (called, _) = tools.invoke("none/nothing", "{}").await;
        called.map_err(BenchError::not_measured)?;
        took.push(now_ns() - begun);
    }
    Ok(Row { layer: "L1 execution", what: "tool call", took })
}

async fn memory(folder: &Path, rounds: usize, clock: &WallClock) -> Result<Vec<Row>, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::not_measured(error);
    let store = RocksStore::open(&folder.join("store"), &[MEMORY], StoreConfig::default());
    let store: Arc<dyn Store> = Arc::new(store.map_err(|error| failed(&error))?);
    let clock = clock.clone();
    let memories = Memories::new(store, Arc::new(move || clock.now_ms()), Arc::new(|_| {}), Arc::new(|_| Ok(None)));
    let terms = Memory::default();
    let memory = memories.open("bench", &terms, Arc::new(Embedder::Words)).map_err(|error| failed(&error))?;
    for place in 0..PASSAGES {
        let text = format!("Passage {place} says that {} is {}.", place * 7_919, place * 104_729);
        memory.remember(&format!("source {place}"), &text).await.map_err(|error| failed(&error))?;
    }
    memory.put("key", b"value").await.map_err(|error| failed(&error))?;
    let mut rows = Vec::new();
    let (mut got, mut put, mut recalled) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let begun = now_ns();
        memory.get("key").await.map_err(|error| failed(&error))?;
        got.push(now_ns() - begun);
        // Writes to disk and searches of a thousand vectors are measured less often.
        if round % 10 == 0 {
            let begun = now_ns();
            memory.put("key", b"value").await.map_err(|error| failed(&error))?;
            put.push(now_ns() - begun);
            let begun = now_ns();
            memory.recall("What is 7919?", 4).await.map_err(|error| failed(&error))?;
            recalled.push(now_ns() - begun);
        }
    }
    rows.push(Row { layer: "L1 execution", what: "memory: get", took: got });
    rows.push(Row { layer: "L1 execution", what: "memory: put, on disk", took: put });
    rows.push(Row { layer: "L1 execution", what: "memory: 4 of 1,000 passages", took: recalled });
    Ok(rows)
}

/// Turns through the host: to the runtime of their class and back.
async fn turns(folder: &Path, rounds: usize) -> Result<Vec<Row>, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::not_measured(error);
    let kernel = Kernel::start(KernelConfig::default(), althing_wasm::make_hard).map_err(|error| failed(&error))?;
    let scheduling = Scheduling { kernel, soft: Arc::new(althing_wasm::Soft::default()) };
    let mut builtins = Builtins::new();
    builtins.insert("echo", Echo::build);
    let host = Arc::new(Host::scheduled(builtins, ProcessConfig::default(), scheduling, Ports::none()));
    std::fs::write(folder.join("add.wat"), ADD).map_err(|error| failed(&error))?;
    let mut rows = Vec::new();
    for (name, what, runtime, more) in [
        ("echo", "turn: echo", json!({ "native": { "builtin": "echo" } }), json!({})),
        (
            "add",
            "turn: control loop",
            json!({ "wasm": { "module": "add.wat" } }),
            json!({ "signals": { "inputs": ["a", "b"], "outputs": ["sum"] } }),
        ),
    ] {
        let mut contract = json!({ "class": { "latency": "srt" } });
        if let (Some(fields), Some(more)) = (contract.as_object_mut(), more.as_object()) {
            fields.extend(more.clone());
        }
        let file = json!({ "name": name, "description": "Is measured", "runtime": runtime, "contract": contract });
        let file = AgentFile::parse(&file.to_string()).map_err(|error| failed(&error))?;
        let (starting, at) = (host.clone(), folder.to_owned());
        let started = tokio::task::spawn_blocking(move || starting.start(&file, &at)).await;
        started.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        let mut took = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let (output, mut outputs) = Output::channel();
            let begun = now_ns();
            let (ended, ()) =
                tokio::join!(host.turn(name, turn(), output), async { while outputs.recv().await.is_some() {} });
            ended.map_err(|error| failed(&error))?;
            took.push(now_ns() - begun);
        }
        rows.push(Row { layer: "L1 execution", what, took });
    }
    // A measured agent need not stop cleanly.
    let _ = tokio::time::timeout(Duration::from_secs(5), host.stop_all()).await;
    Ok(rows)
}

fn turn() -> Turn {
    Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: a2a::Message::new(a2a::Role::User, vec![a2a::Part::text("")]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    }
}
