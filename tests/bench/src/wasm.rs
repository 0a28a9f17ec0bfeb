//! Components: what an instance costs beside the bare engine's own, and what idle agents hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use althing_execution::agent::Parameters;
use althing_execution::kernel::{Kernel, KernelConfig};
use althing_execution::process::ProcessConfig;
use althing_execution::tools::{ContractGate, Tools};
use althing_execution::{
    Agent, Builtins, Host, Loaded, Output, Ports, Scheduling, SoftRuntime as _, SystemCalls, Turn,
};
use althing_protocol::Contract;
use althing_td::AgentFile;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Config, Engine, PoolingAllocationConfig, Store};

use crate::figures::{Goals, median, percentile, us};

pub const ECHO: &str = include_str!("echo.wat");
const ROUNDS: usize = 11;
const TURNS: usize = 2_000;
const AGENTS: usize = 1_000;
/// A turn on a new instance, as a multiple of the bare engine's: at most 1.2 times the documented figure.
const TURN_RATIO_MAX: f64 = 2.28;
/// What a process with all idle agents holds, MiB: at most 1.2 times the documented figure.
const IDLE_MIB_MAX: f64 = 57.6;

/// The engine alone: a pool, one instance and one call after the other.
struct Bare {
    engine: Engine,
    linked: InstancePre<()>,
}

impl Bare {
    fn new() -> Bare {
        let mut config = Config::new();
        config.wasm_component_model(true).epoch_interruption(true);
        config.allocation_strategy(PoolingAllocationConfig::new());
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::new(&engine, ECHO).expect("a component");
        let mut linker = Linker::new(&engine);
        linker.instance("althing:agent/turns@0.1.0").expect("a name");
        let linked = linker.instantiate_pre(&component).expect("nothing is missing");
        Bare { engine, linked }
    }

    /// An instance, and the two calls of a turn.
    async fn turn(&self) -> Duration {
        let begun = Instant::now();
        let mut store = Store::new(&self.engine, ());
        store.set_epoch_deadline(u64::MAX / 2);
        let made = self.linked.instantiate_async(&mut store).await.expect("an instance");
        let message = made.get_func(&mut store, "on-message").expect("it is there");
        let mut said = [wasmtime::component::Val::Bool(false)];
        let told = [wasmtime::component::Val::String("hello".to_owned())];
        message.call_async(&mut store, &told, &mut said).await.expect("an answer");
        let checkpoint = made.get_func(&mut store, "checkpoint").expect("it is there");
        let mut kept = [wasmtime::component::Val::Bool(false)];
        checkpoint.call_async(&mut store, &[], &mut kept).await.expect("an answer");
        std::hint::black_box((said, kept));
        begun.elapsed()
    }
}

pub fn host() -> Host {
    let kernel = Kernel::start(KernelConfig::default(), althing_wasm::make_hard).expect("threads");
    let scheduling = Scheduling { kernel, soft: Arc::new(althing_wasm::Soft::default()) };
    Host::scheduled(Builtins::new(), ProcessConfig::default(), scheduling, Ports::none())
}

pub fn file(name: &str, module: &str, contract: &serde_json::Value) -> AgentFile {
    let file = json!({
        "name": name,
        "description": "Says back what it is told",
        "runtime": { "wasm": { "module": module } },
        "contract": contract,
    });
    AgentFile::parse(&file.to_string()).expect("an agent file")
}

pub fn turn() -> Turn {
    Turn {
        task_id: "t".to_owned(),
        context_id: "c".to_owned(),
        message: a2a::Message::new(a2a::Role::User, vec![a2a::Part::text("hello")]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    }
}

/// Child: hosts idle agents until it is killed.
pub async fn hosting() {
    let folder = std::env::args().nth(2).expect("a folder");
    let count: usize = std::env::args().nth(3).and_then(|count| count.parse().ok()).expect("a number");
    let folder = Path::new(&folder);
    let (host, contract) = (host(), json!({ "class": { "latency": "srt" } }));
    for number in 0..count {
        let name = format!("idle-{number}");
        tokio::task::block_in_place(|| host.start(&file(&name, "echo.wat", &contract), folder)).expect("it starts");
    }
    // Each of them works.
    for number in (0..count).step_by(count.max(10) / 10) {
        assert_eq!(asked(&host, &format!("idle-{number}")).await, 1);
    }
    println!("ready");
    std::future::pending::<()>().await;
}

/// One turn; the bytes of its output.
pub async fn asked(host: &Host, name: &str) -> usize {
    told(host, name, turn()).await
}

/// A turn with a message of its own; the bytes of its output.
pub async fn told(host: &Host, name: &str, turn: Turn) -> usize {
    let (out, mut made) = Output::channel();
    let taken = async {
        let mut count = 0;
        while made.recv().await.is_some() {
            count += 1;
        }
        count
    };
    let (ended, count) = tokio::join!(host.turn(name, turn, out), taken);
    ended.expect("an answer");
    count
}

async fn child(folder: &Path, count: usize) -> (Child, f64) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .arg("hosting")
        .arg(folder)
        .arg(count.to_string())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a process");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    lines.next_line().await.expect("a line").expect("a line");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let resident = crate::idle::resident(&child);
    (child, resident)
}

/// A turn of an agent, where it is called: the instance, what it is handed, and what it gives.
async fn ours(agent: &dyn Agent) -> Duration {
    let (out, mut made) = Output::channel();
    let begun = Instant::now();
    agent.turn(turn(), out).await.expect("an answer");
    let took = begun.elapsed();
    assert!(made.recv().await.is_some());
    took
}

/// Prints both; true if they meet their goals.
pub async fn run() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("echo.wat"), ECHO).expect("a file");
    let contract = Contract::from_value(&json!({ "class": { "latency": "srt" } })).expect("a contract");
    let echo = Ports::none().agent_ref("echo", "1.0.0").expect("a name");
    let calls = SystemCalls {
        tools: Arc::new(Tools::new(echo, BTreeMap::new(), Arc::new(ContractGate::of(&contract)))),
        memory: None,
        budget: Arc::default(),
    };
    let loaded = althing_wasm::Soft::default().load(ECHO.as_bytes(), &contract, &calls).expect("an agent");
    let Loaded::Agent(agent) = loaded else { panic!("it is an agent") };
    let bare = Bare::new();
    let (mut ratios, mut turns, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (mut turn, mut floor) = (Vec::with_capacity(TURNS), Vec::with_capacity(TURNS));
        for _ in 0..TURNS {
            floor.push(bare.turn().await);
            turn.push(ours(agent.as_ref()).await);
        }
        if round == 0 {
            continue; // warming up
        }
        ratios.push(us(percentile(&mut turn, 0.5)) / us(percentile(&mut floor, 0.5)));
        turns.append(&mut turn);
        floors.append(&mut floor);
    }
    let (ratio, mut goals) = (median(ratios), Goals::default());
    println!("components ({ROUNDS} rounds of {TURNS}, alternating)");
    println!(
        "  a turn on an instance of its own: p50 {:.1} µs, p99 {:.1} µs; the bare engine's from its pool p50 {:.1} µs, p99 {:.1} µs; ratio {ratio:.2} {}",
        us(percentile(&mut turns, 0.5)),
        us(percentile(&mut turns, 0.99)),
        us(percentile(&mut floors, 0.5)),
        us(percentile(&mut floors, 0.99)),
        goals.at_most(ratio, TURN_RATIO_MAX),
    );
    let (few, one) = child(folder.path(), 1).await;
    drop(few);
    let (_many, all) = child(folder.path(), AGENTS).await;
    println!(
        "  {AGENTS} agents that nobody asks: {all:.1} MiB resident {}; with one of them {one:.1} MiB",
        goals.at_most(all, IDLE_MIB_MAX)
    );
    goals.are_met()
}
